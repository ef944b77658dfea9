"""A cursor: which rows of a queue a subscription is done with.

`mark` is the first row that is not: everything below is. Beyond it stand runs of rows that were acknowledged one by
one, and for rows of several messages that are done in part, which of their messages are left. When a run touches the
mark, the mark moves over it.

Rows are positions in a queue's table: 0, 1, 2, and never used again.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import msgspec


class CursorState(msgspec.Struct, array_like=True):
    """As it is kept."""

    mark: int
    runs: list[tuple[int, int]] = []  # [first, behind), in order
    parts: dict[int, list[int]] = {}  # by row: the messages that are left
    properties: dict[str, int] = {}


class Cursor:
    def __init__(self, mark: int) -> None:
        self.mark = mark
        self.properties: dict[str, int] = {}
        self._firsts: list[int] = []  # of the runs beyond the mark: in order, apart from each other
        self._behinds: list[int] = []
        self._left: dict[int, int] = {}  # by row: a bit for each message that is not acknowledged

    # --- acknowledging ------------------------------------------------------------------------------------------------

    def ack(self, row: int) -> bool:
        """One row, whole. False when it was acknowledged before."""
        if self.is_acked(row):
            return False
        self._left.pop(row, None)
        self._add(row, row + 1)
        return True

    def ack_rows(self, rows: Sequence[int]) -> Sequence[int]:
        """These rows, whole: nearly always a few runs of neighbours. Those that were not acknowledged before."""
        fresh: list[int] = []
        for first, behind in _runs_of(rows):
            if self._is_free(first, behind):
                self._add(first, behind)
                fresh += range(first, behind)
            else:
                fresh += [row for row in range(first, behind) if self.ack(row)]
        if self._left:
            for row in fresh:
                self._left.pop(row, None)
        return fresh

    def _is_free(self, first: int, behind: int) -> bool:
        """Whether nothing between the two is acknowledged."""
        at = bisect_right(self._firsts, first)
        return (
            first >= self.mark
            and (at == 0 or self._behinds[at - 1] <= first)
            and (at == len(self._firsts) or self._firsts[at] >= behind)
        )

    def ack_until(self, row: int) -> None:
        """All rows below `row`."""
        if row <= self.mark:
            return
        self.mark = row
        gone = bisect_right(self._behinds, row)
        del self._firsts[:gone], self._behinds[:gone]
        if self._firsts and self._firsts[0] <= row:
            self.mark = self._behinds.pop(0)
            del self._firsts[0]
        self._left = {row: left for row, left in self._left.items() if row >= self.mark}

    def ack_part(self, row: int, left: int, count: int) -> int:
        """Of the messages of a row, those whose bit is set in `left` are left. How many this has acknowledged; the row
        is done when none is left.
        """
        if self.is_acked(row):
            return 0
        before = self.left(row, count)
        after = before & left
        if after:
            self._left[row] = after
        else:
            self.ack(row)
        return before.bit_count() - after.bit_count()

    def ack_between(self, first: int, behind: int) -> None:
        """All rows from `first` to below `behind`."""
        for row in [row for row in self._left if first <= row < behind]:
            del self._left[row]
        row = self.next_unacked(first)
        while row < behind:
            at = bisect_right(self._firsts, row)
            end = min(behind, self._firsts[at]) if at < len(self._firsts) else behind
            self._add(row, end)
            row = self.next_unacked(end)

    def reset(self, row: int) -> None:
        """As if everything below `row`, and nothing else, were acknowledged."""
        self.mark = row
        self._firsts.clear()
        self._behinds.clear()
        self._left.clear()

    def _add(self, first: int, behind: int) -> None:
        """A run joins its neighbours, and the mark when it touches it."""
        at = bisect_left(self._firsts, first)
        if at < len(self._firsts) and self._firsts[at] == behind:
            behind = self._behinds[at]
            del self._firsts[at], self._behinds[at]
        if at and self._behinds[at - 1] == first:
            self._behinds[at - 1] = behind
        else:
            self._firsts.insert(at, first)
            self._behinds.insert(at, behind)
        if self._firsts[0] == self.mark:
            self.mark = self._behinds.pop(0)
            del self._firsts[0]

    # --- asking -------------------------------------------------------------------------------------------------------

    def is_acked(self, row: int) -> bool:
        if row < self.mark:
            return True
        at = bisect_right(self._firsts, row) - 1
        return at >= 0 and row < self._behinds[at]

    def left(self, row: int, count: int) -> int:
        """The messages of a row that are left, a bit each."""
        return self._left.get(row, (1 << count) - 1)

    def part(self, row: int) -> int | None:
        """The messages that are left of a row that is done in part."""
        return self._left.get(row)

    def none_acked_from(self, row: int) -> bool:
        """Whether from `row` on nothing is acknowledged. Hot: it nearly always is so where a consumer reads."""
        return row >= self.mark and (not self._behinds or self._behinds[-1] <= row)

    def next_unacked(self, row: int) -> int:
        """The first row from `row` on that is not acknowledged."""
        row = max(row, self.mark)
        at = bisect_right(self._firsts, row) - 1
        return self._behinds[at] if at >= 0 and row < self._behinds[at] else row

    def acked_between(self, first: int, behind: int) -> Iterator[tuple[int, int]]:
        """The acknowledged runs within [first, behind), cut to it."""
        if first < self.mark:
            yield first, min(self.mark, behind)
        for at in range(bisect_right(self._behinds, first), len(self._firsts)):
            if self._firsts[at] >= behind:
                return
            yield max(self._firsts[at], first), min(self._behinds[at], behind)

    def backlog(self, behind: int) -> int:
        """How many rows below `behind` are not acknowledged."""
        beyond = sum(min(end, behind) - min(first, behind) for first, end in self.runs)
        return max(0, behind - self.mark) - beyond

    def behind(self, count: int, first: int = 0) -> int:
        """The row below which there are, from `first` on, `count` that are not acknowledged: also one that is not there
        yet.
        """
        row = self.next_unacked(first)
        for at in range(bisect_right(self._behinds, row), len(self._firsts)):
            if count <= self._firsts[at] - row:
                break
            count -= self._firsts[at] - row
            row = self._behinds[at]
        return row + count

    @property
    def runs(self) -> list[tuple[int, int]]:
        """What is acknowledged beyond the mark."""
        return list(zip(self._firsts, self._behinds, strict=True))

    # --- keeping ------------------------------------------------------------------------------------------------------

    def state(self, runs_max: int) -> CursorState:
        """What is kept of it: the first runs when there are too many, since what is left out only comes again."""
        runs = self.runs[:runs_max]
        parts = {row: _bits(left) for row, left in sorted(self._left.items())[:runs_max]}
        return CursorState(self.mark, runs, parts, dict(self.properties))

    @classmethod
    def of(cls, state: CursorState) -> "Cursor":
        cursor = cls(state.mark)
        cursor._firsts = [first for first, _ in state.runs]
        cursor._behinds = [behind for _, behind in state.runs]
        cursor._left = {row: sum(1 << bit for bit in bits) for row, bits in state.parts.items()}
        cursor.properties = dict(state.properties)
        return cursor


def _runs_of(rows: Sequence[int]) -> Iterator[tuple[int, int]]:
    """[first, behind) of neighbours."""
    ordered = sorted(set(rows)) if len(rows) > 1 else rows
    if not ordered:
        return
    first = behind = ordered[0]
    for row in ordered:
        if row != behind:
            yield first, behind
            first = row
        behind = row + 1
    yield first, behind


def _bits(value: int) -> list[int]:
    return [at for at in range(value.bit_length()) if value >> at & 1]
