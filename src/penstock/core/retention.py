"""Retention: what is too old, or too much, goes from the front of each queue.

The minimum offset moves at once; the space comes back when the store's cleaner gets there. What a durable subscription
has not acknowledged stays: its backlog is bounded by other means.
"""

from collections.abc import Callable

from penstock.clock import Clock
from penstock.core.events import Bus, QueueTrimmed
from penstock.core.policies import Retention
from penstock.core.topics import Topic, Topics
from penstock.store.store import Store

NOTHING = Retention(0, 0)
Kept = Callable[[Topic], Retention | None]  # what a policy says of a topic, if there is one


def own_retention(topic: Topic) -> Retention:
    return Retention(topic.retention_ms or None, topic.retention_bytes or None)


def target_row(store: Store, retention: Retention, queue: int, now_ms: int) -> int:
    """The first row of a queue that retention keeps."""
    table = store.table(queue)
    row = table.min_row
    if retention.time_ms is not None:
        row = max(row, table.row_at_time(now_ms - retention.time_ms))
    if retention.size_bytes is not None:
        row = max(row, table.row_for_bytes(retention.size_bytes))
    return min(row, table.visible_row)


Needed = Callable[[int], int | None]  # the first row of a queue that somebody needs, if anybody does


def _row_kept(store: Store, topic: Topic, policy: Retention | None, queue: int, now_ms: int, needed: Needed) -> int:
    """The first row that stays. With a retention of nothing what is needed stays alone; before the first subscription
    nobody knows what that will be, and the topic's own holds.
    """
    first = needed(queue)
    own = policy is None or (policy == NOTHING and first is None)
    row = target_row(store, own_retention(topic) if own or policy is None else policy, queue, now_ms)
    return row if first is None else min(row, first)


def apply_retention(
    store: Store,
    topics: Topics,
    clock: Clock,
    bus: Bus,
    needed: Needed = lambda queue: None,
    kept: Kept = lambda topic: None,
) -> None:
    """Trim every queue of every topic that holds too much."""
    now_ms = clock.now_ms()
    offsets: dict[int, int] = {}
    for topic in topics:
        policy = kept(topic)
        if (policy or own_retention(topic)) == Retention():
            continue
        for queue in topic.queues:
            table = store.table(queue)
            row = _row_kept(store, topic, policy, queue, now_ms, needed)
            if row > table.min_row:
                offsets[queue] = table.offset_of(row)
    before = {queue: store.bounds(queue).min_offset for queue in offsets}
    store.trim_all(offsets)
    for queue, begun in before.items():
        topic, index = topics.owner(queue)
        to_offset = store.bounds(queue).min_offset
        bus.emit(QueueTrimmed(at_ms=now_ms, topic=topic.name, queue=index, from_offset=begun, to_offset=to_offset))
