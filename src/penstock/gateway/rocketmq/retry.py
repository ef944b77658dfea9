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
from penstock.gateway.rocketmq.delay import delayed, record_of, schedule_topic
from penstock.gateway.rocketmq.groups import GroupRules
from penstock.gateway.rocketmq.produce import DLQ_PREFIX, OWN_LIMIT_VERSION, RETRY_PREFIX, check_rocketmq_name
from penstock.gateway.rocketmq.records import Records
from penstock.gateway.rocketmq.routes import Refused, Route, Routes, ext_as, refuse
from penstock.model import Action
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
        self, topics: Topics, records: Records, publisher: Publisher, rules: GroupRules, traffic: Traffic
    ) -> None:
        self._topics, self._records, self._publisher, self._rules = topics, records, publisher, rules
        self._traffic = traffic
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
            if error is None:
                self._traffic.sent_back(asked.group, origin, 1, record.length)
                connection.reply(frame, ResponseCode.SUCCESS)
            else:
                refuse(connection, frame, error)

        try:
            message = message_in(memoryview(await self._records.at(asked.offset)))
            origin = message.properties.get(props.RETRY_TOPIC, message.topic)
            record = self._record(asked, message)
            self._publisher.publish([record], done, self._publisher.entry_bytes_max)
        except PenstockError as error:
            refuse(connection, frame, error)

    def _record(self, asked: _SendBack, message: Message) -> Record:
        own_id = message_id(message.store_host, message.physical_offset)
        properties = {props.RETRY_TOPIC: message.topic, props.ORIGIN_ID: own_id, **message.properties}
        properties.pop(props.DELAY, None)
        tries = message.reconsume_times
        message.reconsume_times += 1
        if asked.delayLevel < 0 or tries >= (asked.maxReconsumeTimes or 0):
            return record_of(message, self._topic(DLQ_PREFIX + asked.group, 1), 0, properties)
        queues = self._rules.of(asked.group).retry_queues
        topic = self._topic(RETRY_PREFIX + asked.group, queues)
        record = record_of(message, topic, random.randrange(min(queues, topic.queue_count)), properties)
        try:
            return delayed(record, asked.delayLevel or FIRST_LEVEL + tries, schedule_topic(self._topics))
        except Refused:  # its properties have no room for where it belongs: too soon is better than never
            return record

    def _topic(self, name: str, queues: int) -> Topic:
        found = self._topics.find(name)
        if found is None:
            check_rocketmq_name(name)
            found = self._topics.create_now(name, TopicSettings(write_queues=queues))
        return found
