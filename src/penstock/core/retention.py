"""Retention: what is too old, or too much, goes from the front of each queue.

The minimum offset moves at once; the space comes back when the store's cleaner gets there. What a durable subscription
has not acknowledged stays: its backlog is bounded by other means.
"""

from collections.abc import Callable

from penstock.clock import Clock
from penstock.core.events import Bus, QueueTrimmed
from penstock.core.topics import Topic, Topics
from penstock.store.store import Store


def target_row(store: Store, topic: Topic, queue: int, now_ms: int) -> int:
    """The first row of a queue that its topic's retention keeps."""
    table = store.table(queue)
    row = table.min_row
    if topic.retention_ms:
        row = max(row, table.row_at_time(now_ms - topic.retention_ms))
    if topic.retention_bytes:
        row = max(row, table.row_for_bytes(topic.retention_bytes))
    return min(row, table.visible_row)


Needed = Callable[[int], int | None]  # the first row of a queue that somebody needs, if anybody does


def apply_retention(store: Store, topics: Topics, clock: Clock, bus: Bus, needed: Needed = lambda queue: None) -> None:
    """Trim every queue of every topic that holds too much."""
    now_ms = clock.now_ms()
    offsets: dict[int, int] = {}
    for topic in topics:
        if not topic.retention_ms and not topic.retention_bytes:
            continue
        for queue in topic.queues:
            table = store.table(queue)
            row = target_row(store, topic, queue, now_ms)
            first = needed(queue) if row > table.min_row else None
            row = row if first is None else min(row, first)
            if row > table.min_row:
                offsets[queue] = table.offset_of(row)
    before = {queue: store.bounds(queue).min_offset for queue in offsets}
    store.trim_all(offsets)
    for queue, begun in before.items():
        topic, index = topics.owner(queue)
        to_offset = store.bounds(queue).min_offset
        bus.emit(QueueTrimmed(at_ms=now_ms, topic=topic.name, queue=index, from_offset=begun, to_offset=to_offset))
