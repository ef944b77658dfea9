"""Penstock as pip leaves it when it installs a package: with its bytecode. In a clone that is written when a module is
first imported, or never (PYTHONDONTWRITEBYTECODE), and a start would mostly measure Python's compiler.
"""

import compileall
from functools import cache
from pathlib import Path

import penstock


@cache
def as_installed() -> None:
    compileall.compile_dir(Path(penstock.__file__).parent, quiet=2)
