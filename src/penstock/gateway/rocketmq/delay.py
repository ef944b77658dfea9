"""Delay levels: a message with DELAY waits in one of eighteen queues of SCHEDULE_TOPIC_XXXX until it is due, then goes
to its own.
"""

import msgspec

from penstock.core.topics import Topic, Topics, TopicSettings
from penstock.model import Entry
from penstock.wire.plain import tag_hash
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.record import Message, Record, length_of, message_in

SCHEDULE_TOPIC = "SCHEDULE_TOPIC_XXXX"
_SECONDS = (1, 5, 10, 30, 60, 120, 180, 240, 300, 360, 420, 480, 540, 600, 1_200, 1_800, 3_600, 7_200)
LEVELS_MS = tuple(seconds * 1_000 for seconds in _SECONDS)

REAL_TOPIC, REAL_QUEUE = "REAL_TOPIC", "REAL_QID"


def schedule_topic(topics: Topics) -> Topic:
    """The topic with a queue per level. Its messages go when they have been delivered, not by age."""
    found = topics.find(SCHEDULE_TOPIC)
    if found is not None:
        return found
    return topics.create_now(SCHEDULE_TOPIC, TopicSettings(write_queues=len(LEVELS_MS), retention_ms=0), system=True)


def delayed(record: Record, level: int, schedule: Topic) -> Record:
    """The same message, to be kept back: it remembers where it belongs."""
    index = min(level, len(LEVELS_MS)) - 1
    real = f"{REAL_TOPIC}\x01{record.topic.decode()}\x02{REAL_QUEUE}\x01{record.queue_index}\x02"
    held = msgspec.structs.replace(
        record,
        queue=schedule.queues[index],
        queue_index=index,
        topic=SCHEDULE_TOPIC.encode(),
        properties=record.properties + real.encode(),
    )
    held.length = length_of(held)
    return held


def record_of(message: Message, topic: Topic, index: int, properties: dict[str, str]) -> Record:
    """A stored message once more, for another queue."""
    record = Record(
        queue=topic.queues[index],
        length=0,
        tag=tag_hash(properties.get(props.TAGS, "")),
        topic=topic.name.encode(),
        queue_index=index,
        body=message.body,
        properties=props.build(properties).encode(),
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
