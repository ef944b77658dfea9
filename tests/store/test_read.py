"""Reading: from the mapping, from memory and from the disk it is the same; what is damaged is left out and told.

What a reader decided to read (a plan) may be fetched a while later, in a worker thread: meanwhile the log goes on.
"""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from penstock.clock import ManualClock
from penstock.config import KIB, StoreConfig
from penstock.model import Durability
from penstock.store import cold, log
from penstock.store.plan import Batch
from penstock.store.segments import Segments
from penstock.store.store import Store
from penstock.testing.disk import FaultyDisk
from penstock.wire.plain import PLAIN_RUN, message_in, plain, plain_run, split

PLENTY = 1_000_000
MINE, OTHER = 1, 2


def config_with(hot_bytes: int) -> StoreConfig:
    return StoreConfig(
        segment_bytes=16 * KIB,
        append_buffer_bytes=4 * KIB,
        hot_bytes=hot_bytes,
        piece_rows=8,
        chunk_pieces=16,
        open_segments_max=3,
        clean_live_share_max=0.5,
    )


class Shelf:
    """A store on a disk in memory, with two queues."""

    def __init__(self, disk: FaultyDisk, hot_bytes: int = 64 * KIB) -> None:
        self.disk, self.hot_bytes, self.clock = disk, hot_bytes, ManualClock()
        self.store = Store.open(disk, config_with(hot_bytes), self.clock, {PLAIN_RUN: split})
        if not self.store.catalog.items("queue/"):
            self.store.create_queues([MINE, OTHER], Durability.ASYNC, {})

    def again(self) -> "Shelf":
        self.store.close()
        return Shelf(self.disk, self.hot_bytes)

    def read(self, queue: int = MINE, messages_max: int = PLENTY, bytes_max: int = PLENTY) -> Batch:
        return self.store.read(queue, self.store.bounds(queue).min_offset, messages_max, bytes_max)

    def flip(self, body: bytes) -> None:
        """One bit of a message's body is wrong from now on."""
        for name in self.disk.files():
            at = self.disk.content(name).find(body) if name.startswith("log/") else -1
            if at >= 0:
                self.disk.flip(name, at, 0)
                return
        raise AssertionError(f"{body!r} is not in the log")


@pytest.fixture
def disk():
    return FaultyDisk()


def bodies(batch: Batch) -> list[bytes]:
    return [message_in(payload).body for payload in batch.payloads]


def mixed(shelf: Shelf, rounds: int) -> list[bytes]:
    """Single messages, runs and closed batches of one queue, with another queue's between them; what mine holds."""
    wanted = []
    for number in range(rounds):
        body = b"%d." % number + bytes(number * 37 % 700)
        run = [plain(MINE, b"run %d " % index + body) for index in range(number % 4)]
        closed = plain(MINE, b"closed " + body)
        closed.count = 3
        entries = [
            plain(MINE, body),
            plain(OTHER, bytes(number * 91 % 1_500)),
            closed,
            *([plain_run(run)] if run else []),
        ]
        shelf.store.append(entries)
        wanted += [body, b"closed " + body, *(message.body for message in run)]
    return wanted


# --- the same from wherever it comes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("hot_bytes", [0, 500, 20 * KIB, PLENTY], ids=lambda hot_bytes: f"hot {hot_bytes}")
@pytest.mark.parametrize("fresh", [True, False], ids=["fresh", "reopened"])
@pytest.mark.parametrize("cold", [True, False], ids=["cold", "resident"])
def test_whatever_is_in_memory_the_answer_is_the_same(disk, hot_bytes, fresh, cold):
    shelf = Shelf(disk, hot_bytes)
    wanted = mixed(shelf, 60)
    assert len(disk.list("log")) > 3, "the log should have several segments"
    if not fresh:
        shelf = shelf.again()
    disk.cold = cold
    for _ in range(2):  # the first read checks, the second knows
        batch = shelf.read()
        assert bodies(batch) == wanted
        assert batch.damage == []


