"""Where a few hot loops are compiled, and where they are not.

Each such loop is written twice: in Python, which is its definition and runs everywhere, and in C beside it (`_name.c`).
Installing builds the C where there is a compiler, and goes on without it where there is none. Tests run both on the
same input. `PENSTOCK_PURE=1` leaves the compiled ones alone.
"""

import importlib
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., object])

MODULES = (
    "penstock.gateway.rocketmq._backlog",
    "penstock.store._filling",
    "penstock.store._spans",
    "penstock.store._syncing",
    "penstock.spark._columns",
    "penstock.wire.rocketmq._pulls",
    "penstock.wire.rocketmq._records",
    "penstock.wire.rocketmq._runs",
    "penstock.wire.rocketmq._sends",
)
IN_USE: dict[str, bool] = {}  # by module, once it was asked for


def compiled(module: str, python: F) -> F:
    """The function of the same name in a compiled module, or `python`, whose name ends in `_in_python`, where that was
    not built.
    """
    found = None if os.environ.get("PENSTOCK_PURE") else _found(module)
    IN_USE[module] = found is not None
    return python if found is None else getattr(found, python.__name__.removesuffix("_in_python"))


def _found(module: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        return None


def summary() -> str:
    """For people: how the hot loops of this installation run."""
    slower = "the hot loops run in Python, which is slower but does the same"
    if os.environ.get("PENSTOCK_PURE"):
        return f"{slower}: PENSTOCK_PURE is set"
    troubles = [trouble for module in MODULES if (trouble := _trouble(module))]
    if not troubles:
        return "the hot loops are compiled"
    needed = "building takes a C compiler and Python's headers: gcc and python3-dev on Debian"
    return f"{slower}: {'; '.join(troubles)} ({needed})"


def _trouble(module: str) -> str:
    """Why a compiled module is not there, or cannot be loaded; empty when it can."""
    try:
        importlib.import_module(module)
    except ImportError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    sys.stdout.write(f"{summary()}\n")
