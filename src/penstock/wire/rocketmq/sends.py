"""Ordinary sends of one read, all at once: the hottest path of a broker, from bytes to what is stored and back.

A send is ordinary when nothing has to be decided for it that is not decided for its neighbours too: code 310 in JSON,
no batch, no transaction, delay or timer, no retry, plain ASCII. All that stand at the front of a read are taken
together, if they are about one topic and of one producer group. Whatever is not ordinary comes as frames (`requests`),
and so does everything when a gateway does not want it this way: nothing is lost by not being taken here.

`_sends.c` is the same, compiled: a message on its own costs half, and touches few enough bytes that a broker with
little to do does not find all of it gone from the processor's caches each time.
"""

import struct
from copy import copy

from penstock.compiled import compiled
from penstock.wire.framing import FrameError
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.codes import Flag, RequestCode, SysFlag
from penstock.wire.rocketmq.frame import JSON, Frame, frames_in
from penstock.wire.rocketmq.record import OFFSET_BITS, TOPIC_BYTES_MAX, V6, Record, java_hash
from penstock.wire.rocketmq.requests import SendV2, request_in

_COMPILED = "penstock.wire.rocketmq._sends"

# opaque, whether no answer is wanted, queue, flag, sysFlag, born ms, where the body is and how long, hash of the tag
ASKED = struct.Struct("=9q")

_CODE, _HEADER_AT = b'{"code":310,', 8
_UNWANTED_BITS = SysFlag.TRANSACTION_BITS | V6
_HELD = (f"{props.DELAY}{props.NAME_END}", "TIME")  # what names a delay or a timer: such a message is kept back
_LENGTHS = struct.Struct(">II")


Asked = bytes | bytearray  # a row for each

# Topic, producer group, what is asked, properties as they are stored, and how many bytes of the read it takes.
Sends = tuple[str, str, Asked, list[bytes], int]


def front_in_python(view: memoryview, end: int, added: bytes) -> Sends | None:
    """The ordinary sends at the front of `view[:end]`; None when there are none, or when they are about several topics.
    `added` is what every message's properties get.
    """
    if bytes(view[_HEADER_AT : _HEADER_AT + len(_CODE)]) != _CODE:
        return None
    first: SendV2 | None = None
    asked, properties, used = bytearray(), list[bytes](), 0
    while (frame := _frame_at(view, used, end)) is not None and (own := _ordinary(frame)) is not None:
        if first is not None and (own.topic, own.producerGroup) != (first.topic, first.producerGroup):
            return None
        stored = _stored(own.properties, added)
        if stored is None:
            break
        first, body_at = first or own, used + _HEADER_AT + _header_bytes(view, used)
        used = body_at + len(frame.body)
        oneway = frame.flag == Flag.ONEWAY
        tag = java_hash(props.find(own.properties, props.TAGS))
        place = body_at, len(frame.body)
        asked += ASKED.pack(frame.opaque, oneway, own.queueId, own.flag, own.sysFlag, own.bornTimestamp, *place, tag)
        properties.append(stored)
    return None if first is None else (first.topic, first.producerGroup, asked, properties, used)


def _header_bytes(view: memoryview, at: int) -> int:
    (head,) = struct.unpack_from(">I", view, at + 4)
    return int(head) & 0xFFFFFF


def _frame_at(view: memoryview, at: int, end: int) -> Frame | None:
    """The frame there, if it is whole; what is wrong with it is found by who takes everything."""
    try:
        behind = at + 4 + int.from_bytes(view[at : at + 4], "big")
        found, _ = frames_in(view[at:behind], behind - at, request_in) if behind <= end else ([], 0)
    except FrameError:
        return None
    return found[0] if found else None


def _ordinary(frame: Frame) -> SendV2 | None:
    """The fields of a send, if it is an ordinary one."""
    own = frame.typed
    if frame.code != RequestCode.SEND_MESSAGE_V2 or frame.form != JSON or not isinstance(own, SendV2):
        return None
    odd = (
        frame.flag not in (0, Flag.ONEWAY)
        or own.batch
        or own.reconsumeTimes
        or own.queueId not in range(2**31)
        or own.sysFlag < 0
        or own.sysFlag & _UNWANTED_BITS
        or not 0 < len(own.topic) <= TOPIC_BYTES_MAX
        or not (own.topic + own.producerGroup + own.properties).isascii()
        or any(mark in own.properties for mark in _HELD)
    )
    return None if odd else own


def _stored(properties: str, added: bytes) -> bytes | None:
    """Properties as they are stored; None when they are too long for that."""
    end = props.VALUE_END if properties and not properties.endswith(props.VALUE_END) else ""
    stored = (properties + end).encode() + added
    return stored if len(stored) <= props.BYTES_MAX else None


def records_in_python(
    asked: Asked,
    properties: list[bytes],
    view: memoryview,
    model: Record,
    fixed_bytes: int,
    queues: list[int],
    queue_count: int,
) -> tuple[list[Record], int] | None:
    """What is stored of sends, and how many bytes that is. `model` has what they have in common; a record takes
    `fixed_bytes` without its body and properties. None when one of them asks for a queue behind the first `queue_count`
    of `queues`.
    """
    found, total_bytes = list[Record](), 0
    for row, own in zip(ASKED.iter_unpack(asked), properties, strict=True):
        _, _, index, flag, sys_flag, born_ms, body_at, body_bytes, tag = row
        length = fixed_bytes + body_bytes + len(own)
        if index >= queue_count or index >= len(queues):
            return None
        record = copy(model)
        record.queue, record.length, record.tag, record.queue_index = queues[index], length, tag, index
        record.flag, record.sys_flag, record.born_ms = flag, model.sys_flag | sys_flag, born_ms
        record.body, record.properties = view[body_at : body_at + body_bytes], own
        found.append(record)
        total_bytes += length
    return found, total_bytes


Parts = tuple[bytes, bytes, bytes, bytes, bytes]


def answers_in_python(asked: Asked, stored: list[Record], prefix: bytes, parts: Parts) -> bytes:
    """The answers to sends whose records have their offsets by now, one behind the other. `parts` is what stands in the
    header of each, before, between and behind: `prefix` with the physical offset, the queue, the offset, and the
    opaque.
    """
    begin, before_queue, before_offset, before_opaque, end = parts
    packed = []
    for (opaque, oneway, index, *_), record in zip(ASKED.iter_unpack(asked), stored, strict=True):
        if oneway:
            continue
        physical = record.queue << OFFSET_BITS | record.offset
        header = b"%b%b%016X%b%d%b%d%b%d%b" % (
            begin, prefix, physical, before_queue, index, before_offset, record.offset, before_opaque, opaque, end,
        )  # fmt: skip
        packed.append(_LENGTHS.pack(4 + len(header), len(header)) + header)
    return b"".join(packed)


front = compiled(_COMPILED, front_in_python)
records = compiled(_COMPILED, records_in_python)
answers = compiled(_COMPILED, answers_in_python)
