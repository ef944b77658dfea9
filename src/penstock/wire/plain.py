"""Penstock's own message encoding: for what the broker itself writes (events), for tests and tools.

A record carries everything a message has in either protocol, so that a gateway can turn it into its own form:

    u32 length of the record | u64 offset | u64 store ms | u64 born ms | u16 key length | u16 tags length
    | u32 properties length | key | tags | properties (a JSON object of strings) | body

Little-endian, text in UTF-8. A `Plain` entry is one record; a `PlainRun` is several for one queue under one header.
"""

import struct
from collections.abc import Sequence
from typing import ClassVar

import msgspec
import numpy as np

from penstock.errors import StoreError
from penstock.model import Entry, Spans

PLAIN = 1
PLAIN_RUN = 2

_HEAD = struct.Struct("<IQQQHHI")


class Message(msgspec.Struct):
    """A decoded record."""

    body: bytes
    key: str = ""
    tags: str = ""
    properties: dict[str, str] = {}
    born_ms: int = 0
    offset: int = -1
    store_ms: int = 0


_properties = msgspec.json.Decoder(dict[str, str])


def tag_hash(tags: str) -> int:
    """The hash of a tag that queue tables keep: Java's String.hashCode, since RocketMQ filters by it. 0 for no tag."""
    code = 0
    for unit in np.frombuffer(tags.encode("utf-16-le"), dtype="<u2").tolist():
        code = (31 * code + unit) & 0xFFFFFFFF
    return code - (1 << 32) if code & 0x80000000 else code


class Plain(Entry):
    """One message. Made by `plain()`."""

    encoding: ClassVar[int] = PLAIN

    body: bytes | memoryview = b""
    extra: bytes = b""  # key, tags and properties, as they are stored
    born_ms: int = 0
    key_bytes: int = 0
    tags_bytes: int = 0

    def write_into(self, buffer: memoryview, at: int, queue_id: int, offset: int, store_ms: int) -> None:
        keyed, tagged, middle = self.key_bytes, self.tags_bytes, len(self.extra)
        _HEAD.pack_into(buffer, at, self.length, offset, store_ms, self.born_ms, keyed, tagged, middle - keyed - tagged)
        at += _HEAD.size
        if middle:
            buffer[at : at + middle] = self.extra
            at += middle
        buffer[at : at + len(self.body)] = self.body


def plain(
    queue: int,
    body: bytes | memoryview,
    key: str = "",
    tags: str = "",
    properties: dict[str, str] | None = None,
    born_ms: int = 0,
    producer: int = 0,
    sequence: int = -1,
) -> Plain:
    """An entry of one message."""
    keyed, tagged = key.encode(), tags.encode()
    if len(keyed) > 0xFFFF or len(tagged) > 0xFFFF:
        raise ValueError("a key or tag is at most 65535 bytes long")
    extra = keyed + tagged + (msgspec.json.encode(properties) if properties else b"")
    return Plain(
        queue=queue,
        length=_HEAD.size + len(extra) + len(body),
        tag=tag_hash(tags) if tags else 0,
        producer=producer,
        sequence=sequence,
        body=body,
        extra=extra,
        born_ms=born_ms,
        key_bytes=len(keyed),
        tags_bytes=len(tagged),
    )


class PlainRun(Entry):
    """Several messages for one queue under one header. Made by `plain_run()`."""

    encoding: ClassVar[int] = PLAIN_RUN
    run: ClassVar[bool] = True

    messages: Sequence[Plain] = ()

    def write_into(self, buffer: memoryview, at: int, queue_id: int, offset: int, store_ms: int) -> None:
        for message in self.messages:
            message.write_into(buffer, at, queue_id, offset, store_ms)
            at += message.length
            offset += 1

    def spans(self) -> Spans:
        lengths = np.array([message.length for message in self.messages], dtype=np.int64)
        tags = np.array([message.tag for message in self.messages], dtype=np.int64)
        return Spans(np.cumsum(lengths) - lengths, lengths, tags)


def plain_run(messages: Sequence[Plain], producer: int = 0, sequence: int = -1) -> PlainRun:
    """One entry out of several for the same queue."""
    if any(message.queue != messages[0].queue for message in messages):
        raise ValueError("the messages of a run are for one queue")
    return PlainRun(
        queue=messages[0].queue,
        length=sum(message.length for message in messages),
        count=len(messages),
        producer=producer,
        sequence=sequence,
        messages=messages,
    )


def split(payload: memoryview) -> Spans:
    """The messages of a stored run, for the store to rebuild its rows."""
    starts, lengths, tags = [], [], []
    at, end = 0, len(payload)
    while at < end:
        length, _, _, _, keyed, tagged, _ = _head_at(payload, at)
        starts.append(at)
        lengths.append(length)
        tag_at = at + _HEAD.size + keyed
        tags.append(_tag_at(payload, tag_at, tagged))
        at += length
    as_array = [np.array(column, dtype=np.int64) for column in (starts, lengths, tags)]
    return Spans(*as_array)


def _tag_at(payload: memoryview, at: int, length: int) -> int:
    try:
        return tag_hash(str(payload[at : at + length], "utf-8")) if length else 0
    except UnicodeDecodeError as error:
        raise StoreError(f"the tag at byte {at} cannot be read: {error}") from None


def _head_at(payload: memoryview, at: int) -> tuple[int, int, int, int, int, int, int]:
    if at + _HEAD.size > len(payload):
        raise StoreError(f"a plain record is cut off at byte {at} of {len(payload)}")
    head = _HEAD.unpack_from(payload, at)
    length, keyed, tagged, properties = head[0], head[4], head[5], head[6]
    if length < _HEAD.size + keyed + tagged + properties or at + length > len(payload):
        raise StoreError(f"a plain record of {length} bytes does not fit at byte {at} of {len(payload)}")
    return head


def message_in(payload: memoryview, at: int = 0) -> Message:
    """Decode one record; StoreError when it is not one."""
    try:
        return _message_in(payload, at)
    except (UnicodeDecodeError, msgspec.DecodeError) as error:
        raise StoreError(f"the plain record at byte {at} cannot be read: {error}") from None


def _message_in(payload: memoryview, at: int) -> Message:
    length, offset, store_ms, born_ms, keyed, tagged, properties = _head_at(payload, at)
    end, at = at + length, at + _HEAD.size
    key, at = str(payload[at : at + keyed], "utf-8"), at + keyed
    tags, at = str(payload[at : at + tagged], "utf-8"), at + tagged
    table, at = payload[at : at + properties], at + properties
    return Message(
        body=bytes(payload[at:end]),
        key=key,
        tags=tags,
        properties=_properties.decode(table) if properties else {},
        born_ms=born_ms,
        offset=offset,
        store_ms=store_ms,
    )


def messages_in(payload: memoryview) -> list[Message]:
    """Decode a run, or several records one behind the other."""
    messages, at = [], 0
    while at < len(payload):
        messages.append(message_in(payload, at))
        at += _head_at(payload, at)[0]
    return messages
