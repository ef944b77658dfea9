"""A queue's table against a plain list: rows found by number, offset and time, whatever was trimmed and taken back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.model import Durability, Spans
from penstock.store.rowfiles import FOLDER, RowFiles
from penstock.store.table import QueueTable
from penstock.testing.disk import FaultyDisk

PIECE_ROWS = 4


class Listed:
    """A table, and the list that it should be: (row, base, count, time, length) of each row that is left."""

    def __init__(self, piece_rows: int = PIECE_ROWS) -> None:
        disk = FaultyDisk()
        disk.make_folder(FOLDER)
        self.files = RowFiles(disk, piece_rows, chunk_pieces=8)
        self.table = QueueTable(self.files, 1, Durability.SYNC)
        self.rows: list[tuple[int, int, int, int, int]] = []
        self.position = self.time_ms = 0

    def add(self, count: int, length: int, later_ms: int) -> None:
        table, self.time_ms = self.table, self.time_ms + later_ms
        self.rows.append((table.next_row, table.next_offset, count, self.time_ms, length))
        table.add(self.position, length, table.next_offset, count, self.time_ms, 0, 80)
        self.position += length

    def add_run(self, lengths: list[int], later_ms: int) -> None:
        table, self.time_ms = self.table, self.time_ms + later_ms
        for index, length in enumerate(lengths):
            self.rows.append((table.next_row + index, table.next_offset + index, 1, self.time_ms, length))
        sizes = np.array(lengths, dtype=np.int64)
        table.add_run(
            self.position, table.next_offset, self.time_ms, Spans(np.cumsum(sizes) - sizes, sizes, 0 * sizes), 80
        )
        self.position += sum(lengths)

    def trim(self, share: float) -> None:
        """Take that share of the rows from the front."""
        gone = round(share * len(self.rows))
        row = self.rows[gone][0] if gone < len(self.rows) else self.table.next_row
        trimmed = self.table.trim(row)
        assert sorted(trimmed.lengths.tolist()) == sorted(row[4] for row in self.rows[:gone])
        del self.rows[:gone]

    def take_back(self, count: int) -> None:
        """An append of some rows that was refused."""
        mark = self.table.next_row, self.table.next_offset, self.table.live_bytes
        kept, position, time_ms = list(self.rows), self.position, self.time_ms
        for _ in range(count):
            self.add(2, 10, 0)
        self.table.rollback(*mark)
        self.rows, self.position, self.time_ms = kept, position, time_ms

    # --- what the list says -------------------------------------------------------------------------------------------

    def row_at_offset(self, offset: int) -> int:
        return next((row for row, base, count, _, _ in self.rows if base + count > offset), self.table.next_row)

    def row_at_time(self, time_ms: int) -> int:
        return next((row for row, _, _, stored_ms, _ in self.rows if stored_ms >= time_ms), self.table.next_row)

    def row_for_bytes(self, bytes_max: int) -> int:
        left = sum(row[4] for row in self.rows)
        for row, _, _, _, length in self.rows:
            if left <= bytes_max:
                return row
            left -= length
        return self.table.next_row

    def check(self) -> None:
        table, rows = self.table, self.rows
        found = table.rows(table.min_row, table.next_row)
        columns = [found[name].tolist() for name in ("base", "count", "time", "length")]
        assert list(zip(*columns, strict=True)) == [row[1:] for row in rows]
        assert table.next_row - table.min_row == len(rows)
        assert table.live_bytes == sum(row[4] for row in rows)
        assert table.min_offset == (rows[0][1] if rows else table.next_offset)
        for offset in range(table.min_offset - 2, table.next_offset + 3):
            assert table.row_at_offset(offset) == self.row_at_offset(offset), f"offset {offset}"
        for time_ms in range(-1, self.time_ms + 3):
            assert table.row_at_time(time_ms) == self.row_at_time(time_ms), f"time {time_ms}"
        for bytes_max in range(0, table.live_bytes + 10, 7):
            assert table.row_for_bytes(bytes_max) == self.row_for_bytes(bytes_max), f"{bytes_max} bytes"
        for row in [*rows, (table.next_row, table.next_offset)]:
            assert table.offset_of(row[0]) == row[1]


LATER_MS = st.integers(0, 3)
STEPS = st.one_of(
    st.tuples(st.just("add"), st.integers(1, 5), st.integers(0, 30), LATER_MS),
    st.tuples(st.just("add_run"), st.lists(st.integers(1, 30), min_size=1, max_size=11), LATER_MS),
    st.tuples(st.just("trim"), st.floats(0, 1)),
    st.tuples(st.just("take_back"), st.integers(1, 9)),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, max_size=25), st.sampled_from([1, 2, PIECE_ROWS, 7]))
def test_a_table_is_what_a_list_would_be(steps, piece_rows):
    listed = Listed(piece_rows)
    listed.check()
    for name, *arguments in steps:
        getattr(listed, name)(*arguments)
    listed.check()


@settings(max_examples=50, deadline=None)
@given(st.lists(STEPS, max_size=10))
def test_it_is_so_after_every_step(steps):
    listed = Listed()
    for name, *arguments in steps:
        getattr(listed, name)(*arguments)
        listed.check()


def test_a_run_longer_than_many_pieces():
    listed = Listed()
    listed.add(3, 10, 1)
    listed.add_run([5] * 100, 1)
    listed.add(3, 10, 1)
    listed.check()


def test_trimming_gives_the_pieces_back_for_new_rows():
    """A queue that is trimmed as it is filled does not grow its files."""
    listed = Listed()
    for _ in range(200):
        listed.add_run([1] * PIECE_ROWS, 1)
        listed.trim(1.0)
        listed.files.reuse(listed.files.take_freed())
    assert listed.files.chunks == 1
    listed.check()


def test_a_trim_goes_no_further_than_the_end_and_never_back():
    listed = Listed()
    listed.add_run([1] * 10, 0)
    listed.table.trim(6)
    assert listed.table.trim(3).lengths.tolist() == []
    assert (listed.table.min_row, listed.table.min_offset) == (6, 6)
    listed.table.trim(1_000)
    assert (listed.table.min_row, listed.table.next_row, listed.table.live_bytes) == (10, 10, 0)


def test_many_rows_of_one_moment_are_found_at_the_first_of_them():
    listed = Listed()
    listed.add(1, 1, 5)
    for _ in range(3 * PIECE_ROWS):
        listed.add(1, 1, 0)
    listed.add(1, 1, 1)
    assert [listed.table.row_at_time(time_ms) for time_ms in (4, 5, 6, 7)] == [0, 0, 13, 14]


def test_rows_lost_to_damage_keep_their_numbers_and_offsets():
    """Behind two good rows three are lost; nobody finds them, and their offsets are not given out again."""
    listed = Listed()
    table = listed.table
    for _ in range(2):
        listed.add(1, 10, 1)
    table.skip_to(5, 9, 4)
    table.add(1_000, 10, 9, 1, 4, 0, 80)
    table.settle()
    assert (table.next_row, table.next_offset) == (6, 10)
    assert [table.row_at_offset(offset) for offset in (0, 1, 9, 10)] == [0, 1, 5, 6]
    assert all(table.row_at_offset(offset) >= 2 for offset in range(2, 9))
    assert table.rows(0, 6)["base"].tolist() == sorted(table.rows(0, 6)["base"].tolist())
    assert table.live_bytes == 30


@pytest.mark.parametrize(("offset", "keeps", "begins"), [(0, 0, 0), (1, 11, 6), (5, 11, 6), (6, 11, 6), (7, 12, 7)])
def test_a_trim_that_ends_among_lost_rows_takes_them_all(offset: int, keeps: int, begins: int):
    """The first rows are lost, more than a piece of them. Asked to forget what is below an offset in the hole, the
    table begins behind the hole: its minimum is never below what was asked for.
    """
    table = Listed().table
    table.skip_to(2 * PIECE_ROWS + 3, 6, 4)
    for base in (6, 7, 8):
        table.add(1_000, 10, base, 1, 4, 0, 80)
    table.settle()
    table.show(table.next_row, table.next_offset)
    table.trim(table.row_to_keep(offset))
    assert (table.min_row, table.min_offset) == (keeps, begins)


def test_a_trim_of_a_queue_with_nothing_but_lost_rows_leaves_it_empty():
    table = Listed().table
    table.skip_to(3, 6, 4)
    table.settle()
    table.show(table.next_row, table.next_offset)
    table.trim(table.row_to_keep(2))
    assert (table.min_row, table.min_offset, table.next_offset) == (3, 6, 6)


def test_a_copy_that_turns_up_later_takes_the_place_of_a_lost_row():
    listed = Listed()
    table = listed.table
    table.skip_to(2, 2, 1)
    copy = table.rows(0, 1).copy()
    copy["position"], copy["base"], copy["count"], copy["length"], copy["flags"], copy["time"] = 500, 0, 1, 20, 0, 1
    table.put(0, copy)
    table.settle()
    assert (table.rows(0, 1)["position"].tolist(), table.live_bytes) == ([500], 20)
    assert table.row_at_offset(0) == 0


def test_a_moved_row_says_where_it_lay_before():
    listed = Listed()
    for _ in range(6):
        listed.add(1, 10, 1)
    moved = listed.table.rows(3, 6).copy()
    moved["position"] += 1_000
    before = listed.table.put(3, moved)
    assert before.positions.tolist() == [30, 40, 50]
    assert listed.table.rows(0, 6)["position"].tolist() == [0, 10, 20, 1_030, 1_040, 1_050]
    listed.check()


# --- deduplication ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("sequences", "highest"), [([1, 2, 3], 3), ([3, 1], 3), ([0], 0)])
def test_the_highest_sequence_of_a_producer_is_remembered(sequences, highest):
    table = Listed().table
    for sequence in sequences:
        table.remember(7, sequence, producers_max=10)
    assert table.producers == {7: highest}


def test_of_too_many_producers_the_one_silent_longest_goes():
    table = Listed().table
    for producer in (1, 2, 3, 1, 4):
        table.remember(producer, 0, producers_max=3)
    assert list(table.producers) == [3, 1, 4]
