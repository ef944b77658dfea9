"""Reading: from rows to payloads.

Two steps, so that the event loop never waits for a disk: `Reader.plan` decides which rows (in the loop), `Plan.load`
fetches them, either only what is in memory (in the loop) or whatever it takes (in a worker thread).

The end of the log was written a moment ago and is served as slices of the mapping. Anything older is read with a flag
that says "only from memory"; neighbours in the log are read together. What was on the disk before this process started
is checked against its checksum the first time it is served; what does not pass is left out, reported, and never served.
"""

from typing import NamedTuple

import numpy as np
from crc32c import crc32c

from penstock.errors import OffsetOutOfRange
from penstock.store.layout import HEADER_BYTES, header_in
from penstock.store.log import Log
from penstock.store.rowfiles import LOST, Rows
from penstock.store.table import QueueTable

_GAP_BYTES_MAX = 512  # what is read along to save a call


class Damage(NamedTuple):
    """A range of the log that cannot be read."""

    position: int
    length: int
    why: str


class Batch(NamedTuple):
    """What a read found. `rows` and `payloads` go together; `next_offset` and `next_row` are behind them."""

    payloads: list[memoryview]
    rows: Rows
    next_offset: int
    next_row: int
    damage: list[Damage]


class Reader:
    def __init__(self, log: Log, hot_bytes: int, trusted_from: int) -> None:
        self._log, self._hot_bytes = log, hot_bytes
        self.trusted_from = trusted_from  # this process wrote or checked everything from here on

    def plan_offset(self, table: QueueTable, offset: int, messages_max: int, bytes_max: int) -> "Plan":
        if not table.min_offset <= offset <= table.visible_offset:
            raise OffsetOutOfRange(table.queue, offset, table.min_offset, table.visible_offset)
        return self._plan(table, table.row_at_offset(offset), messages_max, bytes_max)

    def plan_row(self, table: QueueTable, row: int, messages_max: int, bytes_max: int) -> "Plan":
        if not table.min_row <= row <= table.visible_row:
            raise OffsetOutOfRange(table.queue, row, table.min_row, table.visible_row)
        return self._plan(table, row, messages_max, bytes_max)

    def _plan(self, table: QueueTable, first: int, messages_max: int, bytes_max: int) -> "Plan":
        until = min(table.visible_row, first + messages_max)
        rows = _within(table.rows(first, until), messages_max, bytes_max).copy()
        return Plan(self, table, first, rows)

    def load(self, plan: "Plan", wait: bool) -> Batch | None:
        hot_from = max(self.trusted_from, self._log.end - self._hot_bytes)
        positions = plan.rows["position"].tolist()
        if positions and min(positions) >= hot_from:
            return plan.batch(self._slices(positions, plan.rows["length"].tolist()))
        return _Cold(self, self._log, plan).load(wait)

    def _slices(self, positions: list[int], lengths: list[int]) -> list[memoryview]:
        size = self._log.segments.segment_bytes
        first, last = positions[0] // size, positions[-1] // size
        if first == last and min(positions) // size == max(positions) // size:  # nearly always
            view, base = self._log.segments.get(first).view, first * size
            return [view[at - base : at - base + length] for at, length in zip(positions, lengths, strict=True)]
        payloads = []
        for position, length in zip(positions, lengths, strict=True):
            segment, place = self._log.segments.at(position)
            payloads.append(segment.view[place : place + length])
        return payloads


def _within(rows: Rows, messages_max: int, bytes_max: int) -> Rows:
    """As many rows as both limits allow, but at least one."""
    if not len(rows):
        return rows
    by_bytes = int(np.cumsum(rows["length"], dtype=np.int64).searchsorted(bytes_max, side="right"))
    by_count = int(np.cumsum(rows["count"], dtype=np.int64).searchsorted(messages_max, side="right"))
    return rows[: max(1, min(by_bytes, by_count))]


class Plan:
    """Rows to be fetched: a copy, since tables change while a worker thread reads."""

    __slots__ = ("_reader", "first_row", "rows", "table")

    def __init__(self, reader: Reader, table: QueueTable, first_row: int, rows: Rows) -> None:
        self._reader, self.table, self.first_row, self.rows = reader, table, first_row, rows

    def load(self, wait: bool) -> Batch | None:
        """The payloads; None when `wait` is false and something is not in memory."""
        return self._reader.load(self, wait)

    def batch(
        self, payloads: list[memoryview], keep: list[int] | None = None, damage: list[Damage] | None = None
    ) -> Batch:
        rows = self.rows
        next_offset = int(rows["base"][-1]) + int(rows["count"][-1]) if len(rows) else self.table.visible_offset
        next_row = self.first_row + len(rows)
        if keep is not None and len(keep) < len(rows):
            rows = rows[keep]
        return Batch(payloads, rows, next_offset, next_row, damage or [])


