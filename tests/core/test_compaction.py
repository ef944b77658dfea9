"""Compaction: what is there after a crash or a power cut anywhere, and what is done when something goes wrong."""

import asyncio
import contextlib
import random

import pytest
from tests.core.conftest import House

from penstock.config import BrokerConfig
from penstock.core import compaction
from penstock.core.compaction import PREFIX, TOPIC_PREFIX, Compaction, State
from penstock.core.policies import Policies, PolicyBook
from penstock.core.topics import TopicSettings
from penstock.core.views import found_in
from penstock.errors import CompactionRunning
from penstock.testing.disk import FaultyDisk, Mode
from penstock.testing.workload import small_config
from penstock.wire.plain import message_in, plain


class LastOfEach:
    """A worker: the first byte of a body is its key, and a body of one byte deletes it."""

    def begin(self):
        self.latest = {}

    def look(self, offsets, payloads):
        for offset, payload in zip(offsets, payloads, strict=True):
            body = message_in(memoryview(payload)).body
            self.latest[body[:1]] = offset if len(body) > 1 else -1

    def end(self):
        return False

    def kept(self, offsets, payloads):
        living = set(self.latest.values())
        return [(payload if at in living else b"", b"") for at, payload in zip(offsets, payloads, strict=True)]


def compaction_of(house):
    book = PolicyBook(house.store, house.keeper, house.topics, house.bus)
    book.serve(lambda topic: None, Policies())
    made = Compaction(
        house.store, house.keeper, house.topics, house.fetcher, house.publisher, book, house.clock, house.bus
    )
    made.serve("tests.core.test_compaction:LastOfEach")
    made.tidy()
    return made


async def published(house, *bodies):
    topic = house.topics.find("orders") or await house.topics.create("orders", TopicSettings(write_queues=1))
    await house.publish(*(plain(topic.queue(0), body) for body in bodies))
    return topic.queue(0)


async def run(made, queue):
    made.start(queue)
    await made.settled(queue)
    return made.status(queue).state


def seen(house, made, queue):
    """What the view has: rows of the source, and bodies."""
    view = made.view(queue)
    several = [found_in(payload, 1) for payload in house.read(view.queue).payloads]
    return [(found.row, found.offset, message_in(found.payload).body) for found in several]


def views(house):
    return [topic.name for topic in house.topics if topic.name.startswith(TOPIC_PREFIX)]


@pytest.mark.parametrize("back", ["restart", "kill"])
async def test_the_view_is_there_after_a_restart_and_a_crash(street, back):
    queue = await published(street.house, b"a1", b"b1", b"a2", b"c1", b"c")
    made = compaction_of(street.house)
    assert await run(made, queue) is State.SUCCESS
    expected = [(1, 1, b"b1"), (2, 2, b"a2")]
    assert seen(street.house, made, queue) == expected
    house = await getattr(street, back)()
    again = compaction_of(house)
    assert (again.view(queue), seen(house, again, queue)) == (made.view(queue), expected)
    await published(house, b"b2")
    assert await run(again, queue) is State.SUCCESS
    assert seen(house, again, queue) == [(2, 2, b"a2"), (5, 5, b"b2")]
    assert again.view(queue).removed == 1
    assert len(views(house)) == 1


@pytest.mark.parametrize("where", ["_append", "durable"])
async def test_after_a_crash_in_the_middle_the_old_view_is_whole(street, monkeypatch, where):
    house = street.house
    queue = await published(house, b"a1", b"b1")
    made = compaction_of(house)
    await run(made, queue)
    before = seen(house, made, queue)
    await published(house, b"a2")
    stuck = asyncio.Event()

    async def never(*_):
        stuck.set()
        await asyncio.Event().wait()

    if where == "_append":
        monkeypatch.setattr(Compaction, "_source", lambda self, *_: _then(never))
        monkeypatch.setattr(Compaction, "_look", _nothing)
    else:
        monkeypatch.setattr(house.keeper, "durable", never)
    made.start(queue)
    await stuck.wait()
    assert len(views(house)) == 2
    monkeypatch.undo()
    house.store.abandon()
    await made.stop()
    after = await street.kill()
    again = compaction_of(after)
    assert seen(after, again, queue) == before
    assert views(after) == [again.view(queue).topic]
    await run(again, queue)
    assert seen(after, again, queue) == [(1, 1, b"b1"), (2, 2, b"a2")]


