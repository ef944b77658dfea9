"""Commits that are too large for one append: from files, in steps, each message once whatever comes between."""

import asyncio
import contextlib
import random
import threading
from collections.abc import AsyncIterator

import pytest
from tests.gateway.rocketmq.staged_records import packed, record

from penstock.config import BrokerConfig
from penstock.core.events import Bus, StageCommitted
from penstock.core.publish import Publisher
from penstock.core.stages import Frost
from penstock.core.staging import Staging
from penstock.core.waits import Waits
from penstock.errors import QueueNotFound, StageNotFound, StagesFull
from penstock.model import Durability
from penstock.store.keeper import Keeper
from penstock.store.store import Store
from penstock.testing.disk import FaultyDisk, Mode
from penstock.testing.workload import small_config
from penstock.wire.plain import plain
from penstock.wire.rocketmq.record import RECORD_RUN, message_in, split
from penstock.wire.rocketmq.runs import PackedRun, freeze, thaw
from penstock.wire.rocketmq.staged import Expected, runs_in

LIMITS = {"stage_memory_bytes": 2_000, "commit_step_bytes": 4_000}
PARTS, QUEUES = 40, (1, 2)


EXPECTED = Expected(
    b"orders", 2, b"\x7f\0\0\1\0\0\0\1", b"\x7f\0\0\1\0\0\0\2", b"TRACE_ON\x01true\x02", 1 << 20, 1 << 20
)


def run(queue: int, bodies: list[bytes]) -> PackedRun:
    (found,) = runs_in(memoryview(packed([record("orders", queue - 1, body) for body in bodies])), EXPECTED)
    found.queue = queue
    return found


class Desk:
    """Staging on a disk in memory, with its keeper."""

    def __init__(self, disk: FaultyDisk, clock, **limits: int) -> None:
        config = small_config()
        self.disk, self.clock, self.limits = disk, clock, limits
        self.store = Store.open(disk, config, clock, {RECORD_RUN: split})
        self.keeper = Keeper(self.store, clock, config)
        settings, self.bus = BrokerConfig(**{**LIMITS, **limits}), Bus(100)
        self.told: list[object] = []
        self.bus.listen(self.told.append)
        publisher = Publisher(self.store, self.keeper, Waits(1), settings)
        self.staging = Staging(self.store, publisher, clock, self.bus, settings, Frost(freeze, thaw))

    async def commit(self, key: str, *names: str) -> bool:
        told: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def then(error: Exception | None, published: bool) -> None:
            if not told.done():
                told.set_exception(error) if error else told.set_result(published)

        self.staging.commit(key, names, then)
        return await asyncio.wait_for(told, 30)

    async def settled(self) -> None:
        """Whatever goes on behind an answer has come to its end."""
        await asyncio.gather(*self.staging._tasks.values())

    def bodies(self) -> list[bytes]:
        batches = [self.store.read(queue, 0, 100_000, 100_000_000) for queue in QUEUES]
        return [message_in(payload).body for batch in batches for payload in batch.payloads]

    def files(self) -> list[str]:
        return self.disk.list("stages")


@contextlib.asynccontextmanager
async def desk_on(disk: FaultyDisk, clock, **limits: int) -> AsyncIterator[Desk]:
    desk = Desk(disk, clock, **limits)
    await desk.keeper.start()
    try:
        yield desk
    finally:
        await desk.staging.stop()
        await desk.keeper.stop()


@pytest.fixture
async def desk(clock) -> AsyncIterator[Desk]:
    async with desk_on(FaultyDisk(), clock) as desk:
        desk.store.create_queues(list(QUEUES), Durability.SYNC, {})
        desk.store.flush()
        yield desk


