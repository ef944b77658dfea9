"""Which subscriptions there are, and how far they are kept.

That a durable subscription exists is a fact of the catalog: once somebody has subscribed, nothing that is published
afterwards passes it by, whatever crashes. How far it is lies in the progress database and may lag a second: after a
crash the last acknowledgements are delivered again.

A subscription that is not durable lives in memory while it has consumers, and leaves nothing behind.
"""

from collections.abc import Callable, Container, Iterable, Iterator

import msgspec

from penstock.clock import Clock
from penstock.core.compaction import Compaction
from penstock.core.events import Bus, Event, TopicDeleted
from penstock.core.fetch import Fetcher
from penstock.core.offsets import Progress
from penstock.core.subscriptions.compacted import CompactedReader
from penstock.core.subscriptions.cursor import Cursor, CursorState
from penstock.core.subscriptions.feeder import Feeder, Insight
from penstock.core.subscriptions.subscription import Limits, Style, Subscription
from penstock.core.waits import Waits
from penstock.errors import SubscriptionExists, SubscriptionNotFound, TooManySubscriptions
from penstock.store.keeper import Keeper
from penstock.store.store import Store

PREFIX = "subscription/"
KIND = "cursor"
RUNS_MAX = 10_000  # acknowledged runs beyond the mark that are kept


class Kept(msgspec.Struct):
    """The fact that a durable subscription exists."""

    queue: int
    name: str
    row: int  # where it began
    created_ms: int
    properties: dict[str, str] = {}


class Attached(msgspec.Struct, eq=False):
    """A subscription and who reads for it."""

    subscription: Subscription
    feeder: Feeder
    queue: int
    durable: bool
    properties: dict[str, str]
    created_ms: int


Gone = Callable[[Attached], None]


class Place(msgspec.Struct, frozen=True):
    """A queue, as its topic calls it."""

    queue: int
    topic: str
    partition: int = -1


LimitsAt = Callable[[int], Limits]

_decoder = msgspec.json.Decoder(Kept)
_states = msgspec.msgpack.Decoder(CursorState)


