"""Rot: single bits of every kind of file are wrong, and what is served is still right.

A data folder is made, stopped cleanly or killed, and then damaged in one place at a time. A damaged message is never
served, an intact one never lost; what is derived (`tables/`) is made anew. What a flip may cost is read off the log
itself: the entry in which the bit lies, and nothing else.
"""

import os
import random
from typing import NamedTuple

import pytest

from penstock.clock import ManualClock
from penstock.model import Durability
from penstock.store.layout import HEADER_BYTES, SEGMENT_HEADER_BYTES
from penstock.store.store import Store
from penstock.testing.disk import FaultyDisk
from penstock.testing.verdict import problems
from penstock.testing.witness import Found, Witness, look
from penstock.testing.workload import open_store, small_config
from penstock.wire.plain import Plain, PlainRun, plain, plain_run

EXAMPLES = int(os.environ.get("PENSTOCK_EXAMPLES", "1"))
DROPPED = 4
QUEUES = {1: Durability.SYNC, 2: Durability.ASYNC, 3: Durability.SYNC}
HEADER_FIELDS = (0, 4, 8, 12, 16, 20, 24, 32, 40, 48, 56, 64, 72, 74, 76)  # a byte in each field of an entry's header
STOPS = pytest.mark.parametrize("stop", ["clean", "killed"])


class Stored(NamedTuple):
    """Where an entry lies, and the messages in it."""

    file: str
    start: int
    end: int
    messages: frozenset[tuple[int, bytes]]  # queue and body


class Folder:
    """A stopped broker's data: several segments, every kind of entry, trimmed and cleaned in parts."""

    def __init__(self, stop: str) -> None:
        self.clock = ManualClock()
        disk = FaultyDisk()
        store = open_store(disk, self.clock)
        self.witness = Witness()
        for queue_id, durability in QUEUES.items():
            self.witness.create(store, queue_id, durability)
        self.witness.create(store, DROPPED, Durability.SYNC)
        self.witness.append(store, [plain(DROPPED, b"dropped with its queue")])
        self.entries: list[Plain | PlainRun] = []
        self._fill(store)
        self.state = visible(store)
        self.sent = {
            queue_id: {sent.offset: sent.body for sent in queue.sent} for queue_id, queue in self.witness.queues.items()
        }
        self.next_offsets = {queue_id: store.bounds(queue_id).max_offset for queue_id in QUEUES}
        if stop == "clean":
            store.close()
        self.disk = disk.kill()
        self.stored = [stored for entry in self.entries if (stored := locate(self.disk, entry))]

    def _fill(self, store: Store) -> None:
        for number in range(40):
            self.append(store, [plain(1 + number % 3, b"single %d." % number + bytes(300 + 29 * number))])
            if number % 3 == 0:
                self.append(store, [run(2, number)])
            if number % 5 == 0:
                self.append(store, [plain(1, b"group %d a" % number), run(3, 1_000 + number)], group=True)
            if number % 4 == 0:
                self.witness.put(store, "key", b"value %d" % number)
            if number % 2 == 0:
                self.witness.flush(store)
            if number == 28:
                store.checkpoint()
        self.witness.drop(store, DROPPED)
        self.witness.trim(store, 1, 6)
        self.witness.flush(store)
        self.append(store, [plain(3, b"the last one, written when all before it had been synced")])
        self.witness.flush(store)

    def append(self, store: Store, entries: list[Plain | PlainRun], group: bool = False) -> None:
        self.witness.append(store, entries, group)
        self.entries.extend(entries)

    def damaged(self, name: str, byte: int, bit: int) -> FaultyDisk:
        disk = self.disk.kill()
        disk.flip(name, byte, bit)
        return disk

    def reopened(self, disk: FaultyDisk) -> dict[int, Found]:
        return visible(open_store(disk, self.clock))

    def holds_all_but(self, disk: FaultyDisk, gone: frozenset[tuple[int, bytes]], where: str) -> None:
        found = self.reopened(disk)
        for queue_id, was in self.state.items():
            for offset, body in was.bodies.items():
                served = found[queue_id].bodies.get(offset)
                if (queue_id, body) in gone:
                    assert served in (None, body), f"{where}: queue {queue_id} serves damage at {offset}"
                else:
                    assert served == body, f"{where}: queue {queue_id} lost offset {offset}, which was intact"
            assert set(found[queue_id].bodies) <= set(was.bodies), f"{where}: queue {queue_id} has something new"


def run(queue_id: int, number: int) -> PlainRun:
    return plain_run([plain(queue_id, b"run %d of %d" % (index, number), tags="red") for index in range(5)])


