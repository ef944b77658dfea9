"""The keeper: one sync for many, what a failed one means, checkpoints beside the traffic, a clean end."""

import asyncio
import errno
import random
import threading
from collections.abc import Callable
from typing import Self

import pytest

from penstock.clock import ManualClock
from penstock.config import KIB, StoreConfig
from penstock.errors import QueueNotFound, StoreClosed, StoreReadOnly
from penstock.model import Durability
from penstock.store import keeper
from penstock.store.files import LocalDisk, LocalFile
from penstock.store.keeper import Keeper
from penstock.store.store import Store
from penstock.testing.disk import FaultyDisk, Mode
from penstock.wire.plain import PLAIN_RUN, Plain, message_in, plain, split

# A broker whose default is async writes no zeros ahead: every sync is one that somebody asked for.
CONFIG = StoreConfig(durability=Durability.ASYNC, segment_bytes=64 * KIB, piece_rows=8, chunk_pieces=16)
STRICT, LAX = 1, 2


class Gate:
    """What a gated disk's syncs pass: counted, held while it is closed, refused once it is broken."""

    def __init__(self) -> None:
        self.syncs, self.closed, self.broken = 0, False, False
        self._passes, self._reached = threading.Semaphore(0), threading.Event()

    def close(self) -> None:
        self.closed = True
        self._reached.clear()

    def open(self) -> None:
        self.closed = False
        self._passes.release(1_000)

    def let_one_pass(self) -> None:
        self._reached.clear()
        self._passes.release()

    async def until_reached(self) -> None:
        assert await asyncio.to_thread(self._reached.wait, 10)

    def sync(self) -> None:
        self.syncs += 1
        self._reached.set()
        if self.closed:
            assert self._passes.acquire(timeout=10)
        if self.broken:
            raise OSError(errno.EIO, "the disk is gone")


class GatedFile(LocalFile):
    gate: Gate
    descriptor = None  # every sync passes the gate

    def sync(self) -> None:
        self.gate.sync()
        super().sync()


class GatedDisk(LocalDisk):
    """A real folder whose log files are synced only when the gate lets them."""

    def __init__(self, root: str, gate: Gate) -> None:
        super().__init__(root)
        self._gate = gate

    def open(self, name: str, create: bool = False) -> LocalFile:
        file = super().open(name, create)
        if name.startswith("log/"):
            file.__class__, file.gate = GatedFile, self._gate
        return file


class Kept:
    """A store with two queues and its keeper."""

    def __init__(self, disk, config: StoreConfig = CONFIG) -> None:
        self.clock = ManualClock()
        self.disk, self.config = disk, config
        self.store = Store.open(disk, config, self.clock, {PLAIN_RUN: split})
        if not self.store.catalog.items("queue/"):
            self.store.create_queue(STRICT, Durability.SYNC)
            self.store.create_queue(LAX, Durability.ASYNC)
            self.store.flush()
        self.keeper = Keeper(self.store, self.clock, config)

    async def __aenter__(self) -> Self:
        await self.keeper.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.keeper.stop()

    async def kill(self) -> "Kept":
        self.store.abandon()
        await self.keeper.stop()
        return Kept(self.disk, self.config)

    def send(self, body: bytes, queue: int = STRICT) -> asyncio.Future:
        """Append; the future ends with the acknowledgement."""
        self.store.append([plain(queue, body)])
        return asyncio.ensure_future(self.keeper.durable(self.store.ack_position))

    def bodies(self, queue: int = STRICT) -> list[bytes]:
        low = self.store.bounds(queue).min_offset
        return [message_in(payload).body for payload in self.store.read(queue, low, 10_000, 10_000_000).payloads]


@pytest.fixture
def gate():
    gate = Gate()
    yield gate
    gate.open()


@pytest.fixture
def gated(tmp_path, gate):
    return GatedDisk(str(tmp_path / "data"), gate)


# --- group commit -----------------------------------------------------------------------------------------------------


async def test_one_sync_covers_all_that_came_in_during_the_last(gated, gate):
    async with Kept(gated) as kept:
        gate.close()
        first = kept.send(b"first")
        await gate.until_reached()
        rest = [kept.send(b"%d" % number) for number in range(500)]
        before = gate.syncs
        gate.open()
        await asyncio.gather(first, *rest)
        assert gate.syncs - before == 1
        assert len(kept.bodies()) == 501