def stage_all(desk: Desk, choose: random.Random) -> list[bytes]:
    """Two stages of about 16 KB each; what they hold."""
    bodies = [b"%d." % number + choose.randbytes(choose.randrange(600)) for number in range(2 * PARTS)]
    for number, body in enumerate(bodies):
        desk.staging.stage(f"stage {number % 2}", [run(1 + number % 2, [body, body + b"'"])], number // 2)
    return sorted([*bodies, *(body + b"'" for body in bodies)])


async def test_a_large_commit_comes_from_files_and_leaves_none(desk):
    wanted = stage_all(desk, random.Random(1))
    assert len(desk.files()) == 2
    assert desk.bodies() == []
    assert await desk.commit("key", "stage 0", "stage 1") is True
    assert sorted(desk.bodies()) == wanted
    await desk.settled()
    assert (desk.files(), len(desk.staging), desk.staging.size_bytes) == ([], 0, 0)
    (told,) = [event for event in desk.told if isinstance(event, StageCommitted)]
    assert (told.stages, told.messages) == (2, len(wanted))
    assert await desk.commit("key") is False


async def test_the_order_of_a_stage_is_kept(desk):
    bodies = [b"%03d" % number + bytes(300) for number in range(60)]
    for part, body in enumerate(bodies):
        desk.staging.stage("s", [run(1, [body])], part)
    await desk.commit("key", "s")
    assert desk.bodies() == bodies


async def test_others_get_their_turn_between_the_steps(desk):
    stage_all(desk, random.Random(1))
    committing = asyncio.ensure_future(desk.commit("key", "stage 0", "stage 1"))
    sent = 0
    while not committing.done():
        desk.store.append([run(1, [b"between"])])
        sent += 1
        await asyncio.sleep(0.001)
    assert sent > 3
    first = desk.bodies().index(b"between")
    assert any(b"between" not in body for body in desk.bodies()[first:])


async def test_the_next_step_is_read_while_one_waits_for_its_sync_and_appended_behind_it(desk, monkeypatch):
    stage_all(desk, random.Random(1))
    told: list[str] = []
    read, append = desk.staging._next_step, desk.staging._append

    def reading(done):
        told.append("read")
        return read(done)

    def appending(fact, done, entries, then) -> None:
        told.append("append")

        async def durable() -> None:
            await asyncio.sleep(0.01)  # it takes a while
            told.append("durable")

        waiting = asyncio.ensure_future(durable())
        append(fact, done, entries, lambda error: waiting.add_done_callback(lambda _: then(error)))

    monkeypatch.setattr(desk.staging, "_next_step", reading)
    monkeypatch.setattr(desk.staging, "_append", appending)
    await desk.commit("key", "stage 0", "stage 1")
    steps = told.count("append")
    assert steps > 3
    assert [word for word in told if word != "read"] == ["append", "durable"] * steps
    assert told.count("read") == steps
    assert all("read" in told[: at + 1][told[:at].index("append") :] for at in [told.index("durable")])


async def test_the_answer_does_not_wait_until_files_are_gone(desk, monkeypatch):
    stage_all(desk, random.Random(1))
    gone, may_go = desk.staging._files.remove, threading.Event()

    def slow(number: int) -> None:
        may_go.wait(30)
        gone(number)

    monkeypatch.setattr(desk.staging._files, "remove", slow)
    assert await desk.commit("key", "stage 0", "stage 1") is True
    assert len(desk.files()) == 2
    may_go.set()
    await desk.settled()
    assert desk.files() == []


async def test_a_second_commit_waits_for_the_one_under_way(desk):
    wanted = stage_all(desk, random.Random(1))
    both = await asyncio.gather(desk.commit("key", "stage 0", "stage 1"), desk.commit("key"))
    assert both == [True, False]
    assert sorted(desk.bodies()) == wanted


async def test_a_stage_that_is_being_committed_cannot_be_dropped(desk):
    wanted = stage_all(desk, random.Random(1))
    committing = asyncio.ensure_future(desk.commit("key", "stage 0", "stage 1"))
    await asyncio.sleep(0)
    desk.staging.drop_all("")
    assert await committing is True
    assert sorted(desk.bodies()) == wanted


async def test_a_dropped_or_expired_stage_leaves_no_file(desk, clock):
    stage_all(desk, random.Random(1))
    desk.staging.drop("stage 0")
    assert len(desk.files()) == 1
    clock.advance(3_600_000)
    desk.staging.expire()
    assert (desk.files(), desk.staging.size_bytes) == ([], 0)


async def test_the_disk_is_bounded(clock):
    async with desk_on(FaultyDisk(), clock, stages_disk_bytes_max=10_000) as desk:
        desk.store.create_queues([1], Durability.SYNC, {})
        large = [run(1, [bytes(500)]) for _ in range(100)]
        with pytest.raises(StagesFull, match="stages_disk_bytes_max"):
            desk.staging.stage("s", large)
        assert desk.staging.size_bytes <= 10_000


async def test_memory_that_is_full_goes_to_the_disk_but_for_what_cannot(clock):
    async with desk_on(FaultyDisk(), clock, stages_bytes_max=1_000, stage_memory_bytes=1_000_000) as desk:
        desk.store.create_queues([1], Durability.SYNC, {})
        desk.staging.stage("a", [run(1, [bytes(500)])])
        desk.staging.stage("b", [run(1, [bytes(500)])])
        assert len(desk.files()) == 1
        with pytest.raises(StagesFull, match="stages_bytes_max"):
            desk.staging.stage("c", [plain(1, bytes(500))])


async def test_what_cannot_go_to_the_disk_is_committed_at_once(desk):
    """A stage that holds both kinds: nothing of it is left behind."""
    for number in range(20):
        desk.staging.stage("s", [run(1, [b"%02d" % (2 * number) + bytes(500)]), plain(2, b"%d" % number)])
    assert desk.files() == []
    assert await desk.commit("key", "s") is True
    assert [desk.store.bounds(queue).max_offset for queue in QUEUES] == [20, 20]


async def test_a_refusal_before_the_first_step_leaves_the_stages(desk):
    stage_all(desk, random.Random(1))
    desk.staging.stage("late", [run(2, [b"x"])])
    desk.store.drop_queue(2)
    with pytest.raises(QueueNotFound):
        await desk.commit("key", "stage 0", "stage 1")
    assert len(desk.staging) == 3
    desk.staging.drop("late")


async def test_stages_in_files_do_not_outlive_the_broker(desk, clock):
    stage_all(desk, random.Random(1))
    async with desk_on(desk.disk.crash(random.Random(1), Mode.PREFIX), clock) as after:
        assert after.files() == []
        with pytest.raises(StageNotFound):
            await after.commit("key", "stage 0", "stage 1")


# --- power cuts -------------------------------------------------------------------------------------------------------


def cut_everywhere(desk: Desk, choose: random.Random) -> list[FaultyDisk]:
    """Power cuts before and behind every append of a commit, in all their kinds."""
    left: list[FaultyDisk] = []
    append = desk.staging._append

    def watched(fact, done, entries, then) -> None:
        left.append(desk.disk.crash(choose, choose.choice(list(Mode))))
        append(fact, done, entries, then)
        left.append(desk.disk.crash(choose, choose.choice(list(Mode))))

    desk.staging._append = watched
    return left


@pytest.mark.parametrize("seed", range(4))
async def test_a_power_cut_at_any_step_leaves_nothing_or_what_becomes_complete(desk, clock, seed):
    """Nothing: the writer stages and commits again. Something: the broker goes on by itself."""
    choose = random.Random(seed)
    left = cut_everywhere(desk, choose)
    wanted = stage_all(desk, random.Random(seed))
    await desk.commit("key", "stage 0", "stage 1")
    outcomes = set()
    for disk in left:
        async with desk_on(disk, clock) as after:
            published = len(after.bodies())
            outcomes.add("none" if not published else "some" if published < len(wanted) else "all")
            after.staging.resume()
            await after.settled()
            assert len(after.bodies()) in (0, len(wanted))
            assert await restaged(after, seed) is (not published)
            assert sorted(after.bodies()) == wanted
            await after.settled()
            assert after.files() == []
    assert outcomes >= {"none", "some"}, outcomes


async def restaged(desk: Desk, seed: int) -> bool:
    """As a writer does that has not heard of the commit."""
    stage_all(desk, random.Random(seed))
    return await desk.commit("key", "stage 0", "stage 1")


async def test_a_disk_that_is_full_in_the_middle_is_waited_for(desk, monkeypatch):
    monkeypatch.setattr("penstock.core.staging._SPACE_INTERVAL_S", 0.01)
    wanted, append, tries = stage_all(desk, random.Random(1)), desk.staging._append, []

    def watched(*arguments) -> None:
        tries.append(1)
        if len(tries) in (3, 4):
            desk.disk.fail_at(desk.disk.calls, OSError(28, "full"))
        try:
            append(*arguments)
        finally:
            desk.disk.mend()

    desk.staging._append = watched
    assert await desk.commit("key", "stage 0", "stage 1") is True
    assert sorted(desk.bodies()) == wanted
