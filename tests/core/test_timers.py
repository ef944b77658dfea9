"""Timers: each at its own time, in the order of their times, and once, whatever happens and however many there are."""

import asyncio
import random

import pytest

from penstock.core import timers as module
from penstock.core.timers import Timers
from penstock.core.topics import TopicSettings
from penstock.wire.plain import message_in, plain

DAY_MS = 24 * 3_600_000


class Clockwork:
    """Timers that deliver to one queue."""

    def __init__(self, street) -> None:
        self._street = street

    @property
    def house(self):
        return self._street.house

    async def open(self) -> "Clockwork":
        topics = self.house.topics
        if topics.find("timers") is None:
            await topics.create("timers", TopicSettings(write_queues=1, retention_ms=0))
            await topics.create("real", TopicSettings(write_queues=1))
        self.held, self.real = topics.get("timers").queue(0), topics.get("real").queue(0)
        house = self.house
        self.timers = Timers(house.store, house.fetcher, house.publisher, house.clock, self.held, self._revive)
        return self

    def _revive(self, payload):
        body = message_in(payload).body
        return None if body == b"nowhere" else plain(self.real, body)

    def append(self, *timers: tuple[bytes, int]) -> None:
        entries = [plain(self.held, body) for body, _ in timers]
        for entry, (_, delay_ms) in zip(entries, timers, strict=True):
            entry.tag = delay_ms
        self.house.publisher.publish(entries, lambda error: None)
        for entry in entries:
            self.timers.held(entry)

    async def hold(self, *timers: tuple[bytes, int]) -> None:
        """Bodies, and how much later they are due."""
        self.append(*timers)
        await self.durable()

    async def durable(self) -> None:
        await self.house.keeper.durable(self.house.store.end_position)

    async def after(self, passed_ms: int) -> list[bytes]:
        self.house.clock.advance(passed_ms)
        await self.timers.tick()
        await self.durable()
        return self.house.bodies(self.real)

    async def again(self, end: str) -> None:
        await getattr(self._street, end)()
        await self.open()


@pytest.fixture
async def clockwork(street):
    return await Clockwork(street).open()


async def test_a_message_comes_when_it_is_due_and_not_before(clockwork):
    await clockwork.hold((b"later", 1_234))
    assert await clockwork.after(1_233) == []
    assert await clockwork.after(1) == [b"later"]
    assert await clockwork.after(DAY_MS) == [b"later"]


async def test_they_come_in_the_order_of_their_times(clockwork):
    await clockwork.hold((b"long", 3 * DAY_MS), (b"short", 10), (b"middle", 5_000))
    await clockwork.after(4_999)
    await clockwork.hold((b"as middle", 1))
    assert await clockwork.after(1) == [b"short", b"middle", b"as middle"]
    assert await clockwork.after(3 * DAY_MS) == [b"short", b"middle", b"as middle", b"long"]


async def test_many_that_are_due_at_once_come_in_several_batches(clockwork):
    bodies = [b"%d" % number for number in range(1_500)]
    await clockwork.hold(*((body, 60_000) for body in bodies))
    assert await clockwork.after(60_000) == bodies
    assert clockwork.house.store.bounds(clockwork.held).min_offset >= 1_000  # what was delivered has been trimmed


async def test_large_ones_come_in_small_batches(clockwork, monkeypatch):
    monkeypatch.setattr(module, "_BYTES_MAX", 1_000)
    bodies = [b"%d" % number * 300 for number in range(10)]
    await clockwork.hold(*((body, 5) for body in bodies))
    assert await clockwork.after(5) == bodies


async def test_what_has_nowhere_to_go_does_not_stop_the_others(clockwork):
    await clockwork.hold((b"one", 5), (b"nowhere", 6), (b"two", 7))
    assert await clockwork.after(10) == [b"one", b"two"]


@pytest.mark.parametrize("end", ["restart", "kill"])
async def test_what_was_delivered_is_not_delivered_again(clockwork, end):
    await clockwork.hold((b"third", 300), (b"first", 100), (b"second", 200))
    assert await clockwork.after(100) == [b"first"]
    await clockwork.again(end)
    assert await clockwork.after(0) == [b"first"]
    await clockwork.hold((b"as second", 100))
    assert await clockwork.after(100) == [b"first", b"second", b"as second"]
    await clockwork.again(end)
    assert await clockwork.after(DAY_MS) == [b"first", b"second", b"as second", b"third"]


async def test_what_fell_due_while_nobody_was_there_comes_at_once(clockwork):
    await clockwork.hold((b"late", 5_000), (b"later", 6_000))
    clockwork.house.clock.advance(DAY_MS)
    await clockwork.again("kill")
    assert await clockwork.after(0) == [b"late", b"later"]


