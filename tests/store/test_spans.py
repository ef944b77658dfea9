"""From rows straight to the bytes of the log: in Python and compiled it is the same, and the same as a plan brings."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiled import built
from tests.store.test_read import MINE, OTHER, PLENTY, Shelf

from penstock.store import read
from penstock.store.rowfiles import NOWHERE, ROW, ROW_BYTES
from penstock.store.spans import joined_in_python, spans_in_python
from penstock.testing.disk import FaultyDisk
from penstock.wire.plain import plain, plain_run

compiled = built("penstock.store._spans").spans
BOTH = pytest.mark.parametrize("spans", [spans_in_python, compiled])

LARGEST, ENOUGH = 2**31 - 1, 2**62


def table(*rows: tuple[int, int, int, int]) -> memoryview:
    """Rows of (position, length, base, count)."""
    return memoryview(b"".join(ROW.pack(at, base, 0, 0, length, count, 80, 0) for at, length, base, count in rows))


@BOTH
def test_what_touches_is_one_span(spans):
    view = table((100, 10, 0, 1), (110, 5, 1, 1), (300, 7, 2, 1), (50, 50, 3, 1))
    assert spans(view, 0, 4, -1, 10, 1_000) == (4, 4, 72, 4, 50, 307, [100, 15, 300, 7, 50, 50])


@BOTH
def test_both_limits_hold_but_one_always_goes(spans):
    view = table((0, 10, 0, 4), (10, 10, 4, 4), (20, 10, 8, 4))
    assert spans(view, 0, 3, -1, 8, 1_000) == (2, 8, 20, 8, 0, 20, [0, 20])
    assert spans(view, 0, 3, -1, 1_000, 29) == (2, 8, 20, 8, 0, 20, [0, 20])
    assert spans(view, 0, 3, -1, 1, 1) == (1, 4, 10, 4, 0, 10, [0, 10])


@BOTH
def test_it_begins_where_it_is_told(spans):
    view = table((0, 10, 0, 1), (10, 10, 1, 1), (20, 10, 2, 1))
    assert spans(view, ROW_BYTES, 2, -1, 10, 1_000) == (2, 2, 20, 3, 10, 30, [10, 20])


@BOTH
def test_a_lost_row_takes_a_closer_look(spans):
    assert spans(table((0, 10, 0, 1), (NOWHERE, 0, 1, 1)), 0, 2, -1, 10, 1_000) is None
    assert spans(table((0, 10, 0, 1)), 0, 0, -1, 10, 1_000) is None


@BOTH
def test_a_first_row_that_does_not_begin_with_the_offset_takes_a_closer_look(spans):
    assert spans(table((0, 10, 7, 2)), 0, 1, 7, 10, 1_000) == (1, 2, 10, 9, 0, 10, [0, 10])
    assert spans(table((0, 10, 7, 2)), 0, 1, 8, 10, 1_000) is None
    assert spans(table((0, 10, 7, 0)), 0, 1, 7, 10, 1_000) is None


@BOTH
@pytest.mark.parametrize(("at", "rows"), [(-1, 1), (0, 3), (0, -1), (ROW_BYTES, 2), (3 * ROW_BYTES, 0), (0, ENOUGH)])
def test_rows_outside_the_memory_are_refused(spans, at, rows):
    with pytest.raises(ValueError, match="no such rows"):
        spans(table((0, 1, 0, 1), (1, 1, 1, 1)), at, rows, -1, 10, 1_000)


ROWS = st.lists(
    st.tuples(
        st.one_of(st.integers(-1, 200), st.integers(0, 2**52)),
        st.one_of(st.integers(0, 100), st.integers(-1, LARGEST)),
        st.integers(0, 2**52),
        st.one_of(st.integers(0, 5), st.integers(0, LARGEST)),
    ),
    max_size=40,
)
LIMITS = st.one_of(st.integers(0, 300), st.integers(-ENOUGH, ENOUGH))


@given(ROWS, st.integers(-1, 3), LIMITS, LIMITS)
def test_compiled_it_does_the_same(rows, first, messages_max, bytes_max):
    asked = (table(*rows), 0, len(rows), first, messages_max, bytes_max)
    assert compiled(*asked) == spans_in_python(*asked)


JOINS = pytest.mark.parametrize("joined", [joined_in_python, built("penstock.store._spans").joined])


@JOINS
def test_the_bytes_of_all_places_stand_behind_the_head(joined):
    first, second = memoryview(b"abcdefgh"), memoryview(b"ABCDEFGH")
    parts = [(first, 100, [102, 2, 100, 1]), (second, 200, [207, 1, 203, 0]), (first, 0, [])]
    assert joined([b"head ", *parts]) == b"head cdaH"
    assert joined([]) == b""


@JOINS
@pytest.mark.parametrize("places", [[99, 1], [107, 2], [100, -1], [100, 9], [2**62, 1], [100], [100, 2**62]])
def test_a_place_outside_of_its_segment_is_refused(joined, places):
    with pytest.raises(ValueError, match=r"outside|length|argument"):
        joined([(memoryview(b"abcdefgh"), 100, [100, 8]), (memoryview(b"abcdefgh"), 100, places)])


# --- as the store uses it ---------------------------------------------------------------------------------------------


def shelf_with_some() -> Shelf:
    """Single messages of two queues that take turns, then a run of one of them."""
    shelf = Shelf(FaultyDisk())
    for number in range(5):
        shelf.store.append([plain(MINE, b"%d" % number), plain(OTHER, b"x")])
    shelf.store.append([plain_run([plain(MINE, body) for body in (b"a", b"b", b"c")])])
    return shelf


def test_it_is_what_a_plan_brings():
    shelf = shelf_with_some()
    for offset in range(8):
        for messages_max, bytes_max in ((1, PLENTY), (3, PLENTY), (PLENTY, 1), (PLENTY, 90)):
            batch = shelf.store.read(MINE, offset, messages_max, bytes_max)
            found = shelf.store.slices_now(MINE, offset, messages_max, bytes_max)
            assert found is not None
            assert found.behind(b"") == b"".join(batch.payloads)
            assert (found.messages, found.next_offset) == (len(batch.rows), batch.next_offset)
            assert found.size_bytes == sum(map(len, batch.payloads))


def test_a_run_leaves_in_one_piece():
    found = shelf_with_some().store.slices_now(MINE, 5, PLENTY, PLENTY)
    assert found is not None
    ((_, _, places),) = found.parts
    assert (len(places), found.messages) == (2, 3)


@pytest.mark.parametrize("offset", [-1, 8, 9])
def test_nothing_there_is_for_the_plan_to_say(offset):
    assert shelf_with_some().store.slices_now(MINE, offset, PLENTY, PLENTY) is None


def test_it_tells_where_the_queue_begins_and_ends():
    shelf = shelf_with_some()
    shelf.store.trim(MINE, 2)
    assert shelf.store.slices_now(MINE, 1, PLENTY, PLENTY) is None
    found = shelf.store.slices_now(MINE, 3, 1, PLENTY)
    assert found is not None
    assert (found.next_offset, found.min_offset, found.max_offset) == (4, 2, 8)


def test_rows_that_hold_several_messages_are_found_all_the_same():
    """Neither the row that its offset speaks for, nor one that is there."""
    shelf = shelf_with_some()
    for _ in range(4):
        five = plain(MINE, b"five")
        five.count = 5
        shelf.store.append([five])
    for offset in range(8, 28):
        batch, found = shelf.store.read(MINE, offset, 5, PLENTY), shelf.store.slices_now(MINE, offset, 5, PLENTY)
        assert found is not None
        assert found.behind(b"") == b"".join(batch.payloads)


@pytest.mark.parametrize("bytes_max", [1, 60, 100, 350, 500, PLENTY])
@pytest.mark.parametrize("messages_max", [1, 7, 8, 9, 17, PLENTY])
def test_rows_of_many_pieces_are_found_piece_by_piece(messages_max, bytes_max):
    shelf = shelf_with_some()
    for number in range(20):  # a piece has eight rows
        shelf.store.append([plain(MINE, b"%d" % number * (1 + number % 5)), plain(OTHER, b"x")])
    for offset in range(28):
        batch = shelf.store.read(MINE, offset, messages_max, bytes_max)
        found = shelf.store.slices_now(MINE, offset, messages_max, bytes_max)
        assert found is not None
        assert found.behind(b"") == b"".join(batch.payloads)
        assert (found.messages, found.next_offset) == (len(batch.rows), batch.next_offset)


def test_a_border_of_segments_ends_nothing():
    """What lies behind it is as easy as what lies before it."""
    shelf = shelf_with_some()
    for _ in range(30):  # a segment has room for eleven such pairs
        shelf.store.append([plain(MINE, b"m" * 700), plain(OTHER, b"x" * 700)])
    segments: list[int] = []
    for offset in range(shelf.store.table(MINE).next_offset):
        batch = shelf.store.read(MINE, offset, 20, PLENTY)
        found = shelf.store.slices_now(MINE, offset, 20, PLENTY)
        assert found is not None
        assert found.behind(b"") == b"".join(batch.payloads)
        assert (found.messages, found.next_offset) == (len(batch.rows), batch.next_offset)
        segments.append(len({base for _, base, _ in found.parts}))
    assert max(segments) > 1


def test_a_plan_looks_at_as_many_rows_as_it_takes(monkeypatch):
    """However few it looks at first."""
    monkeypatch.setattr(read, "_STEP_ROWS", 1)
    shelf = shelf_with_some()
    for messages_max, bytes_max, rows in ((PLENTY, PLENTY, 8), (5, PLENTY, 5), (PLENTY, 1, 1)):
        assert len(shelf.store.read(MINE, 0, messages_max, bytes_max).rows) == rows


def test_of_what_is_asked_for_no_more_rows_are_looked_at_than_are_found(monkeypatch):
    shelf = shelf_with_some()
    shelf.store.append([plain(MINE, b"%d" % number) for number in range(200)])
    looked, place = [], shelf.store.table(MINE).place
    monkeypatch.setattr(type(shelf.store.table(MINE)), "place", lambda self, row: looked.append(row) or place(row))
    found = shelf.store.slices_now(MINE, 0, PLENTY, 300)
    assert found is not None
    assert max(looked) <= found.messages


def test_what_was_there_before_the_start_is_checked_first():
    shelf = shelf_with_some().again()
    assert shelf.store.slices_now(MINE, 0, PLENTY, PLENTY) is None
    assert len(shelf.store.read(MINE, 0, PLENTY, PLENTY).rows) == 8
