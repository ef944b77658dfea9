"""A batch: several messages for one queue in the body of one send.

    int32 length | int32 magic | int32 CRC | int32 flag | int32 body length, body | int16 properties length, properties

Each message becomes a record of its own, so that it is served like any other, but they stay one entry in the log. The
way from the bytes that came to the bytes that are stored is short, since a batch is how the fastest producers send:
nothing is decoded that is not looked at, and no object is made per message but a tuple.
"""

import struct
from typing import ClassVar

import numpy as np
from isal.isal_zlib import crc32

from penstock.model import Entry, Spans
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.record import HEADS, MAGIC, OFFSET_BITS, RECORD_RUN, V6, Record, java_hash

_BATCHED = struct.Struct(">IiiiI")  # a message, up to its body
_U16 = struct.Struct(">H")
_TAGS, _END = f"{props.TAGS}{props.NAME_END}".encode(), ord(props.VALUE_END)

# Length of the record, flag, body, what comes behind the body (topic and properties), hash of the tag.
Part = tuple[int, int, memoryview, bytes, int]


class BatchError(ValueError):
    """The body of a batch is not what it should be."""


def parts_in(body: memoryview, model: Record, shared: bytes) -> list[Part]:
    """The messages of a batch. `shared` are properties that hold for all of them."""
    found: list[Part] = []
    at, end, prefix, unpack = 0, len(body), bytes((len(model.topic),)) + model.topic, _BATCHED.unpack_from
    head_bytes = HEADS[model.sys_flag & V6].size
    while at < end:
        if at + _BATCHED.size > end:
            raise BatchError(f"a batch is cut off at byte {at} of {end}")
        length, _, _, flag, body_bytes = unpack(body, at)
        behind, body_at = at + length, at + _BATCHED.size
        props_at = body_at + body_bytes
        if behind > end or props_at + 2 > behind:
            raise BatchError(f"a message of {length} bytes does not fit at byte {at} of a batch of {end}")
        own = bytes(body[props_at + 2 : behind])
        if len(own) != body[props_at] << 8 | body[props_at + 1]:
            raise BatchError(f"the properties of the message at byte {at} of a batch do not fit")
        if not own.isascii():
            _check_text(own, at)
        if own and own[-1] != _END:
            own += props.VALUE_END.encode()
        properties = own + shared
        if len(properties) > props.BYTES_MAX:
            raise BatchError(f"properties of {len(properties)} bytes: at most {props.BYTES_MAX} are taken")
        tag = java_hash(props.find(own.decode(), props.TAGS)) if _TAGS in own else 0
        tail = prefix + _U16.pack(len(properties)) + properties
        found.append((head_bytes + body_bytes + len(tail), flag, body[body_at:props_at], tail, tag))
        at = behind
    return found


def _check_text(properties: bytes, at: int) -> None:
    try:
        properties.decode()
    except UnicodeDecodeError as error:
        raise BatchError(f"the properties of the message at byte {at} of a batch are not UTF-8: {error}") from None


class RecordRun(Entry, kw_only=True):
    """The messages of a batch: one entry, a row for each. `model` has what they share."""

    encoding: ClassVar[int] = RECORD_RUN
    run: ClassVar[bool] = True

    model: Record
    parts: list[Part]

    def write_into(self, buffer: memoryview, at: int, queue_id: int, offset: int, store_ms: int) -> None:
        model, physical = self.model, queue_id << OFFSET_BITS | offset
        index, sys_flag, born_ms, born_host = model.queue_index, model.sys_flag, model.born_ms, model.born_host
        store_host, tries, head = model.store_host, model.reconsume_times, HEADS[sys_flag & V6]
        pack, head_bytes = head.pack_into, head.size
        for length, flag, body, tail, _ in self.parts:
            body_at = at + head_bytes
            tail_at = body_at + len(body)
            behind = at + length
            pack(
                buffer, at, length, MAGIC, crc32(body) & 0x7FFFFFFF, index, flag, offset, physical, sys_flag,
                born_ms, born_host, store_ms, store_host, tries, 0, tail_at - body_at,
            )  # fmt: skip
            buffer[body_at:tail_at] = body
            buffer[tail_at:behind] = tail
            at = behind
            offset += 1
            physical += 1

    def spans(self) -> Spans:
        lengths = np.array([part[0] for part in self.parts], dtype=np.int64)
        tags = np.array([part[4] for part in self.parts], dtype=np.int64)
        return Spans(np.cumsum(lengths) - lengths, lengths, tags)


def run_of(model: Record, parts: list[Part]) -> RecordRun:
    length = sum(part[0] for part in parts)
    return RecordRun(queue=model.queue, length=length, count=len(parts), model=model, parts=parts)
