"""Reading what may not be in memory, and what may not have been checked."""

from itertools import groupby, pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from penstock.store.layout import HEADER_BYTES, RUN, header_in
from penstock.store.log import Log
from penstock.store.plan import Batch, Damage, Plan, neighbours, slices
from penstock.store.rowfiles import LOST

_GAP_BYTES_MAX = 512  # what is read along to save a call
_SPAN_BYTES_MAX = 128 << 20
_CHECKS_NOW_MAX = 256  # entries: one takes 10 us, and others wait for the loop


class _Verdict(NamedTuple):
    """Where an entry that is as it was written ends, and whether a row may end before that."""

    end: int
    is_run: bool


_UNSOUND = _Verdict(0, is_run=False)


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
        self._here, self._sound = here, bytearray(b"\1") * len(here)
        self._together = plan.together and len(kept) == len(rows)
        self._damage: list[Damage] = []
        self._groups, self._doubts = self._doubtful(positions - leads, positions < trusted_from)
        self._verdicts: dict[int, _Verdict] = {}

    def _ranges(self, starts: npt.NDArray[np.int64], ends: npt.NDArray[np.int64]) -> list[int]:
        """Where a row does not follow the one before it closely in the same segment: between borders, one call reads
        all.
        """
        if not len(starts):
            return []
        gaps, numbers = starts[1:] - ends[:-1], starts // self._log.segments.segment_bytes
        apart = (gaps < 0) | (gaps > _GAP_BYTES_MAX) | (numbers[1:] != numbers[:-1])
        return [0, *(np.flatnonzero(apart) + 1).tolist(), len(starts)]

    def _doubtful(
        self, entries: npt.NDArray[np.int64], old: npt.NDArray[np.bool_]
    ) -> tuple[list[tuple[int, int]], list[int]]:
        """The rows in groups, of one entry and read together; and for each how many have to pass their checksum first.
        Nothing when no row has to.
        """
        if old.any():
            numbers, plan = self._plan.numbers, self._plan
            first = int(numbers[0])
            old &= plan.table.proved(first, int(numbers[-1]) + 1)[numbers[self._here] - first] == 0
        if not old.any():
            return [], []
        changes = np.flatnonzero(entries[1:] != entries[:-1]) + 1
        borders = np.union1d(changes, self._borders)
        return list(pairwise(borders.tolist())), np.add.reduceat(old, borders[:-1], dtype=np.int64).tolist()

    def load(self, wait: bool) -> Batch | None:
        if not wait and sum(map(bool, self._doubts)) > _CHECKS_NOW_MAX:
            return None
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
        if not self._groups:
            return True
        ranges = zip(borders, fetched, strict=True)
        (first, until), data = next(ranges)
        for (begin, end), doubts in zip(self._groups, self._doubts, strict=True):
            if begin >= until:
                (first, until), data = next(ranges)
            if data is None:
                self._sound[begin:end] = bytes(end - begin)
            elif doubts and not self._check(begin, end, data, self._starts[first], wait):
                return False
        sound = np.frombuffer(self._sound, dtype=np.bool_)
        if sound.any():
            self._plan.table.prove(self._plan.numbers[self._here[sound]])
        return True

    def _check(self, begin: int, end: int, data: memoryview, start: int, wait: bool) -> bool:
        """The same of rows of one entry, which `data`, from position `start` on, may hold as a whole: it does where the
        entry has one row.
        """
        entry = self._positions[begin] - self._leads[begin]
        verdict = self._verdicts.get(entry)
        if verdict is None:
            verdict = self._verdict(entry, data[entry - start :] if entry >= start else data[:0], wait)
            if verdict is None:
                return False
            self._verdicts[entry] = verdict
        last = self._positions[end - 1] + self._lengths[end - 1]
        if last != verdict.end and not (last < verdict.end and verdict.is_run):
            self._damage.append(Damage(entry, last - entry, "checksum wrong when served"))
            self._sound[begin:end] = bytes(end - begin)
        return True

    def _verdict(self, entry: int, data: memoryview, wait: bool) -> "_Verdict | None":
        """Once for all messages of a run: they have one checksum. None when that needs a look at the disk."""
        secret = self._log.segments.secret
        header = header_in(data, 0, entry, secret)
        if header is None or HEADER_BYTES + header.length > len(data):
            whole = self._whole(entry, wait)
            if whole is None:
                return None
            data, header = whole, header_in(whole, 0, entry, secret)
        if header is None or header.queue != self._plan.table.queue:
            return _UNSOUND
        if crc32c(data[HEADER_BYTES : HEADER_BYTES + header.length]) != header.payload_crc:
            return _UNSOUND
        return _Verdict(entry + HEADER_BYTES + header.length, bool(header.flags & RUN))

    def _whole(self, entry: int, wait: bool) -> memoryview | None:
        """An entry from the disk, or what is there in place of its header; None when it is not in memory."""
        number, place = divmod(entry, self._log.segments.segment_bytes)
        file = self._plan.pinned[number]
        head = file.read_all([(HEADER_BYTES, place)], wait) if file else None
        if file is None or head is None:
            return None
        header = header_in(head[0], 0, entry, self._log.segments.secret)
        if header is None:
            return head[0]
        found = file.read_all([(HEADER_BYTES + header.length, place)], wait)
        return found[0] if found else None
