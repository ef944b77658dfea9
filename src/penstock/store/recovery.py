"""Opening a log: from the files to the state in memory.

With a clean stop's marker the checkpoint is the state. Without it, the log is replayed from the checkpoint; without a
checkpoint (none yet, lost, or damaged) from its beginning. Replaying is the same either way: first the catalog's facts,
which say which queues there are and where they begin, then every entry finds its rows. The newest copy of an entry
wins.
"""

from collections.abc import Callable, Mapping

import msgspec
import numpy as np

from penstock.config import StoreConfig
from penstock.errors import StoreError
from penstock.model import Durability, Spans
from penstock.store import directory as checkpoint
from penstock.store.accounts import Accounts
from penstock.store.catalog import CATALOG_QUEUE, Catalog
from penstock.store.files import Disk, read_whole
from penstock.store.layout import HEADER_BYTES, RUN, STAMP, header_in
from penstock.store.log import cut
from penstock.store.plan import Damage
from penstock.store.queues import PREFIX, QueueFact, queue_of, unpack_queue
from penstock.store.rowfiles import LOST, NOWHERE, ROW_DTYPE, UNSURE, RowFiles, Rows
from penstock.store.scan import Found, last_synced, scan, torn_bytes
from penstock.store.segments import Segments
from penstock.store.table import QueueTable
from penstock.store.walk import Walk

MARKER = "clean"
_REWRITE_BYTES = 1 << 20

Splitter = Callable[[memoryview], Spans]


class Marker(msgspec.Struct):
    """Left by a clean stop."""

    end: int


class RecoveryReport(msgspec.Struct):
    """What opening found."""

    clean: bool = False  # the last stop was a clean one
    rebuilt: bool = False  # there was no checkpoint to begin with
    replayed_entries: int = 0
    dropped_entries: int = 0  # of groups that were not whole
    cut_bytes: int = 0  # the torn tail
    damage: list[Damage] = []
    orphans: list[int] = []  # queues whose creation was damaged: kept, but nobody knows whose they are


