"""Consuming in order: one message of a queue at a time, again in place until it is done, under the broker's lock."""

import asyncio
from collections import defaultdict

import pytest
from tests.client.pushing import Inbox, committed, consumer, owned, send, until

from penstock.client.consumer import ConsumerSettings, Later
from penstock.client.consumer.locks import Locks
from penstock.client.message import Message
from penstock.client.producer import by_key
from penstock.wire.rocketmq.record import messages_in

QUICKLY = ConsumerSettings(suspend_ms=10, handover_ms=200, close_timeout_ms=2_000)


def orderly(penstock, inbox, **more):
    return consumer(penstock, "billing", inbox, **{"orderly": True, "settings": QUICKLY, **more})


class Watch:
    """Handles, when it is let, and knows how many messages of one queue were ever handled at once."""

    def __init__(self) -> None:
        self.going, self.most = asyncio.Event(), 0
        self.going.set()
        self._under_way = defaultdict(int)

    async def handle(self, message) -> None:
        self._under_way[message.queue] += 1
        self.most = max(self.most, self._under_way[message.queue])
        await asyncio.sleep(0)
        await self.going.wait()
        self._under_way[message.queue] -= 1


async def in_lines(producer, count: int, lines: str = "abc") -> None:
    """Numbered messages, each line of them in one queue."""
    for number in range(count):
        for line in lines:
            await producer.send(Message("orders", b"%d" % number, keys=line), by_key(line))


def by_line(inbox: Inbox) -> dict[str, list[int]]:
    found = defaultdict(list)
    for message in inbox.messages:
        found[message.keys].append(int(message.body))
    return dict(found)


async def test_each_queue_is_consumed_in_order_and_one_at_a_time(penstock, producer):
    watch = Watch()
    inbox = Inbox(watch.handle)
    await in_lines(producer, 30)
    async with orderly(penstock, inbox):
        await inbox.until(90)
    assert (by_line(inbox), watch.most) == ({line: list(range(30)) for line in "abc"}, 1)
    assert sum(committed(penstock, "billing").values()) == 90


async def test_a_message_that_fails_holds_its_queue_up_and_no_other(penstock, producer):
    """It comes again in place, and says how many times it has."""
    mended, inbox = (
        asyncio.Event(),
        Inbox(lambda message: Later() if message.keys == "a" and failing(message) else None),
    )

    def failing(message):
        return message.body == b"2" and not mended.is_set()

    await in_lines(producer, 5, "ab")
    async with orderly(penstock, inbox):
        await until(lambda: by_line(inbox).get("b") == [0, 1, 2, 3, 4] and len(by_line(inbox)["a"]) >= 6, "the retries")
        assert set(by_line(inbox)["a"]) == {0, 1, 2}
        mended.set()
        await until(lambda: by_line(inbox)["a"][-2:] == [3, 4], "the rest")
    tries = [message.reconsume_times for message in inbox.messages if (message.keys, message.body) == ("a", b"2")]
    assert tries == list(range(len(tries)))


async def test_what_failed_too_often_is_a_dead_letter_and_the_queue_goes_on(penstock, producer):
    inbox = Inbox(lambda message: Later() if message.body == b"1" else None)
    await in_lines(producer, 3, "a")
    settings = ConsumerSettings(suspend_ms=10, reconsume_max=2)
    async with orderly(penstock, inbox, settings=settings):
        await until(lambda: by_line(inbox).get("a") == [0, 1, 1, 1, 2], "the end of the queue")
        await until(lambda: sum(committed(penstock, "billing").values()) == 3, "the commit")
    broker = penstock.server.broker
    dead = await broker.fetcher.fetch(broker.topics.get("%DLQ%billing").queue(0), 0, 10, 1 << 20)
    assert [message.body for payload in dead.payloads for message in messages_in(payload)] == [b"1"]


@pytest.fixture
def stranger(producer):
    """Somebody else who locks queues of this group."""
    return Locks(producer.instance, "billing")


async def test_nothing_is_consumed_without_the_lock(penstock, producer, stranger):
    """Somebody else holds it; when it is let go, this one begins. Closing lets go."""
    first, second = Inbox(), Inbox()
    await send(producer, 8)
    async with orderly(penstock, first) as one:
        await first.until(8)
        queues = {queue for queue in one.owned if queue.topic == "orders"}
        assert await stranger.lock(queues) == set()
    assert await stranger.lock(queues) == queues
    async with orderly(penstock, second) as one:
        assert owned(one) == []
        await send(producer, 8, first=8)
        await stranger.unlock(queues)
        await second.until(8)


async def test_a_queue_that_moves_is_never_consumed_by_two_at_once(penstock, producer):
    """B comes while A's handler has a message of every queue: B begins with a queue when A has let go of it."""
    watch = Watch()
    watch.going.clear()
    a, b = Inbox(watch.handle), Inbox(watch.handle)
    await send(producer, 40)
    settings = ConsumerSettings(suspend_ms=10, handover_ms=20)
    async with orderly(penstock, a, settings=settings) as one:
        await a.until(4)
        async with orderly(penstock, b, settings=settings) as two:
            await until(lambda: len(owned(one)) == 2, "A's share")
            await asyncio.sleep(0.1)  # B may try
            assert (owned(two), b.messages) == ([], [])
            watch.going.set()
            await until(lambda: len(owned(two)) == 2, "B's share")
            await until(lambda: len(a.messages) + len(b.messages) >= 40, "the messages")
    assert (a.counts + b.counts, watch.most) == ({b"%d" % number: 1 for number in range(40)}, 1)


async def test_a_lock_that_is_lost_ends_the_consumption_of_its_queue(penstock, producer, stranger, caplog):
    inbox = Inbox()
    await send(producer, 8)
    settings = ConsumerSettings(suspend_ms=10, lock_interval_ms=30)
    async with orderly(penstock, inbox, settings=settings) as one:
        await until(lambda: sum(committed(penstock, "billing").values()) == 8, "the commit")
        queues = {queue for queue in one.owned if queue.topic == "orders"}
        while await stranger.lock(queues) != queues:  # its owner may renew its locks in between
            await Locks(one.instance, "billing").unlock(queues)
        await until(lambda: owned(one) == [], "letting go")
        await send(producer, 8, first=8)
        await stranger.unlock(queues)
        await inbox.until(16)
    assert inbox.counts == {b"%d" % number: 1 for number in range(16)}
    assert "a lock was lost, the queue is let go" in caplog.messages


async def test_closing_cancels_a_handler_that_stands_still_and_lets_go(penstock, producer, stranger):
    """What was done before it is stored, the lock is free, and the message comes again."""
    inbox = Inbox(lambda message: asyncio.Event().wait() if message.body == b"2" else None)
    await in_lines(producer, 5, "a")
    settings = ConsumerSettings(close_timeout_ms=50)
    async with orderly(penstock, inbox, settings=settings) as one:
        await inbox.until(3)
        queues = set(one.owned)
    assert sum(committed(penstock, "billing").values()) == 2
    assert await stranger.lock(queues) == queues


async def test_a_broadcast_instance_in_order_needs_no_lock(penstock, producer, tmp_path):
    inbox = Inbox()
    await in_lines(producer, 10)
    async with orderly(penstock, inbox, broadcast=True, offsets_folder=tmp_path):
        await inbox.until(30)
    assert by_line(inbox) == {line: list(range(10)) for line in "abc"}
