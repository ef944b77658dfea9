"""Compiled loops for the tests that compare them. A machine without a compiler has none, and its run says so by name;
with PENSTOCK_REQUIRE_COMPILED=1 that is an error.
"""

import importlib
import os
from typing import Any

import pytest


def built(module: str) -> Any:
    if os.environ.get("PENSTOCK_REQUIRE_COMPILED"):
        return importlib.import_module(module)
    return pytest.importorskip(
        module, reason=f"{module} was not built: no C compiler was there when this was installed"
    )
