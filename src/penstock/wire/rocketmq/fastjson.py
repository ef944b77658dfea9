"""Reading JSON as RocketMQ's Java side writes it: object keys and bare numbers as keys are allowed there.

    {"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:6},"brokerAddrs":{0:"127.0.0.1:10911"}}

What is plain JSON is decoded as such. The rest is rewritten to plain JSON first, in one pass over the text: such a key
becomes a string that holds its text.
"""

import re
from collections.abc import Callable

import msgspec

BYTES_MAX = 64 << 20
_DEPTH_MAX = 64
_TOKEN = re.compile(
    r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s"{}\[\],:]+|"'
)  # a string, a sign, a bare word, or half a string


class FastjsonError(ValueError):
    """The text is not even what Java would write."""


def loads(data: bytes | memoryview) -> object:
    """Decode; a key that is an object comes as the JSON text of that object, a bare one as its text."""
    if len(data) > BYTES_MAX:
        raise FastjsonError(f"a text of {len(data)} bytes: at most {BYTES_MAX} are taken")
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        raise FastjsonError("nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    try:
        return msgspec.json.decode(_rewritten(str(data, "utf-8")))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise FastjsonError(str(error)) from None


def table(value: object, name: str) -> dict[str, object]:
    """The table in a field of a decoded object; empty when there is none."""
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _rewritten(text: str) -> str:
    """The same with every key a string."""
    return _Rewriter(_TOKEN.findall(text)).whole()


class _Rewriter:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens, self._at = tokens, 0

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            raise FastjsonError("the text is cut off")
        self._at += 1
        return self._tokens[self._at - 1]

    def whole(self) -> str:
        found = self.value(0)
        if self._at < len(self._tokens):
            raise FastjsonError(f"something follows behind the end: {self._tokens[self._at][:40]!r}")
        return found

    def value(self, depth: int) -> str:
        if depth > _DEPTH_MAX:
            raise FastjsonError(f"nested deeper than {_DEPTH_MAX}")
        token = self._next()
        if token == "{":
            return "{" + ",".join(self._items("}", self._pair, depth)) + "}"
        if token == "[":
            return "[" + ",".join(self._items("]", self.value, depth)) + "]"
        return token

    def _items(self, end: str, item: Callable[[int], str], depth: int) -> list[str]:
        found: list[str] = []
        while self._peek() != end:
            found.append(item(depth + 1))
            if self._peek() == ",":
                self._next()
            elif self._peek() != end:
                raise FastjsonError(f"no comma before {self._peek()[:40]!r}")
        self._next()
        return found

    def _peek(self) -> str:
        if self._at >= len(self._tokens):
            raise FastjsonError("the text is cut off")
        return self._tokens[self._at]

    def _pair(self, depth: int) -> str:
        key = self.value(depth)
        if self._next() != ":":
            raise FastjsonError("a key without a value")
        if not key.startswith('"'):
            key = msgspec.json.encode(key).decode()
        return f"{key}:{self.value(depth)}"
