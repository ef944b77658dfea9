"""Policies: what operators have set for a namespace or a topic, and what holds for a topic after all.

Each is a fact of the catalog. A topic's own policy goes before its namespace's, and that before the defaults; None
means that nothing was set. Which namespace a topic is in, and what the defaults are, is told by the gateway that has
namespaces (`serve`): topics elsewhere have no policies.

Only kept and merged here. Obeyed by `upkeep` (expiry, quotas), `retention`, `subscriptions` and the gateway.
"""

import enum
from collections.abc import Callable

import msgspec

from penstock.core.events import Bus, Event, TopicCreated, TopicDeleted
from penstock.core.topics import Topics
from penstock.model import SchemaStrategy
from penstock.store.keeper import Keeper
from penstock.store.store import Store

NAMESPACE, TOPIC = "policies/namespace/", "policies/topic/"


class Retention(msgspec.Struct, frozen=True):
    """How long, and how much, is kept of what nobody needs any more; None: without limit. 0 and 0: nothing."""

    time_ms: int | None = None
    size_bytes: int | None = None


class Reaction(enum.StrEnum):
    """What is done when a backlog is above its quota."""

    HOLD = "hold"  # producers wait
    REFUSE = "refuse"  # producers get an error
    EVICT = "evict"  # the oldest messages count as consumed


class Quota(msgspec.Struct, frozen=True):
    limit: int  # bytes, or seconds; below 0: none
    reaction: Reaction = Reaction.HOLD


class Rate(msgspec.Struct, frozen=True):
    """So many in each period; `count` of 0 or less: any number."""

    count: int
    period_s: int = 30


class Delaying(msgspec.Struct, frozen=True):
    """Whether messages may be delivered later, and how much later; 0: any time."""

    active: bool = True
    tick_ms: int = 1_000
    delay_ms_max: int = 0


class Creation(msgspec.Struct, frozen=True):
    """Whether whoever comes for a topic that is not there makes it, and with how many partitions; 0: without."""

    allowed: bool = True
    partitions: int = 0


class Policies(msgspec.Struct, kw_only=True, frozen=True, omit_defaults=True):
    """As they are kept. A limit of 0 is none."""

    ttl_s: int | None = None
    retention: Retention | None = None
    size_quota: Quota | None = None
    age_quota: Quota | None = None
    deduplication: bool | None = None
    unacked_per_consumer_max: int | None = None
    unacked_per_subscription_max: int | None = None
    producers_max: int | None = None
    consumers_max: int | None = None
    consumers_per_subscription_max: int | None = None
    subscriptions_max: int | None = None
    message_bytes_max: int | None = None
    subscribe_rate: Rate | None = None
    delaying: Delaying | None = None
    compaction_threshold_bytes: int | None = None
    topic_creation: Creation | None = None
    subscription_creation: bool | None = None
    schema_strategy: SchemaStrategy | None = None
    schema_validation: bool | None = None  # a producer has to have a schema where the topic has one
    schema_auto_update: bool | None = None  # a producer may bring a new one


FIELDS = Policies.__struct_fields__
NONE = Policies()
_decoder = msgspec.json.Decoder(Policies)


def merged(first: Policies, then: Policies) -> Policies:
    """What `first` says, and where it says nothing, what `then` says."""
    if first == NONE:
        return then
    chosen = {field: getattr(first, field) for field in FIELDS if getattr(first, field) is not None}
    return msgspec.structs.replace(then, **chosen)


class PolicyBook:
    def __init__(self, store: Store, keeper: Keeper, topics: Topics, bus: Bus) -> None:
        self._store, self._keeper, self._topics = store, keeper, topics
        self._kept = {
            key: _decoder.decode(value) for prefix in (NAMESPACE, TOPIC) for key, value in store.catalog.items(prefix)
        }
        self._applied: dict[str, Policies] = {}  # by topic, worked out when somebody asks
        self._namespace_of: Callable[[str], str | None] = lambda topic: None
        self._defaults = NONE
        self._changed: list[Callable[[], None]] = []
        bus.listen(self._on_event)

    def serve(self, namespace_of: Callable[[str], str | None], defaults: Policies) -> None:
        """How a gateway tells the namespace of a topic, and what holds where nothing is set."""
        self._namespace_of, self._defaults = namespace_of, defaults
        self._applied.clear()

    def on_change(self, call: Callable[[], None]) -> None:
        """Call it whenever policies have changed."""
        self._changed.append(call)

    # --- asking -------------------------------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        """Whether anything is set."""
        return bool(self._kept)

    def of_namespace(self, name: str) -> Policies:
        return self._kept.get(NAMESPACE + name, NONE)

    def of_topic(self, name: str) -> Policies:
        return self._kept.get(TOPIC + name, NONE)

    def in_namespace(self, name: str) -> Policies:
        """What holds for a topic of a namespace that has nothing set for itself."""
        return merged(self.of_namespace(name), self._defaults)

    def applied(self, topic: str) -> Policies:
        """What holds for a topic."""
        found = self._applied.get(topic)
        if found is None:
            namespace = self._namespace_of(topic)
            rest = self._defaults if namespace is None else self.in_namespace(namespace)
            found = merged(self.of_topic(topic), rest)
            if self._topics.find(topic) is not None:  # any other name may be anything
                self._applied[topic] = found
        return found

    def at(self, queue: int) -> Policies:
        """What holds for a queue."""
        return self.applied(self._topics.owner(queue)[0].name) if self._topics.has_queue(queue) else NONE

    # --- changing -----------------------------------------------------------------------------------------------------

    async def set_namespace(self, name: str, changes: dict[str, object]) -> None:
        """Set some, or forget them with None; returns when it is durable."""
        await self._set(NAMESPACE + name, changes)

    async def set_topic(self, name: str, changes: dict[str, object]) -> None:
        await self._set(TOPIC + name, changes)

    async def _set(self, key: str, changes: dict[str, object]) -> None:
        fresh = msgspec.structs.replace(self._kept.get(key, NONE), **changes)
        self._put({key: fresh})
        for call in self._changed:
            call()
        await self._keeper.durable(self._store.end_position)

    def _put(self, changes: dict[str, Policies]) -> None:
        self._store.put_facts(
            {key: None if fresh == NONE else msgspec.json.encode(fresh) for key, fresh in changes.items()}
        )
        self._kept.update(changes)
        for key in [key for key, fresh in changes.items() if fresh == NONE]:
            del self._kept[key]
        self._applied.clear()

    def forget_namespace(self, name: str) -> None:
        """It is being deleted."""
        if NAMESPACE + name in self._kept:
            self._put({NAMESPACE + name: NONE})

    def _on_event(self, event: Event) -> None:
        if isinstance(event, TopicCreated | TopicDeleted):
            self._applied.pop(event.topic, None)
            if isinstance(event, TopicDeleted) and TOPIC + event.topic in self._kept:
                self._put({TOPIC + event.topic: NONE})
