"""Appending. Per call: one time stamp, one buffer that is used again and again, one write (more only when the buffer or
the segment is full). What is done per entry is in `filling`.

On any error nothing has happened: the tables go back to their marks and the log to its old end.
"""

from collections.abc import Sequence

from penstock.clock import Clock
from penstock.config import StoreConfig
from penstock.errors import MessageTooLarge
from penstock.model import Durability, Entry
from penstock.store.accounts import Accounts
from penstock.store.commit import Commits
from penstock.store.filling import fill, reveal
from penstock.store.layout import GROUP, GROUP_FIRST, GROUP_LAST, HEADER_BYTES, SEGMENT_HEADER_BYTES
from penstock.store.log import Log
from penstock.store.table import Mark, QueueTable

PUSH_BYTES = 4 << 20  # of a long append: they are on their way to the medium while the rest is written
_SYNC = Durability.SYNC  # looking it up in its class costs as much as a row


class Appender:
    def __init__(
        self,
        config: StoreConfig,
        clock: Clock,
        log: Log,
        tables: dict[int, QueueTable],
        commits: Commits,
        accounts: Accounts,
    ) -> None:
        self._clock, self._log, self._tables, self._commits, self._accounts = clock, log, tables, commits, accounts
        self._producers_max = config.producers_max
        self.entry_bytes_max = min(
            config.entry_bytes_max, log.segments.segment_bytes - SEGMENT_HEADER_BYTES - HEADER_BYTES
        )
        self._view = memoryview(bytearray(config.append_buffer_bytes))
        self._turn = 0
        self.ack_position = 0
        self.last_ms = 0  # store time never goes back

    def append(self, entries: Sequence[Entry], group: bool) -> int:
        """Append all or nothing; the position behind the last one. Sets `offset` and `row` of each."""
        log = self._log
        log.check_writable()
        self.last_ms = now_ms = max(self._clock.now_ms(), self.last_ms)
        self._turn += 1
        end = log.end
        touched: list[Mark] = []
        try:
            written, numbered = self._write_all(entries, group, now_ms, touched)
        except BaseException as error:
            for table, row, offset, live_bytes in touched:
                table.rollback(row, offset, live_bytes)
            log.take_back(end)
            if isinstance(error, OSError):
                raise log.refusal(error) from error
            raise
        log.settle()
        self._accounts.add_all(written)
        self._reveal(touched)
        self._remember(numbered)
        return log.end

    def _write_all(
        self, entries: Sequence[Entry], group: bool, now_ms: int, touched: list[Mark]
    ) -> tuple[list[tuple[int, int]], list[Entry]]:
        """Write the entries and their rows; which payload bytes went where, and which entries have numbers."""
        log, index, view = self._log, 0, self._view
        all_of_them = entries if type(entries) is list else list(entries)
        flags_of = _group_flags(len(all_of_them)) if group else None
        written: list[tuple[int, int]] = []
        numbered: list[Entry] = []
        pushed = log.end
        while True:
            base = log.end
            index, used, payload_bytes, follows = fill(
                all_of_them, index, view, min(len(view), log.room), base, log.segments.secret, self._commits.durable,
                now_ms, self._turn, self._tables, touched, numbered, flags_of,
            )  # fmt: skip
            written.append((base, payload_bytes))
            log.write(view[:used])
            if follows is not None:
                log.write(follows)
            if index == len(all_of_them):
                return written, numbered
            if log.end - pushed >= PUSH_BYTES:
                log.push(pushed)
                pushed = log.end
            view = self._make_room(all_of_them[index].length, now_ms)

    def _make_room(self, length: int, now_ms: int) -> memoryview:
        """A segment and a buffer with room for one entry of so many bytes."""
        if length > self.entry_bytes_max:
            raise MessageTooLarge(length, self.entry_bytes_max)
        need = HEADER_BYTES + length
        if self._log.room < need:
            self._log.roll(now_ms)
        if len(self._view) < need:
            self._view = memoryview(bytearray(need))
        return self._view

    def _reveal(self, touched: list[Mark]) -> None:
        """Let what was appended be seen: at once, or when it is durable."""
        hidden = reveal(touched, self.last_ms, _SYNC)
        self.ack_position = self._log.end if hidden else 0
        if hidden:
            self._commits.hide(self._log.end, hidden)

    def _remember(self, numbered: list[Entry]) -> None:
        for entry in numbered:
            self._tables[entry.queue].remember(entry.producer, entry.sequence, self._producers_max)


def _group_flags(entries: int) -> list[int]:
    flags = [GROUP] * entries
    flags[0] |= GROUP_FIRST
    flags[-1] |= GROUP_LAST
    return flags
