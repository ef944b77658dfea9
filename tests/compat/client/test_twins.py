"""A Java instance and one of ours with the same ClientID: ours finds out and parts, so that the group heals."""

import asyncio
import time

import msgspec
import pytest
from tests.compat.rocketmq.clients import JAVA_4, JAVA_5

from penstock.client import FIRST, Message
from penstock.client.consumer import PushConsumer
from penstock.client.instance import Timers
from penstock.client.message import Received
from penstock.client.producer import Producer
from penstock.wire.rocketmq.codes import RequestCode

QUICK = Timers(route_interval_ms=500, rebalance_interval_ms=1_000, persist_interval_ms=500)
WITHIN_S = 60
QUEUES = 4


async def until(is_so, what: str) -> None:
    until_s = time.monotonic() + WITHIN_S
    while not is_so():
        assert time.monotonic() < until_s, f"not within {WITHIN_S} s: {what}"
        await asyncio.sleep(0.1)


async def members(producer: Producer, topic: str, group: str) -> list[str]:
    """The ClientIDs of a group, once per connection."""
    cluster = producer.instance.cluster
    address = cluster.address((await cluster.route(topic)).broker_datas[0].broker_name)
    answer = await cluster.get(address, RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": group})
    return msgspec.json.decode(answer.body)["consumerIdList"]


@pytest.mark.parametrize("java", [JAVA_4, JAVA_5], ids=lambda client: client.name)
async def test_s15_a_java_twin_keeps_the_id_and_ours_takes_a_fresh_one(broker, use, new_topic, group, java):
    topic, got = new_topic(queues=QUEUES), list[str]()

    async def handle(message: Received) -> None:
        got.append(message.body.decode())

    async with Producer(broker.namesrv, "compat", timers=QUICK) as producer:
        with use(java).push(topic, group, "--instance", "the-twin") as theirs:
            [same] = await members(producer, topic, group)
            assert same.endswith("@the-twin")
            options = {"topics": {topic: "*"}, "start": FIRST, "timers": QUICK}
            async with PushConsumer(broker.namesrv, group, handle, client_id=same, **options) as ours:
                await until(lambda: ours.instance.client_id != same, "a fresh ClientID")
                await until(
                    lambda: len([q for q in ours.owned if q.topic == topic]) == QUEUES // 2, "half of the queues"
                )
                assert sorted(await members(producer, topic, group)) == sorted([same, ours.instance.client_id])
                sent = [f"m-{number}" for number in range(40)]
                for text in sent:
                    await producer.send(Message(topic, text.encode()))
                await until(lambda: len(got) >= len(sent) // 2, "our half of the messages")
                lines = await asyncio.to_thread(theirs.take, len(sent) // 2)
                assert sorted(got + [line["body"] for line in lines]) == sorted(sent)
