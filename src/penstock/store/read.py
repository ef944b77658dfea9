"""Reading: from rows to payloads.

Two steps, so that the event loop never waits for a disk: `Reader.plan` decides which rows (in the loop), `Plan.load`
fetches them, either only what is in memory (in the loop) or whatever it takes (in a worker thread).

The end of the log was written a moment ago and is served as slices of the mapping; so is anything older that the system
says is in memory. The rest is read in a worker thread, neighbours in the log together. What was on the disk before this
process started is checked against its checksum the first time it is served; what does not pass is left out, reported,
and never served.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby, pairwise
from operator import add
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from penstock.errors import OffsetOutOfRange
from penstock.store.files import File
from penstock.store.later import Later
from penstock.store.layout import HEADER_BYTES, MAGIC, SEED_MASK, STAMP, header_in
from penstock.store.log import Log
from penstock.store.residency import Residency
from penstock.store.rowfiles import LOST, Rows
from penstock.store.spans import Slices, Spans, spans
from penstock.store.table import QueueTable

_GAP_BYTES_MAX = 512  # what is read along to save a call
_SPAN_BYTES_MAX = 128 << 20
_NEAR_BYTES = 1 << 20
_STEP_ROWS = 4_096  # that a plan looks at first
_FEW = 64  # rows: array operations cost more than they save

T = TypeVar("T")
_Source = Callable[[int, int], tuple[T, int] | None]  # what holds all between two positions, and where it begins
_Found = tuple[list[tuple[T, int, list[int]]], int, int, int, int, int]  # the fields of Slices or Later


class Damage(NamedTuple):
    """A range of the log that cannot be read."""

    position: int
    length: int
    why: str


class Batch(NamedTuple):
    """What a read found. `rows` and `payloads` go together, unless the plan says otherwise; `next_offset` and
    `next_row` are behind them.
    """

    payloads: list[memoryview]
    rows: Rows
    next_offset: int
    next_row: int
    damage: list[Damage]


class Reader:
    def __init__(self, log: Log, hot_bytes: int, trusted_from: int, residency: Residency) -> None:
        self._log, self._hot_bytes, self._residency = log, hot_bytes, residency
        self.trusted_from = trusted_from  # this process wrote or checked everything from here on

    def plan_offset(self, table: QueueTable, offset: int, messages_max: int, bytes_max: int) -> "Plan":
        if not table.min_offset <= offset <= table.visible_offset:
            raise OffsetOutOfRange(table.queue, offset, table.min_offset, table.visible_offset)
        return self._plan(table, table.row_at_offset(offset), messages_max, bytes_max)

    def plan_row(self, table: QueueTable, row: int, messages_max: int, bytes_max: int) -> "Plan":
        if not table.min_row <= row <= table.visible_row:
            raise OffsetOutOfRange(table.queue, row, table.min_row, table.visible_row)
        return self._plan(table, row, messages_max, bytes_max)

    def plan_rows(self, table: QueueTable, numbers: Sequence[int], messages_max: int, bytes_max: int) -> "Plan":
        """Rows here and there, in order: as many as both limits allow, but at least one."""
        first, until = numbers[0], numbers[-1] + 1
        if not table.min_row <= first < until <= table.visible_row:
            raise OffsetOutOfRange(table.queue, first, table.min_row, table.visible_row)
        wanted = np.zeros(until - first, dtype=np.bool_)
        wanted[np.asarray(numbers) - first] = True
        rows = table.rows(first, until)
        kept = _within(rows[wanted], messages_max, bytes_max)
        last = int(np.flatnonzero(wanted)[len(kept) - 1])
        plan = Plan(self, table, first, rows[: last + 1])
        if len(kept) < last + 1:
            plan.only(wanted[: last + 1])
        return plan

    def _plan(self, table: QueueTable, first: int, messages_max: int, bytes_max: int) -> "Plan":
        end, step = min(table.visible_row, first + max(messages_max, 1)), _STEP_ROWS
        while True:  # not all that could be: looking at a row costs as much as a small message
            until = min(end, first + step)
            rows = table.rows(first, until)
            kept = _within(rows, messages_max, bytes_max)
            if until == end or len(kept) < len(rows):
                return Plan(self, table, first, kept)
            step *= 4

    def slices_now(self, table: QueueTable, offset: int, messages_max: int, bytes_max: int) -> Slices | None:
        """What a read from an offset brings where that is easy: in memory, and checked. None where it is not, or where
        there is nothing: a plan then tells more. Piece by piece of the table, so that what is asked for costs what is
        found.
        """
        found = self._found(table, offset, messages_max, bytes_max, self._near)
        return Slices(*found) if found else None

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
            where = source(low, high) if low >= self.trusted_from else None
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

    def load(self, plan: "Plan", wait: bool) -> Batch | None:
        """The common case first: everything lies in one segment, is in memory, and need not be checked."""
        rows = plan.rows
        if plan.together and len(rows) > _FEW:
            starts, ends = _neighbours(rows)
            where = self._easy(plan, int(starts.min()), int(ends.max()))
            if where is not None:
                return plan.batch(_slices(*where, starts.tolist(), (ends - starts).tolist()))
        elif len(rows):
            positions, lengths = rows["position"].tolist(), rows["length"].tolist()  # lists: they are few
            low, high = min(positions), max(map(add, positions, lengths))
            where = self._easy(plan, low, high)
            if where is not None:
                return plan.batch(_slices(*where, positions, lengths))
        plan.keep()
        return _Cold(self, self._log, plan).load(wait)

    def _easy(self, plan: "Plan", low: int, high: int) -> tuple[memoryview, int] | None:
        """As `_mapping`, for what need not be checked."""
        return self._mapping(low, high) if low >= self.trusted_from or plan.is_proved() else None

    def _mapping(self, low: int, high: int) -> tuple[memoryview, int] | None:
        """Of the segment that holds all between two positions, and where it begins in the log; None where they lie in
        several, or not in memory.
        """
        segments = self._log.segments
        number = low // segments.segment_bytes
        base = number * segments.segment_bytes
        if low < 0 or high > base + segments.segment_bytes:
            return None
        if not self._is_hot(low):
            if number not in segments.numbers:
                return None
            if not self._residency.holds(segments.get(number), low - base, high - low):
                return None
        return segments.get(number).view, base

    def _near(self, low: int, high: int) -> tuple[memoryview, int] | None:
        """As `_mapping`, but not for what is wide: asking whether that is in memory takes longer than reading it."""
        return self._mapping(low, high) if high - low <= _NEAR_BYTES or self._is_hot(low) else None

    def _is_hot(self, position: int) -> bool:
        """Whether it was written a moment ago."""
        return position >= self.trusted_from and position >= self._log.end - self._hot_bytes

    def _file(self, low: int, high: int) -> tuple[File, int] | None:
        """Of the segment that holds all between two positions, and where that begins in the log."""
        segments = self._log.segments
        number = low // segments.segment_bytes
        base = number * segments.segment_bytes
        if low < 0 or high > base + segments.segment_bytes or number not in segments.numbers:
            return None
        return segments.get(number).file, base


def _slices(view: memoryview, base: int, positions: list[int], lengths: list[int]) -> list[memoryview]:
    return [view[at - base : at - base + length] for at, length in zip(positions, lengths, strict=True)]


def _neighbours(rows: Rows) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where rows that touch in the log begin and end: those of a run do."""
    starts, ends = rows["position"], rows["position"] + rows["length"]
    apart = np.flatnonzero(starts[1:] != ends[:-1])
    return starts[np.append(0, apart + 1)], ends[np.append(apart, len(ends) - 1)]


