"""Every error that Penstock raises on purpose.

Each says in one sentence what was wrong and, where there is something to do, what to do. The core raises these; each
gateway maps them once to its protocol's codes. They carry their facts as attributes, so that nobody parses a sentence.
"""


class PenstockError(Exception):
    """The root: catch this to catch all of ours and nothing else."""


# --- configuration and start ------------------------------------------------------------------------------------------


class ConfigError(PenstockError):
    """A setting that is unknown, or has a value that cannot be used."""


class FolderInUse(PenstockError):
    def __init__(self, folder: str, owner: str) -> None:
        super().__init__(
            f"the data folder {folder} is in use by another broker ({owner}): stop it, or give this one another folder"
        )
        self.folder, self.owner = folder, owner


class FormatUnknown(PenstockError):
    def __init__(self, found: int, known: int) -> None:
        super().__init__(
            f"the data folder has format {found}, this version of penstock reads format {known}: "
            "use the version that wrote it, or a newer one"
        )
        self.found, self.known = found, known


class NotOurFolder(PenstockError):
    def __init__(self) -> None:
        super().__init__(
            "there is no log of penstock in this folder: give the one that `penstock serve --data` was given"
        )


# --- topics and queues ------------------------------------------------------------------------------------------------


class BadTopicName(PenstockError):
    def __init__(self, name: str, why: str) -> None:
        super().__init__(f"{name[:200]!r} is not a topic name: {why}")
        self.name = name


class BadTopicSettings(PenstockError):
    def __init__(self, topic: str, why: str) -> None:
        super().__init__(f"topic {topic!r} cannot be set so: {why}")
        self.topic = topic


class TopicNotFound(PenstockError):
    def __init__(self, name: str) -> None:
        super().__init__(f"topic {name!r} does not exist: create it first, or check the spelling")
        self.name = name


class TopicExists(PenstockError):
    def __init__(self, name: str) -> None:
        super().__init__(f"topic {name!r} exists already")
        self.name = name


class QueueNotFound(PenstockError):
    def __init__(self, what: str) -> None:
        super().__init__(f"queue {what} does not exist")


class OffsetOutOfRange(PenstockError):
    def __init__(self, queue_id: int, offset: int, minimum: int, maximum: int) -> None:
        super().__init__(f"offset {offset} is outside queue {queue_id}, which holds offsets {minimum} up to {maximum}")
        self.queue_id, self.offset, self.minimum, self.maximum = queue_id, offset, minimum, maximum


class TopicTerminated(PenstockError):
    def __init__(self) -> None:
        super().__init__("the topic was terminated: nothing is published to it any more; what it holds can be read")


class MessageTooLarge(PenstockError):
    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(
            f"a message of {size_bytes} bytes is above the limit of {limit_bytes}: split it or raise the limit"
        )
        self.size_bytes, self.limit_bytes = size_bytes, limit_bytes


class TooManyWaiting(PenstockError):
    def __init__(self, limit: int) -> None:
        super().__init__(f"{limit} consumers wait for messages already: try again later, or raise broker.waiters_max")


class IndexBusy(PenstockError):
    def __init__(self) -> None:
        super().__init__(
            "there is much to search, and it is not done yet: ask again, it goes on where it ended; "
            "a smaller range of time is quicker"
        )


class NotAuthorized(PenstockError):
    def __init__(self, who: str, action: str, resource: str) -> None:
        super().__init__(f"{who} may not {action} on {resource}")
        self.who, self.action, self.resource = who, action, resource


class NamespaceNotFound(PenstockError):
    def __init__(self, name: str) -> None:
        super().__init__(f"namespace {name[:200]!r} does not exist: create it first, or check the spelling")
        self.name = name


class NamespaceExists(PenstockError):
    def __init__(self, name: str) -> None:
        super().__init__(f"namespace {name!r} exists already")
        self.name = name


class TooManyNamespaces(PenstockError):
    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"there are {limit} {what} already, and no more are kept: delete some")
        self.limit = limit


class TenantNotFound(PenstockError):
    def __init__(self, name: str) -> None:
        super().__init__(f"tenant {name[:200]!r} does not exist: create it first, or check the spelling")
        self.name = name


class TenantExists(PenstockError):
    def __init__(self, name: str) -> None:
        super().__init__(f"tenant {name!r} exists already")
        self.name = name


# --- schemas ----------------------------------------------------------------------------------------------------------


class SchemaInvalid(PenstockError):
    def __init__(self, why: str) -> None:
        super().__init__(f"this is not a schema: {why}")


class SchemaIncompatible(PenstockError):
    """A schema that does not go with those that the topic has."""


class SchemaNotFound(PenstockError):
    def __init__(self, topic: str) -> None:
        super().__init__(f"topic {topic[:200]!r} does not have this schema")
        self.topic = topic


