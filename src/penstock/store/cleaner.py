"""Giving space back when a little that is alive keeps an old segment from being removed.

The cleaner copies the living entries of such a segment to the end of the log, marked as moved, and points their rows at
the copies. An entry is known by queue and row and the newest copy wins, so a crash at any moment is harmless. The
segment itself goes with the next checkpoint, which makes the new rows durable first.

It works in steps of bounded size, so that the event loop is never held up for long.
"""

from collections.abc import Iterator

import numpy as np

from penstock.store.accounts import Accounts
from penstock.store.layout import GROUP, GROUP_FIRST, GROUP_LAST, HEADER_BYTES, MOVED, put_header
from penstock.store.log import Log
from penstock.store.rowfiles import Rows
from penstock.store.scan import Found, scan_segment
from penstock.store.segments import Segments
from penstock.store.table import QueueTable


def worth_cleaning(accounts: Accounts, segments: Segments, live_share_max: float) -> list[int]:
    """Sealed segments with something, but little, alive: the emptiest first."""
    limit = live_share_max * segments.segment_bytes
    sealed = [(accounts.live.get(number, 0), number) for number in segments.numbers[:-1]]
    return [number for live, number in sorted(sealed) if 0 < live < limit]


def dead(accounts: Accounts, segments: Segments) -> list[int]:
    """Sealed segments with nothing alive."""
    return [number for number in segments.numbers[:-1] if accounts.live.get(number, 0) <= 0]


class Move:
    """The copying of one segment, a step at a time."""

    def __init__(self, log: Log, tables: dict[int, QueueTable], accounts: Accounts, number: int) -> None:
        self._log, self._tables, self._accounts = log, tables, accounts
        begin = log.segments.first_position(number) % log.segments.segment_bytes
        self._items = scan_segment(log.segments, number, begin, None, payloads=True)

    def step(self, bytes_max: int, now_ms: int, synced: int) -> bool:
        """Copy about `bytes_max` bytes; False when all is done."""
        done = 0
        for found in self._alive():
            self._copy(found, now_ms, synced)
            done += HEADER_BYTES + found.header.length
            if done >= bytes_max:
                return True
        return False

    def _alive(self) -> Iterator[Found]:
        for item in self._items:
            if isinstance(item, Found) and item.sound and self._rows_at(item) is not None:
                yield item

    def _rows_at(self, found: Found) -> Rows | None:
        """The living rows that point into an entry."""
        header, table = found.header, self._tables.get(found.header.queue)
        if table is None:
            return None
        first, until = max(header.row, table.min_row), min(header.row + header.rows, table.next_row)
        rows = table.rows(first, until)
        here = len(rows) and bool((rows["position"] - rows["lead"] == found.position).all())
        return rows if here else None

    def _copy(self, found: Found, now_ms: int, synced: int) -> None:
        log, header = self._log, found.header
        need = HEADER_BYTES + header.length
        if log.room < need:
            log.roll(now_ms)
        position = log.end
        flags = header.flags & ~(GROUP | GROUP_FIRST | GROUP_LAST) | MOVED
        entry = memoryview(bytearray(need))
        entry[HEADER_BYTES:] = found.payload
        put_header(entry, 0, position, log.segments.secret, header._replace(flags=flags, synced=synced))
        log.write(entry)
        log.settle()
        self._point(found, position)

    def _point(self, found: Found, position: int) -> None:
        table = self._tables[found.header.queue]
        rows = self._rows_at(found)
        if rows is None:
            return
        new = rows.copy()
        new["position"] = position + new["lead"].astype(np.int64)
        first = max(found.header.row, table.min_row)
        self._accounts.remove(table.put(first, new))
        self._accounts.add(position, int(np.sum(new["length"])))
