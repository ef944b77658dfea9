"""Subscriptions on a real log: pushed to, kept across restarts and kills, and what retention leaves them."""

import asyncio

import pytest

from penstock.core.retention import apply_retention
from penstock.core.subscriptions.feeder import Feeder, Insight
from penstock.core.subscriptions.registry import Place, Subscriptions
from penstock.core.subscriptions.seats import Seat
from penstock.core.subscriptions.subscription import Kind, Limits, Style
from penstock.core.topics import TopicSettings
from penstock.errors import SubscriptionExists, SubscriptionNotFound, TooManySubscriptions
from penstock.store.files import LocalFile
from penstock.store.progress import Progress
from penstock.wire.plain import message_in, plain

SHARED = Style(Kind.SHARED)


class Client:
    def __init__(self, number=0):
        self.seat = Seat(number, f"c{number}")
        self.got = []
        self.told = asyncio.Event()

    def deliver(self, deliveries):
        self.got += [(delivery.row, message_in(delivery.payload).body) for delivery in deliveries]
        self.told.set()

    def activate(self, active):
        pass

    @property
    def rows(self):
        return [row for row, _ in self.got]

    async def has(self, count):
        async with asyncio.timeout(10):
            while len(self.got) < count:
                self.told.clear()
                await self.told.wait()


class Desk:
    """The subscriptions of a house, with a progress database of their own."""

    def __init__(self, house, folder):
        self.house, self.folder = house, folder
        self.progress = Progress(str(folder))
        self.subscriptions = Subscriptions(
            house.store, house.keeper, self.progress, house.fetcher, house.waits, house.clock, house.bus, 3
        )
        self.subscriptions.serve(Insight(), lambda queue: Limits())

    async def queue(self, messages=0, **settings):
        topic = await self.house.topics.create("orders", TopicSettings(write_queues=1, **settings))
        self.place = Place(topic.queue(0), "orders")
        await self.publish(messages)
        return self.place

    async def publish(self, messages):
        if messages:
            await self.house.publish(*(plain(self.place.queue, b"%d" % at) for at in range(messages)))

    def keep(self):
        self.subscriptions.keep()
        self.progress.write(self.progress.take_changes())

    def join(self, attached, client, permits):
        attached.subscription.join(client, attached.subscription.style, (), 0)
        attached.subscription.flow(client, permits)
        attached.feeder.wake()

    def again(self, house):
        self.progress.abandon()
        again = Desk(house, self.folder)
        again.place = self.place
        return again


@pytest.fixture
def desk(house, tmp_path):
    folder = tmp_path / "progress"
    folder.mkdir()
    desk = Desk(house, folder)
    yield desk
    desk.subscriptions.stop()


async def test_what_is_there_and_what_comes_is_pushed(desk):
    place = await desk.queue(messages=3)
    attached = await desk.subscriptions.create(place, "s", 1, SHARED)
    client = Client()
    desk.join(attached, client, 10)
    await client.has(2)
    await desk.publish(2)
    await client.has(4)
    assert client.got == [(1, b"1"), (2, b"2"), (3, b"0"), (4, b"1")]


async def test_permits_that_come_later_are_served_without_a_new_message(desk):
    place = await desk.queue(messages=4)
    attached = await desk.subscriptions.create(place, "s", 0, Style(Kind.EXCLUSIVE))
    client = Client()
    desk.join(attached, client, 2)
    await client.has(2)
    attached.subscription.flow(client, 2)
    attached.feeder.wake()
    await client.has(4)
    assert client.rows == [0, 1, 2, 3]


async def test_rows_far_apart_come_back_in_order(desk):
    place = await desk.queue(messages=60)
    attached = await desk.subscriptions.create(place, "s", 0, SHARED)
    client = Client()
    desk.join(attached, client, 60)
    await client.has(60)
    attached.subscription.flow(client, 10)
    attached.subscription.redeliver(client, [55, 3, 20, 21])
    attached.feeder.wake()
    await client.has(64)
    assert client.rows[60:] == [3, 20, 21, 55]
    assert [body for _, body in client.got[60:]] == [b"3", b"20", b"21", b"55"]


async def test_what_is_on_the_disk_is_read_aside_and_nobody_else_waits(desk, monkeypatch):
    """The first read finds nothing in memory; what happens in between is not lost."""
    place = await desk.queue(messages=5)
    monkeypatch.setattr("penstock.store.read.Reader._easy", lambda *anything: None)
    monkeypatch.setattr(LocalFile, "is_resident", lambda *anything: False)
    monkeypatch.setattr(LocalFile, "read_all", _only_when_waiting(LocalFile.read_all))
    attached = await desk.subscriptions.create(place, "s", 0, SHARED)
    client = Client()
    desk.join(attached, client, 10)
    await client.has(5)
    assert client.rows == [0, 1, 2, 3, 4]


def _only_when_waiting(real):
    return lambda self, ranges, wait: real(self, ranges, wait) if wait else None


