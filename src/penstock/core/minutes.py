"""Per-minute counters as events: by topic and queue, by producer group, by consumer group.

What was published is read off the queue tables once a minute, so that publishing pays nothing for it; who produced and
who consumed is counted per call (`traffic`).
"""

from collections.abc import Iterable

from penstock.clock import Clock
from penstock.core.events import EVENTS_TOPIC, Bus, GroupMinute, ProducerMinute, QueueMinute
from penstock.core.topics import Topics
from penstock.core.traffic import MINUTE_MS, NOTHING, Count, Sums, Tracks, Traffic, total
from penstock.store.store import Store


class Minutes:
    def __init__(self, store: Store, topics: Topics, traffic: Traffic, clock: Clock, bus: Bus, tracks_max: int) -> None:
        self._store, self._topics, self._traffic, self._clock, self._bus = store, topics, traffic, clock, bus
        self._minute = clock.now_ms() // MINUTE_MS
        self._seen = self._totals(queue for topic in topics for queue in topic.queues)
        self._of_topics: Tracks[str] = Tracks("", tracks_max)

    def _totals(self, queues: Iterable[int]) -> dict[int, Count]:
        tables = [self._store.table(queue) for queue in queues]
        return {table.queue: Count(table.next_offset, table.live_bytes + table.trimmed_bytes) for table in tables}

    def tick(self) -> None:
        """Once the minute has changed, an event for each that something was counted for."""
        minute = self._clock.now_ms() // MINUTE_MS
        self._traffic.tick()
        if minute == self._minute:
            return
        over, self._minute = self._minute, minute
        at_ms = (over + 1) * MINUTE_MS
        self._tell_queues(over, at_ms)
        self._tell_producers(over, at_ms)
        self._tell_groups(over, at_ms)

    def _tell_queues(self, minute: int, at_ms: int) -> None:
        totals = self._totals(queue for topic in self._topics for queue in topic.queues)
        for queue, now in totals.items():
            came = _since(self._seen.get(queue, NOTHING), now)
            topic, index = self._topics.owner(queue)
            if came.messages > 0 and topic.name != EVENTS_TOPIC:
                self._of_topics.add(topic.name, minute, came.messages, came.bytes)
                self._bus.emit(
                    QueueMinute(
                        at_ms=at_ms,
                        topic=topic.name,
                        queue=index,
                        messages=came.messages,
                        bytes=came.bytes,
                        max_offset=now.messages,
                    )
                )
        self._seen = totals

    def _tell_producers(self, minute: int, at_ms: int) -> None:
        for (producer, topic), came in self._traffic.produced.in_minute(minute):
            self._bus.emit(
                ProducerMinute(at_ms=at_ms, group=producer, topic=topic, messages=came.messages, bytes=came.bytes)
            )

    def _tell_groups(self, minute: int, at_ms: int) -> None:
        got, back = (dict(tracks.in_minute(minute)) for tracks in (self._traffic.consumed, self._traffic.returned))
        for group, topic in sorted({*got, *back}):
            went = got.get((group, topic), NOTHING)
            self._bus.emit(
                GroupMinute(
                    at_ms=at_ms,
                    group=group,
                    topic=topic,
                    messages=went.messages,
                    bytes=went.bytes,
                    sent_back=back.get((group, topic), NOTHING).messages,
                )
            )

    def published(self, topic: str) -> Sums:
        """What came to a topic lately, this minute's included."""
        found = self._topics.find(topic)
        before = self._of_topics.sums(self._clock.now_ms(), lambda name: name == topic)
        if found is None:
            return before
        live = total(_since(self._seen.get(queue, NOTHING), now) for queue, now in self._totals(found.queues).items())
        return Sums(*(total((part, live)) for part in before))


def _since(before: Count, now: Count) -> Count:
    return Count(now.messages - before.messages, now.bytes - before.bytes)
