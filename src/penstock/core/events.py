"""What happens in the broker, as typed events: the doctor, the statistics and the health pipeline live on them.

One struct per kind. Each is handed to whoever listens on the bus, and appended as JSON to the system topic
`penstock_events`, in batches, off the hot path. `docs/events.md` describes every kind and field.

The bus never holds anybody up: a listener that raises is logged and the others are still told; when events come faster
than they can be appended, the surplus is counted in `dropped` and shown in the metrics.
"""

from collections.abc import Callable

import msgspec

from penstock import logs

log = logs.get(__name__)

EVENTS_TOPIC = "penstock_events"


class Event(msgspec.Struct, kw_only=True, tag_field="kind", tag=True):
    """`at_ms` is when it happened. The kind is the class's name."""

    at_ms: int


class BrokerStarted(Event):
    version: str
    clean: bool  # whether the last stop was a clean one
    rebuilt: bool  # whether the tables were rebuilt from the log
    replayed_entries: int
    cut_bytes: int
    damaged_ranges: int


class BrokerStopping(Event):
    pass


class LogReadOnly(Event):
    why: str


class DamageFound(Event):
    position: int
    length_bytes: int
    why: str


class TopicCreated(Event):
    topic: str
    queues: int


class TopicChanged(Event):
    topic: str
    changes: dict[str, str]


class TopicDeleted(Event):
    topic: str


class QueueTrimmed(Event):
    """Retention took messages from the front of a queue."""

    topic: str
    queue: int
    from_offset: int
    to_offset: int


class StageCommitted(Event):
    key: str
    stages: int
    messages: int


class StageExpired(Event):
    stage: str
    messages: int


class HalfGivenUp(Event):
    topic: str
    producer_group: str
    message_id: str
    asks: int  # how often the producer was asked


class ProgressDamaged(Event):
    what: str


class QueueMinute(Event):
    """A minute of a queue that something was published to."""

    topic: str
    queue: int
    messages: int
    bytes: int
    max_offset: int


class ProducerMinute(Event):
    """A minute of a producer group on a topic."""

    group: str
    topic: str
    messages: int
    bytes: int


class GroupMinute(Event):
    """A minute of a consumer group on a topic."""

    group: str
    topic: str
    messages: int  # that it was given
    bytes: int
    sent_back: int  # messages that it could not do with


class LagMinute(Event):
    """How far a group is behind on a topic, and who reads its queues."""

    group: str
    topic: str
    members: int  # connections in the group
    lag: int  # messages, of all queues
    produced: int  # since the last look
    consumed: int  # since the last look; negative when offsets went back
    over_ms: int  # since the last look; 0: this is the first
    unread: list[int]  # queues with messages that nobody asks for
    read_twice: list[int]  # queues that more than one connection reads


class MemberJoined(Event):
    group: str
    client_id: str
    address: str
    language: str
    members: int  # connections in the group, with this one


class MemberDoubled(Event):
    """Two connections with one ClientID: both take the same share of the queues, another share has no reader. Told when
    it begins and every minute while it lasts.
    """

    group: str
    client_id: str
    addresses: list[str]


class MemberLeft(Event):
    group: str
    client_id: str
    why: str
    members: int  # connections left in the group


class GroupGone(Event):
    """The last member left."""

    group: str


class GroupSet(Event):
    """An operator has set a group."""

    group: str
    changes: dict[str, str]  # what is other than before


class GroupDeleted(Event):
    """An operator has taken back what was set for a group."""

    group: str


class SubscriptionChanged(Event):
    """A group subscribes to something else: another topic, or other tags. Empty: not at all."""

    group: str
    client_id: str
    topic: str
    before: str
    after: str


NOT_LATEST = 25  # RocketMQ's code for a version that is too new, which is how everybody knows it


class PullRefused(Event):
    """A pull was refused: with a newer version of its subscription than the broker knows, or for what `code` says."""

    group: str
    client_id: str
    topic: str
    pull_version: int
    known_version: int
    code: int = NOT_LATEST


class RefusalsOver(Event):
    """A member whose pulls were refused is served again."""

    group: str
    client_id: str
    topic: str
    since_ms: int  # the first refusal
    refusals: int


class RebalanceSeen(Event):
    """A member owns other queues than before: it took a new version of a subscription that asks for the same."""

    group: str
    client_id: str
    topic: str
    version_before: int
    version: int


class DeadLetter(Event):
    """A message that a group could not do with was given up: it went to a topic of the group's own."""

    group: str
    topic: str  # where it was published
    message_id: str
    tries: int
    dead_letter_topic: str


class OffsetMoved(Event):
    """A pull asked for an offset outside the queue and was corrected."""

    group: str
    client_id: str
    topic: str
    queue: int
    asked_offset: int
    corrected_offset: int


class ResetAsked(Event):
    """An operator resets a group's offsets."""

    group: str
    topic: str
    broadcast: bool
    targets: dict[str, str]  # offset by queue
    before: dict[str, str] = {}  # offset by queue, where there was one
    by: str = ""  # who wanted it, as their tool says


class ResetTold(Event):
    """A connection is told of a reset, by a request or by its pulls."""

    group: str
    topic: str
    client_id: str
    address: str


class ResetConfirmed(Event):
    """A connection has pulled at the new offset."""

    group: str
    topic: str
    queue: int
    address: str


class ResetSilent(Event):
    """Two minutes after a reset an instance has asked for none of the new offsets."""

    group: str
    topic: str
    client_id: str
    address: str  # empty: it was not connected
    told: bool  # false: it was away when the reset was asked for
    asked_ms: int


Listener = Callable[[Event], None]


class Bus:
    def __init__(self, pending_max: int) -> None:
        self._listeners: list[Listener] = []
        self._pending: list[Event] = []
        self._pending_max = pending_max
        self.dropped = 0

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Be told of every event; call what comes back to stop that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def emit(self, event: Event) -> None:
        for listener in list(self._listeners):
            try:
                listener(event)
            except Exception:
                log.exception("a listener failed on an event", kind=type(event).__name__)
        if len(self._pending) < self._pending_max:
            self._pending.append(event)
        else:
            self.dropped += 1

    def take(self) -> list[Event]:
        """What was emitted since the last time, to be appended."""
        pending, self._pending = self._pending, []
        return pending

    def put_back(self, events: list[Event]) -> None:
        """They could not be appended: try again later, as far as there is room."""
        room = max(0, self._pending_max - len(self._pending))
        self.dropped += max(0, len(events) - room)
        self._pending[:0] = events[:room]
