"""The layers and the style, as tests: who may import whom, how long things get, where time comes from.

The table below is the architecture. A layer may import itself and what its line names. `server.py`, `cli` and `testing`
put everything together and may import all.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "penstock"
FILE_LINES_MAX = 500
FUNCTION_LINES_MAX = 60

VOCABULARY = {"model", "errors", "config", "clock", "configure", "logs", "compiled", "lazily", "turn"}
ALL = {
    "vocabulary",
    "wire",
    "store",
    "core",
    "gateway",
    "client",
    "admin",
    "console",
    "spark",
    "server",
    "cli",
    "testing",
}
ALLOWED = {
    "vocabulary": set(),
    "wire": {"vocabulary"},
    "store": {"vocabulary"},
    "core": {"vocabulary", "store"},
    "gateway": {"vocabulary", "wire", "core"},
    "client": {"vocabulary", "wire"},
    "admin": {"vocabulary", "client"},
    "console": {"vocabulary", "admin"},
    "spark": {"vocabulary", "wire", "client", "admin"},
    "server": ALL,
    "cli": ALL,
    "testing": ALL,
    "__main__": {"cli"},
}
# Sans-IO: bytes in, commands out.
FORBIDDEN_LIBRARIES = {"wire": {"asyncio", "socket", "time", "threading"}, "core": {"socket"}, "store": {"socket"}}
TIMELESS = {"wire", "store", "core"}
TIME_CALLS = {
    "time.time",
    "time.time_ns",
    "time.monotonic",
    "time.monotonic_ns",
    "datetime.now",
    "datetime.utcnow",
    "datetime.datetime.now",
    "datetime.datetime.utcnow",
}


class Module(NamedTuple):
    path: Path
    tree: ast.Module
    lines: int

    @property
    def layer(self) -> str:
        return layer_of(self.path.relative_to(SOURCE).parts[0].removesuffix(".py"))


def layer_of(name: str) -> str:
    return "vocabulary" if name in VOCABULARY else name


def parsed(path: Path, text: str) -> Module:
    return Module(path, ast.parse(text, str(path)), text.count("\n"))


MODULES = [parsed(path, path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))]


def imports_of(module: Module) -> Iterator[str]:
    """Dotted names of everything imported, also inside functions; `from penstock import x` counts as penstock.x."""
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def wrong_imports(module: Module) -> Iterator[str]:
    may = ALLOWED.get(module.layer, set()) | {module.layer}
    for name in imports_of(module):
        root, _, rest = name.partition(".")
        first = rest.partition(".")[0]
        if root == "penstock" and first and first != "__version__" and layer_of(first) not in may:
            yield f"{module.layer} imports {name}"
        if root in FORBIDDEN_LIBRARIES.get(module.layer, set()):
            yield f"{module.layer} imports {root}"


def long_functions(module: Module) -> Iterator[str]:
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > FUNCTION_LINES_MAX:
                yield f"{node.name} has {lines} lines"


def calls_of_time(module: Module) -> Iterator[str]:
    if module.layer in TIMELESS:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.Attribute) and ast.unparse(node) in TIME_CALLS:
                yield f"line {node.lineno} asks {ast.unparse(node)}: take the clock that is passed in"
            if isinstance(node, ast.ImportFrom) and node.module == "time":
                yield f"line {node.lineno} takes names out of time: take the clock that is passed in"


def asserts_that_act(module: Module) -> Iterator[str]:
    """`python -O` leaves asserts out, so nothing may depend on one having been run."""
    acts = ast.Await | ast.NamedExpr | ast.Yield | ast.YieldFrom
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Assert) and any(isinstance(part, acts) for part in ast.walk(node.test)):
            yield f"line {node.lineno} asserts and acts at once"


def missing_docstring(module: Module) -> Iterator[str]:
    if not ast.get_docstring(module.tree):
        yield "has no docstring"


def too_long(module: Module) -> Iterator[str]:
    if module.lines > FILE_LINES_MAX:
        yield f"has {module.lines} lines"


RULES = [wrong_imports, long_functions, calls_of_time, asserts_that_act, missing_docstring, too_long]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_source_keeps_to(rule):
    found = [f"{module.path.relative_to(SOURCE)}: {what}" for module in MODULES for what in rule(module)]
    assert not found, "\n".join(found)


def test_every_module_is_in_a_layer():
    assert {module.layer for module in MODULES} - {"__init__"} <= set(ALLOWED)


def test_no_layer_below_the_top_depends_on_itself_in_a_circle():
    """The table can be sorted: each layer comes after all that it may import."""
    left = {layer: set(needs) for layer, needs in ALLOWED.items() if needs is not ALL}
    while left:
        free = [layer for layer, needs in left.items() if not needs & left.keys()]
        assert free, f"a circle among {sorted(left)}"
        for layer in free:
            del left[layer]


# --- the rules find what they look for --------------------------------------------------------------------------------

LONG = "def f():\n" + "    pass\n" * (FUNCTION_LINES_MAX + 1)


@pytest.mark.parametrize(
    ("rule", "path", "text"),
    [
        (wrong_imports, "store/x.py", "from penstock.wire.plain import plain"),
        (wrong_imports, "store/x.py", "import penstock.core"),
        (wrong_imports, "core/x.py", "def f():\n    from penstock.gateway import http"),
        (wrong_imports, "core/x.py", "from penstock import server"),
        (wrong_imports, "client/x.py", "from penstock import store"),
        (wrong_imports, "model.py", "from penstock.wire import plain"),
        (wrong_imports, "wire/x.py", "import asyncio"),
        (long_functions, "core/x.py", LONG),
        (calls_of_time, "core/x.py", "import time\nnow = time.time()"),
        (calls_of_time, "store/x.py", "from time import time"),
        (calls_of_time, "store/x.py", "f(default=datetime.now)"),
        (asserts_that_act, "core/x.py", "async def f():\n    assert await g()"),
        (missing_docstring, "core/x.py", "x = 1"),
        (too_long, "core/x.py", "x = 1\n" * (FILE_LINES_MAX + 1)),
    ],
)
def test_a_breach_is_reported(rule, path, text):
    assert list(rule(parsed(SOURCE / path, text)))


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("core/x.py", "from penstock.store.files import Disk\nfrom penstock import __version__"),
        ("gateway/http/x.py", "from penstock.core.broker import Broker\nfrom penstock.gateway.guests import Guests"),
        ("cli/x.py", "from penstock.store import verify"),
        ("core/x.py", "import time\ntime.sleep(0)"),
    ],
)
def test_what_is_allowed_is_not_reported(path, text):
    module = parsed(SOURCE / path, '"""Doc."""\n' + text)
    assert [what for rule in RULES for what in rule(module)] == []
