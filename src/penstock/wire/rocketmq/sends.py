"""Ordinary sends of one read, all at once: the hottest path of a broker, from bytes to what is stored and back.

A send is ordinary when nothing has to be decided for it that is not decided for its neighbours too: code 310 or, for a
batch, 320 in JSON, no transaction, delay or timer, no retry, plain ASCII, a body that is neither empty nor too large.
All that stand at the front of a read are taken together, if they are about one topic and of one producer group.
Whatever is not ordinary comes as frames (`requests`), and so does everything when a gateway does not want it this way:
nothing is lost by not being taken here.

`_sends.c` is the same, compiled: a message on its own costs half, and touches few enough bytes that a broker with
little to do does not find all of it gone from the processor's caches each time.
"""

import struct
from collections.abc import Callable
from copy import copy

from penstock.compiled import compiled
from penstock.wire.framing import FrameError
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.batch import BatchError, RecordRun
from penstock.wire.rocketmq.codes import Flag, RequestCode, SysFlag
from penstock.wire.rocketmq.frame import JSON, Frame, frames_in
from penstock.wire.rocketmq.record import OFFSET_BITS, TOPIC_BYTES_MAX, V6, Record, java_hash
from penstock.wire.rocketmq.requests import SendV2, request_in

_COMPILED = "penstock.wire.rocketmq._sends"

# opaque, whether no answer is wanted, whether it is a batch, queue, flag, sysFlag, born ms, where the body is and how
# long, hash of the tag
ASKED = struct.Struct("=10q")
SHARED_MAX = 32  # properties of a batch

_CODES, _HEADER_AT = (b'{"code":310,', b'{"code":320,'), 8
_UNWANTED_BITS = SysFlag.TRANSACTION_BITS | V6
_HELD = (f"{props.DELAY}{props.NAME_END}", "TIME")  # what names a delay or a timer: such a message is kept back
_LENGTHS = struct.Struct(">II")


Asked = bytes | bytearray  # a row for each

# Topic, producer group, what is asked, properties as they are stored, and how many bytes of the read it takes.
Sends = tuple[str, str, Asked, list[bytes], int]
Stored = Record | RecordRun


def front_in_python(view: memoryview, end: int, added: bytes, body_bytes_max: int) -> Sends | None:
    """The ordinary sends at the front of `view[:end]`; None when there are none, or when they are about several topics.
    `added` is what every message's properties get; a body, of one message or of a batch, has at most `body_bytes_max`.
    """
    if bytes(view[_HEADER_AT : _HEADER_AT + len(_CODES[0])]) not in _CODES:
        return None
    first: SendV2 | None = None
    asked, properties, used = bytearray(), list[bytes](), 0
    while (frame := frame_at(view, used, end)) is not None and (own := _ordinary(frame, body_bytes_max)) is not None:
        if first is not None and (own.topic, own.producerGroup) != (first.topic, first.producerGroup):
            return None
        text = _shared(own.properties) if own.batch else own.properties
        stored = None if text is None else _stored(text, added)
        if stored is None:
            break
        first, body_at = first or own, used + _HEADER_AT + _header_bytes(view, used)
        used = body_at + len(frame.body)
        tag = 0 if own.batch else java_hash(props.find(own.properties, props.TAGS))
        asked += ASKED.pack(
            frame.opaque, frame.flag == Flag.ONEWAY, own.batch, own.queueId, own.flag, own.sysFlag, own.bornTimestamp,
            body_at, len(frame.body), tag,
        )  # fmt: skip
        properties.append(stored)
    return None if first is None else (first.topic, first.producerGroup, asked, properties, used)


def _header_bytes(view: memoryview, at: int) -> int:
    (head,) = struct.unpack_from(">I", view, at + 4)
    return int(head) & 0xFFFFFF


def frame_at(view: memoryview, at: int, end: int) -> Frame | None:
    """The frame there, if it is whole; what is wrong with it is found by who takes everything."""
    try:
        behind = at + 4 + int.from_bytes(view[at : at + 4], "big")
        found, _ = frames_in(view[at:behind], behind - at, request_in) if behind <= end else ([], 0)
    except FrameError:
        return None
    return found[0] if found else None


