"""Offsets that move while a consumer runs: illegal ones that the broker corrects, and resets; cluster and broadcast."""

import asyncio
import logging

import pytest
from tests.client.pushing import QUICK, WAITS, Inbox, committed, consumer, owned, send, until

from penstock.client.consumer import ConsumerSettings
from penstock.client.consumer import push as push_module
from penstock.client.consumer.offsets import FileOffsets
from penstock.client.consumer.offsets_file import OffsetsFile
from penstock.client.instance import Timers
from penstock.client.message import Message
from penstock.client.routes import MessageQueue
from penstock.core.events import OffsetMoved, ResetConfirmed
from penstock.wire.rocketmq.codes import RequestCode

WRONG = 999_999_999
ID = "192.0.2.1@DEFAULT"


@pytest.fixture
def moved(penstock):
    """The pulls that were corrected."""
    found = []
    penstock.server.broker.bus.listen(lambda event: found.append(event) if isinstance(event, OffsetMoved) else None)
    return found


@pytest.fixture
def file(tmp_path):
    """Where a broadcast instance keeps its offsets."""
    return OffsetsFile(tmp_path, ID, "billing")


def broadcast(penstock, inbox, tmp_path, **more):
    options = {"broadcast": True, "offsets_folder": tmp_path, "client_id": ID, **more}
    return consumer(penstock, "billing", inbox, **options)


async def reset(producer, timestamp_ms: int = -1, group: str = "billing", **ext: object) -> None:
    fields = {"topic": "orders", "group": group, "timestamp": timestamp_ms, "isForce": "true", **ext}
    cluster = producer.instance.cluster
    address = cluster.address(next(iter(cluster.brokers())))
    asked = {name: str(value) for name, value in fields.items()}
    await cluster.get(address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, asked)


async def fill(producer, count: int, first: int = 0) -> dict[MessageQueue, list[bytes]]:
    """So many messages in each of four queues, in order."""
    found = {}
    for queue in (await producer.queues("orders"))[:4]:
        found[queue] = [b"%d-%d" % (queue.queue, number) for number in range(first, first + count)]
        for body in found[queue]:
            await producer.send(Message("orders", body), queue)
    return found


def flat(found: dict[MessageQueue, list[bytes]]) -> set[bytes]:
    return {body for bodies in found.values() for body in bodies}


# --- illegal offsets --------------------------------------------------------------------------------------------------


async def test_s26_a_cluster_consumer_goes_on_where_the_broker_says(penstock, producer, moved, caplog):
    await fill(producer, 5)
    for queue in range(4):
        penstock.server.broker.offsets.commit("billing", "orders", queue, WRONG)
    inbox = Inbox()
    async with consumer(penstock, "billing", inbox) as one:
        await until(lambda: committed(penstock, "billing") == dict.fromkeys(range(4), 5), "the correction")
        later = await fill(producer, 3, first=5)
        await inbox.until(12)
        assert owned(one) == [0, 1, 2, 3]
    assert (set(inbox.bodies), len(inbox.bodies)) == (flat(later), 12)
    assert [event.asked_offset for event in moved] == [WRONG] * 4
    assert sum("offset illegal" in line for line in caplog.messages) == 4


async def test_s28_only_the_wrong_offsets_move(penstock, producer, moved):
    there = await fill(producer, 5)
    for queue, offset in enumerate((WRONG, 2, WRONG, 3)):
        penstock.server.broker.offsets.commit("billing", "orders", queue, offset)
    inbox = Inbox()
    async with consumer(penstock, "billing", inbox):
        await until(lambda: len(moved) == 2, "the corrections")
        later = await fill(producer, 1, first=5)
        await inbox.until(9)
    left = {body for queue, bodies in there.items() for body in bodies[{1: 2, 3: 3}.get(queue.queue, 5) :]}
    assert set(inbox.bodies) == left | flat(later)
    assert sorted(event.queue for event in moved) == [0, 2]


async def test_s29_after_a_long_absence_it_begins_with_what_is_still_there(penstock, producer, moved, file, tmp_path):
    there = await fill(producer, 5)
    topic = penstock.server.broker.topics.get("orders")
    for queue in range(4):
        penstock.server.broker.store.trim(topic.queue(queue), 3)
    file.save(dict.fromkeys(there, 1))
    inbox = Inbox()
    async with broadcast(penstock, inbox, tmp_path):
        await inbox.until(8)
    assert set(inbox.bodies) == {body for bodies in there.values() for body in bodies[3:]}
    assert {(event.asked_offset, event.corrected_offset) for event in moved} == {(1, 3)}


