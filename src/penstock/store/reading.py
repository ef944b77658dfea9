"""One reader's place at a queue, for who takes message after message and hands them on as they are: what was easy a
moment ago, around there and for a second, is easy now, and need not be found out again.

A consumer that reads a queue from one end to the other asks thousands of times a second for what lies right behind what
it got. `Reader.slices_now` finds out for each of these which piece of the table and which segment that is, and whether
it is checked and in memory; here all of that is a few comparisons. At a border, and about once a second, it is found
out anew. No segment is kept by this: it is asked for by its number. Rows are read each time, and only those that are
there: what was trimmed, moved or dropped meanwhile is seen.
"""

from typing import NamedTuple

from penstock.store.read import NOWHERE_EASY, SMALL_BYTES, Reader
from penstock.store.rowfiles import ROW_BYTES
from penstock.store.spans import Slices, spans
from penstock.store.table import QueueTable

AHEAD_ROWS_MIN = 256  # less is not worth the words


class Ahead(NamedTuple):
    """What the next reads bring, for who reads without asking each time. Rows are numbered, and lie in pieces of equal
    size; an offset's row is as far from `min_row` as it is from `min_offset`, when each row holds one message.
    """

    min_row: int
    min_offset: int
    max_offset: int
    first_row: int
    end_row: int
    piece_rows: int
    pieces: list[tuple[memoryview, int]]  # the memory that holds each, and where in it it begins
    low: int  # between these positions of the log all is checked and in memory
    high: int
    view: memoryview  # of the segment that holds them
    base: int  # where that begins in the log


class Reading:
    def __init__(self, reader: Reader, table: QueueTable, encodings: int) -> None:
        """Only while nothing in the queue is in another encoding than these, a bit for each."""
        self._reader, self._table, self._others = reader, table, ~encodings
        self._segments, self._now_ms = reader.segments, reader.now_ms
        self._easy = NOWHERE_EASY
        self._behind = -1  # the offset behind what was read last
        self._rows, self._rows_at, self._first_row, self._end_row = memoryview(b""), 0, 0, 0  # a piece of the table

    def now(self, offset: int, messages_max: int, bytes_max: int) -> Slices | None:
        """As `Reader.slices_now`, which says what this brings, and when it is None."""
        table, easy = self._table, self._easy
        min_offset, max_offset = table.min_offset, table.visible_offset
        if not min_offset <= offset < max_offset:
            return None
        row = table.min_row + offset - min_offset  # when each holds one message, and none was lost
        end = min(self._end_row, table.visible_row)
        if not self._first_row <= row < end or table.encodings & self._others or easy.until_ms <= self._now_ms():
            return self._found_out(offset, messages_max, bytes_max)
        at = self._rows_at + (row - self._first_row) * ROW_BYTES
        found = spans(self._rows, at, end - row, offset, messages_max, bytes_max)
        if found is None:
            return self._found_out(offset, messages_max, bytes_max)
        used, messages, size_bytes, next_offset, low, high, places = found
        whole = used < end - row or messages >= messages_max or end == table.visible_row
        if low < easy.low or high > easy.high or size_bytes > SMALL_BYTES or not whole:
            return self._found_out(offset, messages_max, bytes_max)
        self._behind = next_offset
        view = self._segments.get(easy.segment).view
        return Slices([(view, easy.base, places)], messages, size_bytes, next_offset, min_offset, max_offset)

    def ahead(self, pieces_max: int, blocks_max: int) -> tuple[Ahead, int] | None:
        """What comes behind the last read, and for how many milliseconds it holds; None when it is little or not easy.
        So many pieces of the table, and blocks of the log, are looked at.
        It may be used until memory of tables is used again, and no longer: see `Store.before_reuse`.
        """
        table, offset = self._table, self._behind
        row = table.likely_row(offset)
        if offset < table.min_offset or row + AHEAD_ROWS_MIN > table.visible_row or table.encodings & self._others:
            return None
        easy = self._reader.easy_at(table, row, blocks_max)
        lasts_ms = easy.until_ms - self._now_ms()
        if lasts_ms <= 0:
            return None
        pieces, first_row, piece_rows = table.pieces_from(row, pieces_max)
        end_row = min(table.visible_row, first_row + len(pieces) * piece_rows)
        view = self._segments.get(easy.segment).view
        return Ahead(
            table.min_row, table.min_offset, table.visible_offset, first_row, end_row, piece_rows, pieces,
            easy.low, min(easy.high, easy.base + len(view)), view, easy.base,
        ), lasts_ms  # fmt: skip

    def went_on(self, offset: int) -> None:
        """What `ahead` told of was read, up to there."""
        self._behind = offset

    def is_at_the_end(self, offset: int) -> bool:
        """Whether what comes next will be there."""
        return offset == self._table.visible_offset

    def _found_out(self, offset: int, messages_max: int, bytes_max: int) -> Slices | None:
        table = self._table
        if table.encodings & self._others:
            return None
        found = self._reader.slices_now(table, offset, messages_max, bytes_max)
        self._easy = NOWHERE_EASY if found is None else self._reader.easy_around(found)
        if found is not None:
            self._behind = found.next_offset
        if found is not None and self._easy is not NOWHERE_EASY:
            self._first_row = table.row_at_offset(found.next_offset - 1)  # the next read is likely in the same piece
            self._rows, self._rows_at, rows = table.place(self._first_row)
            self._end_row = self._first_row + rows
        return found
