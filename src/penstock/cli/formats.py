"""How `consume` writes messages and `produce` reads them. Pure.

A format is text with %-words, in the spirit of kcat:

    %s body      %S its bytes   %k keys     %g tags    %t topic    %b broker   %p queue   %o offset
    %i id        %I broker's id %T stored, ms          %B born, ms %h properties, a=b,c=d %% a percent sign

and \\n, \\t, \\r, \\0, \\\\. The JSON form of a message is the same in both directions: the body is text in `body`, or,
when it is no text, in base64 in `body_base64`.
"""

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.admin.model import Message, Outgoing

_TOKEN = re.compile(r"%(.)|\\(.)|([^%\\]+)|(.)", re.DOTALL)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0", "\\": "\\"}
ADDED = frozenset({"KEYS", "TAGS", "UNIQ_KEY", "WAIT", "CLUSTER", "TRACE_ON", "MSG_REGION", "TIMER_DELAY_MS"})

Write = Callable[["Message"], bytes]


def _properties(message: "Message") -> str:
    return ",".join(f"{name}={value}" for name, value in sorted(message.properties.items()))


WORDS: dict[str, Callable[["Message"], str | bytes]] = {
    "s": lambda message: message.body,
    "S": lambda message: str(len(message.body)),
    "k": lambda message: message.keys,
    "g": lambda message: message.tags,
    "t": lambda message: message.topic,
    "b": lambda message: message.broker,
    "p": lambda message: str(message.queue),
    "o": lambda message: str(message.offset),
    "i": lambda message: message.id,
    "I": lambda message: message.offset_id,
    "T": lambda message: str(message.store_ms),
    "B": lambda message: str(message.born_ms),
    "h": _properties,
    "%": lambda message: "%",
}


def writer(text: str) -> Write:
    """What turns a message into bytes; ConfigError when the format has a word that is none."""
    parts = [_part(*match.groups()) for match in _TOKEN.finditer(text)]

    def write(message: "Message") -> bytes:
        return b"".join(part if isinstance(part, bytes) else _bytes(part(message)) for part in parts)

    return write


def _part(
    word: str | None, escape: str | None, plain: str | None, left: str | None
) -> "bytes | Callable[[Message], str | bytes]":
    if word is not None:
        if word not in WORDS:
            raise ConfigError(f"the format has %{word}, which is not known: it may have %{', %'.join(WORDS)}")
        return WORDS[word]
    if escape is not None:
        if escape not in _ESCAPES:
            known = ", ".join(f"\\{letter}" for letter in _ESCAPES)
            raise ConfigError(f"the format has \\{escape}, which is not known: it may have {known}")
        return _ESCAPES[escape].encode()
    if left is not None:
        raise ConfigError(f"the format ends with {left!r}: double it if you mean it")
    return (plain or "").encode()


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def as_table(message: "Message") -> dict[str, object]:
    """A message for JSON."""
    import msgspec

    table = msgspec.structs.asdict(message)
    body = table.pop("body")
    try:
        return {**table, "body": body.decode()}
    except UnicodeDecodeError:
        return {**table, "body_base64": base64.b64encode(body).decode()}


def json_line(message: "Message") -> bytes:
    import msgspec

    return msgspec.json.encode(as_table(message)) + b"\n"


def unescaped(text: str) -> bytes:
    """A delimiter as it is meant."""
    return re.sub(r"\\([ntr0\\])", lambda found: _ESCAPES[found[1]], text).encode()


def message_in(line: bytes, every: "Outgoing") -> "Outgoing":
    """A message to send from a line of JSON, as `consume --json` writes it. What brokers and producers have added to
    its properties is left out; what is given for every message goes first.
    """
    import msgspec

    try:
        table = msgspec.json.decode(line, type=dict[str, object])
        properties = msgspec.convert(table.get("properties", {}), dict[str, str])
        tags, keys = (msgspec.convert(table.get(name, ""), str) for name in ("tags", "keys"))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ConfigError(f"{line[:80]!r} is no message in JSON: {error}") from None
    own = {name: value for name, value in properties.items() if name not in ADDED}
    return msgspec.structs.replace(
        every, body=_body_in(table), tags=every.tags or tags, keys=every.keys or keys, properties=own | every.properties
    )


def _body_in(table: Mapping[str, object]) -> bytes:
    text, encoded = table.get("body"), table.get("body_base64")
    if isinstance(text, str):
        return text.encode()
    if isinstance(encoded, str):
        try:
            return base64.b64decode(encoded, validate=True)
        except binascii.Error as error:
            raise ConfigError(f"a body_base64 is not base64: {error}") from None
    raise ConfigError("a message has neither `body` nor `body_base64`")
