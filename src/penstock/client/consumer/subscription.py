"""Subscriptions: what of a topic a consumer wants, and since when.

A subscription has a version, the time of subscribing in milliseconds, which is taken anew whenever a rebalance changes
what this instance owns. Heartbeats carry it. Pulls carry `told_version`, the one that the last heartbeat carried: a
broker refuses a pull that is newer than what it has heard, so nothing is pulled with a version before it was told.

Brokers filter tags by their hashes; whether it is really one of the tags is looked at again here.
"""

import msgspec

from penstock.wire.rocketmq.record import java_hash

ALL = "*"
TAG, SQL92 = "TAG", "SQL92"


class Subscription(msgspec.Struct):
    topic: str
    expression: str
    kind: str
    tags: frozenset[str]  # empty: all
    version: int
    told_version: int = 0

    def keeps(self, tags: str) -> bool:
        return not self.tags or tags in self.tags

    def renew(self, now_ms: int) -> None:
        self.version = max(now_ms, self.version + 1)

    def data(self) -> dict[str, object]:
        """As heartbeats have it."""
        return {
            "classFilterMode": False,
            "codeSet": sorted(java_hash(tag) for tag in self.tags),
            "expressionType": self.kind,
            "subString": self.expression,
            "subVersion": self.version,
            "tagsSet": sorted(self.tags),
            "topic": self.topic,
        }


def subscription(topic: str, expression: str, kind: str, now_ms: int) -> Subscription:
    """ValueError when there is no such kind, or a filter that filters nothing."""
    if kind not in (TAG, SQL92):
        raise ValueError(f"filters are of kind {TAG} or {SQL92}, not {kind!r}")
    if not topic:
        raise ValueError("a subscription needs a topic")
    if kind == SQL92 and not expression:
        raise ValueError("a SQL92 filter is an expression, such as: price > 10 AND region = 'eu'")
    tags = tags_in(expression) if kind == TAG else frozenset()
    return Subscription(topic, expression or ALL, kind, tags, now_ms)


def tags_in(expression: str) -> frozenset[str]:
    """`a || b`; all tags for `*`, which is the empty set here."""
    if expression.strip() in ("", ALL):
        return frozenset()
    tags = frozenset(tag.strip() for tag in expression.split("||")) - {""}
    if not tags:
        raise ValueError(f"{expression!r} names no tag: write them with || between, or * for all")
    return tags
