"""Syncing while somebody waits: in Python and compiled it is the same, and the keeper builds on it."""

import asyncio
import errno
import os
import threading

import pytest
from tests.compiled import built

from penstock.clock import SystemClock
from penstock.config import KIB, StoreConfig
from penstock.errors import StoreReadOnly
from penstock.model import Durability
from penstock.store.files import LocalDisk, LocalFile
from penstock.store.keeper import Keeper
from penstock.store.store import Store
from penstock.store.syncing import (
    ASLEEP,
    DONE,
    GENERATION,
    ROUNDS,
    SETTLED,
    STOPPED,
    WANTED,
    call_in_python,
    marks_at,
    rounds_in_python,
)
from penstock.wire.plain import plain

NOBODYS = 1_000_000  # the number of no open file
BOTH = pytest.mark.parametrize("rounds", [rounds_in_python, built("penstock.store._syncing").rounds])


@pytest.fixture
def file(tmp_path):
    descriptor = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def bell():
    ear, mouth = os.pipe()
    os.set_blocking(ear, False)
    os.set_blocking(mouth, False)
    yield ear, mouth
    os.close(ear)
    os.close(mouth)


def rings(ear: int) -> int:
    try:
        return len(os.read(ear, 1 << 20)) // 8
    except BlockingIOError:
        return 0


@BOTH
def test_what_somebody_waits_for_is_synced_once_and_told(rounds, file, bell):
    marks = marks_at(100)
    marks[SETTLED], marks[WANTED] = 300, 200
    assert rounds(file, 0, marks, bell[1]) == 0
    assert (marks[DONE], marks[ROUNDS], rings(bell[0])) == (300, 1, 1)


@BOTH
def test_nobody_waits_and_nothing_is_synced(rounds, bell):
    marks = marks_at(100)
    marks[SETTLED] = 300
    assert rounds(NOBODYS, 0, marks, bell[1]) == 0
    assert (marks[DONE], rings(bell[0])) == (100, 0)


@BOTH
def test_another_file_is_not_taken_for_this_one(rounds, bell):
    marks = marks_at(100)
    marks[SETTLED] = marks[WANTED] = 300
    marks[GENERATION] = 1
    assert rounds(NOBODYS, 0, marks, bell[1]) == 0
    assert marks[DONE] == 100


@BOTH
def test_a_sync_that_fails_is_told_and_covers_nothing(rounds, bell):
    marks = marks_at(100)
    marks[SETTLED] = marks[WANTED] = 300
    assert rounds(NOBODYS, 0, marks, bell[1]) == errno.EBADF
    assert (marks[DONE], rings(bell[0])) == (100, 0)


@BOTH
def test_a_bell_that_nobody_hears_holds_nothing_up(rounds, file, bell):
    while True:
        try:
            os.write(bell[1], bytes(4_096))
        except BlockingIOError:
            break
    marks = marks_at(0)
    marks[SETTLED] = marks[WANTED] = 10
    assert rounds(file, 0, marks, bell[1]) == 0
    assert marks[DONE] == 10


@BOTH
def test_it_goes_on_while_more_comes(rounds, file, bell):
    """A writer that waits for nobody: at the end all of it is covered, by fewer syncs than there were writes."""
    marks, writes = marks_at(0), 3_000

    def write() -> None:
        for position in range(1, writes + 1):
            os.pwrite(file, b"x", position)
            marks[SETTLED] = position
            marks[WANTED] = position

    writer = threading.Thread(target=write)
    writer.start()
    while writer.is_alive() or marks[DONE] < writes:
        assert rounds(file, 0, marks, bell[1]) == 0
        assert marks[DONE] <= marks[SETTLED]
        rings(bell[0])
    writer.join()
    assert marks[DONE] == writes
    assert 0 < marks[ROUNDS] <= writes


# --- asleep while nobody waits ----------------------------------------------------------------------------------------

compiled = built("penstock.store._syncing")
AWAKE = pytest.mark.parametrize(
    ("rounds", "call"), [(rounds_in_python, call_in_python), (compiled.rounds, compiled.call)], ids=["python", "c"]
)
LONG_MS = 60_000


