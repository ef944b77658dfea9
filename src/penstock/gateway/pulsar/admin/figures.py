"""The figures of a topic, in Pulsar's words: what is in it, who writes, who reads, and what holds them back.

True figures only: one that this broker does not have is left out, and not made up as 0. Beside Pulsar's own,
`heldBackBecause` says of a consumer why it gets nothing at the moment, `keptPermits` what it has asked for while it was
blocked, and `unackedEntries` what is in the hands of the one consumer that gets everything.
"""

from collections.abc import Iterator

from penstock.clock import Clock
from penstock.core.fetch import Fetcher
from penstock.core.policies import Policies, PolicyBook
from penstock.core.producers import Access, Producers
from penstock.core.subscriptions.registry import Attached, Subscriptions
from penstock.core.subscriptions.seats import Seat
from penstock.core.subscriptions.subscription import Kind, Subscription
from penstock.core.traffic import MINUTE_MS, Traffic
from penstock.gateway.pulsar.admin.peeked import time_of
from penstock.gateway.pulsar.consumer import Consumer
from penstock.gateway.pulsar.places import Place
from penstock.gateway.pulsar.producers import Producer
from penstock.gateway.pulsar.subscribing import spot_of

Figures = dict[str, object]

ACCESS_MODES = {
    Access.SHARED: "Shared",
    Access.EXCLUSIVE: "Exclusive",
    Access.WAIT: "WaitForExclusive",
    Access.FENCE: "ExclusiveWithFencing",
}


class TopicFigures:
    def __init__(
        self,
        producers: Producers,
        subscriptions: Subscriptions,
        fetcher: Fetcher,
        traffic: Traffic,
        clock: Clock,
        policies: PolicyBook,
    ) -> None:
        self._producers, self._subscriptions, self._fetcher = producers, subscriptions, fetcher
        self._traffic, self._clock, self._policies = traffic, clock, policies

    def of_queue(self, place: Place, owner: str, publishers: bool = True, consumers: bool = True) -> Figures:
        """Of a topic without partitions, or of one partition."""
        bounds, latest_ms = self._fetcher.bounds(place.queue), self._fetcher.latest_ms(place.queue)
        several = list(self._subscriptions.of(spot_of(place)))
        policies = self._policies.applied(place.topic.name)
        figures: Figures = {
            "msgInCounter": bounds.max_offset,
            "storageSize": self._fetcher.size_bytes(place.queue),
            "publishers": list(self._publishers(place.queue)) if publishers else [],
            "waitingPublishers": self._producers.waiting_at(place.queue),
            "subscriptions": {each.subscription.name: self._subscription(each, consumers) for each in several},
            "replication": {},
            "deduplicationStatus": "Enabled" if policies.deduplication else "Disabled",
            "ownerBroker": owner,
            "topicCreationTimeStamp": place.topic.created_ms,
        }
        figures |= quotas_of(policies)
        if latest_ms:
            figures["lastPublishTimeStamp"] = latest_ms
        return figures | self._oldest(several)

    def rates_of(self, topic: str) -> Figures:
        """What came in during the last minute. Counted by topic: a partition alone has none."""
        minute = self._traffic.produced.sums(self._clock.now_ms(), lambda pair: pair[1] == topic).minute
        seconds = MINUTE_MS / 1_000
        return {"msgRateIn": minute.messages / seconds, "msgThroughputIn": minute.bytes / seconds}

    def _oldest(self, several: list[Attached]) -> Figures:
        """The oldest message that a durable subscription still has before it."""
        waiting = {
            each.subscription.name: time_ms
            for each in several
            if each.durable and (time_ms := self._first_ms(each)) >= 0
        }
        if not waiting:
            return {"oldestBacklogMessageAgeSeconds": -1}
        name = min(waiting, key=lambda each: waiting[each])
        age_s = max(0, self._clock.now_ms() - waiting[name]) // 1_000
        return {"oldestBacklogMessageAgeSeconds": age_s, "oldestBacklogMessageSubscriptionName": name}

    def _first_ms(self, attached: Attached) -> int:
        """When the first message was stored that is not acknowledged; -1 when all are."""
        first, _ = self._fetcher.rows(attached.queue)
        return self._fetcher.time_ms_of_row(attached.queue, attached.subscription.cursor.next_unacked(first))

    # --- producers ----------------------------------------------------------------------------------------------------

    def _publishers(self, queue: int) -> Iterator[Figures]:
        for seat in self._producers.at(queue):
            producer = seat.owner
            if isinstance(producer, Producer):
                yield {
                    "accessMode": ACCESS_MODES[seat.access],
                    "producerId": producer.asked.producer_id,
                    "producerName": producer.name,
                    "address": f"/{producer.connection.address}",
                    "connectedSince": time_of(producer.since_ms),
                    "clientVersion": producer.connection.client,
                    "metadata": {pair.key: pair.value for pair in producer.asked.metadata},
                }

    # --- subscriptions ------------------------------------------------------------------------------------------------

    def _subscription(self, attached: Attached, consumers: bool) -> Figures:
        subscription = attached.subscription
        _, behind = self._fetcher.rows(attached.queue)
        backlog, delayed = subscription.backlog(behind), len(subscription.delayed)
        figures: Figures = {
            "msgBacklog": backlog,
            "msgBacklogNoDelayed": max(0, backlog - delayed),
            "msgDelayed": delayed,
            "msgInReplay": len(subscription.replay),
            "blockedSubscriptionOnUnackedMsgs": subscription.blocked,
            "isDurable": attached.durable,
            "durable": attached.durable,
            "isReplicated": False,
            "replicated": False,
            "nonContiguousDeletedMessagesRanges": len(subscription.cursor.runs),
            "subscriptionProperties": attached.properties,
            "consumers": list(consumers_of(subscription)) if consumers else [],
        }
        first_ms = self._first_ms(attached)
        if first_ms >= 0:
            figures["earliestMsgPublishTimeInBacklog"] = first_ms
        return figures | dispatch_of(subscription)


