"""Reading: from rows to payloads.

Two steps, so that the event loop never waits for a disk: `Reader.plan` decides which rows (in the loop), `Plan.load`
fetches them, either only what is in memory (in the loop) or whatever it takes (in a worker thread).

The end of the log was written a moment ago and is served as slices of the mapping; so is anything older that the system
says is in memory. The rest is read in a worker thread, neighbours in the log together. What was on the disk before this
process started is checked against its checksum the first time it is served; what does not pass is left out, reported,
and never served.
"""

from collections.abc import Callable, Sequence
from operator import add
from typing import NamedTuple, TypeVar

import numpy as np

from penstock.errors import OffsetOutOfRange
from penstock.store.cold import Cold
from penstock.store.files import File
from penstock.store.later import Later
from penstock.store.log import Log
from penstock.store.plan import Batch, Plan, neighbours, slices
from penstock.store.residency import KNOWN_MS, LONG_BLOCKS, STRETCH_BLOCKS, Residency
from penstock.store.rowfiles import Rows
from penstock.store.spans import Slices, Spans, spans
from penstock.store.table import QueueTable

SMALL_BYTES = 512 * 1024
_STEP_ROWS = 4_096  # that a plan looks at first
_FEW = 64  # rows: array operations cost more than they save

T = TypeVar("T")
_Source = Callable[[int, int, int], tuple[T, int] | None]  # what holds all between two positions, and where it begins
_Found = tuple[list[tuple[T, int, list[int]]], int, int, int, int, int]  # the fields of Slices or Later


class Easy(NamedTuple):
    """Between two positions of one segment all is checked and in memory; taken for so until a time."""

    low: int
    high: int
    segment: int
    base: int  # where the segment begins in the log
    until_ms: int


NOWHERE_EASY = Easy(0, 0, 0, 0, 0)


