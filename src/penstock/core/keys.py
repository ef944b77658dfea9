"""Finding messages by their keys.

Producing pays nothing for it: the index is made when somebody asks. It consists of blocks, each for a stretch of
`BLOCK_MESSAGES` offsets of one queue: the hashes of its messages' keys, sorted. A query makes the blocks that are not
there yet, by reading that stretch of the queue, looks its hash up in each, and reads the few messages that may match. A
block that is complete and durable is kept in a file, so the next start need not read the queue again.

Memory is bounded (`CACHE_BYTES_MAX`), and so is the time of a query: what takes longer is refused with `IndexBusy`, and
asking again goes on where it ended. Hashing is done in small steps between which the loop serves everybody else; one
query is under way at a time.

What a message's keys are is not known here: `keys_in` says it.
"""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from penstock import logs
from penstock.clock import Clock
from penstock.core.fetch import Fetcher
from penstock.errors import IndexBusy, QueueNotFound
from penstock.store.keyfiles import Block, KeyFiles
from penstock.store.store import Store

log = logs.get(__name__)

BLOCK_MESSAGES = 16_384
STEP_MESSAGES, STEP_BYTES = 256, 2 << 20  # hashed in one turn of the loop
KEYS_MAX = 128  # a message with more is looked at in every query instead; a trace of many messages has many
CACHE_BYTES_MAX = 64 << 20
WAITING_MAX = 16
FIND_MS_MAX = 10_000
_ANY = 0  # the hash of a message with too many keys
_TIME_MAX = 1 << 62

KeysIn = Callable[[memoryview], Sequence[bytes]]
Offsets = npt.NDArray[np.int64]
_Candidates = Callable[[int, range, int], Awaitable[Offsets]]  # of a queue, in a span, until a time


class Messages(NamedTuple):
    """What a read of a queue brought, in the encoding that `keys_in` knows."""

    payloads: list[memoryview]
    offsets: list[int]
    next_offset: int


Read = Callable[
    [int, int, int, int], Awaitable[Messages]
]  # of a queue, from an offset: so many messages, so many bytes


class Search(NamedTuple):
    """Messages stored in a range of time that `matches` agrees to, and how many of them."""

    begin_ms: int
    end_ms: int
    matches: Callable[[memoryview], bool]
    messages_max: int
    bytes_max: int


def hash_of(key: bytes) -> int:
    return crc32c(key) or 1


