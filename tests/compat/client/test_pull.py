"""The pull consumer on Penstock and on a real RocketMQ, alone and in one group with a Java consumer."""

import asyncio
import contextlib
import time

import pytest

from penstock.client.errors import TopicNotFound
from penstock.client.instance import Timers
from penstock.client.message import Message
from penstock.client.positions import FIRST
from penstock.client.producer import Producer
from penstock.client.pull import PullConsumer
from penstock.client.reading import Source, Steps, Wanted
from penstock.client.routes import MessageQueue

POP_MESSAGE = 200050
FAST = Timers(route_interval_ms=500, rebalance_interval_ms=1_000, persist_interval_ms=500)


@pytest.fixture
async def producer(broker):
    async with Producer(broker.namesrv, "tests") as producer:
        yield producer


async def sent(producer: Producer, topic: str, count: int, label: str = "m", **fields) -> list[bytes]:
    bodies = [f"{label}-{number}".encode() for number in range(count)]
    for body in bodies:
        await producer.send(Message(topic, body, **fields))
    return bodies


async def polled(consumer: PullConsumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            found += [message.body for message in await consumer.poll(count=count - len(found))]
    return found


async def test_all_of_assigned_queues_once_and_in_order(broker, producer, topic, group):
    bodies = await sent(producer, topic, 100)
    async with PullConsumer(broker.namesrv, group, start=FIRST) as consumer:
        await consumer.assign(await consumer.queues(topic))
        found = await polled(consumer, 100)
        assert sorted(found) == sorted(bodies)
        assert await consumer.poll(timeout_ms=300) == []
    async with PullConsumer(broker.namesrv, group, start=FIRST) as consumer:
        await consumer.assign(await consumer.queues(topic))
        later = await sent(producer, topic, 8, "later")
        assert sorted(await polled(consumer, 8)) == sorted(later)


async def test_seek_pause_and_commit(broker, producer, topic, group):
    await sent(producer, topic, 40)
    async with PullConsumer(broker.namesrv, group, start=FIRST, auto_commit=False) as consumer:
        queue = (await consumer.queues(topic))[0]
        await consumer.assign({queue: 0})
        first = await polled(consumer, 10)
        consumer.seek(queue, 5)
        assert await polled(consumer, 5) == first[5:]
        consumer.pause(queue)
        consumer.seek(queue, 0)
        assert await consumer.poll(timeout_ms=300) == []
        consumer.resume(queue)
        assert await polled(consumer, 3) == first[:3]
        await consumer.commit()
        assert await consumer.committed(queue) == 3
        await consumer.seek_to_end(queue)
        assert consumer.position(queue) == 10
        await consumer.seek_to_time(queue, 0)
        assert consumer.position(queue) == 0


async def test_an_offset_outside_of_the_queue_is_corrected(broker, producer, topic, group):
    await sent(producer, topic, 4)
    async with PullConsumer(broker.namesrv, group) as consumer:
        queue = (await consumer.queues(topic))[0]
        await consumer.assign({queue: 999_999_999})
        async with asyncio.timeout(30):
            while consumer.position(queue) != 1:
                await consumer.poll(timeout_ms=100)
        await producer.send(Message(topic, b"next"), queue)
        assert await polled(consumer, 1) == [b"next"]


@pytest.mark.parametrize("wanted", [Wanted("red || green"), Wanted("size > 10", sql=True)], ids=["tags", "sql"])
async def test_filters(broker, producer, topic, group, wanted):
    bodies = await sent(producer, topic, 8, "wanted", tags="red", properties={"size": "11"})
    await sent(producer, topic, 8, "other", tags="blue", properties={"size": "9"})
    async with PullConsumer(broker.namesrv, group, start=FIRST) as consumer:
        await consumer.assign(await consumer.queues(topic), wanted)
        assert sorted(await polled(consumer, 8)) == sorted(bodies)
        assert await consumer.poll(timeout_ms=500) == []


async def test_members_share_the_queues(broker, producer, topic, group):
    bodies = await sent(producer, topic, 40)
    async with (
        PullConsumer(broker.namesrv, group, start=FIRST, timers=FAST) as first,
        PullConsumer(broker.namesrv, group, start=FIRST, timers=FAST) as second,
    ):
        await first.subscribe(topic)
        await second.subscribe(topic)
        async with asyncio.timeout(60):
            while [len(first.assigned), len(second.assigned)] != [2, 2]:
                await asyncio.sleep(0.1)
        found = set(await polled(first, 20)) | set(await polled(second, 20))
        assert found == set(bodies)
        assert not set(first.assigned) & set(second.assigned)


async def test_records_of_version_2_are_read(broker, producer, topic, group):
    """RocketMQ 5 puts what is popped and not acknowledged into a retry topic named after both the group and
    the topic: longer than a record of version 1 can say.
    """
    long_topic, long_group = topic.ljust(60, "t"), group.ljust(80, "g")
    sent = [await producer.send(Message(long_topic, b"%d" % number, tags="t", keys="k")) for number in range(4)]
    cluster, retry = producer.instance.cluster, f"%RETRY%{long_group}_{long_topic}"
    address = cluster.address(sent[0].queue.broker)
    pop = {
        "consumerGroup": long_group, "topic": long_topic, "queueId": "-1", "maxMsgNums": "8", "invisibleTime": "1000",
        "pollTime": "1000", "bornTime": str(int(time.time() * 1_000)), "initMode": "0", "order": "false",
    }  # fmt: skip
    await cluster.get(address, POP_MESSAGE, pop, b"", 10_000)
    source, found = Source(cluster, group, Steps(wait_ms=0)), []
    async with asyncio.timeout(60):
        while len(found) < 4:
            with contextlib.suppress(TopicNotFound):
                found = (await source.pull(MessageQueue(retry, sent[0].queue.broker, 0), 0, Wanted())).messages
            await asyncio.sleep(0.2)
    assert {(one.topic, one.tags, one.keys) for one in found} == {(retry, "t", "k")}
    assert sorted(one.body for one in found) == [b"0", b"1", b"2", b"3"]
    assert {one.message_id for one in found} == {one.message_id for one in sent}
