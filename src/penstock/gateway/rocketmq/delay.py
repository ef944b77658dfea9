"""Delays: a message with DELAY waits in one of eighteen queues of SCHEDULE_TOPIC_XXXX, one with a timer in
rmq_sys_wheel_timer, until it is due; then it goes to its own queue.

A timer is a delay (TIMER_DELAY_SEC, TIMER_DELAY_MS) or a time (TIMER_DELIVER_MS; __STARTDELIVERTIME in Node's client).
The first of them that is there counts; with a delay level none does. What is due already is not kept.
"""

from collections.abc import Iterable

import msgspec

from penstock.clock import Clock
from penstock.core.timers import DELAY_MS_MAX, Timers
from penstock.core.topics import Topic, Topics, TopicSettings
from penstock.gateway.rocketmq.routes import Refused
from penstock.model import Entry
from penstock.wire.plain import tag_hash
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.codes import ResponseCode
from penstock.wire.rocketmq.record import Message, Record, length_of, message_in

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
_SECONDS = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200)
LEVELS_MS = tuple(seconds * 1_000 for seconds in _SECONDS)

_DELAY = f"{props.DELAY}{props.NAME_END}"
REAL_TOPIC, REAL_QUEUE = props.REAL_TOPIC, props.REAL_QUEUE

TIMER_TOPIC, TIMER_OUT = "rmq_sys_wheel_timer", "TIMER_OUT_MS"
# What a unit is in ms; 0: it is a time.
_TIMERS = {"TIMER_DELAY_SEC": 1_000, "TIMER_DELAY_MS": 1, "TIMER_DELIVER_MS": 0, "__STARTDELIVERTIME": 0}
_TIMER_CHARS_MAX = 18


def schedule_topic(topics: Topics) -> Topic:
    """The topic with a queue per level. Its messages go when they have been delivered, not by age."""
    found = topics.find(SCHEDULE_TOPIC)
    if found is not None:
        return found
    return topics.create_now(SCHEDULE_TOPIC, TopicSettings(write_queues=len(LEVELS_MS), retention_ms=0), system=True)


def timer_topic(topics: Topics) -> Topic:
    """Where timers stand. Nobody reads it: they go when they have been delivered."""
    settings = TopicSettings(write_queues=1, permissions=0, retention_ms=0)
    return topics.find(TIMER_TOPIC) or topics.create_now(TIMER_TOPIC, settings, system=True)


def moved(record: Record, topic: Topic, index: int, more: str = "") -> Record:
    """The same message, to be kept in another queue: it remembers where it belongs. `more` properties can be added."""
    separator = b"" if record.properties.endswith(b"\x02") or not record.properties else b"\x02"
    real = f"{REAL_TOPIC}\x01{record.topic.decode()}\x02{REAL_QUEUE}\x01{record.queue_index}\x02{more}".encode()
    properties = record.properties + separator + real
    if len(properties) > props.BYTES_MAX:
        properties = props.fitted(record.properties.decode(), props.BYTES_MAX - len(real)).encode() + real
    if len(properties) > props.BYTES_MAX:
        why = f"properties of {len(properties)} bytes with what the broker adds: at most {props.BYTES_MAX} are taken"
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, why)
    held = msgspec.structs.replace(
        record, queue=topic.queues[index], queue_index=index, topic=topic.name.encode(), properties=properties
    )
    held.length = length_of(held)
    return held


def delayed(record: Record, level: int, schedule: Topic) -> Record:
    """The same message, to be kept back."""
    return moved(record, schedule, min(level, len(LEVELS_MS)) - 1)


