"""Staged publishing: many writers prepare, one commit publishes all of it, once.

A writer opens a stage under a name of its own (query, batch, partition, attempt) and adds entries; nobody sees them. A
commit names the stages that count and a key: their entries become visible as one group, together with the fact that the
key is done, so that a crash leaves both or neither. A second commit with the same key publishes nothing. Stages that
nobody commits expire.

A commit that is too large for one append is published in steps, each of them a group with the fact that says how far it
has come. With the first step it is decided: whatever happens then, a broker that starts again goes on behind the last
step that it finds, out of files that were synced before. So each message is published once, and all of them, while
other producers get their turn between the steps; consumers may see the first messages before the last are there.

Stages that are not committed do not survive a restart: the commit says so, and the writers stage again.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from penstock import logs
from penstock.clock import Clock
from penstock.config import BrokerConfig
from penstock.core.events import Bus, StageCommitted, StageExpired
from penstock.core.publish import Publisher, Then
from penstock.core.stages import NO_FROST, Frost, Stage, Stages
from penstock.errors import DiskFull, MessageTooLarge, PenstockError
from penstock.model import Entry
from penstock.store.store import Store

log = logs.get(__name__)

PREFIX = "commit/"
_SPACE_INTERVAL_S = 1.0

Committed = Callable[
    [Exception | None, bool], None
]  # error, and whether this call published (False: an earlier one had)
Appended = Callable[[Sequence[Entry]], None]


class _Done(msgspec.Struct, array_like=True):
    """With `files` it is decided, but not complete: what they hold is still to be published, from `at` in the first."""

    at_ms: int
    messages: int
    files: list[int] = []
    at: int = 0


class _Plan(NamedTuple):
    """A commit that is to be decided, and the stages that it takes."""

    done: _Done
    taken: dict[str, Stage]


class Staging:
    def __init__(
        self,
        store: Store,
        publisher: Publisher,
        clock: Clock,
        bus: Bus,
        config: BrokerConfig,
        frost: Frost = NO_FROST,
    ) -> None:
        self._store, self._publisher, self._clock, self._bus, self._config = store, publisher, clock, bus, config
        self._done = {key: msgspec.msgpack.decode(value, type=_Done) for key, value in store.catalog.items(PREFIX)}
        self._files, self._frost = store.stage_files(), frost
        self._files.keep_only({number for done in self._done.values() for number in done.files})
        self._stages = Stages(self._files, frost, config)
        self._tasks: dict[str, asyncio.Task[None]] = {}  # commits that are published in steps, by key
        self._waiting: dict[str, list[Committed]] = {}
        self.appended: list[Appended] = []  # whoever wants to know what a commit appends

    def __len__(self) -> int:
        return len(self._stages)

    @property
    def size_bytes(self) -> int:
        return self._stages.memory_bytes + self._stages.disk_bytes

    # --- staging ------------------------------------------------------------------------------------------------------

    def stage(self, name: str, entries: Sequence[Entry], part: int | None = None) -> None:
        """Add entries to a stage, opening it if need be. The entries own their bytes: a view into a receive buffer
        would not last. A `part` (0, 1, ...) that comes a second time is known and changes nothing.
        """
        for entry in entries:
            largest = int(entry.spans().lengths.max()) if entry.run else entry.length
            if largest > self._config.message_bytes_max:
                raise MessageTooLarge(largest, self._config.message_bytes_max)
            self._store.table(entry.queue)
        self._stages.add(name, entries, part, self._clock.now_ms())

    def queues(self, name: str) -> set[int]:
        """Where the messages of a stage go; none when it is not there."""
        return self._stages.queues(name)

    def drop(self, name: str) -> None:
        """Forget a stage; none of it is published."""
        self._stages.drop(name)

    def names(self, prefix: str) -> list[str]:
        """The stages whose names begin so."""
        return [name for name, _ in self._stages.items() if name.startswith(prefix)]

    def drop_all(self, prefix: str) -> None:
        for name in self.names(prefix):
            self.drop(name)

    # --- committing ---------------------------------------------------------------------------------------------------

    def commit(self, key: str, names: Sequence[str], then: Committed) -> None:
        """Publish these stages as one group, once under `key`."""
        names = list(dict.fromkeys(names))
        fact = PREFIX + key
        if fact in self._waiting:
            self._waiting[fact].append(lambda error, _: then(error, False))
            return
        done = self._done.get(fact)
        if done is not None:
            for name in names:
                self.drop(name)
            if done.files:
                self._start(fact, lambda error, _: then(error, False))
            else:
                self._publisher.publish([], lambda error: then(error, False))
            return
        size_bytes = sum(self._stages.get(name).payload_bytes for name in names)
        if size_bytes > self._config.commit_step_bytes and all(self._stages.to_disk(name) for name in names):
            self._commit_in_steps(key, names, then)
        else:
            self._commit_at_once(key, names, then)

    def _commit_at_once(self, key: str, names: Sequence[str], then: Committed) -> None:
        entries = [entry for name in names for entry in self._stages.entries(name)]
        done = _Done(self._clock.now_ms(), sum(entry.count for entry in entries))
        self._append(PREFIX + key, done, entries, lambda error: then(error, True))
        for name in names:
            self.drop(name)
        self._tell(key, done, len(names))

    def _append(self, fact: str, done: _Done, entries: Sequence[Entry], then: Then) -> None:
        """One group: the entries, and how far the commit has come with them."""
        facts = {fact: msgspec.msgpack.encode(done), **self._surplus(fact)}
        self._publisher.publish_group(entries, facts, then)
        for forgotten in facts.keys() - {fact}:
            del self._done[forgotten]
        self._done[fact] = done
        for told in self.appended:
            told(entries)

    def _tell(self, key: str, done: _Done, stages: int) -> None:
        self._bus.emit(StageCommitted(at_ms=done.at_ms, key=key, stages=stages, messages=done.messages))

    def _surplus(self, fact: str) -> dict[str, bytes | None]:
        """The oldest keys, when there are too many: forgotten with the next commit."""
        too_many = len(self._done) + (fact not in self._done) - self._config.commit_keys_max
        if too_many <= 0:
            return {}
        complete = (key for key, done in self._done.items() if not done.files and key != fact)
        return dict.fromkeys(sorted(complete, key=lambda key: self._done[key].at_ms)[:too_many])

    # --- in steps -----------------------------------------------------------------------------------------------------

    def _commit_in_steps(self, key: str, names: Sequence[str], then: Committed) -> None:
        """The stages, all in files, are taken: nobody can drop them. They come back when nothing was published."""
        for queue in {queue for name in names for queue in self._stages.get(name).queues}:
            self._store.table(queue)
        taken = {name: self._stages.take(name) for name in names}
        files, messages = [stage.file for stage in taken.values()], sum(stage.messages for stage in taken.values())
        self._start(PREFIX + key, then, _Plan(_Done(self._clock.now_ms(), messages, files), taken))

    def _start(self, fact: str, then: Committed, plan: _Plan | None = None) -> None:
        """Publish what is left of a commit, in a task of its own. With a plan it is a new one."""
        self._waiting[fact] = [then]
        task = asyncio.ensure_future(self._in_steps(fact, plan))
        self._tasks[fact] = task
        task.add_done_callback(lambda _: self._tasks.pop(fact, None))

    async def _in_steps(self, fact: str, plan: _Plan | None) -> None:
        error: Exception | None = None
        emptied: list[asyncio.Future[None]] = []
        try:
            if plan is None:
                await self._finish(fact, _Ahead(self._next_step, self._done[fact]), emptied)
            else:
                await self._finish(fact, await self._decide(fact, plan, emptied), emptied)
        except (PenstockError, OSError) as failed:
            log.error("a commit is not complete: it goes on when it is asked for again", fact=fact, error=str(failed))
            error = failed
        finally:
            waiting = self._waiting.pop(fact, [])
            if plan is not None and fact not in self._done:
                for name, stage in plan.taken.items():
                    self._stages.put_back(name, stage)
        for then in waiting:
            then(error, plan is not None)
        await asyncio.gather(*emptied)

    async def _decide(self, fact: str, plan: _Plan, emptied: "list[asyncio.Future[None]]") -> "_Ahead":
        """The first step: behind it the commit is complete some day, whatever happens."""
        first = _Ahead(self._next_step, plan.done)
        first.begin()
        await asyncio.to_thread(self._files.sync, plan.done.files)
        following = await self._step(fact, first, emptied)
        self._tell(fact.removeprefix(PREFIX), plan.done, len(plan.taken))
        return following

    async def _finish(self, fact: str, ahead: "_Ahead", emptied: "list[asyncio.Future[None]]") -> None:
        """All other steps. A full disk is waited for: there is no way back."""
        while self._done[fact].files:
            try:
                ahead = await self._step(fact, ahead, emptied)
            except DiskFull as error:
                log.warning("a commit waits for space on the disk", fact=fact, error=str(error))
                await asyncio.sleep(_SPACE_INTERVAL_S)

    async def _step(self, fact: str, ahead: "_Ahead", emptied: "list[asyncio.Future[None]]") -> "_Ahead":
        """Publish what was read ahead, and read on meanwhile. A step is durable before the next is appended: of two
        that are not, a power cut may leave the second alone, which says that the first is done. Nor does a file go
        before that, but nobody waits until it has gone.
        """
        entries, after = await ahead.step()
        following = _Ahead(self._next_step, after)
        following.begin()
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._append(fact, after, self._still_there(entries), lambda error: _settle(durable, error))
        await durable
        for number in ahead.done.files[: len(ahead.done.files) - len(after.files)]:
            emptied.append(asyncio.ensure_future(asyncio.to_thread(self._files.remove, number)))
        return following

    def _next_step(self, done: _Done) -> tuple[list[Entry], _Done]:
        """What to publish next, and how far the commit has come with it. Reads files: in a worker thread."""
        found: list[Entry] = []
        size_bytes, at = 0, done.at
        for index, number in enumerate(done.files):
            for data, end in self._files.read(number, at):
                entry = self._frost.thaw(data)
                if size_bytes and size_bytes + entry.length > self._config.commit_step_bytes:
                    return found, _Done(done.at_ms, done.messages, done.files[index:], at)
                found.append(entry)
                size_bytes, at = size_bytes + entry.length, end
            at = 0
        return found, _Done(done.at_ms, done.messages)

    def _still_there(self, entries: Sequence[Entry]) -> list[Entry]:
        """Without those of topics that were deleted since the commit was decided: they would be gone by now anyway."""
        kept = [entry for entry in entries if self._store.has_queue(entry.queue)]
        if len(kept) < len(entries):
            log.warning("messages of a commit are left out: their topic was deleted", entries=len(entries) - len(kept))
        return kept

    # --- in time ------------------------------------------------------------------------------------------------------

    def resume(self) -> None:
        """Go on with commits that had been decided and were not complete when the broker stopped."""
        for fact in [fact for fact, done in self._done.items() if done.files and fact not in self._waiting]:
            self._start(fact, lambda error, published: None)

    async def stop(self) -> None:
        """Break off what is published in steps; the next start goes on with it."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def expire(self) -> None:
        """Forget stages that nobody touched for long, and keys that are old."""
        now_ms = self._clock.now_ms()
        for name, stage in self._stages.items():
            if now_ms - stage.touched_ms >= self._config.stage_expiry_ms:
                self.drop(name)
                self._bus.emit(StageExpired(at_ms=now_ms, stage=name, messages=stage.messages))
        old = [
            key
            for key, done in self._done.items()
            if now_ms - done.at_ms >= self._config.commit_key_expiry_ms and not done.files
        ]
        if old:
            self._store.put_facts(dict.fromkeys(old))
            for key in old:
                del self._done[key]


_Step = tuple[list[Entry], _Done]  # what to publish, and how far the commit has come with it


class _Ahead:
    """The step behind `done`, read in a worker thread: when it is asked for, or as soon as somebody says so."""

    def __init__(self, read: Callable[[_Done], _Step], done: _Done) -> None:
        self.done, self._read = done, read
        self._reading: asyncio.Future[_Step] | None = None

    def begin(self) -> None:
        if self.done.files and self._reading is None:
            self._reading = asyncio.ensure_future(asyncio.to_thread(self._read, self.done))
            self._reading.add_done_callback(
                lambda reading: reading.cancelled() or reading.exception()
            )  # told by `step`

    async def step(self) -> _Step:
        """May be asked for again."""
        self.begin()
        assert self._reading is not None
        return await asyncio.shield(self._reading)


def _settle(future: "asyncio.Future[None]", error: Exception | None) -> None:
    if future.done():  # nobody waits any more
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