async def test_what_came_in_during_a_sync_is_not_covered_by_it(gated, gate):
    async with Kept(gated) as kept:
        gate.close()
        first = kept.send(b"first")
        await gate.until_reached()
        second = kept.send(b"second")
        gate.let_one_pass()
        await first
        await gate.until_reached()
        assert not second.done()
        assert kept.bodies() == [b"first"]
        gate.open()
        await second
        assert kept.bodies() == [b"first", b"second"]


async def test_waiters_are_told_in_the_order_of_their_appends(gated, gate):
    async with Kept(gated) as kept:
        gate.close()
        told = []
        for number in range(10):
            kept.store.append([plain(STRICT, b"x")])
            kept.keeper.when_durable(kept.store.ack_position, lambda error, number=number: told.append(number))
        gate.open()
        await kept.keeper.durable(kept.store.end_position)
        assert told == list(range(10))


async def test_what_is_durable_already_is_said_at_once(gated):
    async with Kept(gated) as kept:
        await kept.send(b"a")
        told = []
        kept.keeper.when_durable(kept.store.durable_position, told.append)
        assert told == [None]


async def test_an_async_queue_is_flushed_all_the_same(gated, gate):
    config = StoreConfig(durability=Durability.ASYNC, flush_interval_ms=10, segment_bytes=64 * KIB)
    async with Kept(gated, config) as kept:
        gate.close()
        kept.store.append([plain(LAX, b"a")])
        await gate.until_reached()
        gate.open()


async def test_somebody_who_no_longer_waits_is_no_trouble(gated, gate):
    async with Kept(gated) as kept:
        gate.close()
        gone, stays = kept.send(b"a"), kept.send(b"b")
        await gate.until_reached()
        gone.cancel()
        gate.open()
        await stays
        assert gone.cancelled()


# --- a sync that failed -----------------------------------------------------------------------------------------------


async def test_a_failed_sync_is_told_to_everyone_who_waits(gated, gate):
    async with Kept(gated) as kept:
        gate.close()
        waiting = [kept.send(b"%d" % number) for number in range(20)]
        await gate.until_reached()
        gate.broken = True
        gate.open()
        told = await asyncio.gather(*waiting, return_exceptions=True)
        assert [type(error) for error in told] == [StoreReadOnly] * 20
        assert "the disk is gone" in kept.store.read_only_because


async def broken(kept: Kept, gate: Gate) -> None:
    gate.broken = True
    with pytest.raises(StoreReadOnly):
        await kept.send(b"lost")
    gate.broken = False  # a later sync would succeed, and prove nothing


async def test_after_a_failed_sync_nothing_is_ever_acknowledged(gated, gate):
    async with Kept(gated) as kept:
        await broken(kept, gate)
        syncs = gate.syncs
        with pytest.raises(StoreReadOnly, match="until the broker is restarted"):
            kept.store.append([plain(STRICT, b"too late")])
        with pytest.raises(StoreReadOnly):
            await kept.keeper.durable(kept.store.end_position)
        with pytest.raises(StoreReadOnly):
            await kept.keeper.checkpoint()
        assert gate.syncs == syncs


async def test_after_a_failed_sync_reading_goes_on_and_shows_nothing_more(gated, gate):
    async with Kept(gated) as kept:
        await kept.send(b"kept")
        await broken(kept, gate)
        assert kept.bodies() == [b"kept"]


async def test_after_a_failed_sync_a_restart_writes_again(gated, gate):
    async with Kept(gated) as kept:
        await kept.send(b"kept")
        await broken(kept, gate)
    async with Kept(gated) as kept:
        await kept.send(b"next")
        assert kept.bodies()[0] == b"kept"
        assert kept.bodies()[-1] == b"next"


