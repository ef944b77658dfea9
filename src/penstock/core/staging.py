"""Staged publishing: many writers prepare, one commit publishes all of it, once.

A writer opens a stage under a name of its own (query, batch, partition, attempt) and adds entries; nobody sees them. A
commit names the stages that count and a key: their entries become visible as one group, together with the fact that the
key is done, so that a crash leaves both or neither. A second commit with the same key publishes nothing. Stages that
nobody commits expire.

Stages live in memory, bounded: after a restart they are gone, the commit says so, and the writers stage again.
"""

from collections.abc import Callable, Sequence

import msgspec

from penstock.clock import Clock
from penstock.config import BrokerConfig
from penstock.core.events import Bus, StageCommitted, StageExpired
from penstock.core.publish import Publisher
from penstock.errors import MessageTooLarge, StageNotFound, StagesFull
from penstock.model import Entry
from penstock.store.store import Store

PREFIX = "commit/"

Committed = Callable[
    [Exception | None, bool], None
]  # error, and whether this call published (False: an earlier one had)


class _Done(msgspec.Struct, array_like=True):
    at_ms: int
    messages: int


class _Stage:
    def __init__(self, touched_ms: int) -> None:
        self.entries: list[Entry] = []
        self.size_bytes = 0
        self.touched_ms = touched_ms


class Staging:
    def __init__(self, store: Store, publisher: Publisher, clock: Clock, bus: Bus, config: BrokerConfig) -> None:
        self._store, self._publisher, self._clock, self._bus, self._config = store, publisher, clock, bus, config
        self._stages: dict[str, _Stage] = {}
        self._done = {key: msgspec.msgpack.decode(value, type=_Done) for key, value in store.catalog.items(PREFIX)}
        self.size_bytes = 0

    def __len__(self) -> int:
        return len(self._stages)

    def stage(self, name: str, entries: Sequence[Entry]) -> None:
        """Add entries to a stage, opening it if need be. The entries own their bytes: a view into a receive buffer
        would not last.
        """
        added = sum(entry.length for entry in entries)
        if self.size_bytes + added > self._config.stages_bytes_max:
            raise StagesFull("bytes (broker.stages_bytes_max)", self._config.stages_bytes_max)
        for entry in entries:
            if entry.length > self._config.message_bytes_max:
                raise MessageTooLarge(entry.length, self._config.message_bytes_max)
            self._store.table(entry.queue)
        now_ms = self._clock.now_ms()
        stage = self._stages.get(name) or self._open(name, now_ms)
        stage.entries.extend(entries)
        stage.size_bytes += added
        stage.touched_ms = now_ms
        self.size_bytes += added

    def _open(self, name: str, now_ms: int) -> _Stage:
        if len(self._stages) >= self._config.stages_max:
            raise StagesFull("stages (broker.stages_max)", self._config.stages_max)
        stage = self._stages[name] = _Stage(now_ms)
        return stage

    def drop(self, name: str) -> None:
        """Forget a stage; none of it is published."""
        stage = self._stages.pop(name, None)
        if stage is not None:
            self.size_bytes -= stage.size_bytes

    def commit(self, key: str, names: Sequence[str], then: Committed) -> None:
        """Publish these stages as one group, once under `key`."""
        names = list(dict.fromkeys(names))
        if PREFIX + key in self._done:
            for name in names:
                self.drop(name)
            self._publisher.publish([], lambda error: then(error, False))
            return
        missing = [name for name in names if name not in self._stages]
        if missing:
            raise StageNotFound(missing[0])
        entries = [entry for name in names for entry in self._stages[name].entries]
        messages = sum(entry.count for entry in entries)
        done = _Done(self._clock.now_ms(), messages)
        facts = {PREFIX + key: msgspec.msgpack.encode(done), **self._surplus()}
        self._publisher.publish_group(entries, facts, lambda error: then(error, True))
        for forgotten in facts.keys() - {PREFIX + key}:
            del self._done[forgotten]
        self._done[PREFIX + key] = done
        for name in names:
            self.drop(name)
        self._bus.emit(StageCommitted(at_ms=done.at_ms, key=key, stages=len(names), messages=messages))

    def _surplus(self) -> dict[str, bytes | None]:
        """The oldest keys, when there are too many: forgotten with the next commit."""
        too_many = len(self._done) + 1 - self._config.commit_keys_max
        oldest_first = sorted(self._done, key=lambda key: self._done[key].at_ms) if too_many > 0 else []
        return dict.fromkeys(oldest_first[: max(0, too_many)])

    def expire(self) -> None:
        """Forget stages that nobody touched for long, and keys that are old."""
        now_ms = self._clock.now_ms()
        for name, stage in list(self._stages.items()):
            if now_ms - stage.touched_ms >= self._config.stage_expiry_ms:
                self.drop(name)
                messages = sum(entry.count for entry in stage.entries)
                self._bus.emit(StageExpired(at_ms=now_ms, stage=name, messages=messages))
        old = [key for key, done in self._done.items() if now_ms - done.at_ms >= self._config.commit_key_expiry_ms]
        if old:
            self._store.put_facts(dict.fromkeys(old))
            for key in old:
                del self._done[key]