class KeyIndex:
    def __init__(self, store: Store, fetcher: Fetcher, clock: Clock, keys_in: KeysIn, read: Read | None = None) -> None:
        self._store, self._fetcher, self._clock, self._keys_in = store, fetcher, clock, keys_in
        self._messages = read or self._as_they_are
        self._files: KeyFiles = store.key_files()
        self._cache: dict[tuple[int, int], Block] = {}  # the one used last is the last one
        self._cache_bytes = self._waiting = 0
        self._turn = asyncio.Lock()
        self._tidy()

    async def find(self, queues: Sequence[int], key: bytes, search: Search) -> list[memoryview]:
        """The messages that may have a key and that the search agrees to, the newest first."""
        return await self._search(queues, search, partial(self._with_key, key))

    async def find_tagged(self, queues: Sequence[int], tag: int, search: Search) -> list[memoryview]:
        """The same by the hash of the tag, which the queue's table has."""
        return await self._search(queues, search, partial(self._with_tag, tag))

    async def _search(self, queues: Sequence[int], search: Search, candidates: _Candidates) -> list[memoryview]:
        deadline_ms = self._clock.monotonic_ms() + FIND_MS_MAX
        if self._waiting >= WAITING_MAX:
            raise IndexBusy
        self._waiting += 1
        try:
            async with self._turn:
                spans = [(queue, self._offsets(queue, search)) for queue in queues]
                found = [(queue, await candidates(queue, span, deadline_ms)) for queue, span in spans]
                self._tidy()
                return await self._read(self._newest_first(found), search, deadline_ms)
        finally:
            self._waiting -= 1

    def _offsets(self, queue: int, search: Search) -> range:
        begin, end = (min(max(time_ms, 0), _TIME_MAX) for time_ms in (search.begin_ms, search.end_ms))
        return range(self._fetcher.offset_at_time(queue, begin), self._fetcher.offset_at_time(queue, end + 1))

    # --- looking up ---------------------------------------------------------------------------------------------------

    async def _with_tag(self, tag: int, queue: int, span: range, deadline_ms: int) -> Offsets:
        parts = [np.empty(0, np.int64)]
        for first in range(span.start, span.stop, BLOCK_MESSAGES):
            self._check(deadline_ms)
            parts.append(self._fetcher.offsets_tagged(queue, first, min(first + BLOCK_MESSAGES, span.stop), tag))
            await asyncio.sleep(0)
        return np.concatenate(parts)

    async def _with_key(self, key: bytes, queue: int, span: range, deadline_ms: int) -> Offsets:
        """Offsets of the messages that may have the key, in order."""
        if not span:
            return np.empty(0, np.int64)
        hashes, parts = np.array([_ANY, hash_of(key)], np.uint32), list[Offsets]()
        for number in range(span.start // BLOCK_MESSAGES, (span.stop - 1) // BLOCK_MESSAGES + 1):
            block = await self._block(queue, number, span.stop, deadline_ms)
            low, high = (block.hashes.searchsorted(hashes, side=side).tolist() for side in ("left", "right"))
            places = np.concatenate([block.places[a:b] for a, b in zip(low, high, strict=True)])
            parts.append(np.unique(places).astype(np.int64) + number * BLOCK_MESSAGES)
        offsets = np.concatenate(parts)
        return offsets[(offsets >= span.start) & (offsets < span.stop)]

    def _newest_first(self, found: list[tuple[int, Offsets]]) -> Iterator[tuple[int, int, int]]:
        """Minus the time, queue and offset of each candidate."""

        def of_queue(queue: int, offsets: Offsets) -> Iterator[tuple[int, int, int]]:
            for offset in reversed(offsets.tolist()):
                yield -self._fetcher.time_ms_of(queue, offset), queue, offset

        return heapq.merge(*(of_queue(queue, offsets) for queue, offsets in found))

    async def _read(
        self, candidates: Iterator[tuple[int, int, int]], search: Search, deadline_ms: int
    ) -> list[memoryview]:
        found: list[memoryview] = []
        size = 0
        for _, queue, offset in candidates:
            if len(found) >= search.messages_max:
                break
            payload = await self._message(queue, offset)
            if payload is None or not search.matches(payload):
                self._check(deadline_ms)
                continue
            size += len(payload)
            if found and size > search.bytes_max:
                break
            found.append(payload)
        return found

    async def _message(self, queue: int, offset: int) -> memoryview | None:
        """None when it has gone meanwhile."""
        bounds = self._fetcher.bounds(queue)
        if not bounds.min_offset <= offset < bounds.max_offset:
            return None
        found = await self._messages(queue, offset, 1, 1)
        return found.payloads[0] if found.payloads and found.offsets[0] == offset else None

    async def _as_they_are(self, queue: int, offset: int, messages_max: int, bytes_max: int) -> Messages:
        batch = await self._fetcher.fetch(queue, offset, messages_max, bytes_max)
        return Messages(batch.payloads, batch.rows["base"].tolist(), batch.next_offset)

    # --- blocks -------------------------------------------------------------------------------------------------------

    async def _block(self, queue: int, number: int, until: int, deadline_ms: int) -> Block:
        """A block that knows everything below `until`, as far as that is its to know."""
        begin = number * BLOCK_MESSAGES
        block = self._cache.pop((queue, number), None)
        if block is not None:
            self._cache_bytes -= block.size_bytes
        else:
            block = await asyncio.to_thread(self._files.load, queue, number)
        grown = _Growing(block or Block(np.empty(0, np.uint32), np.empty(0, np.uint16), begin), begin)
        goal = min(until, begin + BLOCK_MESSAGES)
        try:
            while grown.until < goal:
                self._check(deadline_ms)
                await self._grow(queue, grown, goal)
        finally:
            block = grown.sorted()
            self._keep(queue, number, block)
        await self._save(queue, number, block)
        return block

    async def _grow(self, queue: int, grown: "_Growing", goal: int) -> None:
        """Add the keys of some more messages."""
        first = max(grown.until, self._fetcher.bounds(queue).min_offset)
        if first >= goal:  # retention has taken the rest
            grown.until = goal
            return
        found = await self._messages(queue, first, min(STEP_MESSAGES, goal - first), STEP_BYTES)
        for payload, offset in zip(found.payloads, found.offsets, strict=True):
            grown.add(offset, self._keys_in(payload))
        grown.until = min(found.next_offset, goal)
        await asyncio.sleep(0)

    def _keep(self, queue: int, number: int, block: Block) -> None:
        self._cache[queue, number] = block
        self._cache_bytes += block.size_bytes
        while self._cache_bytes > CACHE_BYTES_MAX and len(self._cache) > 1:
            self._cache_bytes -= self._cache.pop(next(iter(self._cache))).size_bytes

    async def _save(self, queue: int, number: int, block: Block) -> None:
        """To a file, when it is complete and its messages can no longer be lost: their offsets are then theirs for
        ever.
        """
        complete = block.until == (number + 1) * BLOCK_MESSAGES
        if not complete or (queue, number) in self._files.names or not self._store.is_durable(queue, block.until):
            return
        try:
            await asyncio.to_thread(self._files.save, queue, number, block)
        except OSError as error:
            log.warning("a block of the key index could not be kept", queue=queue, error=str(error))

    def _check(self, deadline_ms: int) -> None:
        if self._clock.monotonic_ms() > deadline_ms:
            raise IndexBusy

    def _tidy(self) -> None:
        """Forget blocks whose messages are gone."""
        for queue, number in [name for name in (*self._cache, *self._files.names) if self._is_gone(*name)]:
            block = self._cache.pop((queue, number), None)
            self._cache_bytes -= block.size_bytes if block else 0
            try:
                self._files.remove(queue, number)
            except OSError as error:
                log.warning("a block of the key index could not be removed", queue=queue, error=str(error))

    def _is_gone(self, queue: int, number: int) -> bool:
        try:
            return (number + 1) * BLOCK_MESSAGES <= self._fetcher.bounds(queue).min_offset
        except QueueNotFound:
            return True


class _Growing:
    """A block that more messages are added to."""

    def __init__(self, block: Block, begin: int) -> None:
        self._block, self._begin, self.until = block, begin, block.until
        self._hashes: list[int] = []
        self._places: list[int] = []

    def add(self, offset: int, keys: Sequence[bytes]) -> None:
        found = [hash_of(key) for key in keys] if len(keys) <= KEYS_MAX else [_ANY]
        self._hashes += found
        self._places += [offset - self._begin] * len(found)

    def sorted(self) -> Block:
        if not self._hashes:
            return self._block._replace(until=self.until)
        hashes = np.concatenate([self._block.hashes, np.array(self._hashes, np.uint32)])
        places = np.concatenate([self._block.places, np.array(self._places, np.uint16)])
        order = np.argsort(hashes, kind="stable")
        return Block(hashes[order], places[order], self.until)
