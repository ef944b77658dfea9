"""One reader's place at a queue, for who takes message after message and hands them on as they are: what was easy a
moment ago, around there and for a second, is easy now, and need not be found out again.

A consumer that reads a queue from one end to the other asks thousands of times a second for what lies right behind what
it got. `Reader.slices_now` finds out for each of these which piece of the table and which segment that is, and whether
it is checked and in memory; here all of that is a few comparisons. At a border, and about once a second, it is found
out anew. No segment is kept by this: it is asked for by its number. Rows are read each time, and only those that are
there: what was trimmed, moved or dropped meanwhile is seen.
"""

from penstock.store.read import NOWHERE_EASY, SMALL_BYTES, Reader
from penstock.store.rowfiles import ROW_BYTES
from penstock.store.spans import Slices, spans
from penstock.store.table import QueueTable


class Reading:
    def __init__(self, reader: Reader, table: QueueTable, encodings: int) -> None:
        """Only while nothing in the queue is in another encoding than these, a bit for each."""
        self._reader, self._table, self._others = reader, table, ~encodings
        self._segments, self._now_ms = reader.segments, reader.now_ms
        self._easy = NOWHERE_EASY
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
        view = self._segments.get(easy.segment).view
        return Slices([(view, easy.base, places)], messages, size_bytes, next_offset, min_offset, max_offset)

    def is_at_the_end(self, offset: int) -> bool:
        """Whether what comes next will be there."""
        return offset == self._table.visible_offset

    def _found_out(self, offset: int, messages_max: int, bytes_max: int) -> Slices | None:
        table = self._table
        if table.encodings & self._others:
            return None
        found = self._reader.slices_now(table, offset, messages_max, bytes_max)
        self._easy = NOWHERE_EASY if found is None else self._reader.easy_around(found)
        if found is not None and self._easy is not NOWHERE_EASY:
            self._first_row = table.row_at_offset(found.next_offset - 1)  # the next read is likely in the same piece
            self._rows, self._rows_at, rows = table.place(self._first_row)
            self._end_row = self._first_row + rows
        return found
