"""Topics: a name, some queues, and how they are kept.

Every change is a fact of the store's catalog and durable before it is answered. A queue has a number of its own in the
log that is never used again; a topic is the list of them. Fewer queues than before hides the surplus, more brings it
back first, so that no message is lost by changing a number.
"""

from collections.abc import Callable, Iterable, Iterator

import msgspec

from penstock.clock import Clock
from penstock.config import BrokerConfig
from penstock.core.events import Bus, TopicChanged, TopicCreated, TopicDeleted
from penstock.errors import BadTopicName, BadTopicSettings, QueueNotFound, TopicExists, TopicNotFound
from penstock.model import Durability
from penstock.store.keeper import Keeper
from penstock.store.store import Store

PREFIX = "topic/"
READ, WRITE = 4, 2  # permissions, as RocketMQ writes them


class Topic(msgspec.Struct, kw_only=True):
    """As it is kept. `queues` are the numbers in the log, also of those that are hidden at present."""

    name: str
    queues: list[int]
    read_queues: int
    write_queues: int
    permissions: int = READ | WRITE
    durability: Durability
    retention_ms: int
    retention_bytes: int
    created_ms: int
    system: bool = False
    own_durability: bool = False  # it was asked for; else it is the broker's, see `follow`
    attributes: dict[str, str] = {}  # what a gateway wants to remember

    @property
    def queue_count(self) -> int:
        return max(self.read_queues, self.write_queues)

    def queue(self, index: int) -> int:
        """The number in the log of a queue of this topic."""
        if not 0 <= index < self.queue_count:
            raise QueueNotFound(f"{index} of topic {self.name!r}, which has {self.queue_count},")
        return self.queues[index]


class TopicSettings(msgspec.Struct, kw_only=True):
    """What can be asked for; None: the default, or leave it as it is."""

    read_queues: int | None = None
    write_queues: int | None = None
    permissions: int | None = None
    durability: Durability | None = None
    retention_ms: int | None = None
    retention_bytes: int | None = None
    attributes: dict[str, str] | None = None


FactsOf = Callable[[str], Iterable[str]]  # from a topic's name to the keys of facts that are its own

_decoder = msgspec.json.Decoder(Topic)


def check_name(name: str, chars_max: int) -> None:
    """What a name must be for any protocol; a gateway may ask for more. A name never becomes a path."""
    if not name:
        raise BadTopicName(name, "it is empty")
    if len(name) > chars_max:
        raise BadTopicName(name, f"it has {len(name)} characters, at most {chars_max} are allowed")
    for character in name:
        if not character.isprintable() or character.isspace() or character in "/\\":
            raise BadTopicName(name, f"the character {character!r} is not allowed in it")