def _within(rows: Rows, messages_max: int, bytes_max: int) -> Rows:
    """As many rows as both limits allow, but at least one."""
    lengths, counts = rows["length"], rows["count"]
    if int(lengths.sum(dtype=np.int64)) <= bytes_max and int(counts.sum(dtype=np.int64)) <= messages_max:
        return rows  # the most common case, and empty ones
    by_bytes = int(lengths.cumsum(dtype=np.int64).searchsorted(bytes_max, side="right"))
    by_count = int(counts.cumsum(dtype=np.int64).searchsorted(messages_max, side="right"))
    return rows[: max(1, min(by_bytes, by_count))]


class Plan:
    """Rows to be fetched. They are the table's own until a worker thread has to read: it gets a copy, since tables
    change meanwhile. With `together`, payloads that touch in the log may come as one: for who hands them on as they
    are.
    """

    __slots__ = (
        "_first_row",
        "_kept",
        "_numbers",
        "_reader",
        "mapped",
        "next_offset",
        "next_row",
        "pinned",
        "rows",
        "table",
        "together",
    )

    def __init__(self, reader: Reader, table: QueueTable, first_row: int, rows: Rows) -> None:
        self._reader, self.table, self.rows = reader, table, rows
        self._first_row, self._kept, self.together = first_row, False, False
        self._numbers: npt.NDArray[np.int64] | None = None
        self.next_offset = int(rows["base"][-1]) + int(rows["count"][-1]) if len(rows) else table.visible_offset
        self.next_row = first_row + len(rows)
        self.mapped: dict[int, memoryview] = {}
        self.pinned: dict[int, File | None] = {}  # they stay readable when the cleaner removes their segments

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """Which rows of the table they are."""
        if self._numbers is None:
            self._numbers = np.arange(self._first_row, self._first_row + len(self.rows))
        return self._numbers

    def only(self, wanted: npt.NDArray[np.bool_]) -> None:
        """Leave out the other rows. Where the plan ends does not change."""
        self._numbers, self.rows = self.numbers[wanted], self.rows[wanted]

    def keep(self) -> None:
        """From now on the rows are a copy."""
        if not self._kept:
            self.rows, self._kept = self.rows.copy(), True

    def is_proved(self) -> bool:
        """Whether all its payloads have passed their checksums since the start."""
        first, until = int(self.numbers[0]), int(self.numbers[-1]) + 1
        return bool(self.table.proved(first, until)[self.numbers - first].all())

    def load(self, wait: bool) -> Batch | None:
        """The payloads; None when `wait` is false and something is not in memory."""
        return self._reader.load(self, wait)

    def batch(
        self, payloads: list[memoryview], keep: list[int] | None = None, damage: list[Damage] | None = None
    ) -> Batch:
        rows = self.rows
        if keep is not None and len(keep) < len(rows):
            rows = rows[keep]
        return Batch(payloads, rows, self.next_offset, self.next_row, damage or [])


