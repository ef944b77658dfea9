"""Operators' questions and commands on Penstock and on a real RocketMQ, with the same assertions."""

import asyncio

import pytest

from penstock.admin import requests
from penstock.admin.engine import opened
from penstock.admin.errors import AlreadyThere, NotPossible, NotThere
from penstock.admin.model import Outgoing
from penstock.admin.place import Place
from penstock.client.consumer.push import PushConsumer
from penstock.client.instance import Timers
from penstock.client.message import Message
from penstock.client.positions import FIRST
from penstock.client.producer import Producer
from penstock.client.pull import PullConsumer

EARLIEST, LATEST = Place("earliest"), Place("latest")
FAST = Timers(route_interval_ms=500, rebalance_interval_ms=1_000, persist_interval_ms=300)


@pytest.fixture
async def engine(broker):
    async with opened(f"rocketmq://{broker.namesrv}") as engine:
        yield engine


@pytest.fixture
async def made(broker, engine, name):
    """A topic of two queues with five messages in each."""
    topic = name("made")
    await engine.create_topic(topic, 2, "rw")
    async with Producer(broker.namesrv, "tests") as producer:
        async with asyncio.timeout(30):  # the name server is told of it a little later
            while len(await producer.queues(topic)) != 2:
                producer.instance.cluster.forget(topic)
                await asyncio.sleep(0.1)
        for number in range(5):
            for queue in await producer.queues(topic):
                await producer.send(Message(topic, b"%d" % number, keys=f"key-{number}"), queue)
    return topic


async def consumed(broker, group, topic, count):
    """A group that has consumed so many messages of each queue."""
    async with PullConsumer(broker.namesrv, group, start=FIRST, auto_commit=False) as consumer:
        queues = await consumer.queues(topic)
        await consumer.assign(dict.fromkeys(queues, 0))
        await consumer.poll(count=1)
        await consumer.commit(dict.fromkeys(queues, count))


async def until(condition):
    async with asyncio.timeout(60):
        while not await condition():
            await asyncio.sleep(0.2)


async def test_a_topic_from_its_creation_to_its_end(engine, made):
    assert made in [topic.name for topic in await engine.topics() if topic.kind == "normal"]
    found = await engine.topic(made)
    assert [(q.queue, q.min_offset, q.max_offset) for q in found.queues] == [(0, 0, 5), (1, 0, 5)]
    with pytest.raises(AlreadyThere):
        await engine.create_topic(made, 2, "rw")
    await engine.alter_topic(made, 4, 4, None)
    assert (await engine.topic(made)).shares[0].read_queues == 4
    await engine.delete_topic(made)
    with pytest.raises(NotThere):
        await engine.topic(made)


async def test_lag_and_its_owner(broker, engine, made, group):
    await consumed(broker, group, made, 2)
    lines = [line for line in await engine.lag(group) if line.topic == made]
    assert [(line.queue, line.committed, line.end, line.lag) for line in lines] == [(0, 2, 5, 3), (1, 2, 5, 3)]
    got = []

    async def handle(message) -> None:
        got.append(message)

    async with PushConsumer(broker.namesrv, group, handle, topics={made: "*"}, timers=FAST) as consumer:

        async def caught_up() -> bool:
            lines = await engine.lag(group, made)
            return len(got) == 6 and not any(line.lag for line in lines)

        await until(caught_up)
        lines = await engine.lag(group, made)
        assert [line.owners for line in lines] == [[consumer.instance.client_id]] * 2
        detail = await engine.group(group)
        assert [member.client_id for member in detail.members] == [consumer.instance.client_id]
        with pytest.raises(NotPossible):
            await engine.delete_group(group)
    await engine.delete_group(group)
    with pytest.raises(NotThere):
        await engine.group(group)


