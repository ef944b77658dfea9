"""Disks that refuse: every call of a story fails in turn, and nothing acknowledged is lost, nothing lost acknowledged.

One story with something of everything is told again and again; each time another call to the disk fails. What the store
may do then: raise one of its own errors, turn read-only. What it may not: raise anything else, acknowledge later what
it cannot keep, stop reading, or need a restart only because the disk was full for a while.
"""

import contextlib
import errno
import os
import random
from collections.abc import Callable, Iterator, Sequence

import pytest

from penstock.clock import ManualClock
from penstock.errors import DiskFull, QueueNotFound, StoreError, StoreReadOnly
from penstock.model import Durability
from penstock.store.store import Store
from penstock.testing.disk import Call, FaultyDisk, Mode
from penstock.testing.verdict import problems
from penstock.testing.witness import Witness, look
from penstock.testing.workload import Workload, open_store
from penstock.wire.plain import plain, plain_run

EXAMPLES = int(os.environ.get("PENSTOCK_EXAMPLES", "1"))
TAKES_SPACE = ("create", "write", "truncate", "reserve", "rename", "make_folder")


def story() -> Iterator[Callable[[Store, Witness], object]]:
    """The steps; each may be refused, and the next is done all the same."""
    for queue_id, durability in ((1, Durability.SYNC), (2, Durability.ASYNC), (3, Durability.SYNC)):
        yield lambda store, witness, q=queue_id, d=durability: witness.create(store, q, d)
    for number in range(11):
        body, last = b"%d." % number, 3 if number <= 5 else 4
        yield lambda store, witness, body=body: witness.append(store, [plain(1, body + bytes(2_500)), plain(2, body)])
        run = plain_run([plain(1, b"run a " + body), plain(1, b"run b " + body)])
        group = [run, plain(last, b"group " + body)]
        yield lambda store, witness, group=group: witness.append(store, group, group=True)
        yield lambda store, witness: witness.flush(store)
        if number == 5:
            yield lambda store, witness: store.checkpoint()
            yield lambda store, witness: witness.trim(store, 1, store.bounds(1).max_offset)
            yield lambda store, witness: store.clean()
            yield lambda store, witness: witness.put(store, "key", b"value")
            yield lambda store, witness: witness.create(store, 4, Durability.SYNC)
            yield lambda store, witness: witness.drop(store, 3)
            yield lambda store, witness: store.checkpoint()
            yield lambda store, witness: store.clean()


class Telling:
    """The story told once, on a disk of which one call may fail."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.disk = FaultyDisk()
        self.store = open_store(self.disk, self.clock)
        self.witness = Witness()
        self.refused: list[Exception] = []
        self.calls: list[Call] = []
        self.disk.watch = self.calls.append

    def run(self) -> "Telling":
        for step in story():
            self.dare(step)
        return self

    def dare(self, step: Callable[[Store, Witness], object]) -> None:
        """Only the store's own errors count as a refusal; anything else fails the test."""
        try:
            step(self.store, self.witness)
        except StoreError as error:
            self.refused.append(error)
        except QueueNotFound:
            assert self.refused  # its creation was

    def survives_everything(self) -> None:
        choose = random.Random(1)
        for mode in Mode:
            store = open_store(self.disk.crash(choose, mode), self.clock)
            broken = problems(self.witness, store)
            assert not broken, f"{mode}: {broken}"
        killed = problems(self.witness, open_store(self.disk.kill(), self.clock), killed=True)
        assert not killed, killed

    def reading_goes_on(self) -> None:
        for queue_id in self.witness.live_queues:
            found = look(self.store, queue_id)
            queue = self.witness.queues[queue_id]
            assert found is not None
            for sent in queue.sent:
                if sent.acked and sent.offset is not None and sent.offset >= queue.trim_asked:
                    assert found.bodies[sent.offset] == sent.body

    def nothing_is_acknowledged_once_read_only(self) -> None:
        if self.store.read_only_because is None:
            return
        told: list[Exception | None] = []
        with pytest.raises(StoreReadOnly, match="until the broker is restarted"):
            self.store.append([plain(1, b"too late")])
        self.store.flush()
        self.store.when_durable(self.store.durable_position + 1, told.append)
        assert [type(error) for error in told] == [StoreReadOnly]

    def goes_on_by_itself(self) -> None:
        """Full for a moment: refused with the right error, and writing again as soon as there was space."""
        assert self.store.read_only_because is None
        assert {type(error) for error in self.refused} <= {DiskFull}
        self.takes_a_message(self.store, self.witness)

    def goes_on_after_a_restart(self) -> None:
        disk = self.disk.kill()
        store = open_store(disk, self.clock)
        witness = self.witness.after(store)
        self.takes_a_message(store, witness)
        assert not problems(witness, open_store(disk.crash(random.Random(2), Mode.NOTHING), self.clock))

    @staticmethod
    def takes_a_message(store: Store, witness: Witness) -> None:
        if not witness.live_queues:
            witness.create(store, 99, Durability.SYNC)
        (sent,) = witness.append(store, [plain(witness.live_queues[0], b"and on it goes")])
        witness.flush(store)
        assert sent.acked