async def test_one_that_waits_long_keeps_only_itself_and_those_behind_it(clockwork, monkeypatch):
    monkeypatch.setattr(module, "_TRIM_EVERY", 10)
    await clockwork.hold(*((b"before", 1) for _ in range(20)))
    await clockwork.hold((b"long", DAY_MS))
    await clockwork.hold(*((b"behind", 2) for _ in range(20)))
    await clockwork.after(10)
    assert clockwork.house.store.bounds(clockwork.held).min_offset == 20
    await clockwork.hold(*((b"more", DAY_MS) for _ in range(20)))
    await clockwork.after(DAY_MS)
    assert clockwork.house.store.bounds(clockwork.held).min_offset == 61


@pytest.mark.parametrize("seed", range(5))
async def test_however_many_there_are_memory_is_bounded_and_none_is_missed(clockwork, monkeypatch, seed):
    """With room for eight in memory, and steps of sixteen rows: arrivals, restarts and deliveries in any order."""
    monkeypatch.setattr(module, "NEAR_MAX", 8)
    monkeypatch.setattr(module, "_SCAN_ROWS", 16)
    monkeypatch.setattr(module, "_TRIM_EVERY", 7)
    monkeypatch.setattr(module, "_MESSAGES_MAX", 5)
    chance = random.Random(seed)
    expected: list[tuple[int, int, bytes]] = []
    number = 0
    for _ in range(60):
        now_ms, arriving = clockwork.house.clock.now_ms(), []
        for _ in range(chance.randrange(12)):
            delay_ms = chance.choice((1, 10, chance.randrange(1, 2_000)))
            arriving.append((b"%d" % number, delay_ms))
            expected.append((now_ms + delay_ms, number, b"%d" % number))
            number += 1
        await clockwork.hold(*arriving)
        assert len(clockwork.timers._near) <= 2 * 8
        if chance.random() < 0.1:
            await clockwork.again(chance.choice(("restart", "kill")))
        got = await clockwork.after(chance.randrange(100))
        due = [body for due_ms, _, body in sorted(expected) if due_ms <= clockwork.house.clock.now_ms()]
        assert got == due
    assert await clockwork.after(DAY_MS) == [body for _, _, body in sorted(expected)]


async def test_what_arrives_while_the_rows_are_looked_through_is_found(clockwork, monkeypatch):
    monkeypatch.setattr(module, "_SCAN_ROWS", 4)
    await clockwork.hold(*((b"%d" % number, 100) for number in range(20)))
    await clockwork.again("restart")
    ticking = asyncio.create_task(clockwork.timers.tick())
    await asyncio.sleep(0)  # up to where others get their turn the first time
    assert not ticking.done()
    clockwork.append((b"20", 100))
    await ticking
    await clockwork.durable()
    assert await clockwork.after(100) == [b"%d" % number for number in range(21)]


async def test_nothing_is_missed_when_the_clock_is_set_back(clockwork):
    await clockwork.hold((b"one", 1_000), (b"two", 2_000))
    assert await clockwork.after(1_500) == [b"one"]
    await clockwork.after(-5_000)
    await clockwork.hold((b"three", 1))  # due by now below what was delivered, if one went by the clock
    assert await clockwork.after(5_000 + 1_000) == [b"one", b"three", b"two"]


async def test_a_batch_waits_when_the_clock_is_set_back_under_it(clockwork):
    """What would be stored behind it could come to stand below the mark."""
    await clockwork.hold((b"one", 1_000))
    clockwork.house.clock.advance(1_000)
    fetch = clockwork.house.fetcher.fetch

    async def fetch_slowly(*where):
        clockwork.house.clock.advance(-900)
        clockwork.append((b"two", 1))
        return await fetch(*where)

    clockwork.timers._fetcher = type("Slow", (), {"fetch": staticmethod(fetch_slowly)})()
    await clockwork.timers.tick()
    assert clockwork.house.bodies(clockwork.real) == []
    clockwork.timers._fetcher = clockwork.house.fetcher
    await clockwork.durable()
    assert await clockwork.after(2_000) == [b"two", b"one"]


async def test_what_is_not_durable_is_not_delivered_and_not_overtaken(still_house):
    queue = still_house.topic_now("timers").queue(0)
    real = still_house.topic_now("real").queue(0)
    house = still_house
    parts = house.store, house.fetcher, house.publisher, house.clock
    timers = Timers(*parts, queue, lambda payload: plain(real, message_in(payload).body))
    await timers.tick()
    for body in (b"one", b"two"):
        entry = plain(queue, body)
        entry.tag = 5
        house.publisher.publish([entry], lambda error: None)
        timers.held(entry)
    house.clock.advance(5)
    await timers.tick()
    house.store.flush()
    assert house.bodies(real) == []
    await timers.tick()
    house.store.flush()
    assert house.bodies(real) == [b"one", b"two"]
    house.store.close()