async def test_a_failed_sync_of_zeros_written_ahead_is_a_failed_sync():
    """The same call writes back messages: the system reports an error once, and forgets what it could not write."""
    disk = FaultyDisk()
    config = StoreConfig(segment_bytes=64 * KIB, fill_step_bytes=4 * KIB, piece_rows=8, chunk_pieces=16)
    kept, filled = Kept(disk, config), threading.Event()
    kept.store.append([plain(LAX, b"written before the zeros")])
    fill = kept.store.fill

    def fill_fails_once(*how: object) -> None:
        kept.store.fill = fill
        disk.break_calls("sync", OSError(errno.EIO, ""))
        try:
            fill(*how)
        finally:
            disk.mend()
            filled.set()

    kept.store.fill = fill_fails_once
    async with kept:
        assert await asyncio.to_thread(filled.wait, 10)
        try:
            await kept.keeper.durable(kept.store.end_position)
        except StoreReadOnly:
            return
    after = Kept(disk.crash(random.Random(1), Mode.NOTHING), config)
    assert after.bodies(LAX) == [b"written before the zeros"]


class Interrupted(Plain):
    """Written while something else happens, as it does in other threads."""

    meanwhile: Callable[[], object] = print

    def write_into(self, buffer: memoryview, at: int, queue_id: int, offset: int, store_ms: int) -> None:
        self.meanwhile()
        super().write_into(buffer, at, queue_id, offset, store_ms)


def test_a_sync_in_the_middle_of_a_refused_append_covers_none_of_it(tmp_path):
    """Else what is written over it next would be acknowledged without a sync."""
    config = StoreConfig(append_buffer_bytes=4 * KIB, piece_rows=8, chunk_pieces=16)
    store, told = Kept(LocalDisk(str(tmp_path / "data")), config).store, []
    positions = []
    entry = Interrupted(
        queue=STRICT, length=plain(STRICT, b"x").length, body=b"x", meanwhile=lambda: positions.append(store.sync())
    )
    with pytest.raises(QueueNotFound, match="99"):
        store.append([plain(STRICT, bytes(3_900)), entry, plain(STRICT, bytes(3_900)), plain(99, b"")])
    for position in positions:
        store.synced(position)
    store.append([plain(STRICT, b"next")])
    store.when_durable(store.ack_position, told.append)
    assert told == []
    store.flush()
    assert told == [None]


# --- checkpoints ------------------------------------------------------------------------------------------------------


async def test_a_kill_after_a_checkpoint_replays_only_what_follows(gated):
    async with Kept(gated) as kept:
        for number in range(40):
            await kept.send(b"%d" % number)
        await kept.keeper.checkpoint()
        for number in range(40, 47):
            await kept.send(b"%d" % number)
        after = await kept.kill()
        report = after.store.report
        assert (report.clean, report.rebuilt, report.replayed_entries) == (False, False, 7)
        assert after.bodies() == [b"%d" % number for number in range(47)]


async def test_traffic_goes_on_while_a_checkpoint_is_written(gated, gate):
    async with Kept(gated) as kept:
        gate.close()
        checkpoint = asyncio.ensure_future(kept.keeper.checkpoint())
        waiting = kept.send(b"beside")
        gate.open()
        await asyncio.gather(checkpoint, waiting)
        after = await kept.kill()
        assert after.bodies() == [b"beside"]


@pytest.mark.parametrize("seed", range(10))
async def test_checkpoints_under_traffic_lose_nothing(tmp_path, seed):
    """Whatever was acknowledged before the kill is there, in order, once."""
    choose = random.Random(seed)
    async with Kept(LocalDisk(str(tmp_path / "data"))) as kept:
        for number in range(60):
            waiting = kept.send(b"%d" % number)
            if choose.random() < 0.2:
                await asyncio.gather(waiting, kept.keeper.checkpoint())
            elif choose.random() < 0.3:
                await waiting
        await kept.keeper.durable(kept.store.end_position)
        after = await kept.kill()
        assert after.bodies() == [b"%d" % number for number in range(60)]


async def test_a_checkpoint_that_cannot_be_written_leaves_the_old_one_in_force(tmp_path, monkeypatch):
    disk = LocalDisk(str(tmp_path / "data"))
    async with Kept(disk) as kept:
        await kept.send(b"a")
        await kept.keeper.checkpoint()
        position = kept.store.checkpoint_position
        await kept.send(b"b")
        with monkeypatch.context() as broken_disk:
            broken_disk.setattr(disk, "rename", refuse)
            with pytest.raises(OSError, match="No space"):
                await kept.keeper.checkpoint()
        assert kept.store.checkpoint_position == position
        await kept.send(b"c")
        await kept.keeper.checkpoint()
        assert kept.store.checkpoint_position == kept.store.end_position
        after = await kept.kill()
        assert (after.bodies(), after.store.report.replayed_entries) == ([b"a", b"b", b"c"], 0)


