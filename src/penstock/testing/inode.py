"""One file of the faulty disk: what memory holds, and what the medium holds.

`content` is the page cache: every read and every mapping sees it. `durable` is the medium, as of the last `sync`.
Between the two lie the `pending` changes, in order. Memory handed out by a writable mapping changes without a call, so
for such a file the pages are compared when it matters.

A sync that fails forgets what was dirty, as Linux does: memory still shows it, the next sync succeeds, and the medium
never got it. Disk space is counted in pages: a page that was never written is a hole and takes none.

Not here: names and folders (`names.py`), and which call fails (`disk.py`).
"""

import math
import random
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

PAGE_BYTES = 4096
VERSIONS_MAX = 5  # moments between the last sync and the crash that a torn state mixes


class Change(NamedTuple):
    """A write, or with `data` None a truncate to `at`. `moment` orders the changes of a whole disk."""

    moment: int
    at: int
    data: bytes | None


class Inode:
    def __init__(self, content: bytes | bytearray = b"") -> None:
        self.content = bytearray(content)
        self.durable = bytearray(content)
        self.pending: list[Change] = []
        self.mapped = False
        self.allocated: set[int] = set(_pages_between(0, len(content)))
        self._dirty: set[int] = set()
        self._forgotten: bytearray | None = None  # after a failed sync: what the system believes is on the medium

    def copy(self) -> "Inode":
        """The same file with memory of its own, and no mapping of it open."""
        twin = Inode()
        twin.content, twin.durable = bytearray(self.content), bytearray(self.durable)
        twin.pending, twin.mapped = list(self.pending), self.mapped
        twin.allocated, twin._dirty = set(self.allocated), set(self._dirty)
        twin._forgotten = self._forgotten
        return twin

    # --- changing -----------------------------------------------------------------------------------------------------

    def write(self, moment: int, at: int, data: bytes) -> None:
        if not data:
            return
        self._note(Change(moment, at, data), _pages_between(at, at + len(data)))
        self.allocated.update(_pages_between(at, at + len(data)))

    def truncate(self, moment: int, length: int) -> None:
        shrunk = _pages_between(length, len(self.content)) if length < len(self.content) else range(0)
        self._note(Change(moment, length, None), shrunk)
        self.allocated = {page for page in self.allocated if page * PAGE_BYTES < length}

    def reserve(self, moment: int, at: int, length: int) -> None:
        self.allocated.update(_pages_between(at, at + length))
        if at + length > len(self.content):
            self.truncate(moment, at + length)

    def _note(self, change: Change, pages: range) -> None:
        self.pending.append(change)
        self._dirty.update(pages)
        self.content = _changed(self.content, change)

    def map(self, writable: bool) -> memoryview:
        self.mapped = self.mapped or writable
        view = memoryview(self.content)
        return view if writable else view.toreadonly()

    def flip(self, byte: int, bit: int) -> None:
        """Rot: the bit is wrong in memory and on the medium."""
        for copy in (self.content, self.durable):
            if byte < len(copy):
                copy[byte] ^= 1 << bit

    # --- reaching the medium ------------------------------------------------------------------------------------------

    def sync(self) -> None:
        dirty = self._dirty_pages()
        _resize(self.durable, len(self.content))
        for page in dirty:
            span = _span(page)
            self.durable[span] = self.content[span]
        self._settle()

    def lose(self) -> None:
        """A sync that failed."""
        self._forgotten = bytearray(self.content)
        self._settle()

    def _settle(self) -> None:
        self.pending.clear()
        self._dirty.clear()
        if self._forgotten is not None:
            self._forgotten = bytearray(self.content)

    def _dirty_pages(self) -> list[int]:
        seen = self._forgotten if self._forgotten is not None else self.durable
        mapped = _differing(self.content, seen) if self.mapped else []
        length = len(self.content)
        return [page for page in sorted(self._dirty.union(mapped)) if page * PAGE_BYTES < length]

    # --- space --------------------------------------------------------------------------------------------------------

    def touched_holes(self) -> list[int]:
        """Holes that were filled through a mapping, which no call could refuse."""
        if not self.mapped:
            return []
        return [page for page in _differing(self.content, bytes(len(self.content))) if page not in self.allocated]

    def room(self, at: int, length: int) -> int:
        """How many of the bytes to be written lie in pages that have their place on the disk already."""
        for page in _pages_between(at, at + length):
            if page not in self.allocated:
                return max(0, page * PAGE_BYTES - at)
        return length

    # --- after a power cut --------------------------------------------------------------------------------------------

    def at_moment(self, choose: random.Random, moment: int) -> bytearray:
        """Changes up to a moment arrived, in order; memory changed through a mapping arrived page by page or not."""
        state = self._replayed(moment)
        for page in self._drifted():
            if page * PAGE_BYTES < len(state) and choose.random() < 0.5:
                span = _span(page, len(state))
                state[span] = self.content[span].ljust(span.stop - span.start, b"\0")
        return state

    def torn(self, choose: random.Random, sector_bytes: int) -> bytearray:
        """Each sector is as it was at one of several moments between the last sync and now."""
        versions = self._versions(choose)
        state = bytearray(len(choose.choice(versions)))
        sectors = range(0, len(state), sector_bytes)
        ages = choose.choice(TEARS)(choose, len(sectors), len(versions) - 1)
        for at, age in zip(sectors, ages, strict=True):
            part = versions[age][at : min(at + sector_bytes, len(state))]
            state[at : at + len(part)] = part
        return state

    def _versions(self, choose: random.Random) -> list[bytearray]:
        """The medium first, memory last, and some moments between."""
        moments = [change.moment for change in self.pending]
        between = sorted(choose.sample(moments, min(len(moments), VERSIONS_MAX - 2)))
        return [self.durable, *(self._replayed(moment) for moment in between), self.content]

    def _replayed(self, until: float) -> bytearray:
        state = bytearray(self.durable)
        for change in self.pending:
            if change.moment <= until:
                state = _changed(state, change)
        return state

    def _drifted(self) -> list[int]:
        """Pages that no change explains: written through a mapping, or forgotten by a failed sync."""
        if not self.mapped and self._forgotten is None:
            return []
        return _differing(self.content, self._replayed(math.inf))


