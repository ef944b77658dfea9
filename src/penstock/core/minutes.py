"""Per-minute counters by topic and queue, as events.

Read off the queue tables once a minute, so that publishing pays nothing for them.
"""

from penstock.clock import Clock
from penstock.core.events import EVENTS_TOPIC, Bus, QueueMinute
from penstock.core.topics import Topics
from penstock.store.store import Store

_MINUTE_MS = 60_000


class Minutes:
    def __init__(self, store: Store, topics: Topics, clock: Clock, bus: Bus) -> None:
        self._store, self._topics, self._clock, self._bus = store, topics, clock, bus
        self._minute = clock.now_ms() // _MINUTE_MS
        self._seen: dict[int, tuple[int, int]] = dict(self._totals())

    def _totals(self) -> list[tuple[int, tuple[int, int]]]:
        tables = [self._store.table(queue) for topic in self._topics for queue in topic.queues]
        return [(table.queue, (table.next_offset, table.live_bytes + table.trimmed_bytes)) for table in tables]

    def tick(self) -> None:
        """Once the minute has changed, an event per queue that something was published to."""
        minute = self._clock.now_ms() // _MINUTE_MS
        if minute == self._minute:
            return
        at_ms, self._minute = (self._minute + 1) * _MINUTE_MS, minute
        totals = dict(self._totals())
        for queue, (offset, size_bytes) in totals.items():
            offset_before, bytes_before = self._seen.get(queue, (0, 0))
            topic, index = self._topics.owner(queue)
            if offset > offset_before and topic.name != EVENTS_TOPIC:
                self._bus.emit(
                    QueueMinute(
                        at_ms=at_ms,
                        topic=topic.name,
                        queue=index,
                        messages=offset - offset_before,
                        bytes=size_bytes - bytes_before,
                        max_offset=offset,
                    )
                )
        self._seen = totals
