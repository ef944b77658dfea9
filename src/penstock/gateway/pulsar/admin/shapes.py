"""Policies as Pulsar's tools write them, and as they are kept: a shape for each, and the names that each goes by."""

from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import msgspec

from penstock.core.policies import Creation, Delaying, Policies, Quota, Rate, Reaction, Retention
from penstock.gateway.pulsar.admin.answers import Declined
from penstock.gateway.pulsar.admin.cluster import CLUSTER
from penstock.model import SchemaStrategy

MINUTE_MS, MIB = 60_000, 1 << 20
PARTITIONED, NOT_PARTITIONED = "partitioned", "non-partitioned"

Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]
Whole = Annotated[int, msgspec.Meta(ge=-1, le=1 << 53)]  # -1: without limit

_REACTIONS = {
    "producer_request_hold": Reaction.HOLD,
    "producer_exception": Reaction.REFUSE,
    "consumer_backlog_eviction": Reaction.EVICT,
}
_WORDS = {reaction: word for word, reaction in _REACTIONS.items()}


class RetentionShape(msgspec.Struct, rename="camel"):
    retention_time_in_minutes: Whole = 0
    size_mib: Whole = msgspec.field(default=0, name="retentionSizeInMB")


class QuotaShape(msgspec.Struct, rename="camel"):
    limit: int | None = None  # as older tools say limitSize
    limit_size: int | None = None
    limit_time: int | None = None
    policy: str = "producer_request_hold"


class RateShape(msgspec.Struct):
    count: int = msgspec.field(default=-1, name="subscribeThrottlingRatePerConsumer")
    period_s: Annotated[int, msgspec.Meta(gt=0, le=86_400)] = msgspec.field(default=30, name="ratePeriodInSecond")


class DelayShape(msgspec.Struct):
    active: bool = True
    tick_ms: Count = msgspec.field(default=1_000, name="tickTime")
    delay_ms_max: Count = msgspec.field(default=0, name="maxDeliveryDelayInMillis")


class CreationShape(msgspec.Struct):
    allowed: bool = msgspec.field(default=True, name="allowAutoTopicCreation")
    kind: str | None = msgspec.field(default=None, name="topicType")
    partitions: int | None = msgspec.field(default=None, name="defaultNumPartitions")


class SubscriptionShape(msgspec.Struct):
    allowed: bool = msgspec.field(default=True, name="allowAutoSubscriptionCreation")


# --- from one to the other --------------------------------------------------------------------------------------------


def _retention(given: RetentionShape) -> Retention:
    minutes, size_mib = given.retention_time_in_minutes, given.size_mib
    if (minutes == 0) != (size_mib == 0):
        raise Declined(412, "a retention of 0 in one is one of 0 in both: say -1 for no limit")
    return Retention(None if minutes < 0 else minutes * MINUTE_MS, None if size_mib < 0 else size_mib * MIB)


def _shown_retention(kept: Retention) -> object:
    minutes = -1 if kept.time_ms is None else kept.time_ms // MINUTE_MS
    size_mib = -1 if kept.size_bytes is None else kept.size_bytes // MIB
    return {"retentionTimeInMinutes": minutes, "retentionSizeInMB": size_mib}


def _reaction(given: QuotaShape) -> Reaction:
    if given.policy not in _REACTIONS:
        raise Declined(412, f"the policy of a quota is one of {', '.join(_REACTIONS)}")
    return _REACTIONS[given.policy]


def _size_quota(given: QuotaShape) -> Quota:
    limit = given.limit if given.limit_size is None else given.limit_size
    return Quota(-1 if limit is None else max(limit, -1), _reaction(given))


def _age_quota(given: QuotaShape) -> Quota:
    return Quota(-1 if given.limit_time is None else max(given.limit_time, -1), _reaction(given))


def _shown_size_quota(kept: Quota) -> object:
    return {"limit": kept.limit, "limitSize": kept.limit, "limitTime": -1, "policy": _WORDS[kept.reaction]}