class Naive(FileOffsets):
    """The two rules that go in circles: read the file at a rebalance, and write it only while some queue is owned (and
    not when one offset is to be persisted).
    """

    async def read(self, queue):
        return self._file.load().get(queue)

    async def persist(self, queues, sure=False):
        if queues and not sure:
            await super().persist(queues)


ROUND_MS = 100
ROUNDS = Timers(persist_interval_ms=20, rebalance_interval_ms=ROUND_MS)


async def test_s27_all_offsets_of_a_file_are_wrong_and_it_recovers_within_one_rebalance(
    penstock, producer, moved, file, tmp_path
):
    there = await fill(producer, 5)
    file.save(dict.fromkeys(there, WRONG))
    inbox = Inbox()
    async with broadcast(penstock, inbox, tmp_path, timers=ROUNDS):
        await until(lambda: file.load() == dict.fromkeys(there, 5), "the file")
        later = await fill(producer, 2, first=5)
        await inbox.until(8)
    assert set(inbox.bodies) == flat(later)
    assert len(moved) == 4  # each queue once


async def test_s27_with_the_naive_rules_it_goes_in_circles(penstock, producer, moved, file, tmp_path, monkeypatch):
    """The test of the test above."""
    monkeypatch.setattr(push_module, "FileOffsets", Naive)
    there = await fill(producer, 5)
    file.save(dict.fromkeys(there, WRONG))
    inbox = Inbox()
    async with broadcast(penstock, inbox, tmp_path, timers=ROUNDS):
        await fill(producer, 2, first=5)
        await until(lambda: len(moved) >= 12, "the third round")
        assert (inbox.messages, file.load()) == ([], dict.fromkeys(there, WRONG))


# --- broadcast --------------------------------------------------------------------------------------------------------


async def test_every_broadcast_instance_gets_every_message(penstock, producer, tmp_path):
    one, two = Inbox(), Inbox()
    sent = await send(producer, 20)
    async with (
        broadcast(penstock, one, tmp_path / "one"),
        broadcast(penstock, two, tmp_path / "two", client_id="192.0.2.2@DEFAULT"),
    ):
        await one.until(20)
        await two.until(20)
    assert one.counts == two.counts == dict.fromkeys(sent, 1)
    assert committed(penstock, "billing") == {}


async def test_a_broadcast_instance_goes_on_where_its_file_says(penstock, producer, file, tmp_path):
    first, second = Inbox(), Inbox()
    await send(producer, 20)
    async with broadcast(penstock, first, tmp_path):
        await first.until(20)
    assert sum(file.load().values()) == 20
    later = await send(producer, 4, first=20)
    async with broadcast(penstock, second, tmp_path):
        await second.until(4)
    assert sorted(second.bodies) == sorted(later)


# --- resets -----------------------------------------------------------------------------------------------------------

STEPS = [
    "reset: pulling is suspended",
    "reset: queues are dropped",
    *["offset updated, persisted, removed"] * 4,
    "reset: work under way has ended",
    "rebalanced",
    "reset: rebalanced",
    "reset: pulling is resumed",
]


@pytest.mark.parametrize("mode", ["cluster", "broadcast"])
async def test_s21_the_steps_of_a_reset_in_the_log(penstock, producer, tmp_path, caplog, mode):
    caplog.set_level(logging.INFO, "penstock.client.consumer")
    inbox = Inbox()
    there = await fill(producer, 3)
    make = consumer(penstock, "billing", inbox) if mode == "cluster" else broadcast(penstock, inbox, tmp_path)
    async with make:
        await inbox.until(12)
        await until(lambda: mode == "broadcast" or sum(committed(penstock, "billing").values()) == 12, "the commit")
        caplog.clear()
        await reset(producer, 0)
        await inbox.until(24)
        await until(lambda: STEPS[-1] in caplog.messages, "the end of the reset")
        assert [line for line in caplog.messages if line in STEPS] == STEPS
    assert inbox.counts == dict.fromkeys(flat(there), 2)