class Subscriptions:
    def __init__(
        self,
        store: Store,
        keeper: Keeper,
        progress: Progress,
        fetcher: Fetcher,
        waits: Waits,
        clock: Clock,
        bus: Bus,
        subscriptions_max: int,
        ended: Container[int] = (),
        compaction: Compaction | None = None,
    ) -> None:
        self._ended, self._compaction = ended, compaction
        self._store, self._keeper, self._progress = store, keeper, progress
        self._fetcher, self._waits, self._clock, self._max = fetcher, waits, clock, subscriptions_max
        self._of: dict[int, dict[str, Attached]] = {}
        self._kept: dict[int, dict[str, Kept]] = {}  # the durable ones, by queue
        for _, value in store.catalog.items(PREFIX):
            kept = _decoder.decode(value)
            self._kept.setdefault(kept.queue, {})[kept.name] = kept
        self._count = sum(map(len, self._kept.values()))
        self._insight = Insight()
        self._gone: Gone = lambda attached: None
        self._limits_at: LimitsAt = lambda queue: Limits()
        self._changed: set[tuple[int, str]] = set()
        bus.listen(self._on_event)

    def serve(self, insight: Insight, limits_at: LimitsAt, gone: Gone = lambda attached: None) -> None:
        """How a gateway looks into entries, the limits at a queue, and what is done with those whose topic is gone."""
        self._insight, self._limits_at, self._gone = insight, limits_at, gone

    def limit(self) -> None:
        """Limits have changed."""
        for names in self._of.values():
            for attached in names.values():
                attached.subscription.limit(self._limits(attached.queue, attached.durable))
                attached.feeder.wake()

    def _limits(self, queue: int, durable: bool) -> Limits:
        """A consumer of a subscription that is not durable may have any number of messages in hand."""
        limits = self._limits_at(queue)
        return limits if durable else msgspec.structs.replace(limits, unacked_per_consumer_max=0)

    # --- finding ------------------------------------------------------------------------------------------------------

    def find(self, place: Place, name: str, style: Style | None = None) -> Attached | None:
        """One that is there; a durable one is taken up from where it was kept."""
        found = self._of.get(place.queue, {}).get(name)
        kept = self._kept.get(place.queue, {}).get(name)
        if found is None and kept is not None:
            found = self._attach(place, name, self._cursor(kept), style or Style(), kept)
        return found

    def _cursor(self, kept: Kept) -> Cursor:
        """Of one that nobody has asked for yet."""
        state = self._progress.get(KIND, _key(kept.queue, kept.name))
        return Cursor.of(_states.decode(state)) if state is not None else Cursor(kept.row)

    def get(self, place: Place, name: str) -> Attached:
        found = self.find(place, name)
        if found is None:
            raise SubscriptionNotFound(name, place.topic)
        return found

    def of(self, place: Place) -> Iterator[Attached]:
        """All subscriptions of a queue."""
        names = self._kept.get(place.queue, {}).keys() | self._of.get(place.queue, {}).keys()
        for name in sorted(names):
            yield self.get(place, name)

    def first_unacked(self, queue: int) -> int | None:
        """The first row that a durable subscription of this queue still needs; None when there is none."""
        return min(map(self._mark, self._kept.get(queue, {}).values()), default=None)

    def pass_over(self, queue: int, row: int) -> int:
        """Everything below a row counts as acknowledged, for every durable subscription; how many entries that are."""
        passed = 0
        for kept in self._kept.get(queue, {}).values():
            if self._mark(kept) < row:
                passed += self._pass_over(kept, row)
        return passed

    def _pass_over(self, kept: Kept, row: int) -> int:
        attached = self._of.get(kept.queue, {}).get(kept.name)
        cursor = self._cursor(kept) if attached is None else attached.subscription.cursor
        passed = cursor.backlog(row)
        if attached is None:
            cursor.ack_until(row)
            self._keep(kept.queue, kept.name, cursor)
        else:
            attached.subscription.ack_until(row)
            self.touch(attached)
            attached.feeder.wake()
        return passed

    def _mark(self, kept: Kept) -> int:
        attached = self._of.get(kept.queue, {}).get(kept.name)
        if attached is not None:
            return attached.subscription.cursor.mark
        state = self._progress.get(KIND, _key(kept.queue, kept.name))
        return kept.row if state is None else _states.decode(state).mark

    # --- creating and deleting ----------------------------------------------------------------------------------------

    async def create(
        self, place: Place, name: str, row: int, style: Style, properties: dict[str, str] | None = None
    ) -> Attached:
        """A durable one that begins at a row; returns when that is kept."""
        if self.find(place, name) is not None:
            raise SubscriptionExists(name, place.topic)
        if self._count >= self._max:
            raise TooManySubscriptions(self._max)
        kept = Kept(place.queue, name, row, self._clock.now_ms(), properties or {})
        self._store.put_facts({_fact(place.queue, name): msgspec.json.encode(kept)})
        self._kept.setdefault(place.queue, {})[name] = kept
        self._count += 1
        attached = self._attach(place, name, Cursor(row), style, kept)
        await self._keeper.durable(self._store.end_position)
        return attached

    async def settled(self) -> None:
        """Until what was created so far is durable."""
        await self._keeper.durable(self._store.end_position)

    def create_transient(self, place: Place, name: str, row: int, style: Style) -> Attached:
        """One that lives as long as its consumers."""
        if self.find(place, name) is not None:
            raise SubscriptionExists(name, place.topic)
        return self._attach(place, name, Cursor(row), style, None)

    def _attach(self, place: Place, name: str, cursor: Cursor, style: Style, kept: Kept | None) -> Attached:
        limits = self._limits(place.queue, kept is not None)
        subscription = Subscription(name, place.topic, place.partition, cursor, style, limits)
        feeder = self._feeder(subscription, place.queue)
        attached = Attached(
            subscription,
            feeder,
            place.queue,
            kept is not None,
            kept.properties if kept else {},
            kept.created_ms if kept else self._clock.now_ms(),
        )
        self._of.setdefault(place.queue, {})[name] = attached
        return attached

    def _feeder(self, subscription: Subscription, queue: int) -> Feeder:
        fetcher, waits, clock = self._fetcher, self._waits, self._clock
        compacted = CompactedReader(queue, self._compaction, fetcher) if self._compaction else None
        return Feeder(subscription, queue, fetcher, waits, clock, self._insight, self._ended, compacted)

    async def delete(self, attached: Attached) -> None:
        """It is gone, with its cursor; returns when that is durable."""
        name, queue = attached.subscription.name, attached.queue
        self.drop(attached)
        if self._kept.get(queue, {}).pop(name, None) is not None:
            self._count -= 1
            self._store.put_facts({_fact(queue, name): None})
            self._progress.put(KIND, _key(queue, name), None)
            self._changed.discard((queue, name))
            await self._keeper.durable(self._store.end_position)

    def drop(self, attached: Attached) -> None:
        """Out of memory: one that is not durable is gone with it."""
        attached.feeder.stop()
        names = self._of.get(attached.queue, {})
        if names.get(attached.subscription.name) is attached:
            del names[attached.subscription.name]

    async def set_properties(self, attached: Attached, properties: dict[str, str]) -> None:
        kept = self._kept[attached.queue][attached.subscription.name]
        kept.properties = attached.properties = properties
        self._store.put_facts({_fact(kept.queue, kept.name): msgspec.json.encode(kept)})
        await self._keeper.durable(self._store.end_position)

    def _on_event(self, event: Event) -> None:
        """With a topic go its subscriptions."""
        if isinstance(event, TopicDeleted):
            gone = {queue for queue in self._kept if not self._store.has_queue(queue)}
            self._forget(gone | {queue for queue in self._of if not self._store.has_queue(queue)})

    def _forget(self, queues: Iterable[int]) -> None:
        for queue in queues:
            for attached in list(self._of.pop(queue, {}).values()):
                attached.feeder.stop()
                self._gone(attached)
            for name in self._kept.pop(queue, {}):
                self._count -= 1
                self._store.put_facts({_fact(queue, name): None})
                self._progress.put(KIND, _key(queue, name), None)

    # --- keeping ------------------------------------------------------------------------------------------------------

    def touch(self, attached: Attached) -> None:
        """Its cursor has moved: it is kept with the next chores."""
        if attached.durable:
            self._changed.add((attached.queue, attached.subscription.name))

    def keep(self) -> None:
        """Hand what has moved to the progress database."""
        changed, self._changed = self._changed, set()
        for queue, name in changed:
            attached = self._of.get(queue, {}).get(name)
            if attached is not None:
                self._keep(queue, name, attached.subscription.cursor)

    def _keep(self, queue: int, name: str, cursor: Cursor) -> None:
        self._progress.put(KIND, _key(queue, name), msgspec.msgpack.encode(cursor.state(RUNS_MAX)))

    def stop(self) -> None:
        for names in self._of.values():
            for attached in names.values():
                attached.feeder.stop()
        self.keep()


def _fact(queue: int, name: str) -> str:
    return f"{PREFIX}{queue}/{name}"


def _key(queue: int, name: str) -> str:
    return f"{queue}\t{name}"
