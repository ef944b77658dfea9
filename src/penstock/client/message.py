"""Messages: what an application sends, and what it gets."""

import zlib
from collections.abc import Mapping

import msgspec

from penstock.client.routes import MessageQueue
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq import record
from penstock.wire.rocketmq.codes import SysFlag
from penstock.wire.rocketmq.compression import opened
from penstock.wire.rocketmq.properties import NAME_END, VALUE_END

COMPRESS_FROM_BYTES = 4_096
RETRY_TOPIC, ORIGIN_ID = "RETRY_TOPIC", "ORIGIN_MESSAGE_ID"


class Message(msgspec.Struct):
    """A message to send. `keys` are for finding it, `tags` for filtering; other properties are the application's."""

    topic: str
    body: bytes
    tags: str = ""
    keys: str = ""  # several with spaces between
    properties: dict[str, str] = {}
    flag: int = 0
    delay_level: int = 0  # 1 to 18
    deliver_at_ms: int = 0  # a time of its own: RocketMQ 5 and Penstock
    delay_ms: int = 0

    def all_properties(self, unique_key: str) -> dict[str, str]:
        """As they go over the wire. ValueError when a name or value cannot."""
        found = {**self.properties, props.WAIT: "true", props.UNIQ_KEY: unique_key}
        if self.tags:
            found[props.TAGS] = self.tags
        if self.keys:
            found[props.KEYS] = self.keys
        if self.delay_level or self.deliver_at_ms or self.delay_ms:
            found |= self._delay()
        _check(found)
        return found

    def _delay(self) -> dict[str, str]:
        wanted = {
            props.DELAY: self.delay_level,
            "TIMER_DELIVER_MS": self.deliver_at_ms,
            "TIMER_DELAY_MS": self.delay_ms,
        }
        found = {name: str(value) for name, value in wanted.items() if value}
        if len(found) > 1:
            raise ValueError("a message is delayed by a level, by a time or until a time: by one of them")
        return found


def _check(properties: Mapping[str, str]) -> None:
    for name, value in properties.items():
        if not name or not value:
            raise ValueError(f"property {name!r}: neither its name nor its value may be empty")
        if NAME_END in name or VALUE_END in name or NAME_END in value or VALUE_END in value:
            raise ValueError(f"property {name!r}: the characters 0x01 and 0x02 separate properties")


class Sent(msgspec.Struct, frozen=True):
    """Where a message has gone."""

    message_id: str  # the unique key that this client gave it
    offset_id: str  # the id that the broker gave it: where it is
    queue: MessageQueue
    offset: int
    code: int = 0  # 10, 11 or 12: stored, but not flushed or copied as the broker is set to
    transaction_id: str = ""


class Received(msgspec.Struct):
    """A message as it came."""

    topic: str  # also of a retry: the topic that it was sent to
    body: bytes
    tags: str
    keys: str
    properties: dict[str, str]
    queue: MessageQueue  # where it came from: of a retry, a queue of the retry topic
    offset: int
    message_id: str
    offset_id: str
    physical_offset: int
    born_ms: int
    store_ms: int
    reconsume_times: int
    flag: int
    sys_flag: int
    broker_address: str = ""


def received(found: record.Message, queue: MessageQueue) -> Received:
    """A decoded record as an application sees it."""
    properties = found.properties
    return Received(
        topic=properties.get(RETRY_TOPIC, found.topic) if found.topic.startswith("%RETRY%") else found.topic,
        body=opened(found.body, found.sys_flag),
        tags=properties.get(props.TAGS, ""),
        keys=properties.get(props.KEYS, ""),
        properties=properties,
        queue=queue,
        offset=found.offset,
        message_id=found.message_id,
        offset_id=record.message_id(found.store_host, found.physical_offset),
        physical_offset=found.physical_offset,
        born_ms=found.born_ms,
        store_ms=found.store_ms,
        reconsume_times=found.reconsume_times,
        flag=found.flag,
        sys_flag=found.sys_flag,
    )


def compressed(body: bytes, sys_flag: int, from_bytes: int) -> tuple[bytes, int]:
    """A body as it is sent: smaller, if it is worth it."""
    if len(body) < from_bytes:
        return body, sys_flag
    smaller = zlib.compress(body, 5)
    return (smaller, sys_flag | SysFlag.COMPRESSED) if len(smaller) < len(body) else (body, sys_flag)
