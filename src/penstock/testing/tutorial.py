"""The blocks of a tutorial in Markdown: Python, and the text that stands below it when it prints something.

They are run one after the other in one namespace, as in a notebook. `docs/make_charts.py` and the tests do so.
"""

import contextlib
import io
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_FENCE = re.compile(r"^```(\w*)$")


class Block(NamedTuple):
    line: int  # where its code begins
    code: str
    prints: str


def section(text: str, heading: str) -> str:
    """What is below a heading of the second level, as many lines down as in the document."""
    kept, inside = [], False
    for line in text.splitlines():
        if line.startswith("## "):
            inside = line == f"## {heading}"
        kept.append(line if inside else "")
    return "\n".join(kept)


def blocks(text: str) -> list[Block]:
    found: list[Block] = []
    for line, language, body in _fenced(text):
        if language == "python":
            found.append(Block(line, body, ""))
        elif language == "text" and found:
            found[-1] = found[-1]._replace(prints=body)
    return found


def _fenced(text: str) -> Iterator[tuple[int, str, str]]:
    opened, language, body = 0, "", []
    for number, line in enumerate(text.splitlines(), 1):
        fence = _FENCE.match(line)
        if not fence and opened:
            body.append(line)
        elif fence and opened:
            yield opened + 1, language, "\n".join(body)
            opened = 0
        elif fence:
            opened, language, body = number, fence[1], []


def run(block: Block, namespace: dict[str, object], replaced: Mapping[str, str], name: str) -> str:
    """What a block prints, with addresses and folders of the reader's put in place of those in the text."""
    code = block.code
    for old, new in replaced.items():
        code = code.replace(old, new)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("\n" * (block.line - 1) + code, name, "exec"), namespace)  # ours: from this repository's documents
    return "\n".join(line.rstrip() for line in printed.getvalue().strip("\n").splitlines())