class Reader:
    def __init__(self, log: Log, hot_bytes: int, trusted_from: int, residency: Residency) -> None:
        self._log, self._hot_bytes, self._residency = log, hot_bytes, residency
        self.segments, self.now_ms = log.segments, residency.now_ms
        self.trusted_from = trusted_from  # this process wrote or checked everything from here on

    def plan_offset(self, table: QueueTable, offset: int, messages_max: int, bytes_max: int) -> Plan:
        if not table.min_offset <= offset <= table.visible_offset:
            raise OffsetOutOfRange(table.queue, offset, table.min_offset, table.visible_offset)
        return self._plan(table, table.row_at_offset(offset), messages_max, bytes_max)

    def plan_row(self, table: QueueTable, row: int, messages_max: int, bytes_max: int) -> Plan:
        if not table.min_row <= row <= table.visible_row:
            raise OffsetOutOfRange(table.queue, row, table.min_row, table.visible_row)
        return self._plan(table, row, messages_max, bytes_max)

    def plan_rows(self, table: QueueTable, numbers: Sequence[int], messages_max: int, bytes_max: int) -> Plan:
        """Rows here and there, in order: as many as both limits allow, but at least one."""
        first, until = numbers[0], numbers[-1] + 1
        if not table.min_row <= first < until <= table.visible_row:
            raise OffsetOutOfRange(table.queue, first, table.min_row, table.visible_row)
        wanted = np.zeros(until - first, dtype=np.bool_)
        wanted[np.asarray(numbers) - first] = True
        rows = table.rows(first, until)
        kept = _within(rows[wanted], messages_max, bytes_max)
        last = int(np.flatnonzero(wanted)[len(kept) - 1])
        plan = Plan(self.load, table, first, rows[: last + 1])
        if len(kept) < last + 1:
            plan.only(wanted[: last + 1])
        return plan

    def _plan(self, table: QueueTable, first: int, messages_max: int, bytes_max: int) -> Plan:
        end, step = min(table.visible_row, first + max(messages_max, 1)), _STEP_ROWS
        while True:  # not all that could be: looking at a row costs as much as a small message
            until = min(end, first + step)
            rows = table.rows(first, until)
            kept = _within(rows, messages_max, bytes_max)
            if until == end or len(kept) < len(rows):
                return Plan(self.load, table, first, kept)
            step *= 4

    def slices_now(self, table: QueueTable, offset: int, messages_max: int, bytes_max: int) -> Slices | None:
        """What a read from an offset brings where that is easy: in memory, and checked. None where it is not, or where
        there is nothing: a plan then tells more. Piece by piece of the table, so that what is asked for costs what is
        found.
        """
        found = self._found(table, offset, messages_max, bytes_max, self._small)
        return Slices(*found) if found else None

    def easy_around(self, found: Slices) -> Easy:
        """How far from what `slices_now` has just found it stays as easy, and until when."""
        return self._easy_around(found.parts[-1][2][-2], STRETCH_BLOCKS)

    def easy_at(self, table: QueueTable, row: int, blocks_max: int) -> Easy:
        """The same around what a row stands for, and further."""
        position = int(table.rows(row, row + 1)["position"][0])
        return self._easy_around(position, min(blocks_max, LONG_BLOCKS)) if position >= 0 else NOWHERE_EASY

    def _easy_around(self, low: int, blocks: int) -> Easy:
        size = self.segments.segment_bytes
        number = low // size
        base = number * size
        if self._is_hot(low):
            first = max(base, self.trusted_from, self._log.end - self._hot_bytes)
            return Easy(first, base + size, number, base, self.now_ms() + KNOWN_MS)
        if low < self.trusted_from:
            return NOWHERE_EASY
        stretch = self._residency.stretch(self.segments.get(number), low - base, blocks)
        if stretch is None:
            return NOWHERE_EASY
        begin, end, until_ms = stretch
        return Easy(max(base + begin, self.trusted_from), base + end, number, base, until_ms)

    def slices_later(self, table: QueueTable, offset: int, messages_max: int, bytes_max: int) -> Later | None:
        """The same where that need not be in memory: a worker thread reads it."""
        found = self._found(table, offset, messages_max, bytes_max, self._file)
        return Later(*found) if found else None

    def _found(
        self, table: QueueTable, offset: int, messages_max: int, bytes_max: int, source: _Source[T]
    ) -> _Found[T] | None:
        if not table.min_offset <= offset < table.visible_offset:
            return None
        row, first = table.likely_row(offset), offset
        if row >= table.visible_row:
            row, first = table.row_at_offset(offset), -1
        parts: list[tuple[T, int, list[int]]] = []
        messages = size_bytes = next_offset = 0
        while table.min_row <= row < table.visible_row:
            rows, found = self._spans_at(table, row, first, messages_max - messages, bytes_max - size_bytes)
            if found is None:
                if parts or first < 0:
                    break
                row, first = table.row_at_offset(offset), -1  # not where it was likely: look for it
                continue
            used, more_messages, more_bytes, behind, low, high, places = found
            if parts and (messages + more_messages > messages_max or size_bytes + more_bytes > bytes_max):
                break  # at least one is given, whatever its size, but not of every piece
            checked = low >= self.trusted_from or table.are_proved(row, row + used)
            where = source(low, high, more_bytes) if checked else None
            if where is None:
                return None
            parts.append((*where, places))
            messages, size_bytes, next_offset = messages + more_messages, size_bytes + more_bytes, behind
            if used < rows or messages >= messages_max:
                break
            row, first = row + rows, -1
        return (parts, messages, size_bytes, next_offset, table.min_offset, table.visible_offset) if parts else None

    def _spans_at(
        self, table: QueueTable, row: int, first: int, messages_max: int, bytes_max: int
    ) -> tuple[int, Spans | None]:
        """How many rows of its piece of the table were looked at, and what they bring: at a border of segments, what
        lies before it.
        """
        view, at, rows = table.place(row)
        rows = min(rows, table.visible_row - row)
        found = spans(view, at, rows, first, messages_max, bytes_max)
        if found is None:
            return rows, None
        used, _, _, _, low, high, _ = found
        border = (low // self._log.segments.segment_bytes + 1) * self._log.segments.segment_bytes
        if high > border:
            rows = int(table.rows(row, row + used)["position"].searchsorted(border))
            found = spans(view, at, rows, first, messages_max, bytes_max)
        return rows, found

    def load(self, plan: Plan, wait: bool) -> Batch | None:
        """The common case first: everything lies in one segment, is in memory, and need not be checked."""
        rows = plan.rows
        if plan.together and len(rows) > _FEW:
            starts, ends = neighbours(rows)
            where = self._easy(plan, int(starts.min()), int(ends.max()))
            if where is not None:
                return plan.batch(slices(*where, starts.tolist(), (ends - starts).tolist()))
        elif len(rows):
            positions, lengths = rows["position"].tolist(), rows["length"].tolist()  # lists: they are few
            low, high = min(positions), max(map(add, positions, lengths))
            where = self._easy(plan, low, high)
            if where is not None:
                return plan.batch(slices(*where, positions, lengths))
        plan.keep()
        return Cold(self._log, self.trusted_from, plan).load(wait)

    def _easy(self, plan: Plan, low: int, high: int) -> tuple[memoryview, int] | None:
        """As `_mapping`, for what need not be checked."""
        return self._mapping(low, high) if low >= self.trusted_from or plan.is_proved() else None

    def _mapping(self, low: int, high: int) -> tuple[memoryview, int] | None:
        """Of the segment that holds all between two positions, and where it begins in the log; None where they lie in
        several, or not in memory.
        """
        place = self._segment(low, high)
        if place is None:
            return None
        segments, (number, base) = self._log.segments, place
        if not self._is_hot(low):
            if number not in segments.numbers:
                return None
            if not self._residency.holds(segments.get(number), low - base, high - low):
                return None
        return segments.get(number).view, base

    def _segment(self, low: int, high: int) -> tuple[int, int] | None:
        """The number of the one that holds all between two positions, and where it begins in the log."""
        size = self._log.segments.segment_bytes
        number = low // size
        return None if low < 0 or high > (number + 1) * size else (number, number * size)

    def _small(self, low: int, high: int, wanted: int) -> tuple[memoryview, int] | None:
        """As `_mapping`, but not for much: asking whether that is in memory takes longer than reading it."""
        return self._mapping(low, high) if wanted <= SMALL_BYTES or self._is_hot(low) else None

    def _is_hot(self, position: int) -> bool:
        """Whether it was written a moment ago."""
        return position >= self.trusted_from and position >= self._log.end - self._hot_bytes

    def _file(self, low: int, high: int, wanted: int) -> tuple[File, int] | None:
        """As `_mapping`, but the file: what is wanted of it need not be in memory."""
        place = self._segment(low, high)
        if place is None or place[0] not in self._log.segments.numbers:
            return None
        return self._log.segments.get(place[0]).file, place[1]


def _within(rows: Rows, messages_max: int, bytes_max: int) -> Rows:
    """As many rows as both limits allow, but at least one."""
    lengths, counts = rows["length"], rows["count"]
    if int(lengths.sum(dtype=np.int64)) <= bytes_max and int(counts.sum(dtype=np.int64)) <= messages_max:
        return rows  # the most common case, and empty ones
    by_bytes = int(lengths.cumsum(dtype=np.int64).searchsorted(bytes_max, side="right"))
    by_count = int(counts.cumsum(dtype=np.int64).searchsorted(messages_max, side="right"))
    return rows[: max(1, min(by_bytes, by_count))]