def messages_of(entry: Plain | PlainRun) -> frozenset[tuple[int, bytes]]:
    messages = entry.messages if isinstance(entry, PlainRun) else [entry]
    return frozenset((message.queue, bytes(message.body)) for message in messages)


def visible(store: Store) -> dict[int, Found]:
    return {queue_id: found for queue_id in QUEUES if (found := look(store, queue_id))}


def segments(disk: FaultyDisk) -> list[str]:
    return [name for name in disk.files() if name.startswith("log/")]


def locate(disk: FaultyDisk, entry: Plain | PlainRun) -> Stored | None:
    """Find an entry by its first body, which is in the log once; None when its segment is gone."""
    first = entry.messages[0] if isinstance(entry, PlainRun) else entry
    for name in segments(disk):
        at = disk.content(name).find(bytes(first.body))
        if at >= 0:
            start = at - (first.length - len(first.body)) - HEADER_BYTES
            return Stored(name, start, start + HEADER_BYTES + entry.length, messages_of(entry))
    return None


FOLDERS: dict[str, Folder] = {}


@pytest.fixture
def folder(stop: str) -> Folder:
    if stop not in FOLDERS:
        FOLDERS[stop] = Folder(stop)
    return FOLDERS[stop]


@STOPS
def test_undamaged_it_is_all_there(folder):
    assert len(segments(folder.disk)) >= 3
    assert len(folder.stored) == len(folder.entries)
    assert folder.reopened(folder.disk.kill()) == folder.state


# --- the log ---------------------------------------------------------------------------------------------------------


@STOPS
def test_flips_in_the_headers_of_entries(folder):
    choose = random.Random(1)
    for stored in folder.stored:
        for field in choose.sample(HEADER_FIELDS, min(len(HEADER_FIELDS), 3 * EXAMPLES)):
            disk = folder.damaged(stored.file, stored.start + field, choose.randrange(8))
            folder.holds_all_but(disk, stored.messages, f"{stored.file} {stored.start} header byte {field}")


@STOPS
def test_flips_in_payloads(folder):
    choose = random.Random(2)
    for stored in folder.stored:
        payload = range(stored.start + HEADER_BYTES, stored.end)
        for byte in (payload[0], payload[-1], choose.choice(payload)):
            disk = folder.damaged(stored.file, byte, choose.randrange(8))
            folder.holds_all_but(disk, stored.messages, f"{stored.file} {stored.start} payload at {byte}")
            assert not stored.messages & everything(folder, disk), "a message with a wrong bit was served"


def everything(folder: Folder, disk: FaultyDisk) -> set[tuple[int, bytes]]:
    found = folder.reopened(disk)
    return {(queue_id, body) for queue_id, queue in found.items() for body in queue.bodies.values()}


@STOPS
def test_flips_in_the_headers_of_segments(folder):
    choose = random.Random(3)
    for name in segments(folder.disk):
        for byte in range(0, SEGMENT_HEADER_BYTES, 5):
            folder.holds_all_but(folder.damaged(name, byte, choose.randrange(8)), frozenset(), f"{name} {byte}")


@STOPS
def test_flips_behind_the_end_of_the_log(folder):
    """Zeros that are none: the log ends where it ended."""
    last = max(folder.stored, key=lambda stored: (stored.file, stored.end))
    for byte in (last.end, last.end + 1, last.end + 100, last.end + 2_000):
        folder.holds_all_but(folder.damaged(last.file, byte, 5), frozenset(), f"behind the end, at {byte}")


