"""Sends: codes 10, 310 and 320. All neighbours of one read are one call to the core.

What a client sent is stored as it was sent: body, flags and properties, with the names of cluster and region added.
With a delay level, a timer, or prepared for a transaction, it is kept back first (`kept.py`).
"""

import random
import struct
from collections.abc import Callable, Container
from functools import cache
from typing import NoReturn

import numpy as np

from penstock.core.group_settings import GroupSettings
from penstock.core.publish import Publisher
from penstock.core.topics import WRITE, Topic, Topics, TopicSettings
from penstock.core.traffic import Traffic
from penstock.errors import BadTopicName, MessageTooLarge, PenstockError, TopicNotFound, TopicTerminated
from penstock.gateway.rocketmq.connection import VERSION, Connection
from penstock.gateway.rocketmq.dead import DLQ_PREFIX, Tell
from penstock.gateway.rocketmq.house import CLUSTER, DEFAULT_TOPIC_QUEUES, House
from penstock.gateway.rocketmq.kept import Kept
from penstock.gateway.rocketmq.routes import Refused, Route, Routes, ext_as, refuse
from penstock.model import Action, Entry
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.batch import BatchError, RecordRun, run_of
from penstock.wire.rocketmq.codes import Flag, RequestCode, ResponseCode, SysFlag
from penstock.wire.rocketmq.frame import JSON, Frame, pack
from penstock.wire.rocketmq.heads import v6_flags
from penstock.wire.rocketmq.record import (
    OFFSET_BITS,
    TOPIC_BYTES_MAX,
    V6,
    Record,
    java_hash,
    length_of,
)
from penstock.wire.rocketmq.requests import DEFAULT_TOPIC, Send, SendV2