class Placer:
    """Where a message goes that is sent, or committed: to its own queue, or first to where it is kept back."""

    def __init__(self, topics: Topics, timers: Timers, clock: Clock, timer_ms_max: int) -> None:
        self._schedule, self._timer_topic = schedule_topic(topics), timer_topic(topics)
        self._timers, self._clock = timers, clock
        self._timer_ms_max = min(timer_ms_max, DELAY_MS_MAX)

    def placed(self, record: Record, properties: str, held: list[Record]) -> Record:
        """The record to append. `properties` are those of the message, as text. What `appended` is to be told of, once
        it has been appended, is added to `held`.
        """
        level = _delay_level(properties)
        if level:
            return delayed(record, level, self._schedule)
        now_ms = self._clock.now_ms()
        delay_ms = self.check(properties, now_ms)
        if delay_ms <= 0:
            return record
        held.append(self._timer(record, delay_ms, now_ms))
        return held[-1]

    def _timer(self, record: Record, delay_ms: int, now_ms: int) -> Record:
        due = f"{TIMER_OUT}{props.NAME_END}{now_ms + delay_ms}{props.VALUE_END}"
        timer = moved(record, self._timer_topic, 0, due)
        timer.tag = delay_ms
        return timer

    def timed(self, message: Message, topic: Topic, index: int, delay_ms: int) -> Record:
        """A message of a topic's queue as the timer that it waits as, for so long after it has been appended."""
        if delay_ms <= 0:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, f"timer message illegal, a delay of {delay_ms} ms is none")
        self._check_ms(delay_ms)
        return self._timer(record_of(message, topic, index, message.properties), delay_ms, self._clock.now_ms())

    @property
    def timer_queue(self) -> int:
        return self._timers.queue

    def check(self, properties: str, now_ms: int) -> int:
        """How long from now a message is to be kept back by its timer, if that can be done."""
        delay_ms = timer_ms(properties, now_ms)
        self._check_ms(delay_ms)
        return delay_ms

    def _check_ms(self, delay_ms: int) -> None:
        if delay_ms > self._timer_ms_max:
            why = f"timer message illegal, a delay of {delay_ms} ms is above the maximum of {self._timer_ms_max} ms"
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, f"{why} (rocketmq.timer_delay_ms_max)")

    def appended(self, held: Iterable[Entry]) -> None:
        for record in held:
            self._timers.held(record)


def timer_ms(properties: str, now_ms: int) -> int:
    """How long from now a message is to be kept back; not above 0: not at all."""
    for name, unit_ms in _TIMERS.items():
        text = props.find(properties, name)
        if not text:
            continue
        if not text.isascii() or not text.removeprefix("-").isdecimal() or len(text) > _TIMER_CHARS_MAX:
            raise Refused(ResponseCode.MESSAGE_ILLEGAL, f"timer message illegal, {name} is {text[:40]!r}: not a number")
        return int(text) * unit_ms if unit_ms else int(text) - now_ms
    return 0


def _delay_level(properties: str) -> int:
    if _DELAY not in properties:  # nearly always
        return 0
    level = props.find(properties, props.DELAY)
    return int(level[:9]) if level.isdecimal() else 0


def record_of(message: Message, topic: Topic, index: int, properties: dict[str, str]) -> Record:
    """A stored message once more, for another queue. What a broker has added to it gives way where there is no room."""
    record = Record(
        queue=topic.queues[index],
        length=0,
        tag=tag_hash(properties.get(props.TAGS, "")),
        topic=topic.name.encode(),
        queue_index=index,
        body=message.body,
        properties=props.fitted(props.build(properties)).encode(),
        flag=message.flag,
        sys_flag=message.sys_flag,
        born_ms=message.born_ms,
        born_host=message.born_host,
        store_host=message.store_host,
        reconsume_times=message.reconsume_times,
        prepared_offset=message.prepared_offset,
    )
    record.length = length_of(record)
    return record


class Reviver:
    """Makes the message that is due out of the one that was kept back."""

    def __init__(self, topics: Topics) -> None:
        self._topics = topics

    def __call__(self, payload: memoryview) -> Entry | None:
        message = message_in(payload)
        topic = self._topics.find(message.properties.get(REAL_TOPIC, ""))
        if topic is None:
            return None  # deleted meanwhile
        properties = {key: value for key, value in message.properties.items() if key != props.DELAY}
        index = int(message.properties.get(REAL_QUEUE, "0")) % topic.queue_count
        return record_of(message, topic, index, properties)
