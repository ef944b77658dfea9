"""Messages that a consumer sends back (code 36): once more later through %RETRY%group, and to %DLQ%group after too many
tries. What is stored already is taken again whatever its size is.
"""

import asyncio
import random

import msgspec

from penstock.core.publish import Publisher
from penstock.core.topics import Topic, Topics, TopicSettings
from penstock.core.traffic import Traffic
from penstock.errors import PenstockError
from penstock.gateway.rocketmq.connection import Connection
from penstock.gateway.rocketmq.dead import DLQ_PREFIX, Tell
from penstock.gateway.rocketmq.delay import delayed, record_of, schedule_topic
from penstock.gateway.rocketmq.groups import GroupRules
from penstock.gateway.rocketmq.produce import OWN_LIMIT_VERSION, RETRY_PREFIX, check_rocketmq_name
from penstock.gateway.rocketmq.records import Records
from penstock.gateway.rocketmq.routes import Refused, Route, Routes, ext_as, refuse
from penstock.model import Action
from penstock.wire.cross.names import EMPTY
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import Frame
from penstock.wire.rocketmq.record import Message, Record, message_id, message_in

FIRST_LEVEL = 3  # the first retry comes after ten seconds


class _SendBack(msgspec.Struct):
    offset: int
    group: str
    delayLevel: int = 0  # noqa: N815  # the wire's names
    maxReconsumeTimes: int | None = None  # noqa: N815


class Retry:
    def __init__(
        self,
        topics: Topics,
        records: Records,
        publisher: Publisher,
        rules: GroupRules,
        traffic: Traffic,
        tell_dead: Tell,
    ) -> None:
        self._topics, self._records, self._publisher, self._rules = topics, records, publisher, rules
        self._traffic, self._tell_dead = traffic, tell_dead
        self._busy: set[asyncio.Task[None]] = set()

    def routes(self) -> Routes:
        return {RequestCode.CONSUMER_SEND_MSG_BACK: Route(self.send_back, Action.CONSUME, "group")}

    def send_back(self, frame: Frame, connection: Connection) -> None:
        asked = ext_as(_SendBack, frame)
        settings = self._rules.of(asked.group)
        if not settings.retry_queues:  # it does not want them again
            connection.reply(frame, ResponseCode.SUCCESS)
            return
        if asked.maxReconsumeTimes is None or frame.version < OWN_LIMIT_VERSION:
            asked.maxReconsumeTimes = settings.retries_max
        frame.body = memoryview(b"")  # the receive buffer is used again
        task = asyncio.ensure_future(self._sent_back(asked, frame, connection))
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)

    async def _sent_back(self, asked: _SendBack, frame: Frame, connection: Connection) -> None:
        def done(error: Exception | None) -> None:
            if error is not None:
                refuse(connection, frame, error)
                return
            self._traffic.sent_back(asked.group, properties[props.RETRY_TOPIC], 1, record.length)
            if dead:
                self._tell_dead(asked.group, properties, tries)
            connection.reply(frame, ResponseCode.SUCCESS)

        try:
            message = _filled(message_in(memoryview(await self._records.at(asked.offset))))
            properties, tries = _properties(message), message.reconsume_times
            dead = asked.delayLevel < 0 or tries >= (asked.maxReconsumeTimes or 0)
            message.reconsume_times += 1
            record = (self._dead if dead else self._again)(asked, message, properties)
            self._publisher.publish([record], done, self._publisher.entry_bytes_max)
        except PenstockError as error:
            refuse(connection, frame, error)

    def _dead(self, asked: _SendBack, message: Message, properties: dict[str, str]) -> Record:
        return record_of(message, self._topic(DLQ_PREFIX + asked.group, 1), 0, properties)

    def _again(self, asked: _SendBack, message: Message, properties: dict[str, str]) -> Record:
        queues = self._rules.of(asked.group).retry_queues
        topic = self._topic(RETRY_PREFIX + asked.group, queues)
        record = record_of(message, topic, random.randrange(min(queues, topic.queue_count)), properties)
        level = asked.delayLevel or FIRST_LEVEL + message.reconsume_times - 1
        try:
            return delayed(record, level, schedule_topic(self._topics))
        except Refused:  # its properties have no room for where it belongs: too soon is better than never
            return record

    def _topic(self, name: str, queues: int) -> Topic:
        found = self._topics.find(name)
        if found is None:
            check_rocketmq_name(name)
            found = self._topics.create_now(name, TopicSettings(write_queues=queues))
        return found


def _filled(message: Message) -> Message:
    """Pulsar's producers send empty bodies, and who takes it again may be a client that breaks over one."""
    if not message.body:
        message.body, message.properties[EMPTY] = b" ", "true"
    return message


def _properties(message: Message) -> dict[str, str]:
    """From now on: where it came from stays the same, however often it comes back."""
    own_id = message_id(message.store_host, message.physical_offset)
    properties = {props.RETRY_TOPIC: message.topic, props.ORIGIN_ID: own_id, **message.properties}
    properties.pop(props.DELAY, None)
    return properties
