"""Messages as they lie in the log, where it may have to be read from the disk: all that a pull asks for at once, into
the answer as it will be sent.

Large pieces are announced to the system first, so that the disk works on all of them, and brings nothing else: left to
itself, the system reads ahead of every piece, and with many queues in a log that is other queues' messages.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from penstock.store.files import File
from penstock.store.spans import joined

FilePart = tuple[File, int, list[int]]  # a segment, where it begins in the log, and positions and lengths in turn
_GAP_BYTES_MAX, _GAP_TIMES_MAX = 4_096, 2  # what is read along to save a call: also in proportion to what is wanted
_ANNOUNCED_BYTES = 64 * 1024  # for less, reading ahead is a good guess


class _Piece(NamedTuple):
    """Places that are read together: a file, where they begin in it and in the log, and how long it is all in all."""

    file: File
    at: int
    position: int
    length: int
    places: list[int]


class Later:
    """Its files can be read whatever becomes of their segments."""

    def __init__(
        self,
        parts: list[FilePart],
        messages: int,
        size_bytes: int,
        next_offset: int,
        min_offset: int,
        max_offset: int,
    ) -> None:
        self.messages, self.size_bytes, self.next_offset = messages, size_bytes, next_offset
        self.min_offset, self.max_offset = min_offset, max_offset
        self._missing = [piece for part in parts for piece in _pieces(*part)][::-1]
        self._answer, self._head = bytearray(), b""
        self._done = 0  # bytes of it

    def behind(self, head: bytes, wait: bool) -> memoryview | None:
        """All of them, behind some bytes of the caller's. Without `wait` None when some of it is not in memory: then
        it goes on from there when it is asked again, in a worker thread. Memory is taken when something is there.
        """
        self._head = self._head or head
        if not wait and not self._begins_in_memory():
            return None
        if not self._answer:
            self._answer, self._done = bytearray(len(self._head) + self.size_bytes), len(self._head)
            self._answer[: self._done] = self._head
        if wait:
            self._announce()
        while self._missing:
            if not self._read(self._missing[-1], wait):
                return None
            del self._missing[-1]
        return memoryview(self._answer)

    def _begins_in_memory(self) -> bool:
        first = self._missing[-1]
        return first.file.read_into(memoryview(bytearray(1)), first.at, wait=False)

    def _announce(self) -> None:
        for piece in reversed(self._missing):
            if piece.length >= _ANNOUNCED_BYTES:
                piece.file.announce(piece.at, piece.length)

    def _read(self, piece: _Piece, wait: bool) -> bool:
        wanted = sum(piece.places[1::2])
        room = memoryview(self._answer)[self._done : self._done + wanted]
        if wanted == piece.length:  # without gaps
            if not piece.file.read_into(room, piece.at, wait):
                return False
        else:
            data = bytearray(piece.length)
            if not piece.file.read_into(memoryview(data), piece.at, wait):
                return False
            room[:] = joined([(memoryview(data), piece.position, piece.places)])
        self._done += wanted
        return True


def _pieces(file: File, base: int, places: list[int]) -> Iterator[_Piece]:
    """Neighbours together."""
    positions, lengths = np.array(places, dtype=np.int64).reshape(-1, 2).T
    ends = positions + lengths
    gaps = positions[1:] - ends[:-1]
    apart = (gaps < 0) | (gaps > min(_GAP_BYTES_MAX, _GAP_TIMES_MAX * int(lengths.sum()) // len(lengths)))
    for first, until in pairwise([0, *(np.flatnonzero(apart) + 1).tolist(), len(positions)]):
        position, end = int(positions[first]), int(ends[until - 1])
        yield _Piece(file, position - base, position, end - position, places[2 * first : 2 * until])
