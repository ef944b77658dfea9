"""docs/client.md: every example runs, and prints what stands below it."""

import contextlib
import io
import re
from pathlib import Path

import pytest

from penstock.testing.server import running

PAGE = (Path(__file__).parents[2] / "docs" / "client.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
EXAMPLES = [
    (code, printed[0][1] if printed and printed[0][0] == "text" else "")
    for at, (language, code) in enumerate(BLOCKS)
    if language == "python"
    for printed in [BLOCKS[at + 1 : at + 2]]
]
ADDRESS = "127.0.0.1:9876"


def test_there_are_examples():
    assert len(EXAMPLES) >= 8
    assert all(ADDRESS in code and printed for code, printed in EXAMPLES)


@pytest.fixture(scope="module")
def namesrv():
    with running() as penstock:
        yield penstock.addresses["namesrv"]


@pytest.mark.parametrize(("code", "printed"), EXAMPLES, ids=range(1, len(EXAMPLES) + 1))
def test_an_example_prints_what_it_says(code, printed, namesrv):
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(code.replace(ADDRESS, namesrv), "docs/client.md", "exec"), {"__name__": "example"})
    assert out.getvalue() == printed
