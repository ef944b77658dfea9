"""From rows to an answer by way of the disk: the same bytes as a plan brings, whatever of it is in memory."""

import errno

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.store.test_read import MINE, OTHER, PLENTY, Shelf

from penstock.store.files import LocalDisk
from penstock.store.later import Later
from penstock.testing.disk import FaultyDisk, FaultyFile
from penstock.wire.plain import plain, plain_run


def shelf_with_some(singles: int = 30) -> Shelf:
    """Single messages of two queues that take turns, over several segments, then a run of one of them."""
    shelf = Shelf(FaultyDisk())
    for number in range(singles):
        shelf.store.append([plain(MINE, b"%d" % number * (1 + 300 * (number % 3))), plain(OTHER, b"x" * 500)])
    shelf.store.append([plain_run([plain(MINE, body) for body in (b"a", b"b", b"c")])])
    return shelf


def later(shelf: Shelf, offset: int, messages_max: int = PLENTY, bytes_max: int = PLENTY) -> Later:
    found = shelf.store.slices_later(MINE, offset, messages_max, bytes_max)
    assert found is not None
    return found


@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize(("messages_max", "bytes_max"), [(1, PLENTY), (7, PLENTY), (PLENTY, 2_000), (PLENTY, PLENTY)])
def test_it_is_what_a_plan_brings(messages_max, bytes_max, cold):
    shelf = shelf_with_some()
    shelf.disk.cold = cold
    for offset in range(33):
        batch = shelf.store.read(MINE, offset, messages_max, bytes_max)
        found = later(shelf, offset, messages_max, bytes_max)
        assert found.behind(b"head", wait=True) == b"head" + b"".join(batch.payloads)
        assert (found.messages, found.next_offset) == (len(batch.rows), batch.next_offset)
        assert (found.size_bytes, found.max_offset) == (sum(map(len, batch.payloads)), 33)


def test_without_waiting_it_is_only_what_is_in_memory():
    shelf = shelf_with_some()
    assert later(shelf, 0).behind(b"", wait=False) == b"".join(shelf.store.read(MINE, 0, PLENTY, PLENTY).payloads)
    shelf.disk.cold = True
    assert later(shelf, 0).behind(b"", wait=False) is None


def test_it_goes_on_where_memory_ended(monkeypatch):
    """What was read is not read again, and nothing is there twice."""
    shelf, reads = shelf_with_some(), []
    read_into = FaultyFile.read_into

    def some(self: object, room: memoryview, at: int, wait: bool) -> bool:
        if not wait and len(reads) >= 2:
            return False
        if len(room) > 1:  # else a look whether it is in memory
            reads.append((id(self), at))
        return bool(read_into(self, room, at, wait))

    monkeypatch.setattr(FaultyFile, "read_into", some)
    found = later(shelf, 0)
    assert found.behind(b"head", wait=False) is None
    assert len(reads) == 2
    assert found.behind(b"not used", wait=True) == b"head" + b"".join(
        shelf.store.read(MINE, 0, PLENTY, PLENTY).payloads
    )
    assert len(reads) == len(set(reads)) > 2


def test_what_is_cold_takes_no_memory_while_it_waits_for_its_turn():
    shelf = shelf_with_some()
    shelf.disk.cold = True
    found = later(shelf, 0)
    assert found.behind(b"head", wait=False) is None
    assert not found._answer
    assert bytes(found.behind(b"", wait=True)[:4]) == b"head"


def test_large_pieces_are_announced_in_their_order_before_any_is_read():
    told = []

    class File(FaultyFile):
        def announce(self, at: int, length: int) -> None:
            told.append(("announced", at, length))

        def read_into(self, room: memoryview, at: int, wait: bool) -> bool:
            told.append(("read", at, len(room)))
            return True

    file = File(FaultyDisk(), "log/one", None)
    places = [0, 70_000, 200_000, 70_000, 300_000, 1_000, 400_000, 70_000]
    Later([(file, 0, places)], 4, 211_000, 0, 0, 0).behind(b"", wait=True)
    large = [(0, 70_000), (200_000, 70_000), (400_000, 70_000)]
    assert told[:3] == [("announced", *piece) for piece in large]
    assert [(at, length) for kind, at, length in told if kind == "read"] == [*large[:2], (300_000, 1_000), large[2]]


def test_a_disk_that_fails_says_so():
    shelf = shelf_with_some()
    found = later(shelf, 0)
    shelf.disk.fail_at(shelf.disk.calls + 1, OSError(errno.EIO, ""))
    with pytest.raises(OSError, match="Input/output error"):
        found.behind(b"", wait=True)


def test_what_was_there_before_the_start_is_checked_first():
    assert shelf_with_some().again().store.slices_later(MINE, 0, PLENTY, PLENTY) is None


@given(st.lists(st.tuples(st.integers(0, 6_000), st.integers(1, 3_000)), min_size=1, max_size=30))
def test_near_places_are_read_together_and_far_ones_are_not(pairs):
    """Whatever the gaps between them are."""
    content = bytes(range(256)) * 1_200
    disk = FaultyDisk()
    disk.make_folder("log")
    file = disk.open("log/one", create=True)
    file.truncate(len(content))
    file.write(content, 0)
    places, at = [], 0
    for gap, length in pairs:
        places += [1_000_000 + at + gap, length]
        at += gap + length
    wanted = b"".join(
        content[at - 1_000_000 : at - 1_000_000 + length] for at, length in zip(places[::2], places[1::2], strict=True)
    )
    before = disk.calls
    found = Later([(file, 1_000_000, places)], 1, len(wanted), 0, 0, 0).behind(b"", wait=True)
    assert found == wanted
    far = sum(gap > 4_096 for gap, _ in pairs[1:])
    assert far + 1 <= disk.calls - before <= len(pairs)


def test_a_real_file_that_is_too_short_is_an_error(tmp_path):
    file = LocalDisk(str(tmp_path)).open("short", create=True)
    file.write(b"only this", 0)
    assert file.read_into(memoryview(bytearray(9)), 0, wait=True)
    with pytest.raises(OSError, match="3 bytes before"):
        file.read_into(memoryview(bytearray(9)), 3, wait=True)
    assert not file.read_into(memoryview(bytearray(9)), 3, wait=False)


def test_a_real_file_can_be_announced(tmp_path):
    file = LocalDisk(str(tmp_path)).open("long", create=True)
    file.write(b"0123456789" * 30_000, 0)
    found = Later([(file, 0, [5, 200_000, 250_000, 4])], 2, 200_004, 0, 0, 0).behind(b"", wait=True)
    assert found == (b"0123456789" * 30_000)[5:200_005] + b"0123"