class _Range:
    """Rows that lie close together in one segment and are read with one call."""

    __slots__ = ("end", "rows", "start")

    def __init__(self, start: int, end: int, row: int) -> None:
        self.start, self.end, self.rows = start, end, [row]


class _Cold:
    """One read of what may not be in memory and may not have been checked."""

    def __init__(self, reader: Reader, log: Log, plan: Plan) -> None:
        self._reader, self._log, self._plan = reader, log, plan
        self._positions = plan.rows["position"].tolist()
        self._lengths = plan.rows["length"].tolist()
        self._leads = plan.rows["lead"].tolist()
        self._flags = plan.rows["flags"].tolist()
        self._damage: list[Damage] = []

    def load(self, wait: bool) -> Batch | None:
        payloads: list[memoryview] = []
        keep: list[int] = []
        for part in self._ranges():
            try:
                data = self._fetch(part.start, part.end - part.start, wait)
            except FileNotFoundError:
                self._damage.append(Damage(part.start, part.end - part.start, "the segment is missing"))
                continue
            if data is None:
                return None
            for index in part.rows:
                sound = self._proved(index, data, part.start, wait)
                if sound is None:
                    return None
                if sound:
                    at = self._positions[index] - part.start
                    payloads.append(data[at : at + self._lengths[index]])
                    keep.append(index)
        return self._plan.batch(payloads, keep, self._damage)

    def _ranges(self) -> list[_Range]:
        """In the order of the rows; single entries are read with their headers, for the check and so that neighbours
        touch.
        """
        size, ranges = self._log.segments.segment_bytes, list[_Range]()
        for index, (position, length, lead) in enumerate(zip(self._positions, self._lengths, self._leads, strict=True)):
            if self._flags[index] & LOST:
                continue
            start = position - lead if lead == HEADER_BYTES else position
            last = ranges[-1] if ranges else None
            if last and 0 <= start - last.end <= _GAP_BYTES_MAX and start // size == last.start // size:
                last.end = position + length
                last.rows.append(index)
            else:
                ranges.append(_Range(start, position + length, index))
        return ranges

    def _fetch(self, position: int, length: int, wait: bool) -> memoryview | None:
        segment, place = self._log.segments.at(position)
        data = segment.file.read_resident(length, place)
        if data is None and wait:
            data = segment.file.read(length, place)
        return None if data is None else memoryview(data)

    def _proved(self, index: int, data: memoryview, start: int, wait: bool) -> bool | None:
        """Whether a row may be served; None when that needs a look at the disk."""
        position = self._positions[index]
        if position >= self._reader.trusted_from:
            return True
        table, row = self._plan.table, self._plan.first_row + index
        if table.proved(row):
            return True
        entry = position - self._leads[index]
        whole = self._entry(entry, data[entry - start :] if entry >= start else data[:0], wait)
        if whole is None:
            return None
        if self._sound(whole, entry, table.queue):
            table.prove(row)
            return True
        self._damage.append(Damage(entry, self._leads[index] + self._lengths[index], "checksum wrong when served"))
        return False

    def _entry(self, position: int, data: memoryview, wait: bool) -> memoryview | None:
        """All of an entry: of a run only some messages may have been read, and the checksum is over all of them."""
        head = data if len(data) >= HEADER_BYTES else self._fetch(position, HEADER_BYTES, wait)
        header = header_in(head, 0, position, self._log.segments.secret) if head is not None else None
        if header is None or (head is not None and len(head) >= HEADER_BYTES + header.length):
            return head
        return self._fetch(position, HEADER_BYTES + header.length, wait)

    def _sound(self, data: memoryview, position: int, queue: int) -> bool:
        header = header_in(data, 0, position, self._log.segments.secret)
        if header is None or header.queue != queue or len(data) < HEADER_BYTES + header.length:
            return False
        return crc32c(data[HEADER_BYTES : HEADER_BYTES + header.length]) == header.payload_crc
