"""The parts of a broker, put together, and the chores that keep it going.

Not a place for behaviour: a gateway is handed the parts it needs (`broker.topics`, `broker.publisher`, ...), not the
broker.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

import msgspec

from penstock import __version__, logs
from penstock.clock import Clock
from penstock.config import Config
from penstock.core import events
from penstock.core.authorizer import AllowAll, Authorizer
from penstock.core.broadcasts import Broadcasts
from penstock.core.compaction import Compaction
from penstock.core.endings import Endings
from penstock.core.fetch import Fetcher
from penstock.core.group_settings import GroupsSettings
from penstock.core.groups import Groups
from penstock.core.loans import Loans
from penstock.core.metrics import Metric
from penstock.core.minutes import Minutes
from penstock.core.namespaces import Namespaces
from penstock.core.notes import Notes
from penstock.core.offsets import Offsets
from penstock.core.policies import PolicyBook, Retention
from penstock.core.producers import Producers
from penstock.core.publish import Publisher
from penstock.core.readers import Readers
from penstock.core.resets import Resets
from penstock.core.retention import apply_retention
from penstock.core.schemas.registry import Schemas
from penstock.core.stages import NO_FROST, Frost
from penstock.core.staging import Staging
from penstock.core.subscriptions.registry import Subscriptions
from penstock.core.tenants import Tenants
from penstock.core.topics import Topic, Topics, TopicSettings
from penstock.core.traffic import Traffic
from penstock.core.upkeep import Upkeep
from penstock.core.vitals import Physician
from penstock.core.waits import Waits
from penstock.core.watch import Watch
from penstock.errors import DiskFull, PenstockError, StoreError
from penstock.model import Durability, Entry
from penstock.store.files import LocalDisk
from penstock.store.keeper import Keeper
from penstock.store.lock import FolderLock
from penstock.store.progress import Change, Progress
from penstock.store.recovery import Splitter
from penstock.store.store import Store
from penstock.turn import Turn

log = logs.get(__name__)

EncodeEvent = Callable[[int, bytes, str, int], Entry]  # queue, JSON, kind, time: an entry in some encoding


class Broker:
    """Made by `Broker.open`; `start` and `stop` belong to one event loop."""

    def __init__(
        self,
        config: Config,
        clock: Clock,
        lock: FolderLock,
        store: Store,
        progress: Progress,
        encode: EncodeEvent,
        frost: Frost,
    ) -> None:
        self.config, self._clock, self._lock, self._encode = config, clock, lock, encode
        settings = config.broker
        self.authorizer: Authorizer = AllowAll()
        self.store, self.progress = store, progress
        self.bus = events.Bus(settings.events_pending_max)
        self.turn = Turn()
        self.loans = Loans()
        store.before_reuse(self.loans.take_back)
        self.bus.listen(self.loans.on_event)
        self.keeper = Keeper(store, clock, config.store, self.turn)
        self.waits = Waits(settings.waiters_max)
        self.topics = Topics(store, self.keeper, clock, self.bus, settings, config.store.durability)
        self.endings = Endings(store, self.keeper, self.bus)
        self.publisher = Publisher(store, self.keeper, self.waits, settings, self.endings)
        self.fetcher = Fetcher(store, self.waits, clock, self.bus)
        self.group_settings = GroupsSettings(store, self.keeper, clock, self.bus, settings)
        self.notes = Notes(store, self.keeper)
        self.broadcasts, self.offsets = Broadcasts(progress), Offsets(progress, self.bus)
        self.groups = Groups(clock, self.bus, self.group_settings, self.broadcasts)
        self.resets = Resets(self.offsets, self.broadcasts, clock, self.bus)
        self.producers = Producers(store, self.keeper, self.endings)
        self.namespaces = Namespaces(store, self.keeper, clock)
        self.tenants = Tenants(self.namespaces, store, self.keeper, clock)
        self.schemas = Schemas(store, self.keeper, clock, self.bus, self.topics, settings)
        self.policies = PolicyBook(store, self.keeper, self.topics, self.bus)
        self.compaction = Compaction(
            store, self.keeper, self.topics, self.fetcher, self.publisher, self.policies, clock, self.bus
        )
        self.subscriptions = Subscriptions(
            store, self.keeper, progress, self.fetcher, self.waits, clock, self.bus, settings.subscriptions_max,
            self.endings, self.compaction,
        )  # fmt: skip
        self.upkeep = Upkeep(store, self.topics, self.policies, self.subscriptions, self.producers, clock)
        self.producers.guard(self.upkeep.admit)
        self.staging = Staging(store, self.publisher, clock, self.bus, settings, frost)
        self.physician = Physician(config.server.data, store, self.topics, self.fetcher, clock)
        self.traffic = Traffic(clock, settings.counters_max)
        self.minutes = Minutes(store, self.topics, self.traffic, clock, self.bus, settings.counters_max)
        self.readers = Readers(self.groups)
        self.watch = Watch(self.fetcher, self.topics, self.groups, self.offsets, self.readers, clock, self.bus)
        self._chores: asyncio.Task[None] | None = None
        self._retained_ms = clock.monotonic_ms()
        self._state = "starting"
        self._told_read_only = self._followed = self._told_of_following = False
        self._writing: asyncio.Future[None] | None = None
        self._changes: list[Change] = []

    @classmethod
    def open(
        cls,
        config: Config,
        clock: Clock,
        splitters: Mapping[int, Splitter],
        encode: EncodeEvent,
        frost: Frost = NO_FROST,
    ) -> "Broker":
        """Take the data folder and recover what is in it."""
        lock = FolderLock(config.server.data)
        try:
            store = Store.open(LocalDisk(config.server.data), config.store, clock, splitters)
            progress = Progress(config.server.data)
            return cls(config, clock, lock, store, progress, encode, frost)
        except BaseException:
            lock.release()
            raise

    # --- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        await self.keeper.start()
        if self.topics.find(events.EVENTS_TOPIC) is None:
            kept_ms = self.config.broker.events_retention_ms
            settings = TopicSettings(write_queues=1, durability=Durability.ASYNC, retention_ms=kept_ms)
            await self.topics.create(events.EVENTS_TOPIC, settings, system=True)
        self.producers.forget_queues(self.topics.has_queue)
        self.compaction.tidy()
        self._tell_of_start()
        self._follow()
        self._chores = asyncio.create_task(self._run_chores(), name="penstock-chores")
        self._state = "running"

    def _follow(self) -> None:
        """What is acknowledged is as durable as the broker is set to now, whatever it was set to before. Where that
        cannot be written, for want of space above all, nothing is acknowledged either, and it is tried again.
        """
        if self._followed or self.store.read_only_because is not None:
            return
        try:
            self._let_topics_follow()
        except StoreError as error:
            if not self._told_of_following:
                log.error("topics cannot follow the broker's durability yet, it is tried again", error=str(error))
            self._told_of_following = True
        else:
            self._followed = True

    def _let_topics_follow(self) -> None:
        if not self.topics.get(events.EVENTS_TOPIC).own_durability:  # as older versions kept it
            self.topics.alter_now(events.EVENTS_TOPIC, TopicSettings(durability=Durability.ASYNC))
        if count := self.topics.follow():
            durability = self.config.store.durability.value
            log.info("the broker's durability was changed, topics follow", topics=count, durability=durability)

    def _tell_of_start(self) -> None:
        report, now_ms = self.store.report, self._clock.now_ms()
        started = events.BrokerStarted(
            at_ms=now_ms,
            version=__version__,
            clean=report.clean,
            rebuilt=report.rebuilt,
            replayed_entries=report.replayed_entries,
            cut_bytes=report.cut_bytes,
            damaged_ranges=len(report.damage),
        )
        self.bus.emit(started)
        tell = log.warning if report.damage else log.info
        tell("log opened", end=self.store.end_position, **msgspec.structs.asdict(started))
        for damage in report.damage:
            log.warning("damage in the log, fenced off", position=damage.position, length=damage.length, why=damage.why)
        if report.orphans:
            log.warning("queues without a topic: the record of their creation was damaged", queues=report.orphans)
        if self.progress.damage:
            log.warning("progress was damaged", what=self.progress.damage)
            self.bus.emit(events.ProgressDamaged(at_ms=now_ms, what=self.progress.damage))

    async def stop(self) -> None:
        """Drain, sync, leave the marker of a clean stop, give the folder back."""
        self._state = "stopping"
        self.loans.close()
        if self._chores is not None:
            self._chores.cancel()
            with suppress(asyncio.CancelledError):
                await self._chores
        await self.staging.stop()
        await self.compaction.stop()
        self.subscriptions.stop()
        self.bus.emit(events.BrokerStopping(at_ms=self._clock.now_ms()))
        try:
            self._append_events()
        except StoreError as error:
            log.error("the last events could not be kept", error=str(error))
        try:
            await self.keeper.stop()
        finally:
            await self._close_progress()
            self._lock.release()
            self._state = "stopped"

    async def _close_progress(self) -> None:
        if self._writing is not None:  # the chores were stopped in the middle of it
            await asyncio.wait([self._writing])
            self._written(self._writing)
        try:
            self.progress.close()
        except sqlite3.Error as error:
            log.error("progress could not be written", error=str(error))

    # --- chores -------------------------------------------------------------------------------------------------------

    async def _run_chores(self) -> None:
        chores = (
            self._watch_log,
            self._append_events,
            self.staging.expire,
            self.groups.expire,
            self.minutes.tick,
            self.watch.tick,
            self.resets.tell_silent,
            self.subscriptions.keep,
            self._retain,
            self._follow,
        )
        while True:
            await asyncio.sleep(self.config.broker.chore_interval_ms / 1000)
            for chore in chores:
                try:
                    chore()
                except PenstockError as error:
                    log.error("a chore failed, it is tried again", chore=chore.__name__, error=str(error))
                except Exception:
                    log.exception("a chore failed, it is tried again", chore=chore.__name__)
            await self._write_progress()

    def _watch_log(self) -> None:
        why = self.store.read_only_because
        if why is not None and not self._told_read_only:
            self._told_read_only = True
            log.error("the log is read-only until a restart", why=why)
            self.bus.emit(events.LogReadOnly(at_ms=self._clock.now_ms(), why=why))

    def _append_events(self) -> None:
        topic = self.topics.find(events.EVENTS_TOPIC)
        if topic is None or self.store.read_only_because is not None:
            return
        pending, queue = self.bus.take(), topic.queue(0)
        encode, json = self._encode, msgspec.json.encode
        entries = [encode(queue, json(event), type(event).__name__, event.at_ms) for event in pending]
        try:
            self.publisher.publish(entries, lambda error: None)
        except DiskFull:
            self.bus.put_back(pending)
        except PenstockError:
            self.bus.dropped += len(pending)
            raise

    def _retain(self) -> None:
        now_ms = self._clock.monotonic_ms()
        if now_ms - self._retained_ms >= self.config.store.clean_interval_ms:
            self._retained_ms = now_ms
            if self.store.read_only_because is None:
                self.upkeep.tick()
                self.compaction.tick()
                apply_retention(self.store, self.topics, self._clock, self.bus, self._needed, self._retention)

    def _needed(self, queue: int) -> int | None:
        """The first row that somebody still needs."""
        first, next_run = self.subscriptions.first_unacked(queue), self.compaction.needed(queue)
        return next_run if first is None else first if next_run is None else min(first, next_run)

    def _retention(self, topic: Topic) -> Retention | None:
        return self.policies.applied(topic.name).retention

    async def _write_progress(self) -> None:
        self._changes = self.progress.take_changes()
        if self._changes:
            self._writing = asyncio.ensure_future(asyncio.to_thread(self.progress.write, self._changes))
            await asyncio.wait([self._writing])
            self._written(self._writing)

    def _written(self, writing: "asyncio.Future[None]") -> None:
        """A batch of progress was written, or comes back to be tried again."""
        self._writing, error = None, writing.exception()
        if error is not None:
            for change in self._changes:
                self.progress.put_back(change)
            log.error("progress could not be written, it is tried again", error=str(error))

    # --- what can be asked --------------------------------------------------------------------------------------------

    @property
    def state(self) -> str:
        why = self.store.read_only_because
        return f"read-only: {why}" if self._state == "running" and why else self._state

    @property
    def ready(self) -> bool:
        return self._state == "running" and self.store.read_only_because is None

    def metrics(self) -> Iterable[Metric]:
        store = self.store
        yield Metric("penstock_ready", "gauge", "1 when the broker takes messages.", float(self.ready))
        yield Metric("penstock_topics", "gauge", "Topics.", len(self.topics))
        yield Metric(
            "penstock_log_end_bytes", "counter", "Position behind the last entry of the log.", store.end_position
        )
        yield Metric(
            "penstock_log_durable_bytes", "counter", "Position up to which the log is synced.", store.durable_position
        )
        yield Metric(
            "penstock_log_damaged_ranges", "gauge", "Ranges of the log that cannot be read.", len(store.damage)
        )
        yield Metric("penstock_waiting_consumers", "gauge", "Consumers that wait for new messages.", len(self.waits))
        yield Metric(
            "penstock_duplicates_total", "counter", "Messages refused as duplicates.", self.publisher.duplicates
        )
        yield Metric("penstock_events_dropped_total", "counter", "Events lost because too many came.", self.bus.dropped)
        yield Metric("penstock_schemas_bytes", "gauge", "Bytes held in schemas.", self.schemas.size_bytes)
        yield Metric("penstock_stages", "gauge", "Open stages.", len(self.staging))
        yield Metric("penstock_staged_bytes", "gauge", "Bytes held in open stages.", self.staging.size_bytes)
        for topic in self.topics:
            tables = [store.table(queue) for queue in topic.queues]
            labels = {"topic": topic.name}
            published = sum(table.next_offset for table in tables)
            kept = sum(table.live_bytes for table in tables)
            yield Metric(
                "penstock_topic_messages_total", "counter", "Messages ever published to a topic.", published, labels
            )
            yield Metric("penstock_topic_bytes", "gauge", "Bytes a topic holds.", kept, labels)
