"""What operators see, whatever the engine: topics, groups, lag, messages, resets. Values only."""

import msgspec

NORMAL, RETRY, DEAD, SYSTEM = "normal", "retry", "dead", "system"
CLUSTER, BROADCAST = "cluster", "broadcast"


class Topic(msgspec.Struct):
    """A line of a list of topics."""

    name: str
    kind: str
    brokers: list[str]
    queues: int  # that can be read, of all brokers
    permissions: str  # r, w, rw or nothing


class Share(msgspec.Struct):
    """What one broker has of a topic."""

    broker: str
    read_queues: int
    write_queues: int
    permissions: str


class Queue(msgspec.Struct):
    broker: str
    queue: int
    min_offset: int
    max_offset: int
    last_ms: int  # when the last message was stored; 0 when there is none

    @property
    def messages(self) -> int:
        return self.max_offset - self.min_offset


class TopicDetail(msgspec.Struct):
    name: str
    kind: str
    shares: list[Share]
    queues: list[Queue]
    groups: list[str]  # that consume it, or have


class Group(msgspec.Struct):
    """A line of a list of groups."""

    name: str
    members: int  # online
    model: str  # cluster or broadcast; empty while nobody is online


class Member(msgspec.Struct):
    client_id: str
    address: str
    language: str
    version: int
    queues: list[str] | None  # None: it does not say


class Subscription(msgspec.Struct):
    topic: str
    expression: str
    kind: str
    version: int


class Twins(msgspec.Struct):
    """Instances with one ClientID: each takes the share of the first, and nobody that of the second."""

    client_id: str
    addresses: list[str]
    read_twice: list[str]  # queues, as one of them says


class Unread(msgspec.Struct):
    """A queue that no member of a group reads, though some are online."""

    topic: str
    broker: str
    queue: int
    lag: int
    growth: int | None = None  # messages, between two looks


class GroupDetail(msgspec.Struct):
    name: str
    model: str
    members: list[Member]
    subscriptions: list[Subscription]
    lag: int
    settings: dict[str, object]
    twins: list[Twins] = []
    unread: list[Unread] = []
    looked_s: float = 0  # how far the two looks lie apart


class Lag(msgspec.Struct):
    """How far a group, or an instance of a broadcast group, is behind in a queue."""

    group: str
    topic: str
    broker: str
    queue: int
    owners: list[str]  # ClientIDs, one per connection: more than one reads the queue twice, none leaves it unread
    committed: int
    end: int
    last_ms: int  # when the last message was stored that has been consumed; 0 when that is not known
    broadcast: bool = False  # it is one instance's
    growth: int | None = None  # messages, between two looks

    @property
    def lag(self) -> int:
        return max(self.end - self.committed, 0)


class Message(msgspec.Struct):
    """A message as it is stored."""

    topic: str
    broker: str
    queue: int
    offset: int
    id: str
    offset_id: str
    tags: str
    keys: str
    properties: dict[str, str]
    body: bytes
    born_ms: int
    store_ms: int
    reconsume_times: int


class Outgoing(msgspec.Struct):
    """A message to send."""

    topic: str
    body: bytes
    tags: str = ""
    keys: str = ""
    properties: dict[str, str] = {}
    delay_ms: int = 0


class Receipt(msgspec.Struct):
    """Where a message has gone."""

    id: str
    offset_id: str
    topic: str
    broker: str
    queue: int
    offset: int


class ResetRow(msgspec.Struct):
    """What a reset does to one queue."""

    broker: str
    queue: int
    min_offset: int
    max_offset: int
    now: int | None  # None: the group has no offset there, or nobody says
    target: int

    @property
    def moves(self) -> int | None:
        """How many messages are skipped, or (negative) read again."""
        return None if self.now is None else self.target - self.now


class ResetPlan(msgspec.Struct):
    """What a reset would do. `way` is the engine's; `by` is who wants it, for the record."""

    group: str
    topic: str
    to: str
    model: str
    members: int
    rows: list[ResetRow]
    way: str
    time_ms: int = -1
    by: str = ""


class ResetDone(msgspec.Struct):
    """What became of one queue: what the engine says it has set, and what it says when asked again."""

    broker: str
    queue: int
    target: int
    set_to: int | None
    reads: int | None

    @property
    def as_planned(self) -> bool:
        return self.set_to == self.target


class ResetInstance(msgspec.Struct):
    """An instance that was told of a reset."""

    client_id: str
    address: str
    queues_confirmed: int
    queues: int

    @property
    def confirmed(self) -> bool:
        return self.queues_confirmed >= self.queues


class ResetResult(msgspec.Struct):
    queues: list[ResetDone]
    instances: list[ResetInstance]  # of a broadcast group
    away: list[str] = []  # ClientIDs of instances that were there within a week, and could not be told

    @property
    def confirmed(self) -> bool:
        """By all who were told."""
        return all(one.confirmed for one in self.instances)

    @property
    def as_planned(self) -> bool:
        """That somebody was away who may never come back is no failure, as long as anybody was told."""
        told = bool(self.instances) or not self.away
        return told and self.confirmed and all(one.as_planned for one in self.queues)
