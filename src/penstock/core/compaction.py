"""Compaction of queues: of each key the last message, in a view beside the queue, which stays as it is.

The view is a queue of its own (of a system topic), written anew by each run: the entries that survive, in order, each
with the row and the offset that it has in the source in front of it, so that message ids stay the same, and with which
of its messages are left. A fact of the catalog names the view and its *horizon*, the first row of the source that it
does not know; it is put when the view is durable, and the view before it is dropped then. So there is always one that
is whole, or none; what a crash leaves half written is dropped at the next start.

A run reads the view before it and what came since, in steps, hands it to a process of its own (`aside`), which decides
what survives, and appends what comes back. One run is under way at a time. Whoever reads compacted gets what is below
the horizon from the view, and everything else from the queue. Retention leaves what is behind the horizon to the next
run, of queues that were compacted or have a threshold.
"""

import asyncio
import enum
from collections.abc import AsyncIterator
from typing import NamedTuple

import msgspec

from penstock import logs
from penstock.clock import Clock
from penstock.core.aside import Aside
from penstock.core.events import Bus, Event, TopicDeleted
from penstock.core.fetch import Fetcher, numbered
from penstock.core.policies import PolicyBook
from penstock.core.publish import Publisher
from penstock.core.topics import Topics, TopicSettings
from penstock.core.views import HEAD_BYTES, Found, View, ViewEntry, found_in
from penstock.errors import CompactionRunning, PenstockError, StoreError, TopicExists
from penstock.model import Durability
from penstock.store.keeper import Keeper
from penstock.store.store import Store

log = logs.get(__name__)

PREFIX = "compacted/"
TOPIC_PREFIX = "penstock_compacted_"
RETRY_MS = 60_000
TOPICS_MAX = 100  # names that are tried for a view: two are used in turn
STEP_MESSAGES, STEP_BYTES = 10_000, 2 << 20  # read, looked at and written at a time


class State(enum.StrEnum):
    NOT_RUN = "NOT_RUN"
    RUNNING = "RUNNING"
    SUCCESS = "SUCCESS"
    ERROR = "ERROR"


class Status(NamedTuple):
    state: State
    error: str = ""
    failed_ms: int = 0


_decoder = msgspec.json.Decoder(View)


