"""What a cursor knows, beside a plain set of acknowledged messages."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.subscriptions.cursor import Cursor

ROWS = 12
MESSAGES = 3
ALL = (1 << MESSAGES) - 1

ROW = st.integers(0, ROWS - 1)
STEP = st.one_of(
    st.tuples(st.just("ack"), ROW),
    st.tuples(st.just("ack_until"), st.integers(0, ROWS)),
    st.tuples(st.just("ack_part"), ROW, st.integers(0, ALL)),
    st.tuples(st.just("reset"), st.integers(0, ROWS)),
    st.tuples(st.just("keep")),
)


class Model:
    """Every message that is not acknowledged, by row."""

    def __init__(self):
        self.left = dict.fromkeys(range(ROWS), ALL)

    def ack(self, row):
        self.left[row] = 0

    def ack_until(self, until):
        for row in range(until):
            self.left[row] = 0

    def ack_part(self, row, left):
        self.left[row] &= left

    def reset(self, until):
        self.left = {row: 0 if row < until else ALL for row in range(ROWS)}


@given(st.lists(STEP, max_size=30))
def test_a_cursor_is_a_set_of_what_is_left(steps):
    cursor, model = Cursor(0), Model()
    for name, *arguments in steps:
        if name == "keep":
            cursor = Cursor.of(cursor.state(runs_max=1_000))
            continue
        getattr(model, name)(*arguments)
        if name == "ack_part":
            before = cursor.left(arguments[0], MESSAGES).bit_count() if not cursor.is_acked(arguments[0]) else 0
            acked = cursor.ack_part(*arguments, MESSAGES)
            assert acked == before - model.left[arguments[0]].bit_count()
        else:
            getattr(cursor, name)(*arguments)
        left = [row for row in range(ROWS) if model.left[row]]
        assert [row for row in range(ROWS) if not cursor.is_acked(row)] == left
        assert cursor.mark == (left[0] if left else cursor.mark)
        assert cursor.mark >= ROWS or not cursor.is_acked(cursor.mark)
        assert cursor.backlog(ROWS) == len(left)
        assert {row: cursor.left(row, MESSAGES) for row in left} == {row: model.left[row] for row in left}
        for row in range(ROWS):
            assert cursor.next_unacked(row) == next((at for at in left if at >= row), max(row, ROWS, cursor.mark))
        open_end = [*left, *range(max(ROWS, cursor.mark), 2 * ROWS + cursor.mark)]
        for first, count in ((0, 0), (0, 2), (3, 1), (5, ROWS)):
            behind = cursor.behind(count, first)
            assert cursor.next_unacked(behind) == [row for row in open_end if row >= first][count]
        acked = {row for first, behind in cursor.acked_between(2, 9) for row in range(first, behind)}
        assert acked == {row for row in range(2, 9) if not model.left[row]}


def test_of_too_many_runs_the_first_are_kept_and_the_others_come_again():
    cursor = Cursor(0)
    for row in range(1, 20, 2):
        cursor.ack(row)
    kept = Cursor.of(cursor.state(runs_max=3))
    assert kept.runs == [(1, 2), (3, 4), (5, 6)]
    assert not kept.is_acked(7)


@pytest.mark.parametrize("row", [0, 3])
def test_a_second_acknowledgement_says_so(row):
    cursor = Cursor(0)
    assert cursor.ack(row)
    assert not cursor.ack(row)


@given(st.lists(st.lists(st.integers(0, 30), max_size=12), max_size=6), st.dictionaries(st.integers(0, 30), st.just(1)))
def test_many_at_once_are_as_one_after_the_other(calls, parts):
    together, one_by_one = Cursor(3), Cursor(3)
    for row in parts:
        for cursor in (together, one_by_one):
            cursor.ack_part(row, 1, 2)
    for rows in calls:
        fresh = together.ack_rows(rows)
        assert list(fresh) == [row for row in sorted(set(rows)) if one_by_one.ack(row)]
        assert together.state(100) == one_by_one.state(100)
        assert all(
            together.none_acked_from(row)
            == (together.next_unacked(row) == row and not any(one_by_one.is_acked(later) for later in range(row, 40)))
            for row in range(35)
        )


@given(
    st.sets(st.integers(0, 30)),
    st.dictionaries(st.integers(0, 30), st.integers(1, 2)),
    st.integers(0, 30),
    st.integers(0, 30),
)
def test_rows_between_two_are_acknowledged_and_no_others(acked, parts, first, behind):
    cursor = Cursor(0)
    for row in acked:
        cursor.ack(row)
    for row, left in parts.items():
        cursor.ack_part(row, left, 2)
    cursor.ack_between(first, behind)
    expected = acked | set(range(first, behind))
    assert [row for row in range(40) if cursor.is_acked(row)] == sorted(expected)
    assert {row for row in range(40) if cursor.part(row) is not None} == set(parts) - expected
    assert cursor.runs == sorted(cursor.runs)
    assert all(before[1] < after[0] for before, after in pairwise(cursor.runs))
