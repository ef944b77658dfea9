"""The figures of all partitions of a topic, as those of one: what is summed, and what is not."""

from collections.abc import Callable, Sequence
from typing import Any

from penstock.gateway.pulsar.admin.figures import Figures


def _joined(lists: Sequence[list[Any]]) -> list[Any]:
    return [each for several in lists for each in several]


def _subscriptions(several: Sequence[dict[str, Figures]]) -> dict[str, Figures]:
    names = sorted({name for subscriptions in several for name in subscriptions})
    return {name: summed([each[name] for each in several if name in each]) for name in names}


MERGE: dict[str, Callable[[Any], object]] = {
    "msgInCounter": sum,
    "storageSize": sum,
    "waitingPublishers": sum,
    "publishers": _joined,
    "subscriptions": _subscriptions,
    "lastPublishTimeStamp": max,
    "topicCreationTimeStamp": min,
    "oldestBacklogMessageAgeSeconds": max,
    "msgBacklog": sum,
    "msgBacklogNoDelayed": sum,
    "msgDelayed": sum,
    "msgInReplay": sum,
    "unackedMessages": sum,
    "nonContiguousDeletedMessagesRanges": sum,
    "earliestMsgPublishTimeInBacklog": min,
    "blockedSubscriptionOnUnackedMsgs": any,
    "consumers": _joined,
}
NOT_OF_ALL = {"activeConsumerName", "oldestBacklogMessageSubscriptionName"}  # each partition has its own


def summed(several: Sequence[Figures]) -> Figures:
    """Where it is not known how to put figures together, all have the same, and the first stands for them."""
    keys = dict.fromkeys(key for figures in several for key in figures if key not in NOT_OF_ALL)
    return {key: _merged(key, [figures[key] for figures in several if key in figures]) for key in keys}


def _merged(key: str, values: list[object]) -> object:
    return MERGE[key](values) if key in MERGE else values[0]