def _ordinary(frame: Frame, body_bytes_max: int) -> SendV2 | None:
    """The fields of a send, if it is an ordinary one."""
    own = frame.typed
    if frame.form != JSON or not isinstance(own, SendV2):
        return None
    odd = (
        frame.flag not in (0, Flag.ONEWAY)
        or frame.code != (RequestCode.SEND_BATCH_MESSAGE if own.batch else RequestCode.SEND_MESSAGE_V2)
        or own.reconsumeTimes
        or own.queueId not in range(2**31)
        or own.sysFlag < 0
        or own.sysFlag & _UNWANTED_BITS
        or not 0 < len(own.topic) <= TOPIC_BYTES_MAX
        or not (own.topic + own.producerGroup + own.properties).isascii()
        or any(mark in own.properties for mark in _HELD)
        or not 0 < len(frame.body) <= body_bytes_max
    )
    return None if odd else own


def _shared(properties: str) -> str | None:
    """What of the properties of a batch holds for each of its messages; None when that is not plain to see."""
    pairs = [item.partition(props.NAME_END) for item in properties.split(props.VALUE_END)]
    names = [name for name, _, value in pairs if name and value and name != props.UNIQ_KEY]
    if len(names) > SHARED_MAX or len(set(names)) < len(names):
        return None
    common = props.parse(properties)
    common.pop(props.UNIQ_KEY, None)
    return props.build(common)


def _stored(properties: str, added: bytes) -> bytes | None:
    """Properties as they are stored; None when they are too long for that."""
    end = props.VALUE_END if properties and not properties.endswith(props.VALUE_END) else ""
    stored = (properties + end).encode() + added
    return stored if len(stored) <= props.BYTES_MAX else None


RunOf = Callable[[Record, memoryview, bytes], RecordRun]


def records_in_python(
    asked: Asked,
    properties: list[bytes],
    view: memoryview,
    model: Record,
    fixed_bytes: int,
    queues: list[int],
    queue_count: int,
    run_of: RunOf,
) -> tuple[list[Stored], int, int] | None:
    """What is stored of sends, how many messages that is, and how many bytes. `model` has what they have in common; a
    record takes `fixed_bytes` without its body and properties; `run_of` takes a batch apart. None when one of them asks
    for a queue behind the first `queue_count` of `queues`, or is a batch that cannot be read.
    """
    found: list[Stored] = []
    for row, own in zip(ASKED.iter_unpack(asked), properties, strict=True):
        _, _, batch, index, flag, sys_flag, born_ms, body_at, body_bytes, tag = row
        if not 0 <= index < min(queue_count, len(queues)):
            return None
        record, body = copy(model), view[body_at : body_at + body_bytes]
        record.queue, record.queue_index, record.born_ms = queues[index], index, born_ms
        record.sys_flag |= sys_flag
        if batch:
            try:
                found.append(run_of(record, body, own))
            except BatchError:
                return None
            if not found[-1].count:
                return None
            continue
        record.length, record.tag, record.flag = fixed_bytes + body_bytes + len(own), tag, flag
        record.body, record.properties = body, own
        found.append(record)
    return found, sum(entry.count for entry in found), sum(entry.length for entry in found)


Parts = tuple[bytes, bytes, bytes, bytes, bytes]


def answers_in_python(asked: Asked, stored: list[Stored], prefix: bytes, parts: Parts) -> bytes:
    """The answers to sends whose entries have their offsets by now, one behind the other. `parts` is what stands in the
    header of each, before, between and behind: the ids of its messages, which are `prefix` and the physical offset, the
    queue, the offset, and the opaque.
    """
    begin, before_queue, before_offset, before_opaque, end = parts
    packed = []
    for (opaque, oneway, _, index, *_), entry in zip(ASKED.iter_unpack(asked), stored, strict=True):
        if oneway:
            continue
        first = entry.queue << OFFSET_BITS | entry.offset
        ids = b",".join(b"%b%016X" % (prefix, physical) for physical in range(first, first + entry.count))
        header = b"%b%b%b%d%b%d%b%d%b" % (
            begin, ids, before_queue, index, before_offset, entry.offset, before_opaque, opaque, end,
        )  # fmt: skip
        packed.append(_LENGTHS.pack(4 + len(header), len(header)) + header)
    return b"".join(packed)


front = compiled(_COMPILED, front_in_python)
records = compiled(_COMPILED, records_in_python)
answers = compiled(_COMPILED, answers_in_python)
