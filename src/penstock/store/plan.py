"""What is to be read, and what a read brings."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from penstock.store.files import File
from penstock.store.rowfiles import Rows
from penstock.store.table import QueueTable


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


class Plan:
    """Rows to be fetched. They are the table's own until a worker thread has to read: it gets a copy, since tables
    change meanwhile. With `together`, payloads that touch in the log may come as one: for who hands them on as they
    are.
    """

    __slots__ = (
        "_first_row",
        "_kept",
        "_load",
        "_numbers",
        "mapped",
        "next_offset",
        "next_row",
        "pinned",
        "rows",
        "table",
        "together",
    )

    def __init__(self, load: "Load", table: QueueTable, first_row: int, rows: Rows) -> None:
        self._load, self.table, self.rows = load, table, rows
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
        if self._numbers is None:
            return self.table.are_proved(self._first_row, self._first_row + len(self.rows))
        first, until = int(self.numbers[0]), int(self.numbers[-1]) + 1
        return bool(self.table.proved(first, until)[self.numbers - first].all())

    def load(self, wait: bool) -> Batch | None:
        """The payloads; None when `wait` is false and something is not in memory."""
        return self._load(self, wait)

    def batch(
        self, payloads: list[memoryview], keep: list[int] | None = None, damage: list[Damage] | None = None
    ) -> Batch:
        rows = self.rows
        if keep is not None and len(keep) < len(rows):
            rows = rows[keep]
        return Batch(payloads, rows, self.next_offset, self.next_row, damage or [])


Load = Callable[[Plan, bool], Batch | None]


def slices(view: memoryview, base: int, positions: list[int], lengths: list[int]) -> list[memoryview]:
    """What lies at these positions, in a part of the log that begins at `base`."""
    return [view[at - base : at - base + length] for at, length in zip(positions, lengths, strict=True)]


def neighbours(rows: Rows) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Where rows that touch in the log begin and end: those of a run do."""
    starts, ends = rows["position"], rows["position"] + rows["length"]
    apart = np.flatnonzero(starts[1:] != ends[:-1])
    return starts[np.append(0, apart + 1)], ends[np.append(apart, len(ends) - 1)]
