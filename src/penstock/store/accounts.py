"""How many bytes in each segment are still alive: what the cleaner goes by.

Counted are payload bytes that a row points at. A segment that is not the active one and has none can be removed.
"""

from collections.abc import Iterable

import numpy as np

from penstock.store.table import Trimmed


class Accounts:
    def __init__(self, segment_bytes: int, live: dict[int, int] | None = None) -> None:
        self._segment_bytes = segment_bytes
        self.live: dict[int, int] = dict(live or {})

    def add(self, position: int, length: int) -> None:
        number = position // self._segment_bytes
        self.live[number] = self.live.get(number, 0) + length

    def add_all(self, written: Iterable[tuple[int, int]]) -> None:
        for position, length in written:
            self.add(position, length)

    def remove(self, gone: Trimmed) -> None:
        somewhere = gone.positions >= 0  # lost rows are nowhere
        if not somewhere.any():
            return
        numbers, places = np.unique(gone.positions[somewhere] // self._segment_bytes, return_inverse=True)
        sums = np.bincount(places, weights=gone.lengths[somewhere])
        for number, length in zip(numbers.tolist(), sums.tolist(), strict=True):
            self.live[number] = self.live.get(number, 0) - int(length)

    def forget(self, number: int) -> None:
        self.live.pop(number, None)
