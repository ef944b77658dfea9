"""Timers: messages that are due at times of their own, in any order.

All stand in one queue, in the order in which they came. When one is due is in its row: the time when it was stored, and
how much later it is due (`tag`, in ms). They are delivered in the order of (due, offset), so how far that has come is
one such pair, the *mark*: a fact of the catalog, written in one group with the messages that are delivered. Whatever
happens, each is delivered once. Nothing can come to stand below the mark: store times never go back, a message is never
delivered before its time, and what is held is due later than it is stored.

Memory holds the pairs that are due next, at most two times NEAR_MAX of them, as a heap; `_beyond` is where it ends.
When the heap is empty and there is more beyond, the rows of the queue are looked through for the next ones: a scan of
arrays, in steps between which others get their turn. So millions of timers cost their rows on the disk and no memory.

What has been delivered is trimmed from the front of the queue, up to the first that is not delivered yet.
"""

import asyncio
import heapq
import sys
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from penstock.clock import Clock
from penstock.core.delays import Revive
from penstock.core.fetch import Fetcher
from penstock.core.publish import Publisher
from penstock.model import Entry
from penstock.store.rowfiles import LOST, Rows
from penstock.store.store import Store

PREFIX = "timer/"
TICK_MS = 100
DELAY_MS_MAX = (1 << 31) - 1  # what the tag of a row holds
NEAR_MAX = 16_384
_SCAN_ROWS = 16_384
_MESSAGES_MAX, _BYTES_MAX = 256, 1 << 20
_TRIM_EVERY = 1_000  # messages: a trim is a fact too

Key = tuple[int, int]  # when it is due, and its offset
_NOWHERE: Key = (-1, -1)
_NOTHING: Key = (sys.maxsize, 0)  # beyond everything


