"""Appending: the hottest code of the store, all of it in `Appender.append`.

Per call: one time stamp, one buffer that is used again and again, one write (more only when the buffer or the segment
is full). Per entry: the entry writes itself, two checksums, two packs, one row. That is why the loop below looks as it
does: it is one function, it keeps what it needs in local names, and it makes no object per entry.

On any error nothing has happened: the tables go back to their marks and the log to its old end.
"""

from collections.abc import Sequence

from crc32c import crc32c

from penstock.clock import Clock
from penstock.config import StoreConfig
from penstock.errors import MessageTooLarge, QueueNotFound
from penstock.model import Durability, Entry
from penstock.store.accounts import Accounts
from penstock.store.commit import Commits, Shown
from penstock.store.layout import (
    FACTS,
    GROUP,
    GROUP_FIRST,
    GROUP_LAST,
    HEADER,
    HEADER_BYTES,
    MAGIC,
    RUN,
    SEED_MASK,
    SEGMENT_HEADER_BYTES,
)
from penstock.store.log import Log
from penstock.store.rowfiles import ROW, ROW_BYTES
from penstock.store.table import Mark, QueueTable

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
        end, touched = log.end, list[Mark]()
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
        log, tables, turn, view = self._log, self._tables, self._turn, self._view
        pack_facts, pack_header, pack_row = FACTS.pack, HEADER.pack_into, ROW.pack_into
        base, at, limit = log.end, 0, min(len(view), log.room)
        seed, synced = log.segments.secret + base, self._commits.durable
        written, payload_bytes, numbered = list[tuple[int, int]](), 0, list[Entry]()
        flags_of = _group_flags(len(entries)) if group else None
        for index, entry in enumerate(entries):
            queue, length, count, tag = entry.queue, entry.length, entry.count, entry.tag
            payload_at = at + HEADER_BYTES
            behind = payload_at + length
            if behind > limit:
                if length > self.entry_bytes_max:
                    raise MessageTooLarge(length, self.entry_bytes_max)
                written.append((base, payload_bytes))
                log.write(view[:at])
                view = self._make_room(HEADER_BYTES + length, now_ms)
                base, at, limit, payload_bytes = log.end, 0, min(len(view), log.room), 0
                seed, payload_at, behind = log.segments.secret + base, HEADER_BYTES, HEADER_BYTES + length
            try:
                table = tables[queue]
            except KeyError:
                raise QueueNotFound(str(queue)) from None
            if table.turn != turn:
                table.turn = turn
                table.encodings |= 1 << entry.encoding  # neighbours of one call are of one gateway
                touched.append((table, table.next_row, table.next_offset, table.live_bytes))
            entry.offset, entry.row = offset, row = table.next_offset, table.next_row
            entry.write_into(view, payload_at, queue, offset, now_ms)
            flags = flags_of[index] if flags_of else 0
            if entry.run:
                flags |= RUN
                table.add_run(base + payload_at, offset, now_ms, entry.spans(), HEADER_BYTES)
            else:  # QueueTable.add, written out: a call would cost a tenth of the whole
                row_at = table.tail_at
                if row_at == table.tail_end:
                    row_at = table.extend(offset, now_ms)
                pack_row(table.tail, row_at, base + payload_at, offset, now_ms, tag, length, count, HEADER_BYTES, 0)
                table.tail_at = row_at + ROW_BYTES
                table.next_row = row + 1
                table.next_offset = offset + count
                table.live_bytes += length
            producer, sequence = entry.producer, entry.sequence
            if producer and sequence >= 0:
                numbered.append(entry)
            facts = pack_facts(
                crc32c(view[payload_at:behind]), length, queue, count, row, offset, now_ms, synced,
                producer, sequence, entry.encoding, flags, tag,
            )  # fmt: skip
            pack_header(view, at, MAGIC, crc32c(facts, (seed + at) & SEED_MASK), facts)
            at = behind
            payload_bytes += length
        written.append((base, payload_bytes))
        log.write(view[:at])
        return written, numbered

    def _make_room(self, need: int, now_ms: int) -> memoryview:
        """A segment and a buffer with room for one entry of `need` bytes."""
        if self._log.room < need:
            self._log.roll(now_ms)
        if len(self._view) < need:
            self._view = memoryview(bytearray(need))
        return self._view

    def _reveal(self, touched: list[Mark]) -> None:
        """Let what was appended be seen: at once, or when it is durable."""
        hidden: list[Shown] = []
        last_ms = self.last_ms
        for table, _, _, _ in touched:
            table.last_ms = last_ms
            if table.durability is _SYNC:
                hidden.append((table, table.next_row, table.next_offset))
            else:
                table.visible_row, table.visible_offset = table.next_row, table.next_offset
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