async def test_a_cursor_goes_on_after_a_restart_also_beyond_its_mark(desk, house):
    place = await desk.queue(messages=6)
    attached = await desk.subscriptions.create(place, "s", 0, SHARED, {"team": "a"})
    client = Client()
    desk.join(attached, client, 10)
    await client.has(6)
    for row in (0, 1, 4):
        attached.subscription.ack(row)
    attached.subscription.cursor.properties["__x"] = 5
    desk.subscriptions.touch(attached)
    desk.keep()
    again = desk.again(house)
    attached = again.subscriptions.get(place, "s")
    assert attached.properties == {"team": "a"}
    assert attached.subscription.cursor.properties == {"__x": 5}
    client = Client()
    again.join(attached, client, 10)
    await client.has(3)
    assert client.rows == [2, 3, 5]


async def test_a_subscription_exists_once_it_was_answered_even_if_nothing_else_was_kept(desk, house):
    """A crash right after subscribing: nothing published afterwards passes it by."""
    place = await desk.queue(messages=2)
    await desk.subscriptions.create(place, "s", 2, SHARED)
    again = desk.again(house)
    await again.publish(1)
    client = Client()
    again.join(again.subscriptions.get(place, "s"), client, 10)
    await client.has(1)
    assert client.rows == [2]


async def test_one_that_is_not_durable_leaves_nothing_behind(desk, house):
    place = await desk.queue(messages=2)
    attached = desk.subscriptions.create_transient(place, "reader", 0, Style(Kind.EXCLUSIVE))
    desk.subscriptions.touch(attached)
    desk.keep()
    desk.subscriptions.drop(attached)
    assert desk.subscriptions.find(place, "reader") is None
    assert desk.again(house).subscriptions.find(place, "reader") is None


async def test_a_deleted_one_is_gone_for_good(desk, house):
    place = await desk.queue(messages=2)
    attached = await desk.subscriptions.create(place, "s", 0, SHARED)
    desk.subscriptions.touch(attached)
    desk.keep()
    await desk.subscriptions.delete(attached)
    desk.keep()
    again = desk.again(house)
    assert again.subscriptions.find(place, "s") is None
    fresh = await again.subscriptions.create(place, "s", 1, SHARED)
    assert fresh.subscription.cursor.mark == 1


async def test_with_a_topic_go_its_subscriptions(desk, house):
    place = await desk.queue(messages=2)
    await desk.subscriptions.create(place, "s", 0, SHARED)
    await house.topics.delete("orders")
    assert desk.subscriptions.first_unacked(place.queue) is None
    assert desk.again(house).subscriptions.find(place, "s") is None


async def test_names_and_numbers_are_checked(desk):
    place = await desk.queue()
    await desk.subscriptions.create(place, "a", 0, SHARED)
    with pytest.raises(SubscriptionExists):
        await desk.subscriptions.create(place, "a", 0, SHARED)
    with pytest.raises(SubscriptionExists):
        desk.subscriptions.create_transient(place, "a", 0, SHARED)
    with pytest.raises(SubscriptionNotFound, match="'orders' has no subscription 'b'"):
        desk.subscriptions.get(place, "b")
    await desk.subscriptions.create(place, "b", 0, SHARED)
    await desk.subscriptions.create(place, "c", 0, SHARED)
    with pytest.raises(TooManySubscriptions):
        await desk.subscriptions.create(place, "d", 0, SHARED)


async def test_retention_leaves_what_a_subscription_has_not_acknowledged(desk, house):
    place = await desk.queue(messages=10, retention_ms=1_000)
    attached = await desk.subscriptions.create(place, "s", 0, SHARED)
    attached.subscription.ack_until(4)
    house.clock.advance(60_000)
    needed = desk.subscriptions.first_unacked
    apply_retention(house.store, house.topics, house.clock, house.bus, needed)
    assert house.fetcher.rows(place.queue) == (4, 10)
    await desk.subscriptions.delete(attached)
    apply_retention(house.store, house.topics, house.clock, house.bus, needed)
    assert house.fetcher.rows(place.queue) == (10, 10)


async def test_a_stopped_feeder_says_nothing_more(desk):
    place = await desk.queue(messages=3)
    attached = await desk.subscriptions.create(place, "s", 0, SHARED)
    client = Client()
    attached.feeder.stop()
    desk.join(attached, client, 10)
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert client.got == []


async def test_delayed_rows_come_when_they_are_due(desk, house):
    place = await desk.queue(messages=2)
    due_ms = house.clock.now_ms() + 50

    def inspect(offer, keyed):
        offer.due_ms = due_ms if offer.row == 0 else 0

    desk.subscriptions.serve(Insight(inspect), lambda queue: Limits())
    attached = await desk.subscriptions.create(place, "s", 0, SHARED)
    assert isinstance(attached.feeder, Feeder)
    client = Client()
    desk.join(attached, client, 10)
    await client.has(1)
    assert client.rows == [1]
    house.clock.advance(50)
    await client.has(2)
    assert client.rows == [1, 0]