class Compaction:
    def __init__(
        self,
        store: Store,
        keeper: Keeper,
        topics: Topics,
        fetcher: Fetcher,
        publisher: Publisher,
        policies: PolicyBook,
        clock: Clock,
        bus: Bus,
    ) -> None:
        self._store, self._keeper, self._topics, self._fetcher = store, keeper, topics, fetcher
        self._publisher, self._policies, self._clock = publisher, policies, clock
        self._views = {
            int(key.removeprefix(PREFIX)): _decoder.decode(value) for key, value in store.catalog.items(PREFIX)
        }
        self._runs: dict[int, asyncio.Task[None]] = {}
        self._failed: dict[int, Status] = {}
        self._turn = asyncio.Lock()
        self._worker = ""
        bus.listen(self._on_event)

    def serve(self, worker: str) -> None:
        """Who decides what survives, as MODULE:CLASS: it knows what a key is."""
        self._worker = worker

    # --- asking -------------------------------------------------------------------------------------------------------

    def view(self, queue: int) -> View | None:
        return self._views.get(queue)

    def status(self, queue: int) -> Status:
        if queue in self._runs:
            return Status(State.RUNNING)
        if queue in self._failed:
            return self._failed[queue]
        return Status(State.SUCCESS if queue in self._views else State.NOT_RUN)

    def needed(self, queue: int) -> int | None:
        """The first row that the next run needs; None when there will be none."""
        view = self._views.get(queue)
        if view is not None:
            return view.horizon
        return 0 if queue in self._runs or self._policies.at(queue).compaction_threshold_bytes else None

    # --- running ------------------------------------------------------------------------------------------------------

    def start(self, queue: int) -> None:
        """Begin a run, or have it wait for its turn."""
        if queue in self._runs:
            raise CompactionRunning
        self._failed.pop(queue, None)
        run = self._runs[queue] = asyncio.ensure_future(self._run(queue))
        run.add_done_callback(lambda _: self._runs.pop(queue))

    async def settled(self, queue: int) -> None:
        """Until no run is under way."""
        if queue in self._runs:
            await asyncio.wait([self._runs[queue]])

    def tick(self) -> None:
        """Begin the runs that thresholds ask for."""
        for topic in self._topics if self._policies else ():
            threshold_bytes = self._policies.applied(topic.name).compaction_threshold_bytes
            for queue in topic.queues if threshold_bytes else ():
                if self._is_due(queue, threshold_bytes or 0):
                    self.start(queue)

    def _is_due(self, queue: int, threshold_bytes: int) -> bool:
        """Whether more has come since the last run. One that has failed is not tried again at once."""
        failed, view = self._failed.get(queue), self._views.get(queue)
        if queue in self._runs or (failed is not None and self._clock.now_ms() < failed.failed_ms + RETRY_MS):
            return False
        return self._store.table(queue).bytes_from(view.horizon if view else 0, threshold_bytes) > threshold_bytes

    async def _run(self, queue: int) -> None:
        begun_ms = self._clock.monotonic_ms()
        try:
            async with self._turn:
                view = await self._compacted(queue)
        except PenstockError as error:
            self._failed[queue] = Status(State.ERROR, str(error), self._clock.now_ms())
            log.error("a queue could not be compacted", queue=queue, error=str(error))
        except Exception as error:
            self._failed[queue] = Status(State.ERROR, f"the broker failed: {error!r}", self._clock.now_ms())
            log.exception("a queue could not be compacted", queue=queue)
        else:
            took_ms = int(self._clock.monotonic_ms() - begun_ms)
            log.info("a queue was compacted", queue=queue, removed=view.removed, took_ms=took_ms)

    async def _compacted(self, queue: int) -> View:
        behind = self._fetcher.rows(queue)[1]
        aside = await asyncio.to_thread(Aside, self._worker)
        try:
            await self._look(aside, queue, behind)
            return await self._write(aside, queue, behind)
        finally:
            await aside.stop()

    async def _look(self, aside: Aside, queue: int, behind: int) -> None:
        more = True
        while more:
            await aside.call("begin")
            async for step in self._source(queue, behind):
                await aside.call("look", *_columns(step))
            more = await aside.call("end")

    async def _write(self, aside: Aside, queue: int, behind: int) -> View:
        """The new view takes the place of the old one once it is durable."""
        begun_ms, name = self._clock.monotonic_ms(), self._new_topic(queue)
        target, removed = self._topics.get(name).queue(0), 0
        try:
            async for step in self._source(queue, behind):
                kept = await aside.call("kept", *_columns(step))
                removed += sum(not payload for payload, _ in kept)
                self._append(target, step, kept)
            await self._keeper.durable(self._store.end_position)
            self._store.table(queue)  # it may have been deleted meanwhile
            took_ms = int(self._clock.monotonic_ms() - begun_ms)
            view = View(target, name, behind, self._clock.now_ms(), took_ms, removed)
            self._store.put_facts({f"{PREFIX}{queue}": msgspec.json.encode(view)})
        except BaseException:
            self._drop(name)
            raise
        before, self._views[queue] = self._views.get(queue), view
        if before is not None:
            self._drop(before.topic)
        await self._keeper.durable(self._store.end_position)
        return view

    def _append(self, target: int, step: list[Found], kept: list[tuple[bytes, bytes]]) -> None:
        entries = [
            ViewEntry(
                queue=target,
                length=HEAD_BYTES + len(living) + len(payload),
                count=found.messages,
                source_row=found.row,
                source_offset=found.offset,
                living=living,
                payload=payload,
            )
            for found, (payload, living) in zip(step, kept, strict=True)
            if payload
        ]
        if entries:
            self._publisher.publish(entries, lambda error: None, self._store.entry_bytes_max)

    def _new_topic(self, queue: int) -> str:
        """For a view: unsynced, since all of it is synced together at the end."""
        settings = TopicSettings(write_queues=1, permissions=0, durability=Durability.ASYNC, retention_ms=0)
        for number in range(TOPICS_MAX):
            try:
                return self._topics.create_now(f"{TOPIC_PREFIX}{queue}_{number}", settings, system=True).name
            except TopicExists:
                continue
        raise CompactionRunning

    def _drop(self, topic: str) -> None:
        """What cannot be dropped now is dropped at the next start: nobody reads it."""
        try:
            if self._topics.find(topic) is not None:
                self._topics.delete_now(topic)
        except StoreError as error:
            log.warning("a compacted queue could not be dropped", topic=topic, error=str(error))

    # --- reading ------------------------------------------------------------------------------------------------------

    async def _source(self, queue: int, behind: int) -> AsyncIterator[list[Found]]:
        """The view, then what came since, up to a row, in steps."""
        view = self._views.get(queue)
        if view is not None:
            async for step in self._steps(view.queue, 0, self._fetcher.rows(view.queue)[1]):
                yield [found_in(found.payload, found.messages) for found in step]
        async for step in self._steps(queue, view.horizon if view else 0, behind):
            yield step

    async def _steps(self, queue: int, row: int, behind: int) -> AsyncIterator[list[Found]]:
        row = max(row, self._fetcher.rows(queue)[0])
        while row < behind:
            plan = self._fetcher.plan_from(queue, row, min(STEP_MESSAGES, behind - row), STEP_BYTES)
            batch = await self._fetcher.load(plan)
            columns = (batch.rows["base"].tolist(), batch.rows["count"].tolist(), batch.payloads)
            several = zip(numbered(plan, batch), *columns, strict=True)
            yield [Found(*each) for each in several if each[0] < behind]
            row = plan.next_row

    # --- beginning and end --------------------------------------------------------------------------------------------

    def tidy(self) -> None:
        """Drop what a crash has left half written, or without a source."""
        lost = [queue for queue, view in self._views.items() if not self._store.has_queue(view.queue)]
        for queue in [queue for queue in self._views if not self._store.has_queue(queue)] + lost:
            self._forget(queue)
        used = {view.topic for view in self._views.values()}
        for topic in [topic for topic in self._topics if topic.system and topic.name.startswith(TOPIC_PREFIX)]:
            if topic.name not in used:
                self._drop(topic.name)

    def _forget(self, queue: int) -> None:
        view = self._views.pop(queue, None)
        if view is not None:
            self._store.put_facts({f"{PREFIX}{queue}": None})
            self._drop(view.topic)

    def _on_event(self, event: Event) -> None:
        """With a topic go its views."""
        if isinstance(event, TopicDeleted):
            for queue in [queue for queue in self._views if not self._store.has_queue(queue)]:
                self._forget(queue)

    async def stop(self) -> None:
        for run in list(self._runs.values()):
            run.cancel()
        if self._runs:
            await asyncio.wait(list(self._runs.values()))


def _columns(step: list[Found]) -> tuple[list[int], list[bytes]]:
    return [found.offset for found in step], [bytes(found.payload) for found in step]
