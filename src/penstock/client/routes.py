"""Where a topic is: which brokers have it, under which addresses, with how many queues. Pure values.

Queues and ClientIDs are put in the order that Java has (`in_order`, `ids_in_order`), since every member of a group has
to see them in one order, whatever language it is written in.
"""

from collections.abc import Iterable, Iterator
from typing import Annotated, NamedTuple

import msgspec

from penstock.wire.rocketmq import fastjson

MASTER = 0
READ, WRITE = 4, 2
QUEUES_MAX = 65_536  # of a topic on one broker: more is no route, but an attempt on our memory

Count = Annotated[int, msgspec.Meta(ge=0, le=QUEUES_MAX)]


class MessageQueue(NamedTuple):
    """One queue of a topic, on one broker."""

    topic: str
    broker: str
    queue: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.broker}/{self.queue}"


def java_order(text: str) -> bytes:
    """What Java's strings sort by: UTF-16 units. Python's own order differs for characters beyond U+FFFF."""
    return text.encode("utf-16-be", "surrogatepass")


def in_order(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """By topic, broker and number."""
    return sorted(queues, key=lambda queue: (java_order(queue.topic), java_order(queue.broker), queue.queue))


def ids_in_order(client_ids: Iterable[str]) -> list[str]:
    return sorted(client_ids, key=java_order)


class QueueData(msgspec.Struct, rename="camel"):
    """What one broker has of a topic."""

    broker_name: str
    read_queue_nums: Count = 0
    write_queue_nums: Count = 0
    perm: int = READ | WRITE


class BrokerData(msgspec.Struct, rename="camel"):
    """A broker, its master (number 0) and its slaves."""

    broker_name: str
    broker_addrs: dict[int, str] = {}
    cluster: str = ""


class Route(msgspec.Struct, rename="camel"):
    """A topic's route, as name servers tell it."""

    queue_datas: list[QueueData] = []
    broker_datas: list[BrokerData] = []
    order_topic_conf: str | None = None

    def brokers(self) -> dict[str, BrokerData]:
        return {broker.broker_name: broker for broker in self.broker_datas}

    def to_write(self, topic: str) -> list[MessageQueue]:
        """Queues that may be written to: those that an operator fixed, or else those of brokers that have a master."""
        if self.order_topic_conf:
            return in_order(_ordered(topic, self.order_topic_conf))
        masters = {broker.broker_name for broker in self.broker_datas if MASTER in broker.broker_addrs}
        return in_order(
            MessageQueue(topic, data.broker_name, number)
            for data in self.queue_datas
            if data.perm & WRITE and data.broker_name in masters
            for number in range(data.write_queue_nums)
        )

    def to_read(self, topic: str) -> list[MessageQueue]:
        """Queues that may be read."""
        return in_order(
            MessageQueue(topic, data.broker_name, number)
            for data in self.queue_datas
            if data.perm & READ
            for number in range(data.read_queue_nums)
        )


def _ordered(topic: str, conf: str) -> Iterator[MessageQueue]:
    """Queues as an operator fixed them: `broker-a:4;broker-b:4`. They stay the same when a broker goes, for order."""
    for part in conf.split(";"):
        broker, _, count = part.strip().rpartition(":")
        if broker and count.isdecimal() and len(count) <= 5:
            yield from (MessageQueue(topic, broker, number) for number in range(min(int(count), QUEUES_MAX)))


def route_in(body: bytes | memoryview) -> Route:
    """Decode a name server's answer; FastjsonError or msgspec.ValidationError when it is none."""
    return msgspec.convert(fastjson.loads(body), Route, strict=False)