@pytest.mark.parametrize("hot_bytes", [0, 500, PLENTY], ids=lambda hot_bytes: f"hot {hot_bytes}")
@pytest.mark.parametrize("fresh", [True, False], ids=["fresh", "reopened"])
@pytest.mark.parametrize("cold", [True, False], ids=["cold", "resident"])
@pytest.mark.parametrize("step", [64, 65, 100, PLENTY])
def test_together_the_bytes_are_the_same(disk, hot_bytes, fresh, cold, step):
    shelf = Shelf(disk, hot_bytes)
    for number in range(30):
        shelf.store.append([plain_run([plain(MINE, b"%d.%d" % (number, index)) for index in range(9)])])
        shelf.store.append([plain(MINE, b"alone %d" % number), plain(OTHER, bytes(300))])
    if not fresh:
        shelf = shelf.again()
    disk.cold = cold
    for _ in range(2):
        offset, wanted, found, pieces = 0, b"", b"", 0
        while offset < shelf.store.bounds(MINE).max_offset:
            plan = shelf.store.plan(MINE, offset, step, PLENTY)
            wanted += b"".join(plan.load(wait=True).payloads)
            plan.together = True
            batch = plan.load(wait=True)
            assert len(batch.rows) == batch.next_offset - offset
            found, pieces, offset = found + b"".join(batch.payloads), pieces + len(batch.payloads), batch.next_offset
        assert found == wanted
    if (hot_bytes == PLENTY and fresh and step == 100) or (cold and not hot_bytes):
        assert pieces < 200  # of 300 messages: runs come as one piece, within a segment


@pytest.mark.parametrize("fresh", [True, False], ids=["fresh", "reopened"])
def test_every_offset_is_found_alone(disk, fresh):
    shelf = Shelf(disk, hot_bytes=0)
    mixed(shelf, 12)
    rows = shelf.read().rows
    if not fresh:
        shelf = shelf.again()
    for base, count in zip(rows["base"].tolist(), rows["count"].tolist(), strict=True):
        for offset in range(base, base + count):
            batch = shelf.store.read(MINE, offset, 1, PLENTY)
            assert (batch.rows["base"].tolist(), batch.next_offset) == ([base], base + count)
            assert message_in(batch.payloads[0]).offset == base


def test_without_waiting_a_cold_read_is_declined(disk):
    shelf = Shelf(disk, hot_bytes=0)
    wanted = mixed(shelf, 10)
    disk.cold = True
    plan = shelf.store.plan(MINE, 0, PLENTY, PLENTY)
    assert plan.load(wait=False) is None
    assert bodies(plan.load(wait=True)) == wanted


def test_the_end_of_the_log_needs_no_reading(disk):
    shelf = Shelf(disk, hot_bytes=PLENTY)
    wanted = mixed(shelf, 10)
    disk.cold = True
    assert bodies(shelf.store.plan(MINE, 0, PLENTY, PLENTY).load(wait=False)) == wanted


# --- a plan that is fetched later -------------------------------------------------------------------------------------


def test_a_plan_is_not_changed_by_what_is_appended_meanwhile(disk):
    shelf = Shelf(disk, hot_bytes=0)
    wanted = mixed(shelf, 10)
    plan = shelf.store.plan(MINE, 0, PLENTY, PLENTY)
    mixed(shelf, 30)
    assert bodies(plan.load(wait=True)) == wanted


def mostly_trimmed(shelf: Shelf) -> list[bytes]:
    """A few messages that stay in segments of which retention took nearly all: what the cleaner looks for."""
    for number in range(12):
        shelf.store.append([plain(MINE, b"stays %d" % number), *(plain(OTHER, bytes(3_000)) for _ in range(4))])
    shelf.store.flush()
    shelf.store.trim(OTHER, shelf.store.bounds(OTHER).max_offset)
    return [b"stays %d" % number for number in range(12)]


def test_after_the_cleaner_the_order_of_the_queue_is_the_same(disk):
    shelf = Shelf(disk, hot_bytes=0)
    wanted = mostly_trimmed(shelf)
    shelf.store.clean()
    shelf.store.append([plain(MINE, b"after")])
    assert bodies(shelf.read()) == [*wanted, b"after"]
    assert bodies(shelf.again().read()) == [*wanted, b"after"]


