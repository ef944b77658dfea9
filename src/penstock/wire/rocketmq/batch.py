"""A batch: several messages for one queue in the body of one send.

    int32 length | int32 magic | int32 CRC | int32 flag | int32 body length, body | int16 properties length, properties

Each message becomes a record of its own, so that it is served like any other, but they stay one entry in the log. The
way from the bytes that came to the bytes that are stored is short, since a batch is how the fastest producers send:
one look at every message says where its parts are (`measured`), one more writes its record (`write_run`). Both are
compiled where that could be built, from `_records.c`.
"""

import struct
from typing import ClassVar

import numpy as np
from isal.isal_zlib import crc32

from penstock.compiled import compiled
from penstock.model import Entry, Spans
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.record import HEADS, MAGIC, OFFSET_BITS, RECORD_RUN, V6, Record, java_hash

_COMPILED = "penstock.wire.rocketmq._records"
_BATCHED = struct.Struct(">IiiiI")  # a message, up to its body
_LENGTHS, _CRC, _FLAG, _PLACES = (struct.Struct(form) for form in (">I", ">I", ">i", ">qq"))
_CRC_AT, _FLAG_AT, _PLACES_AT = 8, 16, 20  # of a record
_U16 = struct.Struct(">H")
_TAGS, _END = f"{props.TAGS}{props.NAME_END}".encode(), ord(props.VALUE_END)

# Of a message: where its record begins in the entry and how long it is, flag, where its body is and how long, where its
# properties are and how long, hash of its tag.
PART = struct.Struct("=8q")


class BatchError(ValueError):
    """The body of a batch is not what it should be."""


def measured_in_python(body: memoryview, fixed_bytes: int, shared_bytes: int, properties_max: int) -> tuple[bytes, int]:
    """A `PART` for each message of a batch, and how long their records are together. Each has `fixed_bytes` beside body
    and properties, and `shared_bytes` of properties that hold for all of them.
    """
    found: list[bytes] = []
    at, end, start, unpack = 0, len(body), 0, _BATCHED.unpack_from
    while at < end:
        if at + _BATCHED.size > end:
            raise BatchError(f"a batch is cut off at byte {at} of {end}")
        length, _, _, flag, body_bytes = unpack(body, at)
        behind, body_at = at + length, at + _BATCHED.size
        props_at = body_at + body_bytes + 2
        if behind > end or props_at > behind:
            raise BatchError(f"a message of {length} bytes does not fit at byte {at} of a batch of {end}")
        own = bytes(body[props_at:behind])
        if len(own) != body[props_at - 2] << 8 | body[props_at - 1]:
            raise BatchError(f"the properties of the message at byte {at} of a batch do not fit")
        if not body_bytes:
            raise BatchError(f"the message at byte {at} of a batch is empty, and not every consumer can take that")
        if not own.isascii():
            _check_text(own, at)
        properties_bytes = len(own) + _is_open(own) + shared_bytes
        if properties_bytes > properties_max:
            raise BatchError(f"properties of {properties_bytes} bytes: at most {properties_max} are taken")
        tag = java_hash(props.find(own.decode(), props.TAGS)) if _TAGS in own else 0
        record_bytes = fixed_bytes + body_bytes + properties_bytes
        found.append(PART.pack(start, record_bytes, flag, body_at, body_bytes, props_at, len(own), tag))
        at, start = behind, start + record_bytes
    return b"".join(found), start


def _is_open(properties: bytes) -> bool:
    """Whether the last property has no end of its own, so that another cannot follow."""
    return bool(properties) and properties[-1] != _END


def _check_text(properties: bytes, at: int) -> None:
    try:
        properties.decode()
    except UnicodeDecodeError as error:
        raise BatchError(f"the properties of the message at byte {at} of a batch are not UTF-8: {error}") from None


def write_run_in_python(
    buffer: memoryview,
    at: int,
    head: bytes,
    prefix: bytes,
    body: memoryview,
    parts: bytes,
    shared: bytes,
    offset: int,
    physical: int,
) -> None:
    """Write the records of a batch. `head` is one up to its body, with what they share; `prefix` its topic."""
    for number, (_, length, flag, body_at, body_bytes, props_at, props_bytes, _) in enumerate(PART.iter_unpack(parts)):
        content, own = body[body_at : body_at + body_bytes], bytes(body[props_at : props_at + props_bytes])
        properties = own + props.VALUE_END.encode() + shared if _is_open(own) else own + shared
        start, behind = at + len(head), at + length
        buffer[at:start] = head
        _LENGTHS.pack_into(buffer, at, length)
        _CRC.pack_into(buffer, at + _CRC_AT, crc32(content) & 0x7FFFFFFF)
        _FLAG.pack_into(buffer, at + _FLAG_AT, flag)
        _PLACES.pack_into(buffer, at + _PLACES_AT, offset + number, physical + number)
        _LENGTHS.pack_into(buffer, start - _LENGTHS.size, body_bytes)
        buffer[start : start + body_bytes] = content
        buffer[start + body_bytes : behind] = prefix + _U16.pack(len(properties)) + properties
        at = behind


measured = compiled(_COMPILED, measured_in_python)
write_run = compiled(_COMPILED, write_run_in_python)


class RecordRun(Entry, kw_only=True):
    """The messages of a batch: one entry, a row for each. `model` has what they share but for `shared`, properties that
    all of them get; `body` is the batch as it came.
    """

    encoding: ClassVar[int] = RECORD_RUN
    run: ClassVar[bool] = True

    model: Record
    body: memoryview
    parts: bytes
    shared: bytes

    def write_into(self, buffer: memoryview, at: int, queue_id: int, offset: int, store_ms: int) -> None:
        model, physical = self.model, queue_id << OFFSET_BITS | offset
        head = HEADS[model.sys_flag & V6].pack(
            0, MAGIC, 0, model.queue_index, 0, 0, 0, model.sys_flag, model.born_ms, model.born_host, store_ms,
            model.store_host, model.reconsume_times, 0, 0,
        )  # fmt: skip
        write_run(buffer, at, head, _prefix(model), self.body, self.parts, self.shared, offset, physical)

    def spans(self) -> Spans:
        parts = np.frombuffer(self.parts, dtype=np.int64).reshape(-1, PART.size // 8)
        return Spans(parts[:, 0], parts[:, 1], parts[:, -1])


def _prefix(model: Record) -> bytes:
    """What stands between the body of a record and the length of its properties."""
    return bytes((len(model.topic),)) + model.topic


def run_of(model: Record, body: memoryview, shared: bytes) -> RecordRun:
    """The entry of a batch; BatchError when its body cannot be read. It may hold no message."""
    fixed_bytes = HEADS[model.sys_flag & V6].size + 1 + len(model.topic) + 2
    parts, length = measured(body, fixed_bytes, len(shared), props.BYTES_MAX)
    count = len(parts) // PART.size
    return RecordRun(queue=model.queue, length=length, count=count, model=model, body=body, parts=parts, shared=shared)