class _Cold:
    """One read of what may not be in memory and may not have been checked. Columns are worked out as arrays, then
    walked as lists: picking single numbers out of arrays would cost more than the read itself.
    """

    def __init__(self, reader: Reader, log: Log, plan: Plan) -> None:
        self._log, self._plan = log, plan
        rows = plan.rows
        if not plan.pinned:  # the first try is made in the loop, so that a worker thread finds them all here
            numbers = set((rows["position"] // log.segments.segment_bytes).tolist())
            plan.pinned, plan.mapped = log.segments.pin(numbers), log.segments.mapped(numbers)
        here = np.flatnonzero((rows["flags"] & LOST) == 0)
        kept = rows if len(here) == len(rows) else rows[here]
        positions, lengths, leads = kept["position"], kept["length"], kept["lead"]
        # Single entries are read with their headers: for the check, and so that neighbours in the log touch.
        starts = positions - np.where(leads == HEADER_BYTES, HEADER_BYTES, 0)
        self._borders = self._ranges(starts, positions + lengths)
        self._index, self._starts, self._leads = here.tolist(), starts.tolist(), leads.tolist()
        self._positions, self._lengths = positions.tolist(), lengths.tolist()
        self._doubtful = self._unproved(positions < reader.trusted_from, here)
        self._together = plan.together and not self._doubtful and len(kept) == len(rows)
        self._damage: list[Damage] = []

    def _ranges(self, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> list[int]:
        """Where a row does not follow the one before it closely in the same segment: between borders, one call reads
        all.
        """
        if not len(starts):
            return []
        gaps, numbers = starts[1:] - ends[:-1], starts // self._log.segments.segment_bytes
        apart = (gaps < 0) | (gaps > _GAP_BYTES_MAX) | (numbers[1:] != numbers[:-1])
        return [0, *(np.flatnonzero(apart) + 1).tolist(), len(starts)]

    def _unproved(self, old: npt.NDArray[np.bool_], here: npt.NDArray[np.int64]) -> list[bool]:
        """Which rows have to pass their checksums first; empty for none."""
        if not old.any():
            return []
        numbers, plan = self._plan.numbers, self._plan
        first = int(numbers[0])
        old &= plan.table.proved(first, int(numbers[-1]) + 1)[numbers[here] - first] == 0
        return old.tolist() if old.any() else []

    def load(self, wait: bool) -> Batch | None:
        payloads: list[memoryview] = []
        keep: list[int] = []
        positions, lengths, starts = self._positions, self._lengths, self._starts
        borders = list(pairwise(self._borders))
        spans = [(starts[first], positions[until - 1] + lengths[until - 1] - starts[first]) for first, until in borders]
        fetched = self._fetch(spans, wait)
        if fetched is None:
            return None
        if self._together and not self._damage:
            return self._plan.batch(self._touching(borders, fetched))
        for (first, until), data in zip(borders, fetched, strict=True):
            sound: Iterable[int] | None = range(first, until if data is not None else first)
            if self._doubtful and data is not None:
                sound = self._sound_ones(first, until, data, wait)
            if sound is None:
                return None
            if data is not None:
                start = starts[first]
                payloads += [data[positions[at] - start : positions[at] - start + lengths[at]] for at in sound]
                keep += [self._index[at] for at in sound]
        return self._plan.batch(payloads, keep, self._damage)

    def _touching(self, borders: list[tuple[int, int]], fetched: "list[memoryview | None]") -> list[memoryview]:
        """All payloads, those that touch in the log as one: a slice for each costs more than reading it."""
        payloads: list[memoryview] = []
        for (first, until), data in zip(borders, fetched, strict=True):
            if data is not None:  # else there is damage, and one does not come here
                starts, ends = _neighbours(self._plan.rows[first:until])
                payloads += _slices(data, self._starts[first], starts.tolist(), (ends - starts).tolist())
        return payloads

    def _in_memory(self, number: int, low: int, high: int) -> bool:
        file, view = self._plan.pinned.get(number), self._plan.mapped.get(number)
        if file is None or view is None or high - low > _SPAN_BYTES_MAX:
            return False
        return file.is_resident(view, low, high - low)

    def _fetch(self, spans: list[tuple[int, int]], wait: bool) -> "list[memoryview | None] | None":
        """The bytes of each span (position, length), None in place of what is missing; None for all when the disk is
        needed.
        """
        segments = self._log.segments
        fetched: list[memoryview | None] = []
        for number, group in groupby(spans, lambda span: span[0] // segments.segment_bytes):
            base, here, file = number * segments.segment_bytes, list(group), self._plan.pinned[number]
            if file is None:
                self._damage += [Damage(position, length, "the segment is missing") for position, length in here]
                fetched += [None] * len(here)
                continue
            if self._in_memory(number, min(here)[0] - base, max(position + length for position, length in here) - base):
                view = self._plan.mapped[number]
                fetched += [view[position - base : position - base + length] for position, length in here]
                continue
            data = file.read_all([(length, position - base) for position, length in here], wait)
            if data is None:
                return None
            fetched += data
        return fetched

    # --- the first time -----------------------------------------------------------------------------------------------

    def _sound_ones(self, first: int, until: int, data: memoryview, wait: bool) -> list[int] | None:
        """Those of a range that pass their checksums; None when that needs a look at the disk."""
        table, secret, start = self._plan.table, self._log.segments.secret, self._starts[first]
        sound: list[int] = []
        looked_at, whole = -1, None
        for at in range(first, until):
            position, length, lead = self._positions[at], self._lengths[at], self._leads[at]
            if self._doubtful[at] and not _single_is_sound(data, position - start, length, lead, position, secret):
                if position - lead != looked_at:  # a run's messages follow each other: it is read once for all of them
                    looked_at, whole = position - lead, self._entry_is_sound(position - lead, wait)
                if whole is None:
                    return None
                if not whole:
                    self._damage.append(Damage(position - lead, lead + length, "checksum wrong when served"))
                    continue
            table.prove(int(self._plan.numbers[self._index[at]]))
            sound.append(at)
        return sound

    def _entry_is_sound(self, position: int, wait: bool) -> bool | None:
        """Of a run, the checksum is over all messages: also those that were not asked for."""
        number, place = divmod(position, self._log.segments.segment_bytes)
        file = self._plan.pinned[number]
        head = file.read_all([(HEADER_BYTES, place)], wait) if file else None
        if file is None or head is None:
            return None
        header = header_in(head[0], 0, position, self._log.segments.secret)
        if header is None or header.queue != self._plan.table.queue:
            return False
        payload = file.read_all([(header.length, place + HEADER_BYTES)], wait)
        return None if payload is None else crc32c(payload[0]) == header.payload_crc


def _single_is_sound(data: memoryview, place: int, length: int, lead: int, position: int, secret: int) -> bool:
    """The quick way, for an entry of one row, with its header in front of it in `data`."""
    at = place - HEADER_BYTES
    if lead != HEADER_BYTES or at < 0:
        return False
    magic, checksum = STAMP.unpack_from(data, at)
    facts = data[at + STAMP.size : place]
    if magic != MAGIC or crc32c(facts, (secret + position - lead) & SEED_MASK) != checksum:
        return False
    payload_crc, length_there = STAMP.unpack_from(facts)
    return bool(length_there == length) and crc32c(data[place : place + length]) == payload_crc
