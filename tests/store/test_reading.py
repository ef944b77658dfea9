"""A reader's place at a queue: whatever it has at hand, it brings what a read that finds out everything anew brings."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.store.test_read import MINE, OTHER, PLENTY, Shelf

from penstock.config import KIB
from penstock.store import read as read_module
from penstock.store import reading as reading_module
from penstock.store.read import Reader
from penstock.store.residency import KNOWN_MS
from penstock.testing.disk import FaultyDisk
from penstock.wire.plain import plain, plain_run


@pytest.fixture
def asked(monkeypatch):
    """Offsets of the reads that found out everything anew."""
    offsets = []
    slices_now = Reader.slices_now

    def counted(self, table, offset, messages_max, bytes_max):
        offsets.append(offset)
        return slices_now(self, table, offset, messages_max, bytes_max)

    monkeypatch.setattr(Reader, "slices_now", counted)
    return offsets


def shelf_with(count: int, hot_bytes: int = 64 * KIB) -> Shelf:
    shelf = Shelf(FaultyDisk(), hot_bytes)
    for number in range(count):
        shelf.store.append([plain(MINE, b"%d" % number * 9), plain(OTHER, b"other")])
    return shelf


def fields(found):
    return found and (found.behind(b""), found.messages, found.size_bytes, found.next_offset, found.max_offset)


def test_what_comes_next_is_not_found_out_anew(asked):
    shelf = shelf_with(30)
    reading = shelf.store.reading(MINE)
    for offset in range(0, 30, 2):
        found = reading.now(offset, 2, PLENTY)
        assert found.next_offset == offset + 2
        assert found.behind(b"") == b"".join(shelf.store.read(MINE, offset, 2, PLENTY).payloads)
    assert asked == [0, 8, 16, 24]  # a piece of the table has eight rows here


def test_at_the_end_it_goes_on_with_what_is_appended(asked):
    shelf = shelf_with(3)
    reading = shelf.store.reading(MINE)
    reading.now(0, PLENTY, PLENTY)
    assert reading.now(3, PLENTY, PLENTY) is None
    del asked[:]
    shelf.store.append([plain(MINE, b"next")])
    found = reading.now(3, PLENTY, PLENTY)
    assert found.behind(b"<") == b"<" + b"".join(shelf.store.read(MINE, 3, 1, PLENTY).payloads)
    assert asked == []


def test_after_a_moment_it_is_found_out_anew(asked):
    shelf = shelf_with(9)
    reading = shelf.store.reading(MINE)
    for offset in range(3):
        reading.now(offset, 1, PLENTY)
    shelf.clock.advance(KNOWN_MS)
    for offset in range(3, 6):
        assert reading.now(offset, 1, PLENTY).next_offset == offset + 1
    assert asked == [0, 3]


def test_of_what_is_not_new_only_a_little_is_brought_at_once():
    shelf = Shelf(FaultyDisk(), hot_bytes=0)
    shelf.store.append([plain(MINE, b"x" * 90)] * 80)
    reading = shelf.store.reading(MINE)
    assert reading.now(0, 2, PLENTY) is not None
    with pytest.MonkeyPatch.context() as small:
        for module in (read_module, reading_module):
            small.setattr(module, "SMALL_BYTES", 500)
        assert reading.now(2, 5, PLENTY) is None
        assert reading.now(2, 2, PLENTY).messages == 2


def test_what_was_trimmed_is_not_brought():
    shelf = shelf_with(9)
    reading = shelf.store.reading(MINE)
    reading.now(0, 1, PLENTY)
    shelf.store.trim(MINE, 5)
    assert reading.now(1, 1, PLENTY) is None
    assert reading.now(5, 1, PLENTY).min_offset == 5


def test_of_a_queue_that_is_gone_nothing_is_brought():
    shelf = shelf_with(9)
    reading = shelf.store.reading(MINE)
    reading.now(0, 1, PLENTY)
    shelf.store.drop_queue(MINE)
    assert [reading.now(offset, 1, PLENTY) for offset in (0, 1, 8, 9)] == [None] * 4


def test_of_a_queue_with_something_in_another_encoding_nothing_is_brought():
    shelf = shelf_with(4)
    reading = shelf.store.reading(MINE, shelf.store.table(MINE).encodings)
    assert reading.now(0, 1, PLENTY) is not None
    shelf.store.table(MINE).encodings |= 1 << 9
    assert reading.now(1, 1, PLENTY) is None


def test_across_pieces_of_the_table_and_segments_of_the_log():
    shelf = shelf_with(600)
    reading, offset = shelf.store.reading(MINE), 0
    while offset < 600:
        found = reading.now(offset, 5, PLENTY)
        assert fields(found) == fields(shelf.store.slices_now(MINE, offset, 5, PLENTY))
        offset = found.next_offset


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("read"), st.integers(0, 40), st.integers(1, 12), st.integers(1, 400)),
        st.tuples(st.just("next"), st.just(0), st.integers(1, 12), st.integers(1, 400)),
        st.tuples(st.just("append"), st.integers(1, 6), st.integers(0, 60), st.just(0)),
        st.tuples(st.just("run"), st.integers(1, 6), st.integers(1, 60), st.just(0)),
        st.tuples(st.just("trim"), st.integers(0, 40), st.just(0), st.just(0)),
        st.tuples(st.just("later"), st.integers(0, 2_000), st.just(0), st.just(0)),
        st.tuples(st.just("clean"), st.just(0), st.just(0), st.just(0)),
        st.tuples(st.just("checkpoint"), st.just(0), st.just(0), st.just(0)),
    ),
    max_size=60,
)


@settings(deadline=None)
@given(STEPS, st.sampled_from([0, 4 * KIB, 64 * KIB]))
def test_whatever_happens_in_between_it_brings_what_a_read_brings(steps, hot_bytes):
    shelf = Shelf(FaultyDisk(), hot_bytes)
    reading, following = shelf.store.reading(MINE), 0
    for what, first, second, third in steps:
        if what in ("read", "next"):
            offset = first if what == "read" else following
            found = reading.now(offset, second, third)
            assert fields(found) == fields(shelf.store.slices_now(MINE, offset, second, third))
            following = found.next_offset if found else following
        elif what == "append":
            shelf.store.append([plain(MINE, b"x" * second), plain(OTHER, b"y" * 999)] * first)
        elif what == "run":
            shelf.store.append([plain_run([plain(MINE, b"z" * second)] * first)])
        elif what == "trim":
            shelf.store.trim_all({MINE: first, OTHER: first * 2})
        elif what == "later":
            shelf.clock.advance(first)
        elif what == "clean":
            shelf.store.clean_step()
        else:  # what was freed is used again
            shelf.store.checkpoint()
