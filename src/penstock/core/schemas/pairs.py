"""A schema of a key and a value: two schemas in one.

The data are both, each behind its length (four bytes; 2^32 - 1 stands for none). Their kinds are properties, and so is
where the key is when a message is sent: in front of the value, or beside it, as the message's own key.
"""

import struct
from typing import NamedTuple

from penstock.core.schemas.model import Kind, Schema, kind_named
from penstock.errors import SchemaInvalid

ENCODING = "kv.encoding.type"
INLINE = "INLINE"

_LENGTH = struct.Struct(">I")
_NONE = 2**32 - 1


class Pair(NamedTuple):
    key: Schema
    value: Schema
    encoding: str


def halves(schema: Schema) -> Pair:
    key, at = _half(schema.data, 0)
    value, at = _half(schema.data, at)
    if at != len(schema.data):
        raise SchemaInvalid("there is something behind its key and value")
    encoding = schema.properties.get(ENCODING) or INLINE
    return Pair(Schema(_kind(schema, "key"), key), Schema(_kind(schema, "value"), value), encoding)


def joined(key: bytes, value: bytes) -> bytes:
    return b"".join((_LENGTH.pack(len(key)), key, _LENGTH.pack(len(value)), value))


def _half(data: bytes, at: int) -> tuple[bytes, int]:
    begin = at + _LENGTH.size
    if begin > len(data):
        raise SchemaInvalid("its key or its value is missing")
    (length,) = _LENGTH.unpack_from(data, at)
    end = begin if length == _NONE else begin + length
    if end > len(data):
        raise SchemaInvalid("its key or its value is cut off")
    return data[begin:end], end


def _kind(schema: Schema, half: str) -> Kind:
    kind = kind_named(schema.properties.get(f"{half}.schema.type") or Kind.BYTES)
    if kind is Kind.KEY_VALUE:
        raise SchemaInvalid("a key and value is in a key and value")
    return kind