class TooManySchemas(PenstockError):
    def __init__(self, what: str, limit: int) -> None:
        super().__init__(f"the limit of {limit} is reached ({what}): delete what is not needed, or raise it")
        self.limit = limit


# --- producers --------------------------------------------------------------------------------------------------------


class ProducerBusy(PenstockError):
    """A producer's name, or its topic, is taken."""


class ProducerFenced(PenstockError):
    """Another producer has the topic for itself, or has had it since."""


class QuotaExceeded(PenstockError):
    """Nobody may publish before the backlog is shorter."""

    def __init__(self, what: str) -> None:
        super().__init__(f"the backlog of a subscription is above its quota of {what}: consume it, or raise the quota")


class QuotaHolds(QuotaExceeded):
    """The same, and producers are meant to wait."""


# --- groups -----------------------------------------------------------------------------------------------------------


class GroupNotOnline(PenstockError):
    def __init__(self, group: str) -> None:
        super().__init__(f"nobody of group {group!r} is connected: the next heartbeat mends that")
        self.group = group


class GroupNotExist(PenstockError):
    def __init__(self, group: str, topic: str) -> None:
        super().__init__(
            f"group not exist: {group!r} has no offset on any queue of {topic!r}, and is not known to broadcast"
        )
        self.group, self.topic = group, topic


class BadGroupSettings(PenstockError):
    def __init__(self, group: str, why: str) -> None:
        super().__init__(f"group {group[:200]!r} cannot be set so: {why}")
        self.group = group


class BadNote(PenstockError):
    def __init__(self, why: str) -> None:
        super().__init__(f"this cannot be kept: {why}")


class ConsumeForbidden(PenstockError):
    def __init__(self, group: str, why: str) -> None:
        super().__init__(f"group {group!r} may not consume: {why}")
        self.group = group


class NotSubscribed(PenstockError):
    def __init__(self, group: str, topic: str) -> None:
        super().__init__(
            f"group {group!r} does not subscribe to topic {topic!r}: do all its members subscribe to the same topics?"
        )
        self.group, self.topic = group, topic


class SubscriptionNotLatest(PenstockError):
    def __init__(self, group: str, topic: str, version: int, known: int) -> None:
        super().__init__("the consumer's subscription not latest")  # clients and operators know these words
        self.group, self.topic, self.version, self.known = group, topic, version, known


class CompactionRunning(PenstockError):
    def __init__(self) -> None:
        super().__init__("Compaction already in progress")  # as clients know it


# --- publishing -------------------------------------------------------------------------------------------------------


class StageNotFound(PenstockError):
    def __init__(self, stage: str) -> None:
        super().__init__(f"stage {stage!r} does not exist: it was never opened, was committed, or has expired")
        self.stage = stage


class StagesFull(PenstockError):
    def __init__(self, what: str, limit: int) -> None:
        super().__init__(
            f"no more can be staged: the limit of {limit} {what} is reached; commit or drop some, or raise it"
        )
        self.limit = limit


class SubscriptionNotFound(PenstockError):
    def __init__(self, name: str, topic: str) -> None:
        super().__init__(f"topic {topic!r} has no subscription {name!r}")
        self.name, self.topic = name, topic


class SubscriptionExists(PenstockError):
    def __init__(self, name: str, topic: str) -> None:
        super().__init__(f"topic {topic!r} has a subscription {name!r} already")
        self.name, self.topic = name, topic


class TooManySubscriptions(PenstockError):
    def __init__(self, limit: int) -> None:
        super().__init__(f"there are {limit} subscriptions already: delete some, or raise broker.subscriptions_max")
        self.limit = limit


class ConsumerBusy(PenstockError):
    """A consumer does not go with those who are there."""


class RangesOverlap(PenstockError):
    """The key ranges that a consumer brings along are not right."""


class TooManyHalves(PenstockError):
    def __init__(self, limit: int) -> None:
        super().__init__(
            f"{limit} half messages wait for the end of their transactions already: end some first, "
            "or raise rocketmq.half_messages_max"
        )
        self.limit = limit


class HalfNotOpen(PenstockError):
    def __init__(self, offset: int) -> None:
        super().__init__(f"the half message at offset {offset} is not open: it was ended before, or never was there")
        self.offset = offset


# --- the store --------------------------------------------------------------------------------------------------------


class StoreError(PenstockError):
    """The log could not do what was asked. Nothing was acknowledged."""


class StoreReadOnly(StoreError):
    def __init__(self, why: str) -> None:
        super().__init__(f"the log takes no more messages until the broker is restarted: {why}. Reading goes on")
        self.why = why


class DiskFull(StoreError):
    def __init__(self, detail: str) -> None:
        super().__init__(
            f"no space left on the disk ({detail}): nothing was stored; writing goes on once there is space"
        )


class StoreClosed(StoreError):
    def __init__(self) -> None:
        super().__init__("the store is closed")