def _shown_age_quota(kept: Quota) -> object:
    return {"limit": -1, "limitSize": -1, "limitTime": kept.limit, "policy": _WORDS[kept.reaction]}


def _creation(given: CreationShape) -> Creation:
    if given.kind not in (None, PARTITIONED, NOT_PARTITIONED):
        raise Declined(412, f"topicType is {PARTITIONED} or {NOT_PARTITIONED}")
    if given.kind != PARTITIONED:
        return Creation(given.allowed, 0)
    if given.partitions is None or not 0 < given.partitions <= 1_024:
        raise Declined(412, "defaultNumPartitions is from 1 to 1024")
    return Creation(given.allowed, given.partitions)


def _shown_creation(kept: Creation) -> object:
    kind = {"topicType": PARTITIONED if kept.partitions else NOT_PARTITIONED}
    partitions = {"defaultNumPartitions": kept.partitions} if kept.partitions else {}
    return {"allowAutoTopicCreation": kept.allowed} | kind | partitions


def _same(value: Any) -> Any:
    return value


class Shape(NamedTuple):
    """`given` is what a body has to be, `kept` makes of it what is kept, `shown` the opposite."""

    field: str
    given: Any
    kept: Callable[[Any], object] = _same
    shown: Callable[[Any], object] = _same

    def taken(self, value: object) -> object:
        """From something that was JSON."""
        try:
            return self.kept(msgspec.convert(value, self.given))
        except msgspec.ValidationError as error:
            raise Declined(412, f"the policy is not what is expected here: {error}") from None


TTL = Shape("ttl_s", Count)
RETENTION = Shape("retention", RetentionShape, _retention, _shown_retention)
SIZE_QUOTA = Shape("size_quota", QuotaShape, _size_quota, _shown_size_quota)
AGE_QUOTA = Shape("age_quota", QuotaShape, _age_quota, _shown_age_quota)
DEDUPLICATION = Shape("deduplication", bool)
UNACKED_PER_CONSUMER = Shape("unacked_per_consumer_max", Count)
UNACKED_PER_SUBSCRIPTION = Shape("unacked_per_subscription_max", Count)
PRODUCERS = Shape("producers_max", Count)
CONSUMERS = Shape("consumers_max", Count)
CONSUMERS_PER_SUBSCRIPTION = Shape("consumers_per_subscription_max", Count)
SUBSCRIPTIONS = Shape("subscriptions_max", Count)
MESSAGE_BYTES = Shape("message_bytes_max", Count)
COMPACTION = Shape("compaction_threshold_bytes", Count)
SUBSCRIBE_RATE = Shape(
    "subscribe_rate",
    RateShape,
    lambda given: Rate(given.count, given.period_s),
    lambda kept: {"subscribeThrottlingRatePerConsumer": kept.count, "ratePeriodInSecond": kept.period_s},
)
DELAYING = Shape(
    "delaying",
    DelayShape,
    lambda given: Delaying(given.active, given.tick_ms, given.delay_ms_max),
    lambda kept: {"tickTime": kept.tick_ms, "active": kept.active, "maxDeliveryDelayInMillis": kept.delay_ms_max},
)
TOPIC_CREATION = Shape("topic_creation", CreationShape, _creation, _shown_creation)
SUBSCRIPTION_CREATION = Shape(
    "subscription_creation",
    SubscriptionShape,
    lambda given: given.allowed,
    lambda kept: {"allowAutoSubscriptionCreation": kept},
)
STRATEGY = Shape(
    "schema_strategy",
    SchemaStrategy,
    lambda given: None if given is SchemaStrategy.UNDEFINED else given,
    lambda kept: kept or SchemaStrategy.UNDEFINED,
)
VALIDATION = Shape("schema_validation", bool, lambda given: given or None, bool)  # what is true for the broker stays so
AUTO_UPDATE = Shape("schema_auto_update", bool)