@STOPS
def test_damage_is_reported_and_its_offsets_are_not_given_away(folder):
    for stored in folder.stored[len(folder.stored) // 2 : -1 : 5]:  # not the very last: that looks like a torn end
        disk = folder.damaged(stored.file, stored.start + HEADER_BYTES + 5, 0)
        store = open_store(disk, folder.clock)
        batches = [store.read(queue_id, found.min_offset, 1_000, 1 << 20) for queue_id, found in visible(store).items()]
        reported = store.damage + [damage for batch in batches for damage in batch.damage]
        base = int(stored.file[4:-4]) * small_config().segment_bytes
        assert any(damage.position <= base + stored.start < damage.position + damage.length for damage in reported)
        next_offsets_are_right(folder, store)


def next_offsets_are_right(folder: Folder, store: Store) -> None:
    for queue_id, offset in folder.next_offsets.items():
        (entry,) = entries = [plain(queue_id, b"new")]
        store.append(entries)
        assert entry.offset == offset


@STOPS
def test_a_queue_whose_creation_was_damaged_keeps_its_messages(folder):
    """Also when nothing else tells of it: the tables are gone, and only its messages say that there is such a queue."""
    disk = without_tables(folder.disk)
    damage_fact(disk, b"queue/2")
    assert folder.reopened(disk)[2] == folder.state[2]
    assert folder.reopened(disk.kill())[2] == folder.state[2]


@STOPS
def test_a_dropped_queue_stays_dropped_when_something_else_is_damaged(folder):
    disk = without_tables(folder.disk)
    stored = folder.stored[5]
    disk.flip(stored.file, stored.start + HEADER_BYTES, 0)
    store = open_store(disk, folder.clock)
    assert look(store, DROPPED) is None


def without_tables(disk: FaultyDisk) -> FaultyDisk:
    disk = disk.kill()
    for name in disk.files():
        if name.startswith("tables/"):
            disk.remove(name)
    return disk


def damage_fact(disk: FaultyDisk, key: bytes) -> None:
    """A wrong bit in the first entry that tells of a key."""
    for name in segments(disk):
        at = disk.content(name).find(key)
        if at >= 0:
            disk.flip(name, at, 1)
            return
    raise AssertionError(f"the log does not tell of {key!r}")


@STOPS
def test_many_flips_at_once(folder):
    """Whatever is left of a log, nothing wrong is served from it and it can be opened, written and opened again."""
    for seed in range(60 * EXAMPLES):
        choose, disk = random.Random(seed), folder.disk.kill()
        for _ in range(choose.choice([2, 10, 100])):
            name = choose.choice(segments(disk))
            disk.flip(name, choose.randrange(len(disk.content(name))), choose.randrange(8))
        store = open_store(disk, folder.clock)
        for queue_id, found in visible(store).items():
            sent = folder.sent[queue_id]  # all of it: the trim may be what was damaged
            assert {offset: sent.get(offset) for offset in found.bodies} == found.bodies, f"seed {seed}"
        again = visible(open_store(disk.kill(), folder.clock))
        assert again == visible(store), f"seed {seed}"


# --- what is derived -------------------------------------------------------------------------------------------------


@STOPS
def test_flips_in_the_tables(folder):
    choose = random.Random(4)
    for name in [name for name in folder.disk.files() if name.startswith("tables/")]:
        used = [byte for byte, value in enumerate(folder.disk.content(name)) if value]
        for byte in choose.sample(used, min(len(used), 60 * EXAMPLES)):
            disk = folder.damaged(name, byte, choose.randrange(8))
            assert folder.reopened(disk) == folder.state, f"{name} {byte}"


@STOPS
@pytest.mark.parametrize("lost", ["directory", ".rows", ""])
def test_tables_that_are_gone_are_made_anew(folder, lost):
    disk = folder.disk.kill()
    for name in disk.files():
        if name.startswith("tables/") and name.endswith(lost):
            disk.remove(name)
    assert folder.reopened(disk) == folder.state
    store = open_store(disk, folder.clock)
    assert not problems(folder.witness, store, killed=True)


@STOPS
@pytest.mark.parametrize("length", [0, 1, 500])
@pytest.mark.parametrize("kind", ["directory", ".rows"])
def test_tables_that_were_cut_off_are_made_anew(folder, kind, length):
    disk = folder.disk.kill()
    for name in disk.files():
        if name.startswith("tables/") and name.endswith(kind):
            disk.open(name).truncate(length)
    assert folder.reopened(disk) == folder.state


@STOPS
def test_tables_of_another_time_are_found_out(folder):
    """Row files that were sound once, but do not belong to this checkpoint."""
    disk = folder.disk.kill()
    for name in disk.files():
        if name.endswith(".rows"):
            file = disk.open(name)
            file.write(bytes(file.length()), 0)
    assert folder.reopened(disk) == folder.state


# --- small files -----------------------------------------------------------------------------------------------------


SMALL_FILES = pytest.mark.parametrize(("stop", "name"), [("clean", "format"), ("clean", "clean"), ("killed", "format")])


@SMALL_FILES
def test_flips_in_small_files(folder, name):
    for byte in range(len(folder.disk.content(name))):
        for bit in range(8):
            disk = folder.damaged(name, byte, bit)
            assert folder.reopened(disk) == folder.state, f"{name} byte {byte} bit {bit}"


@SMALL_FILES
def test_small_files_that_are_gone(folder, name):
    disk = folder.disk.kill()
    disk.remove(name)
    assert folder.reopened(disk) == folder.state


@SMALL_FILES
def test_small_files_that_are_cut_off(folder, name):
    for length in range(len(folder.disk.content(name))):
        disk = folder.disk.kill()
        disk.open(name).truncate(length)
        assert folder.reopened(disk) == folder.state, f"{name} cut to {length}"
