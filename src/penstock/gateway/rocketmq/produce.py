"""Sends: codes 10, 310 and 320. All neighbours of one read are one call to the core.

What a client sent is stored as it was sent: body, flags and properties, with the cluster's name added. With a delay
level it waits in the schedule topic first. Not here yet, and refused in plain words: arbitrary timers and transactions.
"""

import random
from collections.abc import Callable
from functools import lru_cache

import msgspec

from penstock.core.group_settings import GroupSettings
from penstock.core.publish import Publisher
from penstock.core.topics import WRITE, Topic, Topics, TopicSettings
from penstock.errors import BadTopicName, PenstockError, TopicNotFound
from penstock.gateway.rocketmq.connection import VERSION, Connection
from penstock.gateway.rocketmq.delay import delayed, schedule_topic
from penstock.gateway.rocketmq.house import CLUSTER, DEFAULT_TOPIC, DEFAULT_TOPIC_QUEUES, House
from penstock.gateway.rocketmq.routes import Refused, Route, Routes, ext_as, refuse
from penstock.model import Action, Entry
from penstock.wire.plain import tag_hash
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode, SysFlag
from penstock.wire.rocketmq.frame import JSON, Frame
from penstock.wire.rocketmq.record import (
    TOPIC_BYTES_MAX,
    BatchError,
    Record,
    RecordRun,
    batched,
    length_of,
    message_id,
    physical_offset,
    run_of,
)

_NAME_CHARS = frozenset("%|_-abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_CLUSTER = f"{props.CLUSTER}{props.NAME_END}{CLUSTER}{props.VALUE_END}"
_NOT_YET = ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")
RETRY_PREFIX, DLQ_PREFIX = "%RETRY%", "%DLQ%"
OWN_LIMIT_VERSION = 121  # from this version on a client's own maxReconsumeTimes counts, before it the group's
_DELAY = f"{props.DELAY}{props.NAME_END}"
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
_ANSWER = (
    b'{"code":0,"extFields":{"MSG_REGION":"DefaultRegion","TRACE_ON":"true","msgId":"%b","queueId":"%d","queueOffset":"%d"},'
    b'"flag":1,"language":"JAVA","opaque":%d,"serializeTypeCurrentRPC":"JSON","version":' + b"%d" % VERSION + b"}"
)

GroupOf = Callable[[str], GroupSettings]  # what holds for a consumer group; raises when it is not known
java_hash = lru_cache(maxsize=10_000)(tag_hash)


class Send(msgspec.Struct, gc=False):
    """The ext fields of a send, by their long names (code 10)."""

    topic: str
    defaultTopic: str = DEFAULT_TOPIC  # noqa: N815  # the wire's names
    defaultTopicQueueNums: int = 4  # noqa: N815
    queueId: int = 0  # noqa: N815
    sysFlag: int = 0  # noqa: N815
    bornTimestamp: int = 0  # noqa: N815
    flag: int = 0
    properties: str = ""
    reconsumeTimes: int = 0  # noqa: N815
    maxReconsumeTimes: int | None = None  # noqa: N815
    batch: bool = False


class SendV2(msgspec.Struct, gc=False, rename={
    "topic": "b", "defaultTopic": "c", "defaultTopicQueueNums": "d", "queueId": "e", "sysFlag": "f",
    "bornTimestamp": "g", "flag": "h", "properties": "i", "reconsumeTimes": "j",
    "maxReconsumeTimes": "l", "batch": "m",
}):  # fmt: skip
    """The same by their one-letter names (codes 310 and 320). Written out: a rename does not reach inherited fields,
    and turning the names of every send into the long ones would cost as much as decoding them.
    """

    topic: str
    defaultTopic: str = DEFAULT_TOPIC  # noqa: N815
    defaultTopicQueueNums: int = 4  # noqa: N815
    queueId: int = 0  # noqa: N815
    sysFlag: int = 0  # noqa: N815
    bornTimestamp: int = 0  # noqa: N815
    flag: int = 0
    properties: str = ""
    reconsumeTimes: int = 0  # noqa: N815
    maxReconsumeTimes: int | None = None  # noqa: N815
    batch: bool = False


class Produce:
    def __init__(
        self, topics: Topics, publisher: Publisher, house: House, auto_create: bool, group_of: GroupOf
    ) -> None:
        self._topics, self._publisher, self._house, self._auto_create = topics, publisher, house, auto_create
        self._group_of = group_of

    def routes(self) -> Routes:
        return {
            RequestCode.SEND_MESSAGE: Route(None, Action.PRODUCE, "topic", self.send),
            RequestCode.SEND_MESSAGE_V2: Route(None, Action.PRODUCE, "b", self.send),
            RequestCode.SEND_BATCH_MESSAGE: Route(None, Action.PRODUCE, "b", self.send),
        }

    def send(self, frames: list[Frame], connection: Connection) -> None:
        """Store the messages of these requests; each is answered when they are durable."""
        entries: list[Entry] = []
        sent: list[tuple[Frame, Record | RecordRun, int]] = []
        store_host = self._house.store_host_for(connection)
        for frame in frames:
            try:
                entry, index = self._entry(frame, connection, store_host)
            except PenstockError as error:
                refuse(connection, frame, error)
                continue
            entries.append(entry)
            sent.append((frame, entry, index))

        def done(error: Exception | None) -> None:
            for frame, entry, index in sent:
                if error is None:
                    _confirm(connection, frame, entry, index, store_host)
                else:
                    refuse(connection, frame, error)

        try:
            self._publisher.publish(entries, done)
        except PenstockError as error:
            for frame, _, _ in sent:
                refuse(connection, frame, error)

    def _entry(self, frame: Frame, connection: Connection, store_host: bytes) -> tuple[Record | RecordRun, int]:
        """What to store, and the index of the queue that was asked for."""
        asked = ext_as(Send, frame) if frame.code == RequestCode.SEND_MESSAGE else ext_as(SendV2, frame)
        if asked.reconsumeTimes and asked.topic.startswith(RETRY_PREFIX):
            self._bury(asked, frame.version)
        topic = self._topic(asked)
        index = asked.queueId if asked.queueId >= 0 else random.randrange(topic.write_queues)
        if index >= topic.queue_count:
            why = f"topic {topic.name!r} has queues 0 to {topic.queue_count - 1}, not {index}"
            raise Refused(ResponseCode.SYSTEM_ERROR, why)
        sys_flag = asked.sysFlag
        if sys_flag & SysFlag.TRANSACTION_BITS == SysFlag.PREPARED:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, "transactional messages are not served yet")
        if len(connection.born_host) > 8:
            sys_flag |= SysFlag.BORN_HOST_V6
        if len(store_host) > 8:
            sys_flag |= SysFlag.STORE_HOST_V6
        model = Record(
            queue=topic.queues[index],
            length=0,
            topic=topic.name.encode(),
            queue_index=index,
            sys_flag=sys_flag,
            born_ms=asked.bornTimestamp,
            born_host=connection.born_host,
            store_host=store_host,
            reconsume_times=asked.reconsumeTimes,
        )
        if asked.batch:
            return self._batch(frame, asked, model), index
        record = _completed(model, frame.body, asked.flag, asked.properties)
        level = _delay_level(asked.properties)
        return (delayed(record, level, schedule_topic(self._topics)) if level else record), index

    def _batch(self, frame: Frame, asked: Send | SendV2, model: Record) -> RecordRun:
        """Each message of a batch becomes a record of its own; the header's properties hold for all, but for the
        batch's own key.
        """
        common = props.parse(asked.properties)
        common.pop(props.UNIQ_KEY, None)
        shared = props.build(common)
        try:
            found = batched(frame.body)
        except BatchError as error:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None
        if not found:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, "the batch is empty")
        records = []
        for flag, body, own in found:
            joined = own + ("" if own.endswith(props.VALUE_END) or not own else props.VALUE_END) + shared
            records.append(_completed(msgspec.structs.replace(model), body, flag, joined))
        return run_of(records)

    def _topic(self, asked: Send | SendV2) -> Topic:
        topic = self._topics.find(asked.topic)
        if topic is None:
            topic = self._created(asked)
        if asked.topic in NO_SEND:
            raise Refused(
                ResponseCode.NO_PERMISSION, f"topic {asked.topic!r} is the broker's own: nobody may send to it"
            )
        if not topic.permissions & WRITE:
            raise Refused(ResponseCode.NO_PERMISSION, f"topic {asked.topic!r} is not writable")
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