QUOTAS = {"destination_storage": SIZE_QUOTA, "message_age": AGE_QUOTA}
# By the last part of a path.
OF_BOTH = {
    "messageTTL": TTL,
    "retention": RETENTION,
    "subscribeRate": SUBSCRIBE_RATE,
    "delayedDelivery": DELAYING,
    "compactionThreshold": COMPACTION,
    "maxConsumersPerSubscription": CONSUMERS_PER_SUBSCRIPTION,
    "maxSubscriptionsPerTopic": SUBSCRIPTIONS,
    "autoSubscriptionCreation": SUBSCRIPTION_CREATION,
}
OF_TOPIC = OF_BOTH | {
    "deduplicationEnabled": DEDUPLICATION,
    "maxUnackedMessagesOnConsumer": UNACKED_PER_CONSUMER,
    "maxUnackedMessagesOnSubscription": UNACKED_PER_SUBSCRIPTION,
    "maxProducers": PRODUCERS,
    "maxConsumers": CONSUMERS,
    "maxMessageSize": MESSAGE_BYTES,
}
OF_NAMESPACE = OF_BOTH | {
    "deduplication": DEDUPLICATION,
    "maxUnackedMessagesPerConsumer": UNACKED_PER_CONSUMER,
    "maxUnackedMessagesPerSubscription": UNACKED_PER_SUBSCRIPTION,
    "maxProducersPerTopic": PRODUCERS,
    "maxConsumersPerTopic": CONSUMERS,
    "autoTopicCreation": TOPIC_CREATION,
}
# As all policies of a namespace are told, and given when it is made.
TOGETHER = {
    "message_ttl_in_seconds": TTL,
    "retention_policies": RETENTION,
    "deduplicationEnabled": DEDUPLICATION,
    "max_unacked_messages_per_consumer": UNACKED_PER_CONSUMER,
    "max_unacked_messages_per_subscription": UNACKED_PER_SUBSCRIPTION,
    "max_producers_per_topic": PRODUCERS,
    "max_consumers_per_topic": CONSUMERS,
    "max_consumers_per_subscription": CONSUMERS_PER_SUBSCRIPTION,
    "max_subscriptions_per_topic": SUBSCRIPTIONS,
    "compaction_threshold": COMPACTION,
    "delayed_delivery_policies": DELAYING,
    "autoTopicCreationOverride": TOPIC_CREATION,
    "autoSubscriptionCreationOverride": SUBSCRIPTION_CREATION,
    "schema_compatibility_strategy": STRATEGY,
    "schema_validation_enforced": VALIDATION,
    "is_allow_auto_update_schema": AUTO_UPDATE,
}


def quotas_shown(policies: Policies) -> dict[str, object]:
    kept = {name: (shape, getattr(policies, shape.field)) for name, shape in QUOTAS.items()}
    return {name: shape.shown(quota) for name, (shape, quota) in kept.items() if quota is not None}


def all_shown(policies: Policies) -> dict[str, object]:
    """What a namespace has set, by Pulsar's names."""
    shown: dict[str, object] = {"backlog_quota_map": quotas_shown(policies)}
    for name, shape in TOGETHER.items():
        value = getattr(policies, shape.field)
        if value is not None:
            shown[name] = shape.shown(value)
    if policies.subscribe_rate is not None:
        shown["clusterSubscribeRate"] = {CLUSTER: SUBSCRIBE_RATE.shown(policies.subscribe_rate)}
    return shown


def all_taken(given: dict[str, object]) -> dict[str, object]:
    """The opposite: what is to be kept, by field. Clients send all names, most of them with nothing."""
    changes = {shape.field: shape.taken(given[name]) for name, shape in TOGETHER.items() if given.get(name) is not None}
    for name, quota in as_words(given.get("backlog_quota_map")).items():
        if name in QUOTAS:
            changes[QUOTAS[name].field] = QUOTAS[name].taken(quota)
    rate = as_words(given.get("clusterSubscribeRate")).get(CLUSTER)
    if rate is not None:
        changes[SUBSCRIBE_RATE.field] = SUBSCRIBE_RATE.taken(rate)
    return changes


def as_words(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
