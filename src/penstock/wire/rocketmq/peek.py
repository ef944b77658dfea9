"""A look at the properties of a stored record without decoding the rest: for filters and for the key index, which ask
every message that they come upon. What is no record has no properties.
"""

import re
import struct

from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.record import BYTES_MIN, HEADS, MAGIC, V6

_PEEK = struct.Struct(">4xI28xI44xI")  # magic, sysFlag, body length where both hosts are short
_KEYS = re.compile(rb"KEYS?\x01([^\x02]+)")  # UNIQ_KEY and KEYS


def properties_in(record: memoryview) -> dict[str, str]:
    try:
        return props.parse(str(_properties(record), "utf-8"))
    except UnicodeDecodeError:
        return {}


def keys_in(record: memoryview) -> list[bytes]:
    """What a message may be found by: its unique key, each of its keys, and now and then something that is no key.
    Quick, since it is asked of every message of a queue that is searched; `has_key` looks closely.
    """
    found: list[bytes] = _KEYS.findall(_properties(record))
    for value in found[:]:
        if b" " in value:
            found += value.split(b" ")
    return found


def has_key(record: memoryview, key: str, unique: bool) -> bool:
    """Whether a message has this unique key, or, unless that is asked for, this among its keys."""
    properties = properties_in(record)
    if properties.get(props.UNIQ_KEY) == key:
        return True
    return not unique and key in properties.get(props.KEYS, "").split(" ")


def _properties(record: memoryview) -> bytes:
    if len(record) < BYTES_MIN:
        return b""
    magic, flags, body_bytes = _PEEK.unpack_from(record)
    if magic != MAGIC:
        return b""
    at = HEADS[flags & V6].size
    if flags & V6:
        body_bytes = int.from_bytes(record[at - 4 : at], "big")
    try:
        at += body_bytes + 1 + record[at + body_bytes]
        return bytes(record[at + 2 : at + 2 + (record[at] << 8 | record[at + 1])])
    except IndexError:
        return b""
