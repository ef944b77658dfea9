"""SQL filters: an expression over a message's properties, as RocketMQ's consumers write it, becomes a predicate.

    either = both (OR both)*
    both   = equals (AND equals)*
    equals = compares (= compares | <> compares | IS [NOT] NULL)*
    compares = unary (> unary | >= unary | < unary | <= unary | [NOT] BETWEEN unary AND unary
             | [NOT] IN ('text', ...) | [NOT] CONTAINS 'text' | [NOT] STARTSWITH 'text' | [NOT] ENDSWITH 'text')*
    unary  = (+ | - | NOT) unary | 'text' | number | TRUE | FALSE | NULL | property | ( either )

NOT binds tighter than a comparison, as it does in RocketMQ: `NOT (a = 1)` needs its brackets. Logic is three-valued: a
missing property is null, and only what is true matches. Values compare as `sqlvalues` says.

An expression comes from the network: its length, its nesting and its parts are bounded, each character is looked at
once, and whatever is wrong raises `SqlError` and nothing else. One thing is stricter than in RocketMQ: what follows a
complete expression is ignored there where it can be read at all, and refused here.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from penstock.wire.rocketmq.sqltokens import SqlError, tokens_in
from penstock.wire.rocketmq.sqlvalues import COMPARE, SEARCH, Mismatch, Value, equal, negated

DEPTH_MAX, PARTS_MAX = 50, 500
_LONG_MAX = 2**63 - 1
_TOO_DEEP = f"the expression is nested more than {DEPTH_MAX} deep"

__all__ = ["Filter", "SqlError", "compiled"]

Properties = Mapping[str, str]
Filter = Callable[[Properties], bool]
_Evaluate = Callable[[Properties], Value]
_Truth = Callable[[Properties], bool | None]

_WHOLE = re.compile(r"(?:0|[1-9][0-9]*)[lL]?")
_LITERALS: dict[str, bool | None] = {"TRUE": True, "FALSE": False, "NULL": None}


class _Node(NamedTuple):
    """A part of an expression. `kind`: constant, property, truth, or number for a negation."""

    kind: str
    evaluate: _Evaluate
    depth: int = 1
    value: Value = None  # of a constant

    @property
    def is_truth(self) -> bool:
        return self.kind == "truth" or (
            self.kind == "constant" and (self.value is None or isinstance(self.value, bool))
        )


def compiled(expression: str) -> Filter:
    """The predicate that an expression is; SqlError when it is none."""
    truth = _Parser(expression).whole()

    def matches(properties: Properties) -> bool:
        try:
            return truth(properties) is True
        except Mismatch:
            return False

    return matches


class _Parser:
    """Goes through the tokens once, from left to right."""

    def __init__(self, expression: str) -> None:
        self._tokens = tokens_in(expression)
        self._next = self._nested = self._parts = 0

    # --- tokens -------------------------------------------------------------------------------------------------------

    def _peek(self, ahead: int = 0) -> str:
        return self._tokens[min(self._next + ahead, len(self._tokens) - 1)].kind

    def _take(self, kind: str) -> str:
        token = self._tokens[self._next]
        if token.kind != kind:
            raise self._wrong(f"{kind} is expected, not {token.text[:40]!r}")
        self._next += 1
        return token.text

    def _took(self, *kinds: str) -> bool:
        """Whether these come next; then they are taken."""
        if any(self._peek(ahead) != kind for ahead, kind in enumerate(kinds)):
            return False
        self._next += len(kinds)
        return True

    def _wrong(self, why: str) -> SqlError:
        return SqlError(f"at character {self._tokens[self._next].at + 1}: {why}")

    def _made(self, truth: _Truth, *parts: _Node) -> _Node:
        """Something true or false. How deep it goes is bounded, since evaluating it goes as deep."""
        depth = 1 + max(part.depth for part in parts)
        if depth > DEPTH_MAX:
            raise self._wrong(_TOO_DEEP)
        return _Node("truth", truth, depth)

    def _count(self) -> None:
        self._parts += 1
        if self._parts > PARTS_MAX:
            raise self._wrong(f"the expression has more than {PARTS_MAX} parts")

    # --- grammar ------------------------------------------------------------------------------------------------------

    def whole(self) -> _Truth:
        if self._peek() == "end":
            raise SqlError("the expression is empty")
        truth = self._truth(self._either())
        if self._peek() != "end":
            raise self._wrong(f"{self._tokens[self._next].text[:40]!r} does not belong behind a complete expression")
        return truth

    def _either(self) -> _Node:
        return self._joined("OR", self._both, True)

    def _both(self) -> _Node:
        return self._joined("AND", self._equals, False)

    def _joined(self, word: str, part: Callable[[], _Node], decides: bool) -> _Node:
        first = part()
        if self._peek() != word:
            return first
        parts = [first]
        while self._took(word):
            parts.append(part())
        return self._made(_deciding([self._truth(node) for node in parts], decides), *parts)

    def _equals(self) -> _Node:
        left = self._compares()
        while (kind := self._peek()) in ("=", "<>", "IS"):
            self._count()
            self._take(kind)
            left = self._is_null(left) if kind == "IS" else self._equal(left, self._compares(), negate=kind == "<>")
        return left

    def _compares(self) -> _Node:
        left = self._unary()
        while True:
            negate = self._peek() == "NOT"
            kind = self._peek(1) if negate else self._peek()
            rule = _RULES.get(kind)
            if rule is None or (negate and kind in COMPARE):
                return left
            self._count()
            self._next += 2 if negate else 1
            left = rule(self, kind, left, negate)

    def _unary(self) -> _Node:
        self._count()
        self._nested += 1
        if self._nested > DEPTH_MAX:
            raise self._wrong(_TOO_DEEP)
        if self._took("+"):
            node = self._unary()
        elif self._took("-"):
            node = _negation(self._unary())
        elif self._took("NOT"):
            inner = self._unary()
            node = self._made(_not(self._truth(inner)), inner)
        else:
            node = self._primary()
        self._nested -= 1
        return node

    def _primary(self) -> _Node:
        kind = self._peek()
        if self._took("("):
            inner = self._either()
            self._take(")")
            return inner
        if kind in _LITERALS:
            self._take(kind)
            return _constant(_LITERALS[kind])
        if kind == "text":
            return _constant(self._text())
        if kind == "number":
            return _constant(self._number())
        name = self._take("word") if kind == "word" else ""
        if not name:
            raise self._wrong(f"a property or a value is expected, not {self._tokens[self._next].text[:40]!r}")
        return _Node("property", lambda properties: properties.get(name))

    def _text(self) -> str:
        return self._take("text")[1:-1].replace("''", "'")

    def _number(self) -> int | float:
        digits = self._take("number")
        if _WHOLE.fullmatch(digits):
            digits = digits.rstrip("lL")
            if len(digits) > 19 or int(digits) > _LONG_MAX:
                raise self._wrong(f"{digits[:40]} is too large: at most {_LONG_MAX}")
            return int(digits)
        if digits.isdigit() or digits[-1] in "lL":
            raise self._wrong(f"{digits[:40]!r} is no number")
        if (number := float(digits)) == float("inf"):
            raise self._wrong(f"{digits[:40]} is too large")
        return number

    # --- what may be compared with what -------------------------------------------------------------------------------

    def _truth(self, node: _Node) -> _Truth:
        """A part where something true or false is needed. A property by itself is never true: it is a text."""
        if node.is_truth:
            return node.evaluate  # type: ignore[return-value]
        if node.kind == "property":
            return lambda properties: None if node.evaluate(properties) is None else False
        raise self._wrong("a value stands where something true or false is needed")

    def _equal(self, left: _Node, right: _Node, negate: bool) -> _Node:
        for node in (left, right):
            if node.kind == "constant" and node.value is None:
                raise self._wrong("nothing is equal to NULL: use IS NULL or IS NOT NULL")
        if left.kind == right.kind == "constant" and isinstance(left.value, bool) and not isinstance(right.value, bool):
            raise self._wrong("TRUE and FALSE cannot be compared with a text or a number")
        compare = _comparing(equal, left.evaluate, right.evaluate)
        return self._made(_not(compare) if negate else compare, left, right)

    def _is_null(self, left: _Node) -> _Node:
        negate = self._took("NOT")
        self._take("NULL")
        evaluate = left.evaluate
        return self._made(lambda properties: (evaluate(properties) is None) is not negate, left)

    def _orderable(self, node: _Node) -> _Evaluate:
        literal = node.kind == "constant" and (node.value is None or isinstance(node.value, bool | str))
        if literal or node.kind == "truth":
            raise self._wrong("only numbers and properties can be greater or less than something")
        return node.evaluate

    def _ordered(self, sign: str, left: _Node, negate: bool) -> _Node:
        right = self._unary()
        return self._made(_comparing(COMPARE[sign], self._orderable(left), self._orderable(right)), left, right)

    def _between(self, kind: str, left: _Node, negate: bool) -> _Node:
        low = self._unary()
        self._take("AND")
        high = self._unary()
        value, least, most = self._orderable(left), self._orderable(low), self._orderable(high)
        if low.kind == high.kind == "constant" and not negate and COMPARE[">"](low.value, high.value):
            raise self._wrong(f"nothing is between {low.value} and {high.value}: the smaller one comes first")
        below, above = ("<", ">") if negate else (">=", "<=")
        truths = [_comparing(COMPARE[below], value, least), _comparing(COMPARE[above], value, most)]
        return self._made(_deciding(truths, decides=negate), left, low, high)

    def _within(self, kind: str, left: _Node, negate: bool) -> _Node:
        if left.kind != "property":
            raise self._wrong("only a property can be IN a list")
        self._take("(")
        texts = {self._text()}
        while self._took(","):
            texts.add(self._text())
        self._take(")")
        evaluate = left.evaluate

        def within(properties: Properties) -> bool | None:
            value = evaluate(properties)
            return None if value is None else (value in texts) is not negate

        return self._made(within, left)

    def _searched(self, kind: str, left: _Node, negate: bool) -> _Node:
        part, evaluate, search = self._text(), left.evaluate, SEARCH[kind]

        def found(properties: Properties) -> bool:
            """What is no text, and an empty part, are never found, and never found missing."""
            value = evaluate(properties)
            return bool(part) and isinstance(value, str) and search(value, part) is not negate

        return self._made(found, left)


_RULES: dict[str, Callable[[_Parser, str, _Node, bool], _Node]] = {
    **dict.fromkeys(COMPARE, _Parser._ordered),
    **dict.fromkeys(SEARCH, _Parser._searched),
    "BETWEEN": _Parser._between,
    "IN": _Parser._within,
}


def _constant(value: Value) -> _Node:
    return _Node("constant", lambda properties: value, value=value)


def _negation(node: _Node) -> _Node:
    evaluate = node.evaluate
    return _Node("number", lambda properties: negated(evaluate(properties)), node.depth + 1)


def _comparing(compare: Callable[[Value, Value], bool | None], left: _Evaluate, right: _Evaluate) -> _Truth:
    return lambda properties: compare(left(properties), right(properties))


def _not(truth: _Truth) -> _Truth:
    def opposite(properties: Properties) -> bool | None:
        value = truth(properties)
        return None if value is None else not value

    return opposite


def _deciding(truths: list[_Truth], decides: bool) -> _Truth:
    """AND (`decides` is False) or OR (True) of several: the first that decides ends it; else unknown, if one was."""

    def together(properties: Properties) -> bool | None:
        unknown = False
        for truth in truths:
            value = truth(properties)
            if value is decides:
                return decides
            unknown = unknown or value is None
        return None if unknown else not decides

    return together
