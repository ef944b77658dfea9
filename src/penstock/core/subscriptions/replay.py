"""Rows that go out before anything new: what came back, what nobody could take, what has become due. In order."""

import heapq
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator


class Replay:
    """Rows by number, each with the slot of its key. Those that found nobody are passed over until somebody moves."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._passed: set[int] = set()
        self._slots: dict[int, int] = {}
        self._of_slot: dict[int, list[int]] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def __contains__(self, row: int) -> bool:
        return row in self._slots

    def waiting(self) -> Iterator[tuple[int, int]]:
        """Rows and their slots, the first first, without those that are passed over."""
        if len(self._passed) == len(self._rows):
            return iter(())
        return ((row, self._slots[row]) for row in self._rows if row not in self._passed)

    def pass_over(self, rows: Iterable[int]) -> None:
        """Nobody could take these."""
        self._passed.update(row for row in rows if row in self._slots)

    def look_again(self) -> None:
        """Somebody has moved."""
        self._passed.clear()

    def holds_earlier(self, slot: int, row: int) -> bool:
        """Whether something of this slot waits that stands before a row."""
        rows = self._of_slot.get(slot)
        return rows is not None and rows[0] < row

    def add(self, row: int, slot: int) -> None:
        if row not in self._slots:
            insort(self._rows, row)
            insort(self._of_slot.setdefault(slot, []), row)
            self._slots[row] = slot

    def remove(self, row: int) -> None:
        slot = self._slots.pop(row, None)
        if slot is None:
            return
        self._passed.discard(row)
        del self._rows[bisect_left(self._rows, row)]
        rows = self._of_slot[slot]
        del rows[bisect_left(rows, row)]
        if not rows:
            del self._of_slot[slot]

    def remove_below(self, row: int) -> None:
        for gone in self._rows[: bisect_left(self._rows, row)]:
            self.remove(gone)

    def clear(self) -> None:
        self._rows.clear()
        self._passed.clear()
        self._slots.clear()
        self._of_slot.clear()


class Delayed:
    """Rows that are not due yet."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int]] = []  # when, row, slot
        self._rows: set[int] = set()

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, due_ms: int, row: int, slot: int) -> None:
        if row not in self._rows:
            self._rows.add(row)
            heapq.heappush(self._heap, (due_ms, row, slot))

    def take_due(self, now_ms: int) -> Iterator[tuple[int, int]]:
        """Rows and slots whose time has come."""
        while self._heap and self._heap[0][0] <= now_ms:
            _, row, slot = heapq.heappop(self._heap)
            self._rows.discard(row)
            yield row, slot

    @property
    def next_ms(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def clear(self) -> None:
        self._heap.clear()
        self._rows.clear()