def quotas_of(policies: Policies) -> Figures:
    """Those that are set."""
    quotas = {"backlogQuotaLimitSize": policies.size_quota, "backlogQuotaLimitTime": policies.age_quota}
    return {name: quota.limit for name, quota in quotas.items() if quota is not None}


def dispatch_of(subscription: Subscription) -> Figures:
    """How it is dealt out. Without a consumer it is not settled: the next one decides."""
    figures: Figures = {} if subscription.is_single else {"unackedMessages": subscription.unacked}
    if subscription.consumers:
        figures["type"] = str(subscription.style.kind)
    if subscription.active is not None:
        figures["activeConsumerName"] = subscription.active.seat.name
    if subscription.consumers and subscription.style.kind == Kind.KEY_SHARED:
        figures["keySharedMode"] = "STICKY" if subscription.style.sticky else "AUTO_SPLIT"
        figures["allowOutOfOrderDelivery"] = subscription.style.any_order
    return figures


def consumers_of(subscription: Subscription) -> Iterator[Figures]:
    for consumer in subscription.consumers.values():
        if isinstance(consumer, Consumer):
            yield _consumer(consumer, subscription)


def _consumer(consumer: Consumer, subscription: Subscription) -> Figures:
    seat, connection = consumer.seat, consumer.connection
    figures: Figures = {
        "consumerName": seat.name,
        "availablePermits": seat.permits,
        "keptPermits": seat.kept_permits,
        "blockedConsumerOnUnackedMsgs": seat.blocked,
        "address": f"/{connection.address}",
        "connectedSince": time_of(consumer.since_ms),
        "clientVersion": connection.client,
        "metadata": {pair.key: pair.value for pair in consumer.asked.metadata},
    }
    if not subscription.is_single:
        figures["unackedMessages"] = seat.unacked
    elif consumer is subscription.active:
        figures["unackedEntries"] = subscription.cursor.backlog(subscription.read_row)
    if subscription.style.sticky:
        figures["keyHashRanges"] = [f"[{span.start}, {span.end}]" for span in consumer.asked.keySharedMeta.hashRanges]
    why = held_back(seat, subscription)
    return figures | ({"heldBackBecause": why} if why else {})


def held_back(seat: Seat, subscription: Subscription) -> str:
    """Why a consumer would get nothing if there were something for it; empty when nothing is in the way."""
    if subscription.is_single and (subscription.active is None or subscription.active.seat is not seat):
        return "another consumer is the active one"
    if seat.blocked:
        return (
            f"it has {seat.unacked} unacknowledged messages, the limit is {seat.unacked_max}: it is served again at "
            f"half of that (pulsar.unacked_per_consumer_max, or a policy)"
        )
    if not seat.open:
        return "its connection does not take what is sent to it"
    if seat.permits <= 0:
        return "it has asked for no more messages than it has got"
    if subscription.blocked:
        return (
            f"the subscription has {subscription.unacked} unacknowledged messages, the limit is "
            f"{subscription.limits.unacked_max}: only what comes back goes out "
            f"(pulsar.unacked_per_subscription_max, or a policy)"
        )
    return ""
