"""Message records: what the log holds for a RocketMQ message is, byte for byte, what a pull hands out.

    int32 length | int32 magic | int32 CRC-32 of the body | int32 queue | int32 flag | int64 offset
    | int64 physical offset | int32 sysFlag | int64 born ms | born host | int64 store ms | store host
    | int32 reconsume times | int64 prepared transaction offset | int32 body length, body
    | int8 topic length, topic | int16 properties length, properties

A host is 4 or 16 bytes of address (by bits of sysFlag) and an int32 port. The "physical offset" that clients see, and
that message ids carry, is the queue's number in the log and the message's offset packed into 53 bits, since one client
reads it as a double. RocketMQ 5 has a version 2 for topics of more than 127 bytes (its retry topics may be that long),
with a magic of its own and an int16 topic length: that is read here, and never written.

`Record` is an entry of one message; several under one header are in `batch`.
"""

import struct
from functools import lru_cache
from typing import ClassVar

import msgspec
import numpy as np
from isal.isal_zlib import crc32

from penstock.compiled import compiled
from penstock.errors import StoreError
from penstock.model import Entry, Spans
from penstock.wire.plain import tag_hash
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.codes import SysFlag

RECORD, RECORD_RUN = 3, 4  # encodings in the log

MAGIC, MAGIC_V2 = 0xDAA320A7, 0xDAA320AB
OFFSET_BITS, QUEUE_BITS = 36, 17
TOPIC_BYTES_MAX = 127

HOST_V4_BYTES, HOST_V6_BYTES = 8, 20  # an address and a port
V6 = SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6


def _host_bytes(v6: int) -> int:
    return HOST_V6_BYTES if v6 else HOST_V4_BYTES


HEADS = {  # a record up to its body, by these two bits of its sysFlag
    born_v6 | store_v6: struct.Struct(f">IIIiiqqiq{_host_bytes(born_v6)}sq{_host_bytes(store_v6)}siqI")
    for born_v6 in (0, SysFlag.BORN_HOST_V6)
    for store_v6 in (0, SysFlag.STORE_HOST_V6)
}
_SYS_FLAG, _SYS_FLAG_AT = struct.Struct(">i"), 36
LENGTHS_BYTES = 1 + 2  # of the topic, of the properties
BYTES_MIN = HEADS[0].size + LENGTHS_BYTES

java_hash = lru_cache(maxsize=10_000)(tag_hash)


def physical_offset(queue_id: int, offset: int) -> int:
    return queue_id << OFFSET_BITS | offset


def from_physical(physical: int) -> tuple[int, int]:
    """The queue's number and the message's offset."""
    return physical >> OFFSET_BITS, physical & ((1 << OFFSET_BITS) - 1)


def message_id(store_host: bytes, physical: int) -> str:
    """The id that names a message by where it is: the broker's address and the physical offset."""
    return (store_host + physical.to_bytes(8, "big")).hex().upper()


def write_record_in_python(
    self: "Record", buffer: memoryview, at: int, queue_id: int, offset: int, store_ms: int
) -> None:
    """`Entry.write_into` of a record. Hot: `_records.c` is the same, compiled."""
    body, topic, properties = self.body, self.topic, self.properties
    body_bytes, topic_bytes = len(body), len(topic)
    head = HEADS[self.sys_flag & V6]
    head.pack_into(
        buffer, at, self.length, MAGIC, crc32(body) & 0x7FFFFFFF, self.queue_index, self.flag, offset,
        queue_id << OFFSET_BITS | offset, self.sys_flag, self.born_ms, self.born_host, store_ms,
        self.store_host, self.reconsume_times, self.prepared_offset, body_bytes,
    )  # fmt: skip
    at += head.size
    behind = at + body_bytes
    buffer[at:behind] = body
    buffer[behind] = topic_bytes
    at = behind + 1 + topic_bytes
    buffer[behind + 1 : at] = topic
    buffer[at] = len(properties) >> 8
    buffer[at + 1] = len(properties) & 0xFF
    buffer[at + 2 : at + 2 + len(properties)] = properties