def usual_calls() -> list[Call]:
    return Telling().run().calls


USUAL = usual_calls()


def name_of(call: Call) -> str:
    return f"{call.number}-{call.kind}-{call.name}"


def with_short_writes(calls: list[Call], kinds: Sequence[str] = ()) -> list[object]:
    """Each call fails before it does anything; a write also after it has done a part."""
    wanted = [call for call in calls if not kinds or call.kind in kinds]
    whole = [pytest.param(call, 0, id=name_of(call)) for call in wanted]
    return whole + [pytest.param(call, 100, id=f"{name_of(call)}-short") for call in wanted if call.kind == "write"]


# --- a call fails once -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "short_bytes"), with_short_writes(USUAL))
def test_an_io_error_at_any_call(call, short_bytes):
    telling = Telling()
    telling.disk.fail_at(call.number, OSError(errno.EIO, ""), short_bytes)
    telling.run()
    telling.reading_goes_on()
    telling.nothing_is_acknowledged_once_read_only()
    telling.survives_everything()
    telling.goes_on_after_a_restart()


@pytest.mark.parametrize(("call", "short_bytes"), with_short_writes(USUAL, TAKES_SPACE))
def test_no_space_at_any_call(call, short_bytes):
    telling = Telling()
    telling.disk.fail_at(call.number, OSError(errno.ENOSPC, ""), short_bytes)
    telling.run()
    telling.goes_on_by_itself()
    telling.reading_goes_on()
    telling.survives_everything()


@pytest.mark.parametrize("call", [call for call in USUAL if call.kind == "sync"], ids=name_of)
def test_a_failed_sync_is_not_tried_again(call):
    """Not even for lack of space: what the sync was to write is gone from memory's list of things to write."""
    telling = Telling()
    telling.disk.fail_at(call.number, OSError(errno.ENOSPC, ""))
    telling.run()
    telling.nothing_is_acknowledged_once_read_only()
    telling.survives_everything()


def test_a_failed_sync_of_zeros_written_ahead_counts_as_well():
    """It was the same file's sync: the messages that were waiting in memory are forgotten with the zeros."""
    telling = Telling().run()
    telling.witness.append(telling.store, [plain(1, b"written, not yet synced")])
    telling.disk.break_calls("sync", OSError(errno.EIO, ""))
    with contextlib.suppress(OSError):
        telling.store.fill()
    telling.disk.mend()
    telling.witness.flush(telling.store)
    telling.survives_everything()


# --- a full disk -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(30 * EXAMPLES))
def test_a_disk_that_is_full_for_a_while(seed):
    """Full again and again: producers are told, nothing acknowledged is lost, no mapping is written over a hole."""
    choose, clock, disk, witness = random.Random(seed), ManualClock(), FaultyDisk(), Witness()
    store = open_store(disk, clock)
    work = Workload(choose, store, witness, clock)
    work.begin()
    for number in range(80):
        if number % 20 == 8:
            disk.fill_up()
        if number % 20 == 17:
            disk.make_space()
            with_space = len(work.refused)
        work.step()
        if number % 20 == 19:
            assert len(work.refused) == with_space, "refused although there is space again"
    assert store.read_only_because is None
    assert {type(error) for error in work.refused} <= {DiskFull}
    Telling.takes_a_message(store, witness)
    for mode in Mode:
        broken = problems(witness, open_store(disk.crash(choose, mode), clock))
        assert not broken, broken


def test_a_disk_that_stays_full_refuses_with_a_sentence():
    telling = Telling().run()
    telling.disk.fill_up()
    with pytest.raises(DiskFull, match="no space left on the disk"):
        fill_with_messages(telling)
    telling.reading_goes_on()
    telling.disk.make_space()
    telling.goes_on_by_itself()


def fill_with_messages(telling: Telling) -> None:
    for number in range(100):
        telling.witness.append(telling.store, [plain(1, b"%d" % number + bytes(4_000))])


# --- while opening ---------------------------------------------------------------------------------------------------


def opening_calls(disk: FaultyDisk) -> list[Call]:
    calls: list[Call] = []
    disk = disk.kill()
    disk.watch = calls.append
    open_store(disk, ManualClock())
    return calls


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC], ids=["EIO", "ENOSPC"])
@pytest.mark.parametrize("mode", [*Mode, None], ids=lambda mode: mode.name if mode else "killed")
def test_an_error_while_opening_is_clear_and_loses_nothing(mode, code):
    telling = Telling().run()
    choose = random.Random(3)
    left = telling.disk.crash(choose, mode) if mode else telling.disk.kill()
    for call in opening_calls(left):
        disk = left.kill()
        disk.fail_at(call.number, OSError(code, ""), short_bytes=10)
        store = open_or_refused(disk, telling.clock)
        again = store or open_store(disk.crash(choose, Mode.TORN_512), telling.clock)
        broken = problems(telling.witness, again)
        assert not broken, f"{call}: {broken}"


def open_or_refused(disk: FaultyDisk, clock: ManualClock) -> Store | None:
    try:
        return open_store(disk, clock)
    except StoreError:
        return None