@AWAKE
def test_nobody_is_forgotten(rounds, call, file, bell):
    """One message after the other, each at a moment when the thread may be about to fall asleep."""
    marks, (calls, caller) = marks_at(0), pipe()
    thread = threading.Thread(target=rounds, args=(file, 0, marks, bell[1], calls, LONG_MS))
    thread.start()
    os.set_blocking(bell[0], True)
    for position in range(1, 501):
        marks[SETTLED] = marks[WANTED] = position
        call(marks, caller)
        while marks[DONE] < position:  # a call that is lost would be a minute
            os.read(bell[0], 8)
    assert marks[ROUNDS] == 500
    marks[STOPPED] = 1
    call(marks, caller)
    thread.join(10)
    assert not thread.is_alive()
    os.close(calls)
    os.close(caller)


@AWAKE
def test_a_sleep_that_nobody_interrupts_has_an_end(rounds, call, file, bell):
    calls, caller = pipe()
    marks = marks_at(100)
    assert rounds(file, 0, marks, bell[1], calls, 1) == 0
    assert (marks[DONE], marks[ASLEEP]) == (100, 0)
    marks[STOPPED] = 1
    assert rounds(file, 0, marks, bell[1], calls, LONG_MS) == 0  # at once
    os.close(calls)
    os.close(caller)


@AWAKE
def test_another_file_ends_it_and_is_not_waited_for(rounds, call, bell):
    calls, caller = pipe()
    marks = marks_at(100)
    marks[SETTLED] = marks[WANTED] = 300
    marks[GENERATION] = 1
    assert rounds(NOBODYS, 0, marks, bell[1], calls, LONG_MS) == 0
    assert marks[DONE] == 100
    os.close(calls)
    os.close(caller)


def pipe() -> tuple[int, int]:
    ends = os.pipe()
    for end in ends:
        os.set_blocking(end, False)
    return ends


# --- the keeper on a real disk ----------------------------------------------------------------------------------------

CONFIG = StoreConfig(durability=Durability.SYNC, segment_bytes=64 * KIB, piece_rows=8, chunk_pieces=16)


async def published(keeper: Keeper, store: Store, messages: int) -> None:
    """One behind the other, each waits for its acknowledgement."""
    for number in range(messages):
        await keeper.durable(store.append([plain(1, b"%d" % number * 100)]))


async def test_many_producers_across_many_segments(tmp_path):
    store = Store.open(LocalDisk(str(tmp_path)), CONFIG, SystemClock())
    store.create_queue(1, Durability.SYNC)
    keeper = Keeper(store, SystemClock(), CONFIG)
    await keeper.start()
    await asyncio.gather(*(published(keeper, store, 60) for _ in range(16)))
    assert store.bounds(1).max_offset == 960
    assert 0 < store.syncs < 960
    await keeper.stop()
    assert Store.open(LocalDisk(str(tmp_path)), CONFIG, SystemClock()).bounds(1).max_offset == 960


async def test_whoever_waits_hears_of_a_failed_sync(tmp_path, monkeypatch):
    store = Store.open(LocalDisk(str(tmp_path)), CONFIG, SystemClock())
    store.create_queue(1, Durability.SYNC)
    keeper = Keeper(store, SystemClock(), CONFIG)
    await keeper.start()
    await published(keeper, store, 3)
    monkeypatch.setattr(LocalFile, "descriptor", NOBODYS)
    store._log.roll(0)  # the thread asks for the descriptor of a file when it begins with it
    results = await asyncio.gather(*(published(keeper, store, 500) for _ in range(8)), return_exceptions=True)
    assert all(isinstance(result, StoreReadOnly) for result in results)
    monkeypatch.undo()
    kept = store.bounds(1).max_offset
    await keeper.stop()
    assert Store.open(LocalDisk(str(tmp_path)), CONFIG, SystemClock()).bounds(1).max_offset >= kept