async def _then(never):
    await never()
    yield []


async def _nothing(self, *_):
    return None


async def test_a_run_that_is_broken_off_leaves_nothing(house):
    queue = await published(house, b"a1")
    made = compaction_of(house)
    made.start(queue)
    with pytest.raises(CompactionRunning):
        made.start(queue)
    assert made.needed(queue) == 0
    await made.stop()
    assert (views(house), made.view(queue), made.needed(queue)) == ([], None, None)


async def test_a_view_that_is_lost_is_forgotten_and_made_anew(street):
    queue = await published(street.house, b"a1")
    made = compaction_of(street.house)
    await run(made, queue)
    street.house.topics.delete_now(made.view(queue).topic)
    house = await street.restart()
    again = compaction_of(house)
    assert (again.view(queue), house.store.catalog.items(PREFIX)) == (None, [])
    await run(again, queue)
    assert seen(house, again, queue) == [(0, 0, b"a1")]


async def test_a_threshold_waits_after_a_failure(house):
    queue = await published(house, b"a1" * 100)
    made = compaction_of(house)
    made._policies.serve(lambda topic: None, Policies(compaction_threshold_bytes=10))
    await made._policies.set_topic("orders", {"ttl_s": 1})
    made.serve("tests.core.test_compaction:Nobody")
    made.tick()
    await made.settled(queue)
    assert made.status(queue).state is State.ERROR
    made.serve("tests.core.test_compaction:LastOfEach")
    house.clock.advance(compaction.RETRY_MS - 1)
    made.tick()
    assert made.status(queue).state is State.ERROR
    house.clock.advance(1)
    made.tick()
    await made.settled(queue)
    assert made.status(queue).state is State.SUCCESS


# --- power cuts -------------------------------------------------------------------------------------------------------


class Here:
    """The work that is done in a process of its own, in this one: it is begun many times."""

    def __init__(self, what):
        self._worker = LastOfEach()

    async def call(self, method, *arguments):
        return getattr(self._worker, method)(*arguments)

    async def stop(self):
        self._worker = None


@pytest.mark.parametrize("seed", range(8))
async def test_a_power_cut_at_any_moment_leaves_a_view_that_is_whole(clock, monkeypatch, seed):
    """Before single calls to the disk, in every way of losing what was not synced: the old view or the new one, all of
    it. What a run has half written is gone after the next start, and the next run ends as if nothing had been.
    """
    monkeypatch.setattr(compaction, "Aside", Here)
    monkeypatch.setattr(compaction, "STEP_BYTES", 3_000)
    choose, disk, left = random.Random(seed), FaultyDisk(), []
    async with on(disk, clock) as house:
        queue = await published(house, *bodies(choose, 60))
        made = compaction_of(house)
        assert await run(made, queue) is State.SUCCESS
        before = seen(house, made, queue)
        await published(house, *bodies(choose, 60))

        def watch(call):
            if call.kind != "read" and choose.random() < 0.5:
                left.extend(disk.crash(choose, mode) for mode in Mode)

        disk.watch = watch
        assert await run(made, queue) is State.SUCCESS
        disk.watch = None
        after = seen(house, made, queue)
        left.extend(disk.crash(choose, mode) for mode in Mode)  # what was told is durable
    assert before != after
    outcomes = [await judged(each, clock, queue, before, after) for each in left]
    assert set(outcomes) == {"old", "new"}, outcomes
    assert outcomes[-len(Mode) :] == ["new"] * len(Mode)


async def judged(disk, clock, queue, before, after):
    """Which view is there after a start; and the next run makes the same of it."""
    async with on(disk, clock) as house:
        made = compaction_of(house)
        there = seen(house, made, queue)
        assert there in (before, after)
        assert views(house) == [made.view(queue).topic]
        assert await run(made, queue) is State.SUCCESS
        assert seen(house, made, queue) == after
        return "old" if there == before else "new"


def bodies(choose, count):
    """Of a few keys, some deleted, of all sizes."""
    sizes = [choose.choice([0, 1, 200, 900]) for _ in range(count)]
    return [choose.choice([b"a", b"b", b"c", b"d", b"e"]) + choose.randbytes(size) for size in sizes]


@contextlib.asynccontextmanager
async def on(disk, clock):
    house = House(disk, clock, small_config(), BrokerConfig())
    await house.keeper.start()
    try:
        yield house
    finally:
        await house.keeper.stop()