def check_rocketmq_name(name: str) -> None:
    if len(name.encode()) > TOPIC_BYTES_MAX:
        raise BadTopicName(name, f"RocketMQ clients take at most {TOPIC_BYTES_MAX} characters")
    if not name or not _NAME_CHARS.issuperset(name):
        raise BadTopicName(name, "RocketMQ clients take letters, digits, %, |, - and _")


def _completed(record: Record, body: memoryview, flag: int, properties: str) -> Record:
    """A record with what differs from message to message."""
    if any(
        f"{name}{props.NAME_END}" in properties and props.find(properties, name) not in ("", "0") for name in _NOT_YET
    ):
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, "timers are not served yet: use a delay level")
    tags = props.find(properties, props.TAGS)
    separator = "" if not properties or properties.endswith(props.VALUE_END) else props.VALUE_END
    record.properties = f"{properties}{separator}{_CLUSTER}".encode()
    if len(record.properties) > props.BYTES_MAX:
        why = f"properties of {len(record.properties)} bytes: at most {props.BYTES_MAX} are taken"
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, why)
    record.body, record.flag, record.tag = body, flag, java_hash(tags) if tags else 0
    record.length = length_of(record)
    return record


def _delay_level(properties: str) -> int:
    if _DELAY not in properties:  # nearly always
        return 0
    level = props.find(properties, props.DELAY)
    return int(level) if level.isdecimal() else 0


def _confirm(connection: Connection, frame: Frame, entry: Record | RecordRun, index: int, store_host: bytes) -> None:
    """Answer a send. A batch has one id per message, with commas between."""
    if frame.oneway:
        return
    records = entry.records if isinstance(entry, RecordRun) else (entry,)
    ids = ",".join(
        message_id(store_host, physical_offset(entry.queue, entry.offset + number)) for number in range(len(records))
    )
    if frame.form == JSON:
        header = _ANSWER % (ids.encode(), index, entry.offset, frame.opaque)
        connection.answer(b"".join(((len(header) + 4).to_bytes(4, "big"), len(header).to_bytes(4, "big"), header)))
        return
    ext = {"msgId": ids, "queueId": str(index), "queueOffset": str(entry.offset)}
    connection.reply(frame, ResponseCode.SUCCESS, "", {**ext, "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"})