async def test_messages_by_id_and_by_key(engine, made):
    async def indexed() -> bool:
        return len(await engine.messages(made, "key-3")) == 2

    await until(indexed)
    found = (await engine.messages(made, "key-3"))[0]
    assert (found.body, found.offset) == (b"3", 3)
    assert (await engine.message(found.offset_id)).id == found.id
    assert (await engine.message(found.id, made)).offset_id == found.offset_id
    assert await engine.message(found.id[:-4] + "FFFF", made) is None


async def test_messages_in_and_out(engine, made):
    async def outgoing():
        for number in range(100):
            yield Outgoing(made, b"new %d" % number)

    assert [receipt.offset async for receipt in engine.send(outgoing(), 0)] == list(range(5, 105))
    found = [m async for batch in engine.read(made, Place("offset", 5), (), "*", "", to_end=True) for m in batch]
    assert [message.body for message in found] == [b"new %d" % number for number in range(100)]


@pytest.mark.parametrize(
    ("to", "queue", "after"),
    [
        (LATEST, None, {0: 5, 1: 5}),
        (EARLIEST, None, {0: 0, 1: 0}),
        (Place("time", 0), None, {0: 0, 1: 0}),
        (Place("offset", 4), None, {0: 4, 1: 4}),
        (LATEST, 1, {0: 2, 1: 5}),
    ],
)
async def test_s18_a_group_that_is_offline_is_reset(broker, engine, made, group, to, queue, after):
    await consumed(broker, group, made, 2)
    plan = await engine.plan_reset(group, made, to, queue)
    assert {row.now for row in plan.rows} == {2}
    result = await engine.reset(plan)
    assert all(one.as_planned and one.reads == one.target for one in result.queues)
    assert {line.queue: line.committed for line in await engine.lag(group, made)} == after


async def test_s24_a_reset_that_a_second_person_approves(broker, engine, made, group):
    """Name servers of all kinds keep requests, and only Penstock's takes the name that goes with a reset."""
    await consumed(broker, group, made, 2)
    plan = await engine.plan_reset(group, made, LATEST, None)
    asked = requests.asked(plan, LATEST, None, 'too old: "2" \u2713', "ann", 1_000)
    await requests.ask(engine, asked)
    assert asked in (await requests.known(engine)).requests
    approved = await requests.decide(engine, asked.id, requests.APPROVED, "bob", 2_000)
    plan.by = approved.line()
    await requests.carried_out(engine, approved, engine.reset(plan))
    kept = await requests.find(engine, asked.id)
    assert (kept.state, kept.why, kept.decided_by) == ("done", asked.why, "bob")
    assert [(one.queue, one.set_to, one.reads) for one in kept.outcome.queues] == [(0, 5, 5), (1, 5, 5)]


@pytest.mark.parametrize(("to", "again_from"), [(Place("offset", 3), 3), (EARLIEST, 0)], ids=["offset", "earliest"])
async def test_s22_a_group_that_is_online_goes_on_at_the_new_place(broker, engine, made, group, to, again_from):
    got: list[bytes] = []

    async def handle(message) -> None:
        got.append(message.body)

    async with PushConsumer(broker.namesrv, group, handle, topics={made: "*"}, start=FIRST, timers=FAST):

        async def all_there() -> bool:
            return len(got) == 10 and not any(line.lag for line in await engine.lag(group, made))

        await until(all_there)
        if broker.kind == "rocketmq-4" and to.kind == "offset":  # it can tell members nothing but a time
            with pytest.raises(NotPossible):
                await engine.plan_reset(group, made, to, None)
            return
        await engine.reset(await engine.plan_reset(group, made, to, None))
        async with Producer(broker.namesrv, "tests") as producer:  # a pull that waits is answered, and the next is sent
            for queue in await producer.queues(made):
                await producer.send(Message(made, b"new"), queue)

        async def again() -> bool:
            return {*bodies(again_from), b"new"} <= set(got[10:])

        await until(again)
        assert set(got[10:]) == {*bodies(again_from), b"new"}


def bodies(first: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, 5)]
