"""Names of a package that are loaded when they are first used, as a module's `__getattr__`."""

import importlib
from collections.abc import Callable, Mapping


def loader(package: str, modules: Mapping[str, tuple[str, ...]]) -> Callable[[str], object]:
    """A `__getattr__` for a package: which of its modules have which names. A name is looked for once."""
    where = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> object:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        found: object = getattr(importlib.import_module(f"{package}.{where[name]}"), name)
        setattr(importlib.import_module(package), name, found)
        return found

    return load
