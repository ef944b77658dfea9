"""How values in SQL filters compare. A property is text; the literal beside it says how that text is read.

    TRUE, FALSE     the text is true when it says "true", in any case
    whole numbers   the text must be a whole number: of 32 bits if the literal fits in them, else of 64
    other numbers   the text must be a number
    texts           equal or not; in > >= < <= both must be numbers

Whatever does not fit raises `Mismatch`, and the message does not match, whatever else the expression says: that is what
RocketMQ does, and a filter should select the same here and there.
"""

import re
from collections.abc import Callable
from typing import NoReturn

Value = None | bool | int | float | str

_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_SPACES = "".join(map(chr, range(33)))  # what Java strips off a number
_INT_MAX, _LONG_MAX = 2**31 - 1, 2**63 - 1


class Mismatch(Exception):
    """Two values that cannot be compared."""


def _mismatch(text: str) -> NoReturn:
    raise Mismatch(f"{text[:80]!r} is not a number that fits")


def _whole(text: str, beside: int) -> int:
    narrow = -_INT_MAX <= beside <= _INT_MAX
    limit = _INT_MAX if narrow else _LONG_MAX
    if len(text) > 100 or not _WHOLE.fullmatch(text) or not -limit - 1 <= (number := int(text)) <= limit:
        _mismatch(text)
    return number


def number_in(text: str) -> float:
    """A text as a number."""
    stripped = text.strip(_SPACES)
    if len(stripped) > 1_000 or not _NUMBER.fullmatch(stripped):
        _mismatch(text)
    return float(stripped.rstrip("fFdD") if stripped[-1] in "fFdD" else stripped)


def _as_other(text: str, other: bool | float) -> bool | float:
    """A text, read as what stands beside it."""
    if isinstance(other, bool):
        return text.lower() == "true"
    return _whole(text, other) if isinstance(other, int) else number_in(text)


def _order(left: float, right: float) -> int:
    """As Java orders doubles: NaN is equal to itself and above all others."""
    if left != left or right != right:
        return (left != left) - (right != right)
    return (left > right) - (left < right)


def _order_numbers(left: float, right: float) -> int:
    if isinstance(left, int) and isinstance(right, int):
        return (left > right) - (left < right)
    return _order(float(left), float(right))


def equal(left: Value, right: Value) -> bool | None:
    """`left = right`, where None is null or unknown."""
    if left is None or right is None:
        return True if left is right else None if left is None else False
    if isinstance(left, str) and isinstance(right, str):
        return left == right
    if isinstance(left, str):
        assert not isinstance(right, str)
        left = _as_other(left, right)
    elif isinstance(right, str):
        if isinstance(left, bool):
            raise Mismatch("a text beside TRUE or FALSE: put the property first")
        right = _as_other(right, left)
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return _order_numbers(left, right) == 0


def _ordered(left: Value, right: Value) -> int | None:
    if left is None or right is None:
        return None
    if isinstance(left, str) and isinstance(right, str):
        left, right = number_in(left), number_in(right)
    elif isinstance(left, str) and not isinstance(right, str):
        left = _as_other(left, right)
    elif isinstance(right, str) and not isinstance(left, str):
        right = _as_other(right, left)
    assert not isinstance(left, str)
    assert not isinstance(right, str)
    return _order_numbers(left, right)


def _comparison(means: Callable[[int], bool]) -> Callable[[Value, Value], bool | None]:
    def compare(left: Value, right: Value) -> bool | None:
        order = _ordered(left, right)
        return None if order is None else means(order)

    return compare


COMPARE: dict[str, Callable[[Value, Value], bool | None]] = {
    ">": _comparison(lambda order: order > 0),
    ">=": _comparison(lambda order: order >= 0),
    "<": _comparison(lambda order: order < 0),
    "<=": _comparison(lambda order: order <= 0),
}

SEARCH: dict[str, Callable[[str, str], bool]] = {
    "CONTAINS": lambda text, part: part in text,
    "STARTSWITH": lambda text, part: text.startswith(part),
    "ENDSWITH": lambda text, part: text.endswith(part),
}


def negated(value: Value) -> Value:
    """`- value`: null for what is no number."""
    return -value if isinstance(value, int | float) and not isinstance(value, bool) else None