def test_the_cleaner_works_where_positions_have_more_than_32_bits(disk, monkeypatch):
    monkeypatch.setattr(log, "FIRST_SEGMENT", (1 << 31) // config_with(0).segment_bytes)
    shelf = Shelf(disk, hot_bytes=0)
    wanted = mostly_trimmed(shelf)
    shelf.store.clean()
    assert shelf.store.end_position > 1 << 31
    assert bodies(shelf.read()) == wanted
    assert bodies(shelf.again().read()) == wanted


# --- several at once --------------------------------------------------------------------------------------------------


@pytest.fixture
def impatient_threads():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("impatient_threads")
def test_worker_threads_that_read_different_segments_do_not_disturb_each_other(disk):
    """With fewer segments open at a time than there are readers."""
    disk.make_folder("log")
    segments = Segments(disk, 4 * KIB, secret=1, open_max=1)
    for number in (0, 1):
        segments.create(number, 0, 0)
    together = threading.Barrier(2, timeout=10)

    def read_often(number: int) -> bool:
        together.wait()
        return all(segments.get(number).number == number for _ in range(200_000))

    with ThreadPoolExecutor(2) as workers:
        assert list(workers.map(read_often, (0, 1))) == [True, True]


# --- damage -----------------------------------------------------------------------------------------------------------


def test_a_damaged_message_is_left_out_and_told(disk):
    shelf = Shelf(disk)
    shelf.store.append([plain(MINE, b"message number %d" % number) for number in range(20)])
    shelf.store.close()
    shelf.flip(b"message number 7")
    shelf = Shelf(disk)
    batch = shelf.read()
    assert bodies(batch) == [b"message number %d" % number for number in range(20) if number != 7]
    assert batch.rows["base"].tolist() == [number for number in range(20) if number != 7]
    assert (batch.next_offset, batch.next_row) == (20, 20)
    assert [damage.why for damage in batch.damage] == ["checksum wrong when served"]


def test_one_damaged_message_spoils_its_run_and_no_other(disk):
    """The checksum is over the whole run: none of it can be told from the damaged one."""
    shelf = Shelf(disk)
    for run in range(3):
        shelf.store.append([plain_run([plain(MINE, b"run %d message %d" % (run, number)) for number in range(5)])])
    shelf.store.close()
    shelf.flip(b"run 1 message 3")
    batch = Shelf(disk).read()
    assert bodies(batch) == [b"run %d message %d" % (run, number) for run in (0, 2) for number in range(5)]
    assert len(batch.damage) >= 1


@pytest.mark.parametrize("first", range(5))
def test_a_run_is_checked_whole_however_little_of_it_is_read(disk, first):
    shelf = Shelf(disk)
    shelf.store.append([plain_run([plain(MINE, b"message number %d" % number) for number in range(5)])])
    shelf.store.close()
    shelf.flip(b"message number 3")
    batch = Shelf(disk).store.read(MINE, first, 1, PLENTY)
    assert (bodies(batch), len(batch.damage)) == ([], 1)


def test_a_run_is_checked_once_for_all_its_messages(disk, monkeypatch):
    """For each of them it would take as many times as long as there are."""
    shelf = Shelf(disk)
    for _ in range(3):
        shelf.store.append([plain_run([plain(MINE, b"message number %d" % number) for number in range(50)])])
    shelf = shelf.again()
    checked, check = [], cold.crc32c
    monkeypatch.setattr(cold, "crc32c", lambda data: checked.append(bytes(data)) or check(data))
    assert len(shelf.read().payloads) == 150
    assert len(checked) == 3
    assert len(shelf.read().payloads) == 150
    assert len(checked) == 3


def test_a_run_is_checked_once_also_where_few_of_its_messages_are_wanted(disk, monkeypatch):
    """They lie apart, and are read one by one."""
    shelf = Shelf(disk)
    shelf.store.append([plain_run([plain(MINE, b"%d" % number * 100) for number in range(60)])])
    shelf = shelf.again()
    checked, check = [], cold.crc32c
    monkeypatch.setattr(cold, "crc32c", lambda data: checked.append(len(data)) or check(data))
    plan = shelf.store.plan(MINE, 0, PLENTY, PLENTY)
    plan.only(np.arange(60) % 10 == 3)
    assert bodies(plan.load(wait=True)) == [b"%d" % number * 100 for number in range(3, 60, 10)]
    assert len(checked) == 1


def test_much_that_was_not_checked_is_for_a_worker_thread(disk):
    """Also where it is in memory: others wait for the loop."""
    shelf = Shelf(disk)
    shelf.store.append([plain(MINE, b"%d" % number) for number in range(300)])
    shelf = shelf.again()
    assert shelf.store.plan(MINE, 0, 300, PLENTY).load(wait=False) is None
    assert len(shelf.store.plan(MINE, 0, 200, PLENTY).load(wait=False).rows) == 200
    assert len(shelf.store.plan(MINE, 0, 300, PLENTY).load(wait=False).rows) == 300  # most of it was checked by now


@pytest.mark.parametrize("together", [False, True])
def test_what_was_checked_is_as_easy_as_what_was_just_written(disk, together):
    shelf = Shelf(disk)
    shelf.store.append([plain(MINE, b"%d" % number) for number in range(30)])  # a piece has eight rows
    shelf.store.append([plain_run([plain(MINE, b"message number %d" % number) for number in range(20)])])
    shelf = shelf.again()
    assert shelf.store.slices_now(MINE, 5, 40, PLENTY) is None
    plan = shelf.store.plan(MINE, 5, 40, PLENTY)
    plan.together = together
    batch = plan.load(wait=True)
    assert len(batch.rows) == 40
    found, later = shelf.store.slices_now(MINE, 5, 40, PLENTY), shelf.store.slices_later(MINE, 5, 40, PLENTY)
    assert found.behind(b"") == later.behind(b"", wait=True) == b"".join(batch.payloads)
    for first in (4, 6):  # one row more, before it or behind it
        assert shelf.store.slices_now(MINE, first, 40, PLENTY) is None
        assert shelf.store.slices_later(MINE, first, 40, PLENTY) is None


@pytest.mark.parametrize("together", [False, True])
def test_what_is_damaged_is_never_easy(disk, together):
    shelf = Shelf(disk)
    shelf.store.append([plain_run([plain(MINE, b"first %d" % number) for number in range(10)])])
    shelf.store.append([plain_run([plain(MINE, b"second %d" % number) for number in range(10)])])
    shelf.store.append([plain(MINE, b"third")])
    shelf.store.close()
    shelf.flip(b"second 7")
    shelf = Shelf(disk)
    for _ in range(2):
        plan = shelf.store.plan(MINE, 0, PLENTY, PLENTY)
        plan.together = together
        batch = plan.load(wait=True)
        assert batch.rows["base"].tolist() == [*range(10), 20]
        assert [damage.why for damage in batch.damage] == ["checksum wrong when served"]
        assert b"second" not in b"".join(batch.payloads)
    for first, count, easy in ((0, 10, True), (0, 11, False), (15, 1, False), (19, 2, False), (20, 1, True)):
        assert (shelf.store.slices_now(MINE, first, count, PLENTY) is not None) is easy


def test_a_read_of_nothing_but_damage_goes_on_behind_it(disk):
    shelf = Shelf(disk)
    shelf.store.append([plain(MINE, b"damaged"), plain(MINE, b"sound")])
    shelf.store.close()
    shelf.flip(b"damaged")
    shelf = Shelf(disk)
    batch = shelf.read(messages_max=1)
    assert (bodies(batch), batch.next_offset) == ([], 1)
    assert bodies(shelf.store.read(MINE, 1, 1, PLENTY)) == [b"sound"]


def test_a_segment_that_is_gone_is_damage_and_the_rest_is_served(disk):
    shelf = Shelf(disk, hot_bytes=0)
    for number in range(40):
        shelf.store.append([plain(MINE, b"%d" % number + bytes(1_000))])
    shelf.store.close()
    gone = disk.list("log")[1]
    disk.remove(f"log/{gone}")
    batch = Shelf(disk, hot_bytes=0).read()
    offsets = batch.rows["base"].tolist()
    assert 0 < len(offsets) < 40
    assert (offsets[0], offsets[-1], batch.next_offset) == (0, 39, 40)
    assert {damage.why for damage in batch.damage} == {"the segment is missing"}


def test_of_a_segment_that_is_gone_nothing_is_counted_that_comes_together_either(disk):
    shelf = Shelf(disk, hot_bytes=0)
    for number in range(40):
        shelf.store.append([plain(MINE, b"%d" % number + bytes(1_000))])
    wanted = shelf.store.read(MINE, 0, PLENTY, PLENTY).payloads
    disk.cold = True
    disk.remove(f"log/{disk.list('log')[1]}")
    shelf.store._segments.numbers.pop(1)
    plan = shelf.store.plan(MINE, 0, PLENTY, PLENTY)
    plan.together = True
    batch = plan.load(wait=True)
    assert 0 < len(batch.rows) < 40
    assert b"".join(batch.payloads) == b"".join(wanted[offset] for offset in batch.rows["base"].tolist())
    assert {damage.why for damage in batch.damage} == {"the segment is missing"}


def test_what_this_process_wrote_is_not_checked_again(disk):
    """Its own memory is trusted; the check is for what lay on a disk."""
    shelf = Shelf(disk, hot_bytes=0)
    shelf.store.append([plain(MINE, b"written just now")])
    shelf.flip(b"written just now")
    assert len(shelf.read().payloads) == 1


# --- by time ----------------------------------------------------------------------------------------------------------


def test_the_first_offset_at_or_after_a_time(disk):
    shelf = Shelf(disk)
    clock = shelf.store._clock
    begun = clock.now_ms()
    for _ in range(5):
        shelf.store.append([plain(MINE, b"a"), plain(MINE, b"b")])
        clock.advance(10)
    found = [shelf.store.offset_at_time(MINE, begun + late) for late in (-1_000, 0, 1, 10, 11, 40, 41, 1_000)]
    assert found == [0, 0, 2, 2, 4, 8, 10, 10]


def test_time_finds_nothing_that_cannot_be_seen_yet(disk):
    shelf = Shelf(disk)
    shelf.store.create_queue(3, Durability.SYNC)
    shelf.store.append([plain(3, b"a")])
    shelf.store.flush()
    shelf.store.append([plain(3, b"not durable")])
    assert shelf.store.offset_at_time(3, shelf.store._clock.now_ms() + 1) == 1