def refuse(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


# --- the end ----------------------------------------------------------------------------------------------------------


async def test_a_stop_is_a_clean_one(gated):
    async with Kept(gated) as kept:
        await kept.send(b"a")
        kept.store.append([plain(LAX, b"nobody waits for it")])
    after = Kept(gated)
    assert (after.store.report.clean, after.store.report.replayed_entries) == (True, 0)
    assert (after.bodies(), after.bodies(LAX)) == ([b"a"], [b"nobody waits for it"])


async def test_a_stop_tells_all_who_wait(gated, gate):
    kept = Kept(gated)
    await kept.keeper.start()
    gate.close()
    waiting = [kept.send(b"%d" % number) for number in range(5)]
    await gate.until_reached()
    stopping = asyncio.ensure_future(kept.keeper.stop())
    gate.open()
    await stopping
    assert await asyncio.gather(*waiting) == [None] * 5


async def test_a_stop_during_a_checkpoint_lets_it_finish(tmp_path):
    """Two that write the same file at once would leave neither."""
    disk, entered, release = LocalDisk(str(tmp_path / "data")), threading.Event(), threading.Event()
    config = StoreConfig(durability=Durability.ASYNC, checkpoint_bytes=1, piece_rows=8, chunk_pieces=16)
    kept, rename, order = Kept(disk, config), disk.rename, []

    def slow_at_first(name: str, to: str) -> None:
        order.append(f"begin {to}")
        if not entered.is_set():
            entered.set()
            assert release.wait(10)
        rename(name, to)
        order.append(f"end {to}")

    disk.rename = slow_at_first
    async with kept:
        kept.store.append([plain(LAX, b"a")])
        assert await asyncio.to_thread(entered.wait, 10)
        stopping = asyncio.ensure_future(kept.keeper.stop())
        await asyncio.wait([stopping], timeout=0.1)  # time enough to do it wrong
        release.set()
        await stopping
    files = ("tables/directory", "tables/directory", "./clean")
    assert order == [f"{step} {file}" for file in files for step in ("begin", "end")]
    after = Kept(disk, config)
    assert (after.store.report.clean, after.bodies(LAX)) == (True, [b"a"])


async def test_a_stopped_store_takes_nothing(gated):
    async with Kept(gated) as kept:
        pass
    with pytest.raises(StoreClosed):
        kept.store.append([plain(STRICT, b"late")])


async def test_a_fault_of_ours_in_the_housekeeping_is_told_and_does_not_end_it(gated, monkeypatch, caplog):
    """Without checkpoints and the cleaner a broker would go on until the disk is full, and say nothing."""
    kept = Kept(gated)
    whole, went_on = kept.store.begin_checkpoint, asyncio.Event()

    def fails() -> None:
        monkeypatch.setattr(kept.store, "begin_checkpoint", succeeds)
        raise OverflowError("too large for a C long")

    def succeeds() -> object:
        went_on.set()
        return whole()

    monkeypatch.setattr(kept.store, "begin_checkpoint", fails)
    monkeypatch.setattr(keeper, "_TICK_S", 0.01)
    monkeypatch.setattr(keeper, "_FAULT_PAUSE_S", 0.01)
    async with kept:
        await kept.send(b"one")
        kept.clock.advance(CONFIG.checkpoint_interval_ms)
        await asyncio.wait_for(went_on.wait(), 10)
    assert [record.levelname for record in caplog.records if "failed unexpectedly" in record.message] == ["ERROR"]
    assert Kept(gated).store.report.clean


async def test_a_stop_leaves_no_thread_behind(gated):
    async with Kept(gated):
        assert "penstock-commit" in {thread.name for thread in threading.enumerate()}
    assert "penstock-commit" not in {thread.name for thread in threading.enumerate()}


async def test_a_broken_log_can_be_stopped_too(gated, gate):
    async with Kept(gated) as kept:
        await broken(kept, gate)
    assert not Kept(gated).store.report.clean
