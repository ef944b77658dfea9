"""OFFSET_MOVED_EVENT: what RocketMQ writes to this topic when a pull asked for an offset outside its queue.

The same pull is written down once in `SILENT_MS`, and not more than `MESSAGES_MAX` pulls in that time, however often
clients ask: the event `OffsetMoved` has every single case. A message's tag and key are the group.
"""

import msgspec

from penstock import logs
from penstock.clock import Clock
from penstock.core.events import Bus, Event, OffsetMoved
from penstock.core.publish import Publisher
from penstock.core.topics import Topic, Topics, TopicSettings
from penstock.errors import PenstockError
from penstock.gateway.rocketmq.house import BROKER, House
from penstock.gateway.rocketmq.produce import is_rocketmq_name
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.bodies import QueueName
from penstock.wire.rocketmq.record import Record, own_record

log = logs.get(__name__)

TOPIC = "OFFSET_MOVED_EVENT"
SILENT_MS, MESSAGES_MAX = 10_000, 1_000


class _Body(msgspec.Struct, rename="camel"):
    """In the order that Java writes."""

    consumer_group: str
    message_queue: QueueName
    offset_new: int
    offset_request: int


class MovedEvents:
    """Listens for corrected pulls and writes them down."""

    def __init__(self, topics: Topics, publisher: Publisher, house: House, clock: Clock, bus: Bus) -> None:
        self._publisher, self._house, self._clock = publisher, house, clock
        self._topic: Topic = topics.find(TOPIC) or topics.create_now(TOPIC, TopicSettings(write_queues=1), system=True)
        self._since_ms = clock.monotonic_ms()
        self._told: set[tuple[str, str, int, int]] = set()
        bus.listen(self._heard)

    def _heard(self, event: Event) -> None:
        if isinstance(event, OffsetMoved) and is_rocketmq_name(event.group) and self._is_news(event):
            try:
                self._publisher.publish([self._record(event)], lambda error: None)
            except PenstockError as error:
                log.warning("a corrected pull could not be written down", group=event.group, error=str(error))

    def _is_news(self, event: OffsetMoved) -> bool:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._since_ms >= SILENT_MS:
            self._since_ms = now_ms
            self._told.clear()
        key = (event.group, event.topic, event.queue, event.asked_offset)
        if key in self._told or len(self._told) >= MESSAGES_MAX:
            return False
        self._told.add(key)
        return True

    def _record(self, event: OffsetMoved) -> Record:
        host = self._house.own_store_host
        queue = QueueName(BROKER, event.queue, event.topic)
        body = _Body(event.group, queue, event.corrected_offset, event.asked_offset)
        named = {props.KEYS: event.group, props.TAGS: event.group}
        return own_record(self._topic.queue(0), TOPIC, msgspec.json.encode(body), named, event.at_ms, host)
