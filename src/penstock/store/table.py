"""A queue's table: one row per message or closed batch, found by row number, offset or time.

Rows are numbered from 0 and never renumbered; the entry number that clients see is the row number. Retention takes rows
from the front (`min_row`), appending adds them behind (`next_row`), readers see them up to `visible_row`. Row r lies in
piece `r // piece_rows`. Offsets grow with the rows; store times never go back; positions do where the cleaner has
copied.

`add` packs a row straight into the mapped file; so does the append loop where it is compiled (`_filling.c`).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from penstock.model import Durability, Spans
from penstock.store.rowfiles import LOST, NOWHERE, ROW, ROW_BYTES, ROW_DTYPE, UNSURE, RowFiles, Rows

STRETCH_ROWS = 85  # about a page: what is reserved on the disk for a queue's first rows

Mark = tuple["QueueTable", int, int, int]


class Trimmed(NamedTuple):
    """What a trim took away, so that the segments' accounts can be set right."""

    positions: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]


class QueueTable:
    __slots__ = (  # the compiled append loop reads and writes them where they lie
        "_files", "_proved", "changed", "clean_row", "durability", "encodings", "first_piece", "last_ms", "live_bytes",
        "lost", "mend", "min_offset", "min_row", "next_offset", "next_row", "piece_crcs", "piece_offsets",
        "piece_times", "producers", "queue", "slots", "tail", "tail_at", "tail_end", "trimmed_bytes", "turn",
        "unproved", "visible_offset", "visible_row",
    )  # fmt: skip

    def __init__(
        self, files: RowFiles, queue: int, durability: Durability, min_row: int = 0, min_offset: int = 0
    ) -> None:
        self._files, self.queue, self.durability = files, queue, durability
        self.min_row, self.min_offset = min_row, min_offset
        self.next_row, self.next_offset = min_row, min_offset
        self.visible_row, self.visible_offset = min_row, min_offset
        self.live_bytes = self.trimmed_bytes = 0
        self.last_ms = 0
        self.producers: dict[int, int] = {}  # deduplication: highest sequence by producer, least recently used first
        self.encodings = 0  # a bit for each encoding that has ever been in it
        self.turn = 0  # of the appender: whether this append has touched the queue already
        # Pieces, oldest first: slot, first offset, first time, checksum at the last checkpoint.
        self.first_piece = min_row // files.piece_rows
        self.slots: list[int] = []
        self.piece_offsets: list[int] = []
        self.piece_times: list[int] = []
        self.piece_crcs: list[int] = []
        self.clean_row = min_row  # rows below are in the last checkpoint ...
        self.changed: set[int] = set()  # ... but for these pieces
        self.lost: list[int] = []  # rows skipped during recovery: a copy may turn up further on
        self.unproved: set[int] = set()  # pieces from before this start whose checksum was not looked at yet
        self._proved: dict[int, bytearray] = {}  # by piece: whose payloads have been checked since the start
        self.mend: Callable[[QueueTable, int], None] | None = None  # called for a piece whose checksum is wrong
        self.tail: memoryview = memoryview(b"")
        self.tail_at = 0
        self.tail_end = 0

    # --- adding -------------------------------------------------------------------------------------------------------

    def add(
        self, position: int, length: int, base: int, count: int, time_ms: int, tag: int, lead: int, flags: int = 0
    ) -> None:
        """One more row. `base` is `next_offset`, except behind damage."""
        at = self.tail_at
        if at == self.tail_end:
            at = self.extend(base, time_ms)
        ROW.pack_into(self.tail, at, position, base, time_ms, tag, length, count, lead, flags)
        self.tail_at = at + ROW_BYTES
        self.next_row += 1
        self.next_offset = base + count
        self.live_bytes += length
        self.last_ms = time_ms

    def add_run(self, position: int, base: int, time_ms: int, spans: Spans, lead: int) -> None:
        """A row per message of a run whose payload begins at `position`."""
        done, total = 0, len(spans.starts)
        while done < total:
            if self.tail_at == self.tail_end:
                self.extend(base + done, time_ms)
            take = min((self.tail_end - self.tail_at) // ROW_BYTES, total - done)
            rows = np.frombuffer(self.tail, dtype=ROW_DTYPE, count=take, offset=self.tail_at)
            part = slice(done, done + take)
            rows["position"] = position + spans.starts[part]
            rows["base"] = np.arange(base + done, base + done + take)
            rows["time"] = time_ms
            rows["tag"] = spans.tags[part]
            rows["length"] = spans.lengths[part]
            rows["count"] = 1
            rows["lead"] = lead + spans.starts[part]
            rows["flags"] = 0
            self.tail_at += take * ROW_BYTES
            self.next_row += take
            done += take
        self.next_offset = base + total
        self.live_bytes += int(spans.lengths.sum())
        self.last_ms = time_ms

    def skip_to(self, row: int, base: int, time_ms: int) -> None:
        """Rows up to `row` are lost: they keep their numbers, and their offsets up to `base`, from being used again."""
        while self.next_row < row:
            self.lost.append(self.next_row)
            self.add(NOWHERE, 0, base, 0, max(time_ms, self.last_ms), 0, 0, LOST | UNSURE)
        self.next_offset = max(self.next_offset, base)

    def extend(self, base: int, time_ms: int) -> int:
        """Room for more rows: the next stretch of the last piece, or a new piece. Reserved on the disk first, since a
        mapping that the disk has no room for would end the process instead of raising an error.
        """
        inside = self.next_row % self._files.piece_rows
        if not self.slots or not inside:
            self._begin_piece(base, time_ms)
        self.tail, start = self._files.place(self.slots[-1])
        self.tail_at = start + inside * ROW_BYTES
        room = self._files.piece_rows - inside
        if self.next_row < STRETCH_ROWS:  # most queues of ten thousand stay small
            room = min(room, STRETCH_ROWS)
        self._files.reserve(self.slots[-1], inside, room)
        self.tail_end = self.tail_at + room * ROW_BYTES
        return self.tail_at

    def _begin_piece(self, base: int, time_ms: int) -> None:
        slot = self._files.allocate()
        if not self.slots:
            self.first_piece = self.next_row // self._files.piece_rows
        self.slots.append(slot)
        self.piece_offsets.append(base)
        self.piece_times.append(time_ms)
        self.piece_crcs.append(0)

    def rollback(self, next_row: int, next_offset: int, live_bytes: int) -> None:
        """Forget the rows added since a mark."""
        self.next_row, self.next_offset, self.live_bytes = next_row, next_offset, live_bytes
        pieces = -(-next_row // self._files.piece_rows) - self.first_piece if self.slots else 0
        for slot in self.slots[max(pieces, 0) :]:
            self._files.free(slot)
        self._keep_pieces(max(pieces, 0))
        self._lose_tail()

    def _lose_tail(self) -> None:
        """The next row's place is worked out anew."""
        self.tail_at = self.tail_end = 0

    def _keep_pieces(self, count: int) -> None:
        for column in (self.slots, self.piece_offsets, self.piece_times, self.piece_crcs):
            del column[count:]

    def show(self, row: int, offset: int) -> None:
        if row > self.visible_row:
            self.visible_row, self.visible_offset = row, offset

    # --- finding ------------------------------------------------------------------------------------------------------

    def piece(self, number: int) -> Rows:
        """The rows of a piece; those that are not this queue's any more or not yet are garbage."""
        if number in self.unproved:
            self._prove(number)
        return self._files.rows(self.slots[number - self.first_piece])

    def _prove(self, number: int) -> None:
        self.unproved.discard(number)
        if self.checksum(number, self.clean_row) != self.piece_crcs[number - self.first_piece] and self.mend:
            self.mend(self, number)

    def proved(self, first: int, until: int) -> npt.NDArray[np.uint8]:
        """Which payloads of a span of rows have passed their checksums since the start: 1 for those that have."""
        size = self._files.piece_rows
        unknown = bytes(size)
        parts = [self._proved.get(number, unknown) for number in range(first // size, -(-until // size))]
        low = first // size * size
        return np.frombuffer(b"".join(parts), dtype=np.uint8)[first - low : until - low]

    def are_proved(self, first: int, until: int) -> bool:
        """Whether that is so of all of them."""
        size = self._files.piece_rows
        for number in range(first // size, -(-until // size)):
            known, start = self._proved.get(number), number * size
            if known is None or known.find(0, max(first - start, 0), until - start) >= 0:
                return False
        return True

    def prove(self, rows: npt.NDArray[np.int64]) -> None:
        """Payloads of these rows, in order, have passed their checksums."""
        size = self._files.piece_rows
        for number in range(int(rows[0]) // size, int(rows[-1]) // size + 1):
            known = self._proved.setdefault(number, bytearray(size))
            first, until = rows.searchsorted((number * size, (number + 1) * size))
            np.frombuffer(known, dtype=np.uint8)[rows[first:until] - number * size] = 1

    def checksum(self, number: int, until_row: int) -> int:
        """Over a piece from its start to `until_row`, as far as that is in it."""
        view, start = self._files.place(self.slots[number - self.first_piece])
        rows = min(until_row - number * self._files.piece_rows, self._files.piece_rows)
        return crc32c(view[start : start + rows * ROW_BYTES])

    def rows(self, first: int, until: int) -> Rows:
        """Rows `first` up to, not including, `until`."""
        size = self._files.piece_rows
        if first >= until:
            return np.empty(0, dtype=ROW_DTYPE)
        low, high = first // size, (until - 1) // size
        if low == high:
            return self.piece(low)[first - low * size : until - low * size]
        parts = [self.piece(low)[first - low * size :], *(self.piece(n) for n in range(low + 1, high))]
        return np.concatenate([*parts, self.piece(high)[: until - high * size]])

    def place(self, row: int) -> tuple[memoryview, int, int]:
        """The memory that holds a row, where in it the row begins, and how many rows there are to its piece's end."""
        number, inside = divmod(row, self._files.piece_rows)
        if number in self.unproved:
            self._prove(number)
        view, start = self._files.place(self.slots[number - self.first_piece])
        return view, start + inside * ROW_BYTES, self._files.piece_rows - inside

    def pieces_from(self, row: int, pieces_max: int) -> tuple[list[tuple[memoryview, int]], int, int]:
        """The memory of the piece that holds a row and of those behind it, and where in it each begins; the number of
        the first row of the first, and how many rows each has.
        """
        size = self._files.piece_rows
        first = row // size
        end = min(-(-self.visible_row // size), first + pieces_max)
        for number in self.unproved.intersection(range(first, end)):
            self._prove(number)
        slots = self.slots[first - self.first_piece : end - self.first_piece]
        return [self._files.place(slot) for slot in slots], first * size, size

    def row_at_offset(self, offset: int) -> int:
        """The row that holds an offset, or the first behind it where it is lost; between min_row and next_row."""
        if offset <= self.min_offset:
            return self.min_row
        if offset >= self.next_offset:
            return self.next_row
        row = self.likely_row(offset)
        if row < self.next_row and self._begins_with(row, offset):
            return row
        rows, low = self._piece_for(bisect_right(self.piece_offsets, offset) - 1)
        index = int(rows["base"].searchsorted(offset, side="right")) - 1
        if index < 0:
            return low
        holds = int(rows["base"][index]) + int(rows["count"][index]) > offset
        return low + index if holds else low + index + 1

    def likely_row(self, offset: int) -> int:
        """Where an offset is when every row holds one message, and none was lost."""
        return self.min_row + offset - self.min_offset

    def _begins_with(self, row: int, offset: int) -> bool:
        """Whether a row is known to hold messages from an offset on: one look instead of a search."""
        number, inside = divmod(row, self._files.piece_rows)
        if number in self.unproved:
            return False
        view, start = self._files.place(self.slots[number - self.first_piece])
        _, base, _, _, _, count, _, _ = ROW.unpack_from(view, start + inside * ROW_BYTES)
        return bool(base == offset and count > 0)

    def row_at_time(self, store_ms: int) -> int:
        """The first row stored at or after a time; next_row when there is none."""
        at = bisect_right(self.piece_times, store_ms - 1) - 1
        if at < 0:
            return self.min_row
        rows, low = self._piece_for(at)
        return max(low + int(rows["time"].searchsorted(store_ms, side="left")), self.min_row)

    def _piece_for(self, at: int) -> tuple[Rows, int]:
        """The rows in use of the piece at an index, and the number of the first of them."""
        number = self.first_piece + max(at, 0)
        start = number * self._files.piece_rows
        low, high = max(start, self.min_row), min(start + self._files.piece_rows, self.next_row)
        return self.piece(number)[low - start : high - start], low

    def is_lost(self, row: int) -> bool:
        return bool(self.rows(row, row + 1)["flags"][0] & LOST)

    def row_to_keep(self, offset: int) -> int:
        """The first row that a trim up to an offset keeps. A trim that ends among lost rows takes them all: the minimum
        never stays below what was asked for.
        """
        row = self.row_at_offset(offset)
        if offset <= self.min_offset:
            return row
        for first, until in self._within_pieces(row, self.visible_row):
            alive = np.flatnonzero(~self.rows(first, until)["flags"] & LOST)
            if len(alive):
                return first + int(alive[0])
        return max(row, self.visible_row)

    def row_for_bytes(self, bytes_max: int) -> int:
        """The first row to keep so that what is left holds at most `bytes_max`."""
        surplus, row = self.live_bytes - bytes_max, self.min_row
        while surplus > 0 and row < self.next_row:
            first, until = next(self._within_pieces(row, self.next_row))
            sums = np.cumsum(self.rows(first, until)["length"], dtype=np.int64)
            take = int(sums.searchsorted(surplus, side="left")) + 1
            row += min(take, until - first)
            surplus -= int(sums[min(take, until - first) - 1])
        return row

    def bytes_from(self, row: int, enough: int) -> int:
        """What the rows from `row` on take; no more are counted once it is above `enough`."""
        total = 0
        for first, until in self._within_pieces(max(row, self.min_row), self.next_row):
            total += int(self.rows(first, until)["length"].sum(dtype=np.int64))
            if total > enough:
                break
        return total

    def offset_of(self, row: int) -> int:
        return self.next_offset if row >= self.next_row else int(self.rows(row, row + 1)["base"][0])

    # --- changing what is there ---------------------------------------------------------------------------------------

    def put(self, row: int, new: Rows) -> Trimmed:
        """Set rows that exist already, from `row` on: the newest copy in the log wins. Where they pointed before."""
        low, high = max(row, self.min_row), min(row + len(new), self.next_row)
        before: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []
        for first, until in self._within_pieces(low, high):
            rows = self.rows(first, until)
            before.append((rows["position"].copy(), rows["length"].astype(np.int64)))
            rows[:] = new[first - row : until - row]
            self._note_piece(first // self._files.piece_rows, int(rows["base"][0]), int(rows["time"][0]))
        replaced = _joined(before)
        self.live_bytes += int(new["length"][max(0, low - row) : max(0, high - row)].sum() - replaced.lengths.sum())
        return replaced

    def _note_piece(self, number: int, base: int, time_ms: int) -> None:
        at = number - self.first_piece
        self.piece_offsets[at] = min(self.piece_offsets[at], base)
        self.piece_times[at] = min(self.piece_times[at], time_ms)
        self.changed.add(number)

    def settle(self) -> None:
        """After recovery: rows that stayed lost take the offset and time of the row behind them, so that both still
        grow.
        """
        for row in reversed(self.lost):
            if row < self.min_row:
                continue
            mine = self.rows(row, row + 1)
            if mine["flags"][0] & UNSURE:
                if row + 1 < self.next_row:
                    behind = self.rows(row + 1, row + 2)
                    mine["base"], mine["time"] = behind["base"], behind["time"]
                else:
                    mine["base"], mine["time"] = self.next_offset, self.last_ms
                self.changed.add(row // self._files.piece_rows)
        self.lost.clear()

    def _within_pieces(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """A span of rows, cut at the borders of pieces."""
        size = self._files.piece_rows
        while low < high:
            until = min(high, (low // size + 1) * size)
            yield low, until
            low = until

    def trim(self, row: int) -> Trimmed:
        """Rows below `row` are gone."""
        row = min(row, self.next_row)
        if row <= self.min_row:
            return _joined([])
        gone = [self.rows(low, high) for low, high in self._within_pieces(self.min_row, row)]
        trimmed = _joined([(rows["position"].copy(), rows["length"].astype(np.int64)) for rows in gone])
        self.min_offset = self.offset_of(row)
        self.min_row = row
        gone_bytes = int(trimmed.lengths.sum())
        self.live_bytes -= gone_bytes
        self.trimmed_bytes += gone_bytes
        self.show(self.min_row, self.min_offset)
        self._drop_pieces()
        return trimmed

    def _drop_pieces(self) -> None:
        keep_from = self.min_row // self._files.piece_rows
        dead = min(keep_from - self.first_piece, len(self.slots))
        if dead <= 0:
            return
        for slot in self.slots[:dead]:
            self._files.free(slot)
        for column in (self.slots, self.piece_offsets, self.piece_times, self.piece_crcs):
            del column[:dead]
        gone = range(self.first_piece, self.first_piece + dead)
        self.unproved.difference_update(gone)
        self.changed.difference_update(gone)
        for number in gone:
            self._proved.pop(number, None)
        self.first_piece += dead
        if not self.slots:
            self._lose_tail()

    def trim_beyond(self, row: int, offset: int) -> Trimmed:
        """A trim that may reach behind the last row known here: recovery sees trims before the rows they took."""
        trimmed = self.trim(row)
        if row > self.next_row:
            self.min_row = self.next_row = row
            self.min_offset = self.next_offset = offset
            self._drop_pieces()
            self._lose_tail()
        return trimmed

    def drop(self) -> Trimmed:
        """All rows are gone, and the queue with them."""
        return self.trim(self.next_row)

    def remember(self, producer: int, sequence: int, producers_max: int) -> None:
        """For deduplication; the producer that was silent longest is forgotten when there are too many."""
        highest = max(sequence, self.producers.pop(producer, sequence))
        self.producers[producer] = highest
        if len(self.producers) > producers_max:
            del self.producers[next(iter(self.producers))]


def _joined(parts: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]) -> Trimmed:
    if not parts:
        return Trimmed(np.empty(0, np.int64), np.empty(0, np.int64))
    return Trimmed(np.concatenate([p for p, _ in parts]), np.concatenate([n for _, n in parts]))
