"""Reading what may not be in memory, and what may not have been checked."""

from itertools import groupby, pairwise

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from penstock.store.layout import HEADER_BYTES, RUN, header_in
from penstock.store.log import Log
from penstock.store.plan import Batch, Damage, Plan, neighbours, slices
from penstock.store.rowfiles import LOST

_GAP_BYTES_MAX = 512  # what is read along to save a call
_SPAN_BYTES_MAX = 128 << 20


class Cold:
    """One read of what may not be in memory and may not have been checked. Columns are worked out as arrays, then
    walked as lists: picking single numbers out of arrays would cost more than the read itself.
    """

    def __init__(self, log: Log, trusted_from: int, plan: Plan) -> None:
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
        self._doubtful = self._unproved(positions < trusted_from, here)
        self._here, self._sound = here, bytearray(b"\1") * len(here)
        self._together = plan.together and len(kept) == len(rows)
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

    def _unproved(self, old: npt.NDArray[np.bool_], here: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_] | None:
        """Which rows have to pass their checksums first; None for none."""
        if not old.any():
            return None
        numbers, plan = self._plan.numbers, self._plan
        first = int(numbers[0])
        old &= plan.table.proved(first, int(numbers[-1]) + 1)[numbers[here] - first] == 0
        return old if old.any() else None

    def load(self, wait: bool) -> Batch | None:
        positions, lengths, starts = self._positions, self._lengths, self._starts
        borders = list(pairwise(self._borders))
        spans = [(starts[first], positions[until - 1] + lengths[until - 1] - starts[first]) for first, until in borders]
        fetched = self._fetch(spans, wait)
        if fetched is None or not self._check_all(borders, fetched, wait):
            return None
        if self._together and not self._damage:
            return self._plan.batch(self._touching(borders, fetched))
        payloads: list[memoryview] = []
        keep: list[int] = []
        for (first, until), data in zip(borders, fetched, strict=True):
            if data is not None:
                start, sound = starts[first], [at for at in range(first, until) if self._sound[at]]
                payloads += [data[positions[at] - start : positions[at] - start + lengths[at]] for at in sound]
                keep += [self._index[at] for at in sound]
        return self._plan.batch(payloads, keep, self._damage)

    def _touching(self, borders: list[tuple[int, int]], fetched: "list[memoryview | None]") -> list[memoryview]:
        """All payloads, those that touch in the log as one: a slice for each costs more than reading it."""
        payloads: list[memoryview] = []
        for (first, until), data in zip(borders, fetched, strict=True):
            if data is not None:  # else there is damage, and one does not come here
                starts, ends = neighbours(self._plan.rows[first:until])
                payloads += slices(data, self._starts[first], starts.tolist(), (ends - starts).tolist())
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

    def _check_all(self, borders: list[tuple[int, int]], fetched: "list[memoryview | None]", wait: bool) -> bool:
        """Find out which rows can be served; False when that needs a look at the disk."""
        if self._doubtful is None:
            return True
        for (first, until), data in zip(borders, fetched, strict=True):
            if data is None:
                self._sound[first:until] = bytes(until - first)
            elif self._doubtful[first:until].any() and not self._check(first, until, data, wait):
                return False
        sound = np.frombuffer(self._sound, dtype=np.bool_)
        if sound.any():
            self._plan.table.prove(self._plan.numbers[self._here[sound]])
        return True

    def _check(self, first: int, until: int, data: memoryview, wait: bool) -> bool:
        """The same of a range that was read. Entry by entry: a run's messages have one checksum."""
        entries = (self._plan.rows["position"] - self._plan.rows["lead"])[self._here[first:until]]
        borders = (np.flatnonzero(entries[1:] != entries[:-1]) + 1 + first).tolist()
        for begin, end in pairwise([first, *borders, until]):
            known = self._is_sound(begin, end, data, self._starts[first], wait)
            if known is None:
                return False
            if not known:
                entry, last = self._positions[begin] - self._leads[begin], self._positions[end - 1]
                self._damage.append(Damage(entry, last + self._lengths[end - 1] - entry, "checksum wrong when served"))
                self._sound[begin:end] = bytes(end - begin)
        return True

    def _is_sound(self, begin: int, end: int, data: memoryview, start: int, wait: bool) -> bool | None:
        """Whether rows of one entry are as they were written; None when that needs a look at the disk. `data` begins at
        a position and may hold the whole entry: it does where that has one row.
        """
        entry = self._positions[begin] - self._leads[begin]
        if entry >= start and self._matches(data[entry - start :], entry, begin, end):
            return True
        number, place = divmod(entry, self._log.segments.segment_bytes)
        file = self._plan.pinned[number]
        head = file.read_all([(HEADER_BYTES, place)], wait) if file else None
        if file is None or head is None:
            return None
        header = header_in(head[0], 0, entry, self._log.segments.secret)
        if header is None:
            return False
        whole = file.read_all([(HEADER_BYTES + header.length, place)], wait)
        return None if whole is None else self._matches(whole[0], entry, begin, end)

    def _matches(self, data: memoryview, entry: int, begin: int, end: int) -> bool:
        """Whether an entry is there, sound, and what these rows speak of."""
        header = header_in(data, 0, entry, self._log.segments.secret)
        if header is None or header.queue != self._plan.table.queue:
            return False
        last, until = self._positions[end - 1] + self._lengths[end - 1], HEADER_BYTES + header.length
        if last - entry > until or (last - entry < until and not header.flags & RUN):
            return False
        return until <= len(data) and crc32c(data[HEADER_BYTES:until]) == header.payload_crc