class Record(Entry):
    """One message. Made by the gateway from a send; `store_host` and `born_host` are address and port as they are
    stored.
    """

    encoding: ClassVar[int] = RECORD

    topic: bytes = b""
    queue_index: int = 0
    body: bytes | memoryview = b""
    properties: bytes = b""
    flag: int = 0
    sys_flag: int = 0
    born_ms: int = 0
    born_host: bytes = b"\x7f\x00\x00\x01\x00\x00\x00\x00"
    store_host: bytes = b"\x7f\x00\x00\x01\x00\x00\x00\x00"
    reconsume_times: int = 0
    prepared_offset: int = 0

    write_into = compiled("penstock.wire.rocketmq._records", write_record_in_python)


def length_of(record: Record) -> int:
    """The bytes that a record takes."""
    fixed = HEADS[record.sys_flag & V6].size + LENGTHS_BYTES
    return fixed + len(record.body) + len(record.topic) + len(record.properties)


def own_record(queue: int, topic: str, body: bytes, properties: dict[str, str], born_ms: int, host: bytes) -> Record:
    """A message that the broker writes by itself, to the first queue of a topic. `host` is its own address."""
    record = Record(
        queue=queue,
        length=0,
        tag=java_hash(properties.get(props.TAGS, "")),
        topic=topic.encode(),
        body=body,
        properties=props.build(properties).encode(),
        sys_flag=V6 if len(host) > HOST_V4_BYTES else 0,
        born_ms=born_ms,
        born_host=host,
        store_host=host,
    )
    record.length = length_of(record)
    return record


# --- reading ----------------------------------------------------------------------------------------------------------


class Message(msgspec.Struct):
    """A decoded record."""

    topic: str
    queue_index: int
    offset: int
    physical_offset: int
    body: bytes
    properties: dict[str, str]
    flag: int
    sys_flag: int
    born_ms: int
    store_ms: int
    born_host: bytes
    store_host: bytes
    reconsume_times: int
    prepared_offset: int
    length: int
    sound: bool  # the body has the CRC that the record says

    @property
    def message_id(self) -> str:
        return self.properties.get(props.UNIQ_KEY) or message_id(self.store_host, self.physical_offset)


def message_in(view: memoryview, at: int = 0) -> Message:
    """Decode the record at `at`; StoreError when it does not fit in what is there."""
    try:
        return _message_in(view, at)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise StoreError(f"a record cannot be read at byte {at} of {len(view)}: {error}") from None


def _message_in(view: memoryview, start: int) -> Message:
    """The hot path of a client: one unpacking for all up to the body."""
    (sys_flag,) = _SYS_FLAG.unpack_from(view, start + _SYS_FLAG_AT)
    head = HEADS[sys_flag & V6]
    (
        length, magic, body_crc, queue_index, flag, offset, physical, _, born_ms, born_host, store_ms, store_host,
        reconsume_times, prepared, body_bytes,
    ) = head.unpack_from(view, start)  # fmt: skip
    end = start + length
    if end > len(view) or (magic != MAGIC and magic != MAGIC_V2):
        raise StoreError(f"no record of {length} bytes stands at byte {start} of {len(view)}")
    at = start + head.size
    body_end = at + body_bytes
    if magic == MAGIC:
        topic_at = body_end + 1
        topic_end = topic_at + view[body_end]
    else:
        topic_at = body_end + 2
        topic_end = topic_at + (view[body_end] << 8 | view[body_end + 1])
    properties_end = topic_end + 2 + (view[topic_end] << 8 | view[topic_end + 1])
    if properties_end > end:
        raise StoreError(f"the parts of a record reach to byte {properties_end}, behind its end at {end}")
    body = view[at:body_end]
    return Message(
        str(view[topic_at:topic_end], "utf-8"),
        queue_index,
        offset,
        physical,
        bytes(body),
        props.parse(str(view[topic_end + 2 : properties_end], "utf-8")),
        flag,
        sys_flag,
        born_ms,
        store_ms,
        born_host,
        store_host,
        reconsume_times,
        prepared,
        length,
        crc32(body) & 0x7FFFFFFF == body_crc,
    )


def messages_in(view: memoryview) -> list[Message]:
    """Decode records one behind the other."""
    messages, at = [], 0
    while at < len(view):
        messages.append(message_in(view, at))
        at += messages[-1].length
    return messages


def split(payload: memoryview) -> Spans:
    """The messages of a stored run, for the store to rebuild its rows."""
    messages = messages_in(payload)
    lengths = np.array([message.length for message in messages], dtype=np.int64)
    tags = np.array([tag_hash(message.properties.get(props.TAGS, "")) for message in messages], dtype=np.int64)
    return Spans(np.cumsum(lengths) - lengths, lengths, tags)
