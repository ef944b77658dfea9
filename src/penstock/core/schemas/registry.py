"""The schemas that topics have: version after version, each a fact of the catalog and durable before it is told.

A topic's schemas are numbered from 0, and a number is never used again while the topic is there: deleting them takes a
number too, as with Pulsar. They may be there before the topic is, and go with it when it is deleted, in one group of
the log. All are held in memory: how many, and how large, is bounded.
"""

from typing import NamedTuple

import msgspec

from penstock.clock import Clock
from penstock.config import BrokerConfig
from penstock.core.events import Bus, Event, TopicDeleted
from penstock.core.schemas import compatibility
from penstock.core.schemas.model import Schema
from penstock.core.topics import Topics, check_name
from penstock.errors import SchemaIncompatible, SchemaNotFound, TooManySchemas
from penstock.model import SchemaStrategy
from penstock.store.keeper import Keeper
from penstock.store.store import Store

PREFIX = "schema/"
NEXT = "schema_next/"
OVERHEAD_BYTES = 512  # what one costs besides its data


class Kept(msgspec.Struct):
    """As it is kept."""

    schema: Schema
    created_ms: int


class Version(NamedTuple):
    """`position` is where the log has to be durable for it to be told."""

    number: int
    schema: Schema
    created_ms: int
    position: int = 0


class _Topic:
    """The versions of one topic."""

    __slots__ = ("next", "size_bytes", "versions")

    def __init__(self) -> None:
        self.versions: list[Version] = []
        self.next = self.size_bytes = 0

    def add(self, version: Version) -> None:
        self.versions.append(version)
        self.next = max(self.next, version.number + 1)
        self.size_bytes += _cost(version.schema)

    def clear(self, following: int) -> None:
        self.versions, self.next, self.size_bytes = [], following, 0


_decoder = msgspec.msgpack.Decoder(Kept)


