"""The words of a SQL filter: numbers, texts in single quotes ('' is one quote), names, keywords in any case, signs.

Each character is looked at a bounded number of times: no expression that somebody sends makes this slow.
"""

import re
from typing import NamedTuple

CHARS_MAX = 10_000

_TOKEN = re.compile(
    r"(?P<space>[ \t\n\r\f]+|/\*(?:[^*]|\*(?!/))*\*/)"
    r"|(?P<number>(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[lL]?)"
    r"|(?P<text>'(?:[^']|'')*')"
    r"|(?P<word>[A-Za-z_$][A-Za-z0-9_$]*)"
    r"|(?P<sign><>|>=|<=|[=<>(),+-])"
)
_KEYWORDS = frozenset(
    ("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH")
)
_LINE_END = re.compile(r"[\n\r]")


class SqlError(ValueError):
    """An expression that is no filter; says what is wrong and where."""


class Token(NamedTuple):
    kind: str  # number, text, word, end; a keyword and a sign are their own kind
    text: str
    at: int


def tokens_in(expression: str) -> list[Token]:
    if len(expression) > CHARS_MAX:
        raise SqlError(f"the expression has {len(expression)} characters: at most {CHARS_MAX} are taken")
    found: list[Token] = []
    at, last_line = 0, max(expression.rfind("\n"), expression.rfind("\r"))
    while at < len(expression):
        if at < last_line and expression.startswith("--", at):  # a comment ends with its line; else it is two signs
            at = _behind_line(expression, at)
            continue
        match = _TOKEN.match(expression, at)
        if match is None:
            raise SqlError(f"at character {at + 1}: {expression[at : at + 20]!r} cannot be understood")
        kind, text = str(match.lastgroup), match[0]
        if kind == "sign" or (kind == "word" and text.upper() in _KEYWORDS):
            kind = text.upper()
        if kind != "space":
            found.append(Token(kind, text, at))
        at = match.end()
    found.append(Token("end", "the end", at))
    return found


def _behind_line(expression: str, at: int) -> int:
    end = _LINE_END.search(expression, at)
    return end.end() if end else len(expression)