class Recovery:
    """One opening. After `run` its attributes are the state."""

    def __init__(
        self,
        disk: Disk,
        segments: Segments,
        files: RowFiles,
        config: StoreConfig,
        splitters: Mapping[int, Splitter],
    ) -> None:
        self._disk, self._segments, self._files, self._config, self._splitters = (
            disk,
            segments,
            files,
            config,
            splitters,
        )
        self.report = RecoveryReport()
        self.tables: dict[int, QueueTable] = {}
        self.accounts = Accounts(segments.segment_bytes)
        self.catalog = Catalog()
        self.end = self.position = self.trusted_from = self.last_ms = 0
        self._facts_row = 0  # the catalog's rows below are in the checkpoint's copy of the facts
        self._orphans_kept = False
        self._holed = False
        self._dropped: set[int] = set()
        self._replaying = True

    def run(self) -> None:
        marker = self._marker()
        saved = self._load_checkpoint()
        if saved is None:
            self._start_over()
        if marker is not None and saved is not None and saved.position == marker.end and not self._goes_on(marker.end):
            self.report.clean = True
            self.end = self.trusted_from = saved.position
        else:
            self.report.clean = not self._segments.numbers  # a new folder
            self._replay(max(self.position, marker.end if marker else 0, last_synced(self._segments, self.position)))
        self._replaying = False
        for table in self.tables.values():
            table.settle()
            table.mend = self.mend
            if table.encodings == checkpoint.ANY:
                self._look_at(table)
            table.show(table.next_row, table.next_offset)
            self.last_ms = max(self.last_ms, table.last_ms)

    def _look_at(self, table: QueueTable) -> None:
        """Which encodings are in a queue whose checkpoint does not tell: older versions let no two into one queue, so
        that its last entry speaks for all. Where that cannot be seen, any may be in it.
        """
        if table.next_row == table.min_row:
            table.encodings = 0
            return
        row = table.rows(table.next_row - 1, table.next_row)[0]
        position = int(row["position"]) - int(row["lead"])
        number, place = divmod(position, self._segments.segment_bytes)
        if position > 0 and number in self._segments.numbers:
            header = header_in(self._segments.get(number).view, place, position, self._segments.secret)
            if header is not None:
                table.encodings = 1 << header.encoding

    def _marker(self) -> Marker | None:
        try:
            return msgspec.json.decode(read_whole(self._disk, MARKER) or b"", type=Marker)
        except msgspec.DecodeError:
            return None

    def _goes_on(self, position: int) -> bool:
        """Whether an entry stands where the log is said to end: then the marker is an old one."""
        number, place = divmod(position, self._segments.segment_bytes)
        if number not in self._segments.numbers:
            return False
        return header_in(self._segments.get(number).view, place, position, self._segments.secret) is not None

    # --- the checkpoint -----------------------------------------------------------------------------------------------

    def _load_checkpoint(self) -> checkpoint.Directory | None:
        saved = checkpoint.load(self._disk, self._config.piece_rows, self._config.chunk_pieces)
        if saved is None:
            return None
        tables = [checkpoint.table_of(state, self._files) for state in saved.tables]
        for table in tables:
            table.mend = self.mend
        if not self._files.reopen(saved.chunks, {slot for table in tables for slot in table.slots}):
            return None
        self.tables = {table.queue: table for table in tables}
        self.accounts = Accounts(self._segments.segment_bytes, saved.live)
        self.catalog, self._facts_row = Catalog(saved.facts), saved.facts_row
        self.position, self.last_ms = saved.position, saved.last_ms
        self.report.damage.extend(saved.damage)
        return saved

    def _start_over(self) -> None:
        self._files.reset()
        self.tables = {CATALOG_QUEUE: QueueTable(self._files, CATALOG_QUEUE, Durability.SYNC)}
        self.report.rebuilt = bool(self._segments.numbers)
        self.position = self._segments.first_position(self._segments.numbers[0]) if self._segments.numbers else 0

    # --- the replay ---------------------------------------------------------------------------------------------------

    def _replay(self, floor: int) -> None:
        self.trusted_from = self.position
        self._learn_facts(floor)
        walk = Walk(self._segments, self.position, floor)
        for item in walk:
            self._holed |= item.position >= floor and self._is_hole(item)
            if isinstance(item, Damage):
                self.report.damage.append(item)
                continue
            self.report.replayed_entries += 1
            if not item.sound:
                self.report.damage.append(Damage(item.position, item.end - item.position, "payload checksum wrong"))
            self._place(item)
        self.end = walk.end
        self.report.dropped_entries = len(walk.dropped)
        self._tidy(walk, floor)

    def _is_hole(self, item: Found | Damage) -> bool:
        """Whether something is missing here or before. Behind a hole that may never have been synced, a sequence says
        nothing of those below it: they may be in the hole, and a producer that sends them again must not be told that
        they are there.
        """
        if isinstance(item, Damage) or not item.sound:
            return True
        table = self.tables.get(item.header.queue)
        return table is not None and item.header.row > table.next_row

    def _learn_facts(self, floor: int) -> None:
        """The catalog as it is at the end of the log, and the tables that follow from it. Facts count in the order of
        their rows: the cleaner may have copied old ones behind newer ones.
        """
        changes: dict[int, memoryview] = {}
        for item in Walk(self._segments, self.position, floor):
            whole = isinstance(item, Found) and item.sound
            if isinstance(item, Found) and whole and item.header.queue == CATALOG_QUEUE:
                changes[item.header.row] = item.payload
            elif not whole:
                self._orphans_kept |= self.report.rebuilt  # a queue's fact may have been in there
        for row in sorted(changes):
            if row >= self._facts_row:
                said = self.catalog.replay(changes[row])
                self._dropped.update(
                    queue_of(key) for key, value in said.items() if value is None and key.startswith(PREFIX)
                )
        facts = {queue_of(key): unpack_queue(value) for key, value in self.catalog.items(PREFIX)}
        for queue, fact in facts.items():
            self._match(queue, fact)
        for queue in [queue for queue in self.tables if queue not in facts and queue != CATALOG_QUEUE]:
            self.accounts.remove(self.tables.pop(queue).drop())

    def _match(self, queue: int, fact: QueueFact) -> None:
        table = self.tables.get(queue)
        if table is None:
            self.tables[queue] = QueueTable(self._files, queue, fact.durability, fact.min_row, fact.min_offset)
        else:
            table.durability = fact.durability
            self.accounts.remove(table.trim_beyond(fact.min_row, fact.min_offset))

    def _place(self, found: Found) -> None:
        """Give an entry its rows."""
        header, table = found.header, self._table_for(found)
        if table is None:
            return
        table.encodings |= 1 << header.encoding
        if header.producer and header.sequence >= 0 and found.sound and not self._holed:
            table.remember(header.producer, header.sequence, self._config.producers_max)
        if header.row + header.rows <= table.min_row:
            return
        if header.row < table.next_row and not found.sound:
            return  # a damaged copy does not replace what is there
        if header.row == table.next_row and found.sound:
            self._append(table, found)
            return
        rows = self._rows_of(found)
        table.skip_to(header.row + header.rows, header.base + header.messages, header.store_ms)
        self.accounts.remove(table.put(header.row, rows))
        alive = rows[max(0, table.min_row - header.row) :]
        self.accounts.add(found.position, int(alive["length"].sum()))

    def _append(self, table: QueueTable, found: Found) -> None:
        header, payload_at = found.header, found.position + HEADER_BYTES
        if header.flags & RUN:
            table.add_run(payload_at, header.base, header.store_ms, self._split(found), HEADER_BYTES)
        else:
            time_ms, tag = header.store_ms, header.tag
            table.add(payload_at, header.length, header.base, header.messages, time_ms, tag, HEADER_BYTES)
        self.accounts.add(found.position, header.length)

    def _table_for(self, found: Found) -> QueueTable | None:
        queue = found.header.queue
        if queue not in self.tables and self._orphans_kept and queue not in self._dropped:
            header = found.header
            self.report.orphans.append(queue)
            self.tables[queue] = QueueTable(self._files, queue, Durability.SYNC, header.row, header.base)
        return self.tables.get(queue)

    def _rows_of(self, found: Found) -> Rows:
        header, payload_at = found.header, found.position + HEADER_BYTES
        rows = np.zeros(header.rows, dtype=ROW_DTYPE)
        rows["base"] = np.arange(header.base, header.base + header.rows)
        rows["time"] = header.store_ms
        rows["count"] = 1 if header.flags & RUN else header.messages
        if not found.sound:
            rows["flags"], rows["position"] = LOST, NOWHERE
        elif header.flags & RUN:
            spans = self._split(found)
            rows["position"], rows["lead"] = payload_at + spans.starts, HEADER_BYTES + spans.starts
            rows["length"], rows["tag"] = spans.lengths, spans.tags
        else:
            rows["position"], rows["lead"], rows["length"] = payload_at, HEADER_BYTES, header.length
            rows["tag"] = header.tag
        return rows

    def _split(self, found: Found) -> Spans:
        splitter = self._splitters.get(found.header.encoding)
        if splitter is None:
            raise StoreError(f"the log holds runs in encoding {found.header.encoding}, which this version cannot split")
        return splitter(found.payload)

    # --- setting the files right --------------------------------------------------------------------------------------

    def _tidy(self, walk: Walk, floor: int) -> None:
        """Nothing but what counts is left in the log, and all of it is on the medium before anyone sees it."""
        for found in walk.dropped:
            if found.position < self.end:
                segment, place = self._segments.at(found.position)
                segment.file.write(bytes(STAMP.size), place)
        newest = (self.end - 1) // self._segments.segment_bytes
        for number in [number for number in self._segments.numbers if number > newest]:
            self._segments.remove(number)
        if self._segments.numbers:
            segment, place = self._segments.at(self.end - 1)
            self.report.cut_bytes = max(0, torn_bytes(self._segments, self.end - 1) - 1)
            cut(segment, place + 1, self._segments.segment_bytes)
        first = self.position // self._segments.segment_bytes
        for number in [number for number in self._segments.numbers if number >= first]:
            self._write_again(number, floor)
            self._segments.get(number).file.sync()
        self._segments.sync_folder()

    def _write_again(self, number: int, floor: int) -> None:
        """What is not known to have been synced may be in memory only and pass for written there, after a sync that
        failed: a sync now would skip it. Written once more, it is not skipped.
        """
        base = number * self._segments.segment_bytes
        file = self._segments.get(number).file
        until = min(self.end, base + self._segments.segment_bytes) - base
        for place in range(max(floor - base, 0), until, _REWRITE_BYTES):
            file.write(file.read(min(_REWRITE_BYTES, until - place), place), place)

    # --- mending a piece ----------------------------------------------------------------------------------------------

    def mend(self, table: QueueTable, number: int) -> None:
        """Make the rows of a piece anew from the log, since its checksum is wrong. During the replay only from the part
        before the checkpoint: what comes behind it is about to be replayed on top, and the accounts with it.
        """
        size = self._files.piece_rows
        low, high = max(number * size, table.min_row), min((number + 1) * size, table.clean_row)
        piece = self._files.rows(table.slots[number - table.first_piece])
        piece[low - number * size : high - number * size] = np.array(
            (NOWHERE, 0, 0, 0, 0, 0, 0, LOST | UNSURE), dtype=ROW_DTYPE
        )
        table.lost = list(range(low, high))
        for item in scan(self._segments, self._segments.first_position(self._segments.numbers[0])):
            if self._replaying and item.position >= self.position:
                break
            if isinstance(item, Damage) or not item.sound or item.header.queue != table.queue:
                continue
            first, until = max(item.header.row, low), min(item.header.row + item.header.rows, high)
            if first < until:
                rows = self._rows_of(item)
                start = item.header.row
                piece[first - number * size : until - number * size] = rows[first - start : until - start]
        table.changed.add(number)
        table.settle()