class Timers:
    """`held` is the queue that they stand in."""

    def __init__(
        self, store: Store, fetcher: Fetcher, publisher: Publisher, clock: Clock, held: int, revive: Revive
    ) -> None:
        self._store, self._fetcher, self._publisher, self._clock = store, fetcher, publisher, clock
        self._held, self._revive = held, revive
        self._fact = f"{PREFIX}{held}"
        due_ms, _, offset = (store.catalog.get(self._fact) or b"-1 -1").partition(b" ")
        self._mark: Key = (int(due_ms), int(offset))
        self._near: list[Key] = []
        self._beyond = _NOWHERE  # all keys below it that are not delivered are in the heap
        self._delivered = 0

    @property
    def queue(self) -> int:
        return self._held

    def held(self, entry: Entry) -> None:
        """A message was appended, to be delivered `entry.tag` ms later; or several, each with a tag of its own."""
        rows = self._store.table(self._held).rows(entry.row, entry.row + entry.count)
        for key in zip(_due_ms(rows).tolist(), rows["base"].tolist(), strict=True):
            if key < self._beyond:
                heapq.heappush(self._near, key)
                if len(self._near) > 2 * NEAR_MAX:
                    self._shrink()

    async def tick(self) -> None:
        """Deliver what is due."""
        while True:
            if not self._near and self._beyond is not _NOTHING:
                await self._look_further()
            due = self._due()
            if not due:
                return
            await self._deliver(due)
            await asyncio.sleep(0)  # what is in memory is read without waiting: others want their turn

    # --- delivering ---------------------------------------------------------------------------------------------------

    def _due(self) -> list[Key]:
        """Some of those that are due, in order; they are out of the heap."""
        now_ms, visible = self._clock.now_ms(), self._store.bounds(self._held).max_offset
        found: list[Key] = []
        while self._near and self._near[0][0] <= now_ms and len(found) < _MESSAGES_MAX:
            if self._near[0][1] >= visible:  # not durable yet: nothing may overtake it
                break
            found.append(heapq.heappop(self._near))
        return found

    async def _deliver(self, due: Sequence[Key]) -> None:
        """As many as are one batch; the others are due still, and all of them if anything goes wrong."""
        left = due
        try:
            entries, count = await self._read(due)
            mark = due[count - 1]
            if not self._may_pass(mark):
                return
            self._publisher.publish_group(entries, {self._fact: b"%d %d" % mark}, lambda error: None)
            self._mark, left = mark, due[count:]
            self._delivered += count
        finally:
            for key in left:
                heapq.heappush(self._near, key)
        if self._delivered >= _TRIM_EVERY:
            self._delivered = 0
            self._trim()

    def _may_pass(self, mark: Key) -> bool:
        """Whether nothing stands below it, and nothing can come to: only a clock that was set back says no."""
        return self._clock.now_ms() >= mark[0] and not (self._near and self._near[0] < mark)

    async def _read(self, due: Sequence[Key]) -> tuple[list[Entry], int]:
        """What becomes of the first ones: entries, and of how many. Neighbours in the queue are read together."""
        entries: list[Entry] = []
        count = size_bytes = 0
        while count < len(due) and size_bytes < _BYTES_MAX:
            offset = due[count][1]
            together = _neighbours(due[count:])
            batch = await self._fetcher.fetch(self._held, offset, together, _BYTES_MAX)
            for payload in batch.payloads:
                size_bytes += len(payload)
                entry = self._revive(payload)
                if entry is not None:
                    entries.append(entry)
            count += min(max(batch.next_offset - offset, 1), together)
        return entries, count

    def _trim(self) -> None:
        """Take what has been delivered from the front of the queue."""
        table = self._store.table(self._held)
        row = table.min_row
        while row < table.visible_row:
            rows = table.rows(row, min(row + _SCAN_ROWS, table.visible_row))
            waiting = np.flatnonzero(self._waits(rows))
            if len(waiting):
                row += int(waiting[0])
                break
            row += len(rows)
        self._store.trim(self._held, table.offset_of(row))

    # --- what is due next ---------------------------------------------------------------------------------------------

    async def _look_further(self) -> None:
        """Fill the heap with those that are due next. What is appended meanwhile is found as well: only the last step,
        behind which nobody gets a turn, reaches the end of the queue.
        """
        self._beyond = _NOWHERE
        nearest, cut = np.empty((0, 2), np.int64), _NOTHING
        table = self._store.table(self._held)
        row = table.min_row
        while row < table.next_row:
            rows = table.rows(row, min(row + _SCAN_ROWS, table.next_row))
            row += len(rows)
            waits = self._waits(rows)
            found = np.column_stack((_due_ms(rows)[waits], rows["base"][waits]))
            nearest = np.concatenate((nearest, found))
            if len(nearest) > 2 * NEAR_MAX:
                nearest = nearest[_order(nearest)[: NEAR_MAX + 1]]
                cut = int(nearest[-1, 0]), int(nearest[-1, 1])
            if row < table.next_row:
                await asyncio.sleep(0)
        self._near = [key for key in _pairs(nearest[_order(nearest)]) if key < cut]  # sorted: a heap
        self._beyond = cut

    def _waits(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Which of them are not delivered yet, and not lost."""
        due, (mark_ms, mark_offset) = _due_ms(rows), self._mark
        ahead = (due > mark_ms) | ((due == mark_ms) & (rows["base"] > mark_offset))
        found: npt.NDArray[np.bool_] = ahead & ((rows["flags"] & LOST) == 0)
        return found

    def _shrink(self) -> None:
        """Only the nearest stay in memory; the others are found again when it is their time."""
        keys = np.array(self._near, dtype=np.int64)
        *self._near, self._beyond = _pairs(keys[_order(keys)[: NEAR_MAX + 1]])


def _due_ms(rows: Rows) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = rows["time"] + rows["tag"]
    return found


def _order(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.intp]:
    """By time, and by offset where that is the same."""
    return np.lexsort((keys[:, 1], keys[:, 0]))


def _pairs(keys: npt.NDArray[np.int64]) -> list[Key]:
    return list(zip(keys[:, 0].tolist(), keys[:, 1].tolist(), strict=True))


def _neighbours(due: Sequence[Key]) -> int:
    """How many stand one behind the other in the queue, from the first on."""
    count = 1
    while count < len(due) and due[count][1] == due[0][1] + count:
        count += 1
    return count
