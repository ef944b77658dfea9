"""Which parts of the log the system has in memory.

Asking costs 15 us, as much as sending some messages: so it is asked for a block of the log, and what is in memory
counts as such for a moment. A page that the system takes back in that moment costs one read of the disk, as it would if
it were taken back right after it was asked for.
"""

from collections.abc import Callable

from penstock.store.segments import Segment

BLOCK_BYTES = 1 << 20
KNOWN_MS = 1_000
KNOWN_MAX = 4_096  # blocks
STRETCH_BLOCKS = 8  # that a reader is told of at a time: 15 us each, when nobody has asked a moment ago
LONG_BLOCKS = 32  # the same for one that is in a hurry


class Residency:
    def __init__(self, now_ms: Callable[[], int]) -> None:
        self.now_ms = now_ms
        self._known: dict[tuple[int, int], int] = {}  # block of a segment: until when

    def holds(self, segment: Segment, place: int, length: int) -> bool:
        """Whether so many bytes of a segment are in memory."""
        now_ms, until = self.now_ms(), place + length
        for block in range(place // BLOCK_BYTES, (until - 1) // BLOCK_BYTES + 1):
            if not self._holds_block(segment, block, now_ms):
                first = max(place, block * BLOCK_BYTES)  # only some of the block may be there, and be enough
                if not segment.file.is_resident(segment.view, first, min(until, (block + 1) * BLOCK_BYTES) - first):
                    return False
        return True

    def stretch(self, segment: Segment, place: int, blocks: int) -> tuple[int, int, int] | None:
        """Around a place, with the blocks behind it as far as they are in memory, but not without end: where it begins,
        where it ends, and until when it counts as in memory. None when the place's own block was not asked about, all
        of it, a moment ago.
        """
        first, now_ms = place // BLOCK_BYTES, self.now_ms()
        if self._known.get((segment.number, first), 0) <= now_ms:
            return None
        end = first + 1
        while end < first + blocks and end * BLOCK_BYTES < len(segment.view):
            if not self._holds_block(segment, end, now_ms):
                break
            end += 1
        until_ms = min(self._known.get((segment.number, block), 0) for block in range(first, end))
        return first * BLOCK_BYTES, min(end * BLOCK_BYTES, len(segment.view)), until_ms

    def _holds_block(self, segment: Segment, block: int, now_ms: int) -> bool:
        key = segment.number, block
        if self._known.get(key, 0) > now_ms:
            return True
        at = block * BLOCK_BYTES
        if not segment.file.is_resident(segment.view, at, min(BLOCK_BYTES, len(segment.view) - at)):
            return False
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[key] = now_ms + KNOWN_MS
        return True