class Topics:
    def __init__(
        self, store: Store, keeper: Keeper, clock: Clock, bus: Bus, config: BrokerConfig, default: Durability
    ) -> None:
        self._store, self._keeper, self._clock, self._bus = store, keeper, clock, bus
        self._config, self._default = config, default
        found = [_decoder.decode(value) for _, value in store.catalog.items(PREFIX)]
        self._topics = {topic.name: topic for topic in found}
        self._of_queue = {queue: topic for topic in found for queue in topic.queues}
        self._next_queue = 1 + max(self._of_queue, default=0)
        self._next_queue = max(self._next_queue, int(store.catalog.get("next_queue") or b"1"))
        self._belongings: list[FactsOf] = []

    def get(self, name: str) -> Topic:
        try:
            return self._topics[name]
        except KeyError:
            raise TopicNotFound(name) from None

    def find(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def has_queue(self, queue: int) -> bool:
        return queue in self._of_queue

    def owner(self, queue: int) -> tuple[Topic, int]:
        """The topic of a queue's number, and the queue's index in it."""
        topic = self._of_queue[queue]
        return topic, topic.queues.index(queue)

    def __iter__(self) -> Iterator[Topic]:
        return iter(sorted(self._topics.values(), key=lambda topic: topic.name))

    def __len__(self) -> int:
        return len(self._topics)

    def own(self, facts_of: FactsOf) -> None:
        """Facts that go with a topic when it is deleted, all at once."""
        self._belongings.append(facts_of)

    # --- changing -----------------------------------------------------------------------------------------------------

    async def create(self, name: str, settings: TopicSettings | None = None, system: bool = False) -> Topic:
        """A new topic; returns when it is durable."""
        topic = self.create_now(name, settings or TopicSettings(), system)
        await self._keeper.durable(self._store.end_position)
        return topic

    def create_now(self, name: str, settings: TopicSettings, system: bool = False) -> Topic:
        """As `create`, durable with the next sync: for a topic that a message brings into being."""
        check_name(name, self._config.topic_name_chars_max)
        if name in self._topics:
            raise TopicExists(name)
        if len(self._topics) >= self._config.topics_max:
            raise BadTopicSettings(name, f"there are {len(self._topics)} topics already, the limit (broker.topics_max)")
        topic = self._fresh(name, settings, system)
        self._check(topic)
        self._next_queue += len(topic.queues)
        self._store.create_queues(topic.queues, topic.durability, self._facts(topic))
        self._topics[name] = topic
        self._of_queue.update(dict.fromkeys(topic.queues, topic))
        self._bus.emit(TopicCreated(at_ms=self._clock.now_ms(), topic=name, queues=topic.queue_count))
        return topic

    def _fresh(self, name: str, settings: TopicSettings, system: bool) -> Topic:
        config = self._config
        write = _or(settings.write_queues, _or(settings.read_queues, config.topic_queues_default))
        read = _or(settings.read_queues, write)
        return Topic(
            name=name,
            queues=list(
                range(self._next_queue, self._next_queue + max(0, min(max(read, write), config.topic_queues_max)))
            ),
            read_queues=read,
            write_queues=write,
            permissions=_or(settings.permissions, READ | WRITE),
            durability=settings.durability or self._default,
            own_durability=settings.durability is not None,
            retention_ms=_or(settings.retention_ms, config.retention_ms),
            retention_bytes=_or(settings.retention_bytes, config.retention_bytes),
            created_ms=self._clock.now_ms(),
            system=system,
            attributes=settings.attributes or {},
        )

    def _check(self, topic: Topic) -> None:
        limit = self._config.topic_queues_max
        for what, number in (("read queues", topic.read_queues), ("write queues", topic.write_queues)):
            if not 0 <= number <= limit:
                raise BadTopicSettings(topic.name, f"{number} {what}, it must be 0 to {limit}")
        if topic.queue_count == 0:
            raise BadTopicSettings(topic.name, "it needs at least one queue")
        if topic.permissions & ~(READ | WRITE):
            raise BadTopicSettings(topic.name, f"permissions {topic.permissions}: 4 is read, 2 is write, 6 both")
        if topic.retention_ms < 0 or topic.retention_bytes < 0:
            raise BadTopicSettings(topic.name, "retention cannot be negative; 0 means for ever, or without limit")

    async def alter(self, name: str, settings: TopicSettings) -> Topic:
        """Change what is given; returns when it is durable."""
        if self.get(name).system:
            raise BadTopicSettings(name, "it is the broker's own and cannot be changed")
        topic = self.alter_now(name, settings)
        await self._keeper.durable(self._store.end_position)
        return topic

    def alter_now(self, name: str, settings: TopicSettings) -> Topic:
        """As `alter`, durable with the next sync."""
        old = self.get(name)
        own = old.own_durability or settings.durability is not None
        changes = {key: value for key, value in msgspec.structs.asdict(settings).items() if value is not None}
        topic = msgspec.structs.replace(old, **changes, own_durability=own)
        self._check(topic)
        self._put(topic)
        shown = {key: str(value) for key, value in changes.items()}
        self._bus.emit(TopicChanged(at_ms=self._clock.now_ms(), topic=name, changes=shown))
        return topic

    def follow(self) -> int:
        """Topics that were given no durability of their own have the broker's, also where that has changed; how many
        these were.
        """
        every = self._topics.values()
        others = [topic for topic in every if not topic.own_durability and topic.durability is not self._default]
        for topic in others:
            self._put(msgspec.structs.replace(topic, durability=self._default))
        return len(others)

    def _put(self, topic: Topic) -> None:
        """In the place of the one of that name, with the queues that it lacks."""
        old = topic.queues
        fresh = list(range(self._next_queue, self._next_queue + topic.queue_count - len(old)))
        topic.queues = [*old, *fresh]
        self._next_queue += len(fresh)
        self._store.create_queues(fresh, topic.durability, self._facts(topic), others=old)
        self._topics[topic.name] = topic
        self._of_queue.update(dict.fromkeys(topic.queues, topic))

    async def delete(self, name: str) -> None:
        """The topic and all its messages are gone; returns when that is durable."""
        if self.get(name).system:
            raise BadTopicSettings(name, "it is the broker's own and cannot be deleted")
        self.delete_now(name)
        await self._keeper.durable(self._store.end_position)

    def delete_now(self, name: str) -> None:
        """As `delete`, durable with the next sync, and also for topics of the broker's own."""
        topic = self.get(name)
        keys = [PREFIX + name, *(key for facts_of in self._belongings for key in facts_of(name))]
        self._store.drop_queues(topic.queues, dict.fromkeys(keys))
        del self._topics[name]
        for queue in topic.queues:
            del self._of_queue[queue]
        self._bus.emit(TopicDeleted(at_ms=self._clock.now_ms(), topic=name))

    def _facts(self, topic: Topic) -> dict[str, bytes]:
        return {PREFIX + topic.name: msgspec.json.encode(topic), "next_queue": b"%d" % self._next_queue}


def _or(value: int | None, default: int) -> int:
    return default if value is None else value
