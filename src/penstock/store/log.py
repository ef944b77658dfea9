"""The one append-only log: where it ends, how bytes get to its end, and when it refuses.

A write that failed leaves nothing behind: what it may have written is cut off again, since half of a refused append
must not come back to life at the next recovery. If even that fails, or a sync fails, or the disk reports anything but
"full", the log turns read-only: what the operating system holds in memory can no longer be trusted to reach the disk,
and only a restart, which reads back what is really there, may write again.
"""

import errno
import os
import threading

from penstock.errors import DiskFull, StoreError, StoreReadOnly
from penstock.store.files import File
from penstock.store.layout import SEGMENT_HEADER_BYTES
from penstock.store.segments import Segment, Segments
from penstock.store.syncing import DONE, GENERATION, ROUNDS, SETTLED, WANTED, Marks, rounds, sleep

FIRST_SEGMENT = 0  # of a new log; tests begin further out
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Log:
    """`end` is where the next byte goes, `settled` is behind the last append that is complete, and up to `filled` zeros
    have been written ahead.
    """

    def __init__(self, segments: Segments, end: int, marks: "Marks[int]") -> None:
        self.segments, self._marks = segments, marks
        self.end = self.settled = end
        self.read_only_because: str | None = None
        self.filled = 0
        self.unsynced: list[File] = []  # sealed, but written since the last sync
        self.folder_unsynced = False
        self._fill_lock = threading.Lock()  # who writes at `filled` and beyond
        self._roll_lock = threading.Lock()  # which segment is active, and what is unsynced
        self._active: Segment | None = segments.at(end - 1)[0] if end else None

    # --- writing ------------------------------------------------------------------------------------------------------

    def check_writable(self) -> None:
        if self.read_only_because is not None:
            raise StoreReadOnly(self.read_only_because)

    @property
    def room(self) -> int:
        """Bytes left in the active segment."""
        if self._active is None:
            return 0
        return (self._active.number + 1) * self.segments.segment_bytes - self.end

    def write(self, data: memoryview | bytes) -> None:
        """Put bytes at the end; they fit into the active segment."""
        if self._active is None or not data:
            return
        place = self.end - self._active.number * self.segments.segment_bytes
        after = self.end + len(data)
        if after > self.filled:
            with self._fill_lock:  # zeros are being written beyond `filled`: never over these bytes
                self._active.file.write(data, place)
                self.end = after
        else:
            self._active.file.write(data, place)
            self.end = after

    def push(self, start: int) -> None:
        """What was written from `start` on begins its way to the medium: a sync has less to do then."""
        if self._active is not None:
            base = self._active.number * self.segments.segment_bytes
            first = max(start, base)
            self._active.file.push(first - base, self.end - first)

    def roll(self, now_ms: int) -> None:
        """Seal the active segment and begin the next."""
        number = self._active.number + 1 if self._active else FIRST_SEGMENT
        fresh = self.segments.create(number, self.end, now_ms)
        with self._fill_lock, self._roll_lock:
            if self._active is not None:
                self.unsynced.append(self._active.file)
            self.folder_unsynced = True
            self._active = fresh
            self._marks[GENERATION] += 1
            self.end = self.filled = self.segments.first_position(number)

    def settle(self) -> None:
        """What was written up to here is complete: a sync may count it."""
        self.settled = self._marks[SETTLED] = self.end

    def take_back(self, end: int) -> None:
        """Undo all that was written behind `end`, also what a failed write may have left there."""
        try:
            with self._fill_lock, self._roll_lock:
                self._cut(end)
        except OSError as error:
            self.fail(f"a write that failed could not be taken back ({error})")

    def refusal(self, error: OSError) -> StoreError:
        """What a producer is told whose write failed."""
        if error.errno in _FULL and self.read_only_because is None:
            return DiskFull(error.strerror or "disk full")
        self.fail(f"a write failed ({error})")
        return StoreReadOnly(self.read_only_because or "")

    def _cut(self, end: int) -> None:
        self._marks[GENERATION] += 1
        while self._active is not None and end < self.segments.first_position(self._active.number):
            self.segments.remove(self._active.number)
            older = self.segments.numbers[-1] if self.segments.numbers else None
            self._active = None if older is None else self.segments.get(older)
            if self.unsynced:
                self.unsynced.pop()
        self.end, self.filled = end, min(self.filled, end)
        if self._active is not None:
            cut(self._active, end - self._active.number * self.segments.segment_bytes, self.segments.segment_bytes)

    def fail(self, why: str) -> None:
        if self.read_only_because is None:
            self.read_only_because = why

    # --- syncing: called by the committer, from its thread ------------------------------------------------------------

    def sync(self) -> int:
        """Bring everything to the medium; the position up to which it is there."""
        with self._roll_lock:  # against a roll in the middle of these lines
            position, sealed, folder, active = self.settled, self.unsynced, self.folder_unsynced, self._active
            self.unsynced, self.folder_unsynced = [], False
        for file in sealed:
            file.sync()
        if active is not None:
            active.file.sync()
        if folder:
            self.segments.sync_folder()
        self._marks[DONE] = position
        self._marks[ROUNDS] += 1
        return position

    def sync_while_wanted(self, bell: int, calls: int, sleep_ms: int) -> int:
        """Sync the active segment again and again while somebody waits for it; `bell` is written to after each time.
        Sleep while nobody does, until there are `calls`. Ends when it has slept enough, or there is more to sync than
        one file. The position up to which all is on the medium.
        """
        with self._roll_lock:
            active, generation = self._active, self._marks[GENERATION]
            simple = active is not None and not self.unsynced and not self.folder_unsynced
        if active is not None and simple and active.file.descriptor is not None:
            error = rounds(active.file.descriptor, generation, self._marks, bell, calls, sleep_ms)
            if error:
                raise OSError(error, os.strerror(error))
        elif self._marks[WANTED] <= self._marks[DONE]:
            sleep(self._marks, calls, sleep_ms)
        return self._marks[DONE]

    # --- zeros ahead: called by the filler, from its thread -----------------------------------------------------------

    def fill(self, step_bytes: int, ahead_bytes: int) -> bool:
        """Write zeros ahead of the end when fewer than `ahead_bytes` are left there; the next sync brings them to the
        medium. Overwriting is nearly twice as fast to sync as growing. Whether some were written.
        """
        with self._fill_lock:
            active = self._active
            if active is None or self.filled - self.end >= ahead_bytes:
                return False
            base = active.number * self.segments.segment_bytes
            begin = max(self.filled, self.end)
            length = min(step_bytes, base + self.segments.segment_bytes - begin)
            if length <= 0:
                return False
            active.file.write(bytes(length), begin - base)
            self.filled = begin + length
            return True


def cut(segment: Segment, place: int, segment_bytes: int) -> None:
    """Nothing but zeros from `place` on, on the medium."""
    segment.forget_view()
    segment.file.truncate(max(place, SEGMENT_HEADER_BYTES))
    segment.file.truncate(segment_bytes)
    segment.file.sync()