_NAME_CHARS = frozenset("%|_-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
# What every message gets. Consumers of client 5.x that trace leave out messages that do not name a region.
ADDED = props.build({props.CLUSTER: CLUSTER, "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"})
RETRY_PREFIX = "%RETRY%"
OWN_LIMIT_VERSION = 121  # from this version on a client's own maxReconsumeTimes counts, before it the group's
_DELAY, _TAGS = f"{props.DELAY}{props.NAME_END}", f"{props.TAGS}{props.NAME_END}"
_TIME = "TIME"  # in the names of all timers, and of little else
_LONG_NAMES = int(RequestCode.SEND_MESSAGE)
_V4_HOST_BYTES = 8
_V4_HOSTS_BYTES = 2 * _V4_HOST_BYTES
NO_SEND = frozenset(
    (
        "SCHEDULE_TOPIC_XXXX",
        "RMQ_SYS_TRANS_HALF_TOPIC",
        "RMQ_SYS_TRANS_OP_HALF_TOPIC",
        "TRANS_CHECK_MAX_TIME_TOPIC",
        "SELF_TEST_TOPIC",
        "OFFSET_MOVED_EVENT",
    )
)

# A send's answer, put together from parts: the fields of a frame's header in the order that Java writes them.
ANSWER = (
    b'{"code":0,"extFields":{"MSG_REGION":"DefaultRegion","TRACE_ON":"true","msgId":"%b","queueId":"%d","queueOffset":"%d"},'
    b'"flag":1,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":' + b"%d" % VERSION + b"}"
)

GroupOf = Callable[[str], GroupSettings]  # what holds for a consumer group; raises when it is not known
_ALWAYS = {"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}
_LENGTHS = struct.Struct(">II")  # of a frame, and of its header

Sent = tuple[Frame, Record | RecordRun, int]  # a request, what it became, and the index of its queue


class Produce:
    def __init__(
        self,
        topics: Topics,
        publisher: Publisher,
        house: House,
        auto_create: bool,
        group_of: GroupOf,
        kept: Kept,
        traffic: Traffic,
        ended: Container[int],
        tell_dead: Tell,
    ) -> None:
        self._ended, self._tell_dead = ended, tell_dead
        self._topics, self._publisher, self._house, self._auto_create = topics, publisher, house, auto_create
        self._group_of, self._kept, self._traffic = group_of, kept, traffic

    def routes(self) -> Routes:
        return {
            RequestCode.SEND_MESSAGE: Route(None, Action.PRODUCE, "topic", self.send),
            RequestCode.SEND_MESSAGE_V2: Route(None, Action.PRODUCE, "b", self.send),
            RequestCode.SEND_BATCH_MESSAGE: Route(None, Action.PRODUCE, "b", self.send),
        }

    def send(self, frames: list[Frame], connection: Connection) -> None:
        """Store the messages of these requests; each is answered when they are durable."""
        entries: list[Entry] = []
        sent: list[Sent] = []
        held: list[Record] = []
        store_host = self._house.store_host_for(connection)
        for frame in frames:
            held_before = len(held)
            try:
                entry, index = self._entry(frame, connection, store_host, held)
                self._publisher.check_length(entry.length)
            except PenstockError as error:
                del held[held_before:]
                refuse(connection, frame, error)
                continue
            entries.append(entry)
            sent.append((frame, entry, index))

        def done(error: Exception | None) -> None:
            if error is None:
                connection.answer_all(answers(sent, store_host))
                count_sent(self._traffic, sent)
            else:
                refuse_all(connection, sent, error)

        try:
            self._publisher.publish(entries, done, self._publisher.entry_bytes_max)  # bodies have been looked at
        except PenstockError as error:
            refuse_all(connection, sent, error)
        else:
            if held:
                self._kept.appended(held)

    def _entry(
        self, frame: Frame, connection: Connection, store_host: bytes, held: list[Record]
    ) -> tuple[Record | RecordRun, int]:
        """What to store, and the index of the queue that was asked for. Hot: for an ordinary message it asks as little
        as can be.
        """
        asked = ext_as(Send, frame) if frame.code == _LONG_NAMES else ext_as(SendV2, frame)
        if not 0 < len(frame.body) <= self._publisher.body_bytes_max:
            refuse_body(len(frame.body), self._publisher.body_bytes_max, asked.batch)
        topic = self._topics.find(asked.topic)
        if topic is None or asked.reconsumeTimes or not may_send(topic):
            topic = self.topic_for(asked, frame.version)
        index = asked.queueId if asked.queueId >= 0 else any_queue(topic)
        if index >= topic.write_queues and index >= topic.read_queues:
            why = f"topic {topic.name!r} has queues 0 to {topic.queue_count - 1}, not {index}"
            raise Refused(ResponseCode.SYSTEM_ERROR, why)
        if topic.queues[index] in self._ended:
            raise TopicTerminated
        sys_flag, born_host = asked.sysFlag & ~V6, connection.born_host
        if len(born_host) + len(store_host) > _V4_HOSTS_BYTES:
            sys_flag |= v6_flags(born_host, store_host)
        record = Record(
            queue=topic.queues[index],
            length=0,
            topic=asked.topic.encode(),
            queue_index=index,
            sys_flag=sys_flag,
            born_ms=asked.bornTimestamp,
            born_host=born_host,
            store_host=store_host,
            reconsume_times=asked.reconsumeTimes,
        )
        if asked.batch:
            return self._batch(frame, asked, record), index
        complete(record, frame.body, asked.flag, asked.properties)
        if sys_flag & SysFlag.TRANSACTION_BITS or _DELAY in asked.properties or _TIME in asked.properties:
            record = self._kept.placed(record, asked.properties, held)
        return record, index

    def _batch(self, frame: Frame, asked: Send | SendV2, model: Record) -> RecordRun:
        """Each message of a batch becomes a record of its own; the header's properties hold for all, but for the
        batch's own key.
        """
        common = props.parse(asked.properties)
        common.pop(props.UNIQ_KEY, None)
        try:
            run = run_of(model, frame.body, (props.build(common) + ADDED).encode())
        except BatchError as error:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
        return run

    def topic_for(self, asked: Send | SendV2, version: int) -> Topic:
        """The topic of a message that is not quite ordinary: create it, or bury the message, or refuse it."""
        if asked.reconsumeTimes and asked.topic.startswith(RETRY_PREFIX):
            self._bury(asked, version)
        topic = self._topics.find(asked.topic) or self._created(asked)
        if not may_send(topic):
            raise Refused(
                ResponseCode.NO_PERMISSION, f"topic {asked.topic!r} is the broker's own: nobody may send to it"
            )
        return topic

    def _created(self, asked: Send | SendV2) -> Topic:
        check_rocketmq_name(asked.topic)
        if asked.topic.startswith(DLQ_PREFIX):
            return self._topics.create_now(asked.topic, TopicSettings(write_queues=1))
        if asked.topic.startswith(RETRY_PREFIX):
            queues = self._group_of(asked.topic.removeprefix(RETRY_PREFIX)).retry_queues
            return self._topics.create_now(asked.topic, TopicSettings(write_queues=max(queues, 1)))
        if not self._auto_create or asked.defaultTopic != DEFAULT_TOPIC:
            raise TopicNotFound(asked.topic)
        queues = max(1, min(asked.defaultTopicQueueNums, DEFAULT_TOPIC_QUEUES))
        return self._topics.create_now(asked.topic, TopicSettings(write_queues=queues))

    def _bury(self, asked: Send | SendV2, version: int) -> None:
        """What a client sends to a retry topic by itself, too often tried, goes to the dead letters, and at once."""
        group = asked.topic.removeprefix(RETRY_PREFIX)
        retries_max = self._group_of(group).retries_max
        if asked.maxReconsumeTimes is not None and version >= OWN_LIMIT_VERSION:
            retries_max = asked.maxReconsumeTimes
        if asked.reconsumeTimes >= retries_max:
            asked.topic, asked.queueId = DLQ_PREFIX + group, 0
            kept = props.parse(asked.properties)
            kept.pop(props.DELAY, None)
            asked.properties = props.build(kept)
            self._tell_dead(group, kept, asked.reconsumeTimes)


def may_send(topic: Topic) -> bool:
    """Whether a topic takes what clients send. One that an operator has made read-only does, as in RocketMQ: the route
    tells producers to go elsewhere, and those who have not seen it yet are not refused in between.
    """
    return topic.name not in NO_SEND and bool(topic.permissions & WRITE or not topic.system)


def any_queue(topic: Topic) -> int:
    if not topic.write_queues:
        why = f"topic {topic.name!r} has no queues to write to: give it some, or name one of those to read"
        raise Refused(ResponseCode.SYSTEM_ERROR, why)
    return random.randrange(topic.write_queues)


def refuse_body(body_bytes: int, bytes_max: int, batch: bool) -> NoReturn:
    """A body that is too large, or empty: over an empty one Java's consumers of 4.x break, and stand still for good."""
    if body_bytes:
        raise MessageTooLarge(body_bytes, bytes_max)
    why = "the batch is empty" if batch else "the body is empty, and not every consumer can take that: send some byte"
    raise Refused(ResponseCode.MESSAGE_ILLEGAL, why)


def count_sent(traffic: Traffic, sent: list[Sent]) -> None:
    """By producer group and topic. Hot: nearly always all of a call have one of each, and are counted together."""
    producer, topic, messages, size_bytes = "", b"", 0, 0
    for frame, entry, _ in sent:
        own_topic = entry.topic if isinstance(entry, Record) else entry.model.topic
        own_producer = frame.typed.producerGroup if isinstance(frame.typed, SendV2) else producer_in(frame)
        if own_topic != topic or own_producer != producer:
            if messages:
                traffic.sent(producer, topic.decode(), messages, size_bytes)
            producer, topic, messages, size_bytes = own_producer, own_topic, 0, 0
        messages += entry.count
        size_bytes += entry.length
    if messages:
        traffic.sent(producer, topic.decode(), messages, size_bytes)


def producer_in(frame: Frame) -> str:
    asked = ext_as(Send, frame) if frame.code == _LONG_NAMES else ext_as(SendV2, frame)
    return asked.producerGroup


def is_rocketmq_name(name: str, bytes_max: int = TOPIC_BYTES_MAX) -> bool:
    return 0 < len(name) <= bytes_max and _NAME_CHARS.issuperset(name)


def check_rocketmq_name(name: str) -> None:
    if len(name.encode()) > TOPIC_BYTES_MAX:
        raise BadTopicName(name, f"RocketMQ clients take at most {TOPIC_BYTES_MAX} characters")
    if not name or not _NAME_CHARS.issuperset(name):
        raise BadTopicName(name, "RocketMQ clients take letters, digits, %, |, - and _")


def complete(record: Record, body: memoryview, flag: int, properties: str) -> Record:
    """Give a record what differs from message to message."""
    if _TAGS in properties:
        tags = props.find(properties, props.TAGS)
        record.tag = java_hash(tags) if tags else 0
    if properties and not properties.endswith(props.VALUE_END):
        properties += props.VALUE_END
    record.properties = packed = (properties + ADDED).encode()
    if len(packed) > props.BYTES_MAX:
        why = f"properties of {len(packed)} bytes: at most {props.BYTES_MAX} are taken"
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, why)
    record.body, record.flag = body, flag
    record.length = length_of(record)
    return record


# --- answers ----------------------------------------------------------------------------------------------------------


def answers(sent: list[Sent], store_host: bytes) -> list[bytes]:
    """What those who sent are told, in final form. A batch has one id per message, with commas between."""
    prefix = store_host.hex().upper().encode()
    packed: list[bytes] = []
    for frame, entry, index in sent:
        if frame.flag & Flag.ONEWAY:
            continue
        physical = entry.queue << OFFSET_BITS | entry.offset
        ids = b"%b%016X" % (prefix, physical) if entry.count == 1 else _ids(store_host, physical, entry.count)
        if frame.form == JSON:
            header = ANSWER % (ids, index, entry.offset, frame.opaque)
            packed.append(_LENGTHS.pack(len(header) + 4, len(header)) + header)
        else:
            ext = {"msgId": ids.decode(), "queueId": str(index), "queueOffset": str(entry.offset), **_ALWAYS}
            packed.append(pack(ResponseCode.SUCCESS, frame.opaque, Flag.RESPONSE, VERSION, frame.form, "", ext))
    return packed


def _ids(store_host: bytes, first: int, count: int) -> bytes:
    """The ids of a batch's messages, with commas between: all of them turned into text by one call."""
    each = np.empty(count, dtype=_id_kind(len(store_host)))
    each["host"] = np.void(store_host)
    each["physical"] = np.arange(first, first + count)
    return each.tobytes().hex(",", each.itemsize).upper().encode()


@cache
def _id_kind(host_bytes: int) -> "np.dtype[np.void]":
    return np.dtype([("host", f"V{host_bytes}"), ("physical", ">i8")])


def refuse_all(connection: Connection, sent: list[Sent], error: Exception) -> None:
    for frame, _, _ in sent:
        refuse(connection, frame, error)