@pytest.mark.parametrize("mode", ["cluster", "broadcast"])
async def test_s21_what_was_pulled_before_is_not_consumed_and_work_under_way_ends_first(
    penstock, producer, tmp_path, mode
):
    """A handler holds its message while the reset comes; the others of that queue wait behind it and are dropped."""
    going, inbox = asyncio.Event(), Inbox(lambda message: going.wait() if len(inbox.messages) <= 1 else None)
    await fill(producer, 10)
    settings = ConsumerSettings(concurrency=1)
    options = {"settings": settings}
    make = consumer(penstock, "billing", inbox, **options)
    if mode == "broadcast":
        make = broadcast(penstock, inbox, tmp_path, **options)
    async with make as one:
        await inbox.until(1)
        penstock.server.broker.offsets.commit("billing", "orders", 0, 0)  # some offset, or there is nothing to reset
        await reset(producer)
        await until(lambda: owned(one) == [], "the dropping")
        going.set()
        await until(lambda: owned(one) == [0, 1, 2, 3], "the taking up again")
        later = await fill(producer, 1, first=10)
        await inbox.until(5)
    assert set(inbox.bodies[1:]) == flat(later)


@pytest.mark.parametrize("mode", ["cluster", "broadcast"])
async def test_s22_the_next_pull_starts_at_the_reset_offset(penstock, producer, tmp_path, mode):
    confirmed, inbox = [], Inbox()
    penstock.server.broker.bus.listen(lambda event: confirmed.append(event) if isinstance(event, ResetConfirmed) else 0)
    there = await fill(producer, 5)
    make = consumer(penstock, "billing", inbox) if mode == "cluster" else broadcast(penstock, inbox, tmp_path)
    async with make:
        await inbox.until(20)
        await until(lambda: mode == "broadcast" or sum(committed(penstock, "billing").values()) == 20, "the commit")
        for queue in range(4):
            await reset(producer, queueId=queue, offset=3)
        await inbox.until(28)
        await until(lambda: {event.queue for event in confirmed} == {0, 1, 2, 3}, "the confirmations")
    again = {body for bodies in there.values() for body in bodies[3:]}
    assert set(inbox.bodies[20:]) == again


async def test_s22_without_memory_first_a_broadcast_reset_is_undone(penstock, producer, file, tmp_path, monkeypatch):
    """The test of the test: with the file as the truth at a rebalance, it goes on where it was."""
    monkeypatch.setattr(push_module, "FileOffsets", Naive)
    await fill(producer, 5)
    inbox = Inbox()
    timers = Timers(persist_interval_ms=20, rebalance_interval_ms=20_000)
    async with broadcast(penstock, inbox, tmp_path, timers=timers) as one:
        await inbox.until(20)
        await until(lambda: sum(file.load().values()) == 20, "the file")
        await one._mover.reset(dict.fromkeys(file.load(), 3))
        assert {held.next_offset for held in one.owned.values()} == {5}


@pytest.mark.parametrize("mode", ["cluster", "broadcast"])
async def test_s23_skip_backlog(penstock, producer, tmp_path, mode):
    """A consumer that stands still skips what has piled up; nothing before that is consumed, everything after it is."""
    going, inbox = asyncio.Event(), Inbox(lambda message: going.wait())
    first = await fill(producer, 1)
    options = {"settings": ConsumerSettings(queue_messages_max=0, pull_messages=1)}
    make = consumer(penstock, "billing", inbox, **options)
    if mode == "broadcast":
        make = broadcast(penstock, inbox, tmp_path, **options)
    async with make as one:
        await inbox.until(4)
        await fill(producer, 20, first=1)
        penstock.server.broker.offsets.commit("billing", "orders", 0, 0)
        await reset(producer)
        going.set()
        await until(
            lambda: [held.next_offset for held in one.owned.values() if held.queue.topic == "orders"] == [21] * 4
        )
        later = await fill(producer, 3, first=21)
        await inbox.until(4 + 12)
    assert set(inbox.bodies) == flat(first) | flat(later)


async def test_a_reset_that_cannot_be_read_changes_nothing(penstock, producer, caplog):
    inbox = Inbox()
    await fill(producer, 2)
    async with consumer(penstock, "billing", inbox, settings=WAITS, timers=QUICK) as one:
        await inbox.until(8)
        [line] = penstock.server.broker.groups.find("billing").members
        ext = {"topic": "orders", "group": "billing", "timestamp": "0", "isForce": "true"}
        line.push(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext, b"{nothing")
        await until(lambda: "a reset cannot be read" in caplog.messages, "the warning")
        assert owned(one) == [0, 1, 2, 3]
