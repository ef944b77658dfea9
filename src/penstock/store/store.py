"""The store as the core sees it: append, read, trim, and when it is durable.

Synchronous and without threads of its own: `flush`, `checkpoint` and `clean` do their work here and now. The running
broker has `keeper.py` do them on the side. All calls come from one thread, the event loop's, except where a worker is
named.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from penstock import logs
from penstock.clock import Clock
from penstock.config import KIB, StoreConfig
from penstock.errors import QueueNotFound, StoreClosed, StoreError
from penstock.model import Durability, Entry
from penstock.store import directory
from penstock.store.append import Appender
from penstock.store.catalog import CATALOG_QUEUE, Facts, fact_entry, in_parts
from penstock.store.cleaner import Move, dead, worth_cleaning
from penstock.store.commit import Commits, Then
from penstock.store.files import Disk, write_whole
from penstock.store.format import LOG_FOLDER, open_format
from penstock.store.keyfiles import KeyFiles
from penstock.store.later import Later
from penstock.store.log import Log
from penstock.store.plan import Batch, Damage, Plan
from penstock.store.queues import QueueFact, pack_queue, queue_key
from penstock.store.read import Reader
from penstock.store.reading import Reading
from penstock.store.recovery import MARKER, Marker, Recovery, Splitter
from penstock.store.residency import Residency
from penstock.store.rowfiles import FOLDER, RowFiles
from penstock.store.segments import Segments
from penstock.store.spans import Slices
from penstock.store.stagefiles import StageFiles
from penstock.store.syncing import DONE, ROUNDS, STOPPED, call, marks_at
from penstock.store.table import QueueTable

log = logs.get(__name__)

FACTS_ENTRY_BYTES = 256 * KIB  # then another begins; one fact may be larger
EVERY = -1  # encoding: all bits


class Bounds(NamedTuple):
    """What a queue holds, as consumers see it: from minimum up to, not including, maximum."""

    min_offset: int
    max_offset: int
    min_row: int
    max_row: int


class Store:
    """Made by `Store.open`."""

    def __init__(
        self, disk: Disk, config: StoreConfig, clock: Clock, recovery: Recovery, files: RowFiles, segments: Segments
    ) -> None:
        self._disk, self._config, self._clock, self._files, self._segments = disk, config, clock, files, segments
        self.report = recovery.report
        self.damage: list[Damage] = list(recovery.report.damage)
        self._tables, self.catalog, self._accounts = recovery.tables, recovery.catalog, recovery.accounts
        self._marks = marks_at(recovery.end)
        self._log = Log(segments, recovery.end, self._marks)
        self._commits = Commits(self._marks)
        self._reader = Reader(self._log, config.hot_bytes, recovery.trusted_from, Residency(clock.monotonic_ms))
        self._appender = Appender(config, clock, self._log, self._tables, self._commits, self._accounts)
        self._appender.last_ms = recovery.last_ms
        self.checkpoint_position = recovery.position
        self._unwritten: set[int] = set()  # slots that a failed checkpoint should have synced
        self._move: Move | None = None
        self._to_clean: list[int] | None = None  # what is left of a pass
        self._closed = False

    @classmethod
    def open(
        cls, disk: Disk, config: StoreConfig, clock: Clock, splitters: Mapping[int, Splitter] | None = None
    ) -> "Store":
        """Recover what is on the disk. An OSError becomes a StoreError that says what could not be done."""
        try:
            return cls._open(disk, config, clock, splitters or {})
        except OSError as error:
            raise StoreError(f"the log could not be opened: {error}") from error

    @classmethod
    def _open(cls, disk: Disk, config: StoreConfig, clock: Clock, splitters: Mapping[int, Splitter]) -> "Store":
        for folder in (LOG_FOLDER, FOLDER):
            disk.make_folder(folder)
        found = open_format(disk, config.segment_bytes)
        segments = Segments(disk, found.segment_bytes, found.secret, config.open_segments_max)
        segments.mend_lengths()
        files = RowFiles(disk, config.piece_rows, config.chunk_pieces)
        recovery = Recovery(disk, segments, files, config, splitters)
        recovery.run()
        segments.quiet.clear()
        store = cls(disk, config, clock, recovery, files, segments)
        if recovery.report.orphans:  # from now on they have a fact of their own
            orphans = [recovery.tables[queue] for queue in recovery.report.orphans]
            store.put_facts({queue_key(table.queue): _fact_of(table) for table in orphans})
        if not recovery.report.clean:
            store.checkpoint()
        if disk.exists(MARKER):
            disk.remove(MARKER)
        disk.sync_folder(".")  # before the first append: an old marker would hide what came after it
        return store

    def before_reuse(self, let_go: Callable[[], None]) -> None:
        """Call `let_go` before memory that rows lay in is used for others: whoever reads it elsewhere stops."""
        self._files.before_reuse = let_go

    # --- queues and facts ---------------------------------------------------------------------------------------------

    def table(self, queue: int) -> QueueTable:
        try:
            return self._tables[queue]
        except KeyError:
            raise QueueNotFound(str(queue)) from None

    def has_queue(self, queue: int) -> bool:
        return queue in self._tables

    def create_queue(self, queue: int, durability: Durability) -> None:
        self.create_queues([queue], durability, {})

    def create_queues(
        self, queues: Sequence[int], durability: Durability, facts: Facts, others: Sequence[int] = ()
    ) -> None:
        """New queues, the same durability for others that are there, and facts that belong to them, in one append."""
        tables = [self.table(queue) for queue in others if self.table(queue).durability is not durability]
        changed = {queue_key(table.queue): _fact_of(table, durability) for table in tables}
        fresh = {queue_key(queue): pack_queue(QueueFact(durability)) for queue in queues}
        self.put_facts({**fresh, **changed, **facts})
        for queue in queues:
            self._tables[queue] = QueueTable(self._files, queue, durability)
        for table in tables:
            table.durability = durability

    def drop_queue(self, queue: int) -> None:
        self.drop_queues([queue], {})

    def drop_queues(self, queues: Sequence[int], facts: Facts) -> None:
        """The queues and all they hold are gone; their numbers are not used again."""
        tables = [self.table(queue) for queue in queues]
        self.put_facts({**{queue_key(queue): None for queue in queues}, **facts})
        for table in tables:
            del self._tables[table.queue]
            self._accounts.remove(table.drop())

    def put_facts(self, facts: Facts) -> int:
        """Change facts of the catalog (None: forget); the position to wait for."""
        return self.append([], facts=facts)

    # --- appending and durability -------------------------------------------------------------------------------------

    @property
    def entry_bytes_max(self) -> int:
        """The largest payload that is taken."""
        return self._appender.entry_bytes_max

    @property
    def end_position(self) -> int:
        return self._log.settled

    @property
    def ack_position(self) -> int:
        """What an acknowledgement of the last append has to wait for; 0 when it went to queues without sync only."""
        return self._appender.ack_position

    @property
    def durable_position(self) -> int:
        return self._commits.durable

    @property
    def read_only_because(self) -> str | None:
        return self._log.read_only_because

    def append(self, entries: Sequence[Entry], group: bool = False, facts: Facts | None = None) -> int:
        """Append all or nothing; the position behind it. With `facts` they stand in the same group."""
        if self._closed:
            raise StoreClosed
        if facts is None:
            return self._appender.append(entries, group)
        everything: list[Entry] = [*entries, fact_entry(facts)]
        position = self._appender.append(everything, len(everything) > 1)
        self.catalog.apply(facts)
        self._tidy_catalog()
        return position

    def _tidy_catalog(self) -> None:
        """Write the facts anew when most rows of their queue are superseded."""
        table = self._tables[CATALOG_QUEUE]
        if table.next_row - table.min_row <= 2 * len(self.catalog) + self._config.catalog_slack_rows:
            return
        row, offset = table.next_row, table.next_offset
        begins = {queue_key(CATALOG_QUEUE): pack_queue(QueueFact(Durability.SYNC, row, offset))}
        parts = in_parts({**self.catalog.all(), **begins}, min(FACTS_ENTRY_BYTES, self.entry_bytes_max // 2))
        try:
            self._appender.append([fact_entry(part) for part in parts], True)
        except StoreError as error:  # what the caller asked for has been done: the next change of a fact tries again
            log.warning("the catalog could not be written anew", error=str(error))
            return
        self.catalog.apply(begins)
        self._accounts.remove(table.trim(row))

    def when_durable(self, position: int, then: Then) -> bool:
        """Call `then(error)` once everything up to `position` is durable; True when it was called at once."""
        return self._commits.when_durable(position, then)

    @property
    def sync_wanted(self) -> bool:
        return self._commits.wanted

    @property
    def unsynced(self) -> bool:
        return self._log.settled > self._commits.durable

    def sync(self) -> int:
        """Bring the log to the medium: in a worker thread. Followed by `synced` or `sync_failed` in the loop's."""
        return self._log.sync()

    def sync_while_wanted(self, bell: int, calls: int, sleep_ms: int) -> int:
        """As `sync`, but again and again while somebody waits; `bell` is written to after each, and then `durable_now`
        tells how far it has come. While nobody waits it sleeps, until it is called (`call_sync`).
        """
        return self._log.sync_while_wanted(bell, calls, sleep_ms)

    def call_sync(self, caller: int) -> None:
        """Wake who sleeps in `sync_while_wanted`, at the other end of a pipe."""
        call(self._marks, caller)

    def stop_syncing(self, caller: int) -> None:
        """From now on nobody sleeps in `sync_while_wanted`."""
        self._marks[STOPPED] = 1
        call(self._marks, caller)

    @property
    def durable_now(self) -> int:
        """How far the log is durable, whether the loop has heard of it or not."""
        return self._marks[DONE]

    @property
    def syncs(self) -> int:
        """How often the log has been synced."""
        return self._marks[ROUNDS]

    @property
    def fill_wanted(self) -> bool:
        """Fewer than half of the zeros are left that should be ahead of the end."""
        return 2 * (self._log.filled - self._log.end) < self._config.fill_ahead_bytes

    def fill(self) -> bool:
        """Write some more zeros ahead, in a worker thread; False when there are enough."""
        return self._log.fill(self._config.fill_step_bytes, self._config.fill_ahead_bytes)

    def synced(self, position: int) -> None:
        self._commits.synced(position)

    def sync_failed(self, why: str) -> None:
        """A sync that failed is never tried again: what it should have written may be gone from memory already."""
        self._log.fail(why)
        self._commits.failed(why)

    def flush(self) -> None:
        """Sync here and now."""
        if self._log.read_only_because is not None:
            self._commits.failed(self._log.read_only_because)
            return
        try:
            position = self.sync()
        except OSError as error:
            self.sync_failed(f"the log could not be synced ({error})")
        else:
            self.synced(position)

    # --- reading ------------------------------------------------------------------------------------------------------

    def bounds(self, queue: int) -> Bounds:
        table = self.table(queue)
        return Bounds(table.min_offset, table.visible_offset, table.min_row, table.visible_row)

    def slices_now(
        self, queue: int, offset: int, messages_max: int, bytes_max: int, encodings: int = EVERY
    ) -> Slices | None:
        """As they lie in the log, where that is easy (see `Reader.slices_now`) and where nothing in the queue may be
        in another encoding than these, a bit for each.
        """
        table = self.table(queue)
        if table.encodings & ~encodings:
            return None
        return self._reader.slices_now(table, offset, messages_max, bytes_max)

    def reading(self, queue: int, encodings: int = EVERY) -> Reading:
        """A place at a queue, for who reads on and on what `slices_now` brings."""
        return Reading(self._reader, self.table(queue), encodings)

    def slices_later(
        self, queue: int, offset: int, messages_max: int, bytes_max: int, encodings: int = EVERY
    ) -> Later | None:
        """The same from the disk (see `Reader.slices_later`)."""
        table = self.table(queue)
        if table.encodings & ~encodings:
            return None
        return self._reader.slices_later(table, offset, messages_max, bytes_max)

    def plan(self, queue: int, offset: int, messages_max: int, bytes_max: int) -> Plan:
        return self._reader.plan_offset(self.table(queue), offset, messages_max, bytes_max)

    def plan_row(self, queue: int, row: int, messages_max: int, bytes_max: int) -> Plan:
        return self._reader.plan_row(self.table(queue), row, messages_max, bytes_max)

    def plan_rows(self, queue: int, numbers: Sequence[int], messages_max: int, bytes_max: int) -> Plan:
        return self._reader.plan_rows(self.table(queue), numbers, messages_max, bytes_max)

    def read(self, queue: int, offset: int, messages_max: int, bytes_max: int) -> Batch:
        """Plan and load, waiting for the disk if need be."""
        batch = self.plan(queue, offset, messages_max, bytes_max).load(wait=True)
        if batch is None:
            raise StoreError("a read that may wait came back with nothing")
        return batch

    def offset_at_time(self, queue: int, store_ms: int) -> int:
        """The first offset stored at or after a time, within what is visible."""
        table = self.table(queue)
        row = table.row_at_time(store_ms)
        while row < table.visible_row and table.is_lost(row):
            row += 1
        return min(table.offset_of(row), table.visible_offset)

    def is_durable(self, queue: int, offset: int) -> bool:
        """Whether everything below an offset has been synced: it is there after a power cut, too."""
        table = self.table(queue)
        row = table.row_at_offset(offset - 1)
        if not table.min_row <= row < table.visible_row:
            return offset <= table.min_offset
        last = table.rows(row, row + 1)
        return int(last["position"][0]) + int(last["length"][0]) <= self._commits.durable

    def key_files(self) -> KeyFiles:
        """Where an index of keys may be kept."""
        return KeyFiles(self._disk, self._segments.secret)

    def stage_files(self) -> StageFiles:
        """Where large stages may be kept."""
        return StageFiles(self._disk)

    # --- retention ----------------------------------------------------------------------------------------------------

    def trim(self, queue: int, offset: int) -> None:
        self.trim_all({queue: offset})

    def trim_all(self, offsets: Mapping[int, int]) -> None:
        """Everything below these offsets is gone. Only what is visible can be trimmed."""
        facts: dict[str, bytes | None] = {}
        rows: list[tuple[QueueTable, int]] = []
        for queue, offset in offsets.items():
            table = self.table(queue)
            row = table.row_to_keep(min(offset, table.visible_offset))
            if row > table.min_row:
                rows.append((table, row))
                facts[queue_key(queue)] = pack_queue(QueueFact(table.durability, row, table.offset_of(row)))
        if facts:
            self.put_facts(facts)
        for table, row in rows:
            self._accounts.remove(table.trim(row))

    def row_for_bytes(self, queue: int, bytes_max: int) -> int:
        """The first row to keep so that a queue holds at most `bytes_max`."""
        return self.table(queue).row_for_bytes(bytes_max)

    # --- cleaning and checkpoints -------------------------------------------------------------------------------------

    def clean_step(self) -> bool:
        """One step of the cleaner; False when a pass is over. A pass takes on the segments that are worth it at its
        beginning, each once: copies may come to lie in a segment that is worth cleaning again, and there would be no
        end to it.
        """
        if self._log.read_only_because is not None:
            return False
        if self._move is None:
            if self._to_clean is None:
                self._to_clean = worth_cleaning(self._accounts, self._segments, self._config.clean_live_share_max)
            number = next((number for number in self._to_clean if number in self._segments.numbers[:-1]), None)
            if number is None:
                self._to_clean = None
                return False
            self._to_clean.remove(number)
            self._move = Move(self._log, self._tables, self._accounts, number)
        try:
            more = self._move.step(self._config.clean_step_bytes, self._appender.last_ms, self._commits.durable)
        except OSError as error:
            self._move = None
            self._log.take_back(self._log.end)
            raise self._log.refusal(error) from error
        if not more:
            self._move = None
        return True

    def clean(self) -> None:
        """All that the cleaner finds to do, and the space it gives back."""
        while self.clean_step():
            pass
        self.checkpoint()

    def begin_checkpoint(self) -> directory.Pending:
        """What a checkpoint at the present end of the log has to write, once the log is durable up to there."""
        slots, self._unwritten = self._unwritten, set()
        for table in self._tables.values():
            slots |= directory.seal(table, self._config.piece_rows)
        states = [directory.state_of(table) for table in self._tables.values()]
        saved = directory.Directory(
            version=directory.VERSION,
            position=self._log.end,
            last_ms=self._appender.last_ms,
            piece_rows=self._config.piece_rows,
            chunk_pieces=self._config.chunk_pieces,
            chunks=self._files.chunks,
            live=dict(self._accounts.live),
            facts=self.catalog.all(),
            facts_row=self._tables[CATALOG_QUEUE].next_row,
            damage=self.damage,
            tables=states,
        )
        files, gone = self._files.files_of(slots), dead(self._accounts, self._segments)
        return directory.Pending(self._disk, saved, slots, files, self._files.take_freed(), gone)

    def end_checkpoint(self, pending: directory.Pending) -> None:
        """The checkpoint is on the medium: what it no longer names may go."""
        self.checkpoint_position = pending.position
        self._files.reuse(pending.freed)
        for number in pending.dead:
            if number in self._segments.numbers[:-1]:
                self._remove(number)

    def _remove(self, number: int) -> None:
        try:
            self._segments.remove(number)
        except OSError as error:  # nothing in it is needed: the next checkpoint tries again
            log.warning("a segment with nothing alive could not be removed", segment=number, error=str(error))
        else:
            self._accounts.forget(number)

    def abort_checkpoint(self, pending: directory.Pending) -> None:
        """It could not be written: the old one stays in force, and the next has this one's work to do as well."""
        self._unwritten |= pending.slots
        self._files.put_back(pending.freed)

    def checkpoint(self) -> bool:
        """Here and now; False when it could not be written."""
        self.flush()
        if self._log.read_only_because is not None:
            return False
        pending = self.begin_checkpoint()
        try:
            pending.write()
        except OSError:
            self.abort_checkpoint(pending)
            return False
        self.end_checkpoint(pending)
        return True

    # --- the end ------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop cleanly: everything durable, a checkpoint, and the marker that says so."""
        if self._closed:
            return
        self._closed = True
        if self.checkpoint():
            write_whole(self._disk, ".", MARKER, msgspec.json.encode(Marker(self._log.end)))
        self._let_go()

    def abandon(self) -> None:
        """Let go as a crash would."""
        self._closed = True
        self._let_go()

    def _let_go(self) -> None:
        """Files and mappings go with whoever still reads from them. Nothing can be asked of the store any more."""
        self._files.close()
        self._segments.close()
        self._tables.clear()


def _fact_of(table: QueueTable, durability: Durability | None = None) -> bytes:
    return pack_queue(QueueFact(durability or table.durability, table.min_row, table.min_offset))