class Schemas:
    def __init__(
        self, store: Store, keeper: Keeper, clock: Clock, bus: Bus, topics: Topics, config: BrokerConfig
    ) -> None:
        self._store, self._keeper, self._clock, self._config = store, keeper, clock, config
        self._topics: dict[str, _Topic] = {}
        self.size_bytes = 0  # of all of them
        self._load()
        topics.own(self._keys)
        bus.listen(self._on_event)

    def _load(self) -> None:
        found = [(*_parts(key), _decoder.decode(value)) for key, value in self._store.catalog.items(PREFIX)]
        for topic, number, kept in sorted(found, key=lambda each: each[:2]):
            self._of(topic).add(Version(number, kept.schema, kept.created_ms))
        for key, value in self._store.catalog.items(NEXT):
            there = self._of(key.removeprefix(NEXT))
            there.next = max(there.next, int(value))
        self.size_bytes = sum(each.size_bytes for each in self._topics.values())

    def _of(self, topic: str) -> _Topic:
        return self._topics.setdefault(topic, _Topic())

    # --- asking -------------------------------------------------------------------------------------------------------

    def topics(self) -> list[str]:
        """Those that have schemas, or had some."""
        return list(self._topics)

    def all(self, topic: str) -> list[Version]:
        """The versions of a topic, the oldest first."""
        there = self._topics.get(topic)
        return list(there.versions) if there else []

    def latest(self, topic: str) -> Version | None:
        there = self._topics.get(topic)
        return there.versions[-1] if there and there.versions else None

    def get(self, topic: str, number: int | None = None) -> Version:
        """One version; without a number the newest."""
        found = self.latest(topic) if number is None else self._numbered(topic, number)
        if found is None:
            raise SchemaNotFound(topic)
        return found

    def _numbered(self, topic: str, number: int) -> Version | None:
        return next((each for each in self.all(topic) if each.number == number), None)

    def find(self, topic: str, schema: Schema) -> Version | None:
        """The version that is this schema."""
        compatibility.check(schema)
        return next((each for each in self.all(topic) if compatibility.same(each.schema, schema)), None)

    def why_not(self, topic: str, schema: Schema, strategy: SchemaStrategy) -> list[str]:
        """Why a schema cannot be the next; empty when it can, or is there."""
        if self.find(topic, schema) is not None:
            return []
        return compatibility.why_not(schema, [each.schema for each in self.all(topic)], strategy)

    def check_reader(self, topic: str, schema: Schema, strategy: SchemaStrategy) -> None:
        """Raises SchemaIncompatible when a consumer cannot have this schema."""
        compatibility.check(schema)
        others = [each.schema for each in self.all(topic)]
        _refuse(topic, compatibility.why_not_read(schema, others, strategy))

    # --- changing -----------------------------------------------------------------------------------------------------

    async def register(self, topic: str, schema: Schema, strategy: SchemaStrategy) -> Version:
        """The version that is this schema, made when it is new and may follow the others; returns when it is durable.

        From looking to writing nothing else happens: two who come with different schemas do not pass each other by.
        """
        found = self.find(topic, schema)
        if found is None:
            others = [each.schema for each in self.all(topic)]
            _refuse(topic, compatibility.why_not(schema, others, strategy))
            found = self._add(topic, schema)
        await self._keeper.durable(found.position)
        return found

    def _add(self, topic: str, schema: Schema) -> Version:
        check_name(topic, self._config.topic_name_chars_max)
        self._check_room(topic, schema)
        number = self._topics[topic].next if topic in self._topics else 0
        kept = Kept(schema, self._clock.now_ms())
        self._store.put_facts({_key(topic, number): msgspec.msgpack.encode(kept)})
        made = Version(number, schema, kept.created_ms, self._store.end_position)
        self._of(topic).add(made)
        self.size_bytes += _cost(schema)
        return made

    def _check_room(self, topic: str, schema: Schema) -> None:
        config, cost, there = self._config, _cost(schema), self._topics.get(topic)
        versions, topic_bytes = (len(there.versions), there.size_bytes) if there else (0, 0)
        for name, wanted, limit in (
            ("broker.schema_bytes_max", schema.size_bytes, config.schema_bytes_max),
            ("broker.topic_schemas_max", versions + 1, config.topic_schemas_max),
            ("broker.topic_schemas_bytes_max", topic_bytes + cost, config.topic_schemas_bytes_max),
            ("broker.schemas_bytes_max", self.size_bytes + cost, config.schemas_bytes_max),
        ):
            if wanted > limit:
                raise TooManySchemas(name, limit)

    async def delete(self, topic: str) -> int:
        """A topic's schemas are gone; the number that this took. Returns when that is durable."""
        if self.latest(topic) is None:
            raise SchemaNotFound(topic)
        there = self._topics[topic]
        number = there.next
        gone = dict.fromkeys(_key(topic, each.number) for each in there.versions)
        self._store.put_facts({**gone, NEXT + topic: b"%d" % (number + 1)})
        self.size_bytes -= there.size_bytes
        there.clear(number + 1)
        await self._keeper.durable(self._store.end_position)
        return number

    async def forget(self, topic: str) -> None:
        """All that is known of a topic that is not there any more, or never was."""
        self._store.put_facts(dict.fromkeys(self._keys(topic)))
        self._drop(topic)
        await self._keeper.durable(self._store.end_position)

    def _keys(self, topic: str) -> list[str]:
        there = self._topics.get(topic)
        return [NEXT + topic, *(_key(topic, each.number) for each in there.versions)] if there else []

    def _on_event(self, event: Event) -> None:
        """A topic was deleted, and its facts with it."""
        if isinstance(event, TopicDeleted):
            self._drop(event.topic)

    def _drop(self, topic: str) -> None:
        there = self._topics.pop(topic, None)
        if there is not None:
            self.size_bytes -= there.size_bytes


def _refuse(topic: str, why: list[str]) -> None:
    if why:
        raise SchemaIncompatible(f"topic {topic!r} cannot have this schema: {'; '.join(why)}")


def _cost(schema: Schema) -> int:
    return schema.size_bytes + OVERHEAD_BYTES


def _key(topic: str, number: int) -> str:
    return f"{PREFIX}{topic}/{number}"  # a topic's name has no slash


def _parts(key: str) -> tuple[str, int]:
    topic, _, number = key.removeprefix(PREFIX).rpartition("/")
    return topic, int(number)