def _pages_between(start: int, end: int) -> range:
    return range(start // PAGE_BYTES, -(-end // PAGE_BYTES))


def _span(page: int, end: int | None = None) -> slice:
    stop = (page + 1) * PAGE_BYTES
    return slice(page * PAGE_BYTES, stop if end is None else min(stop, end))


def _resize(state: bytearray, length: int) -> None:
    if length < len(state):
        del state[length:]
    else:
        state.extend(bytes(length - len(state)))


def _changed(state: bytearray, change: Change) -> bytearray:
    """The state after a change: a new object when its length changes, since a mapping may hold on to the old one."""
    length = change.at if change.data is None else max(len(state), change.at + len(change.data))
    if length != len(state):
        old, state = state, bytearray(length)
        kept = min(len(old), length)
        state[:kept] = memoryview(old)[:kept]
    if change.data is not None:
        state[change.at : change.at + len(change.data)] = change.data
    return state


def _differing(one: bytes | bytearray, other: bytes | bytearray) -> list[int]:
    """The pages in which two states differ."""
    if one == other:
        return []
    pages = _pages_between(0, max(len(one), len(other)))
    return [page for page in pages if one[_span(page)] != other[_span(page)]]


# --- how a power cut tears: for each sector, which version of it the medium has; 0 is the oldest ---------------------

Tear = Callable[[random.Random, int, int], Sequence[int]]


def _each_its_own(choose: random.Random, sectors: int, newest: int) -> list[int]:
    return [choose.randint(0, newest) for _ in range(sectors)]


def _one_missing(choose: random.Random, sectors: int, newest: int) -> list[int]:
    ages = [newest] * sectors
    if sectors:
        ages[choose.randrange(sectors)] = 0
    return ages


def _one_arrived(choose: random.Random, sectors: int, newest: int) -> list[int]:
    return [newest - age for age in _one_missing(choose, sectors, newest)]


def _front_arrived(choose: random.Random, sectors: int, newest: int) -> list[int]:
    cut = choose.randint(0, sectors)
    return [newest] * cut + [0] * (sectors - cut)


def _back_arrived(choose: random.Random, sectors: int, newest: int) -> list[int]:
    return _front_arrived(choose, sectors, newest)[::-1]


TEARS: tuple[Tear, ...] = (_each_its_own, _one_missing, _one_arrived, _front_arrived, _back_arrived)


def subset(choose: random.Random, moments: Sequence[int]) -> Iterator[int]:
    """Which of the pending directory operations arrived: none, all, the first few, or any of them."""
    ages = choose.choice(TEARS)(choose, len(moments), 1)
    return (moment for moment, arrived in zip(moments, ages, strict=True) if arrived)
