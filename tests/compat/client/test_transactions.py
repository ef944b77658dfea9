"""Our transactions on Penstock and on a real RocketMQ."""

import asyncio

import pytest

from penstock.client import FIRST, Message, Outcome, Received, TransactionProducer
from penstock.client.instance import Timers
from penstock.client.sync import Consumer

QUICK = Timers(route_interval_ms=500, rebalance_interval_ms=500)
WAIT_MS = 40_000
FIRST_CHECK_S = 2


def says(outcome: Outcome):
    async def work(message: Message, transaction_id: str) -> Outcome:
        return outcome

    return work


def consumed(broker, topic: str, group: str, count: int) -> list[Received]:
    with Consumer(broker.namesrv, group, {topic: "*"}, start=FIRST, timers=QUICK) as consumer:
        found = [consumer.receive(WAIT_MS) for _ in range(count)]
        assert consumer.receive(1_000) is None
    return found


async def never(message: Received) -> Outcome:
    pytest.fail(f"asked about {message.body!r}, whose outcome was told")


async def test_what_is_committed_comes_and_what_is_rolled_back_does_not(broker, topic, group):
    async with TransactionProducer(broker.namesrv, f"{group}-p", never, timeout_ms=10_000) as producer:
        done = [
            await producer.send(Message(topic, b"%d" % number, tags="t", keys=f"k{number}"), says(outcome))
            for number, outcome in enumerate([Outcome.COMMIT, Outcome.ROLLBACK] * 3)
        ]
        assert all(one.told for one in done)
        got = await asyncio.to_thread(consumed, broker, topic, group, 3)
    assert sorted(message.body for message in got) == [b"0", b"2", b"4"]
    assert {message.message_id for message in got} == {one.sent.message_id for one in done[::2]}
    assert {(message.topic, message.tags) for message in got} == {(topic, "t")}


async def test_what_is_left_open_is_asked_about_and_the_answer_counts(broker, topic, group):
    asked: list[bytes] = []

    async def check(message: Received) -> Outcome:
        asked.append(message.body)
        assert (message.topic, message.keys) == (topic, "k")
        return Outcome.COMMIT if message.body == b"yes" else Outcome.ROLLBACK

    async with TransactionProducer(broker.namesrv, f"{group}-p", check, timeout_ms=10_000) as producer:
        for body in (b"yes", b"no"):
            done = await producer.send(Message(topic, body, keys="k"), says(Outcome.UNKNOWN), FIRST_CHECK_S)
            assert not done.told
        got = await asyncio.to_thread(consumed, broker, topic, group, 1)
        assert [message.body for message in got] == [b"yes"]
        async with asyncio.timeout(WAIT_MS / 1000):
            while set(asked) != {b"yes", b"no"}:
                await asyncio.sleep(0.1)
    assert got[0].message_id


async def test_the_next_producer_of_the_group_answers(broker, topic, group):
    async with TransactionProducer(broker.namesrv, f"{group}-p", never, timeout_ms=10_000) as first:
        await first.send(Message(topic, b"x"), says(Outcome.UNKNOWN), FIRST_CHECK_S)

    async def check(message: Received) -> Outcome:
        return Outcome.COMMIT

    async with TransactionProducer(broker.namesrv, f"{group}-p", check, topics=[topic]):
        got = await asyncio.to_thread(consumed, broker, topic, group, 1)
    assert [message.body for message in got] == [b"x"]
