"""Once a minute, how consumer groups fare: how far behind they are, which queues nobody reads, which are read twice,
and which ClientIDs are there more than once.

All groups with members are looked at, and those without that have offsets, some at every tick, so that many groups hold
nobody up. A group is told of when something is other than at the last look, and while its members are behind. Broadcast
groups are not: their instances keep their offsets themselves, and all of them read every queue.
"""

from collections import deque
from typing import NamedTuple

from penstock.clock import Clock
from penstock.core.events import Bus, LagMinute
from penstock.core.fetch import Fetcher
from penstock.core.groups import Group, Groups
from penstock.core.offsets import Offsets
from penstock.core.readers import Readers
from penstock.core.topics import Topic, Topics
from penstock.core.traffic import MINUTE_MS, Pair
from penstock.store.store import Bounds

LOOKS_PER_TICK = 250
FROM_FIRST = "CONSUME_FROM_FIRST_OFFSET"


class Look(NamedTuple):
    """What there was to see of a group on a topic."""

    at_ms: int
    members: int
    lag: int
    end: int  # of all queues together, as the offsets are
    committed: int
    unread: list[int]
    read_twice: list[int]


def position(committed: int, bounds: Bounds, is_read: bool, consume_from: str) -> int:
    """How far a group is in a queue. Where it has no offset yet it is at the beginning, unless somebody who begins with
    what comes next is reading it.
    """
    if committed >= 0:
        return min(committed, bounds.max_offset)
    return bounds.max_offset if is_read and consume_from != FROM_FIRST else bounds.min_offset


class Watch:
    def __init__(
        self,
        fetcher: Fetcher,
        topics: Topics,
        groups: Groups,
        offsets: Offsets,
        readers: Readers,
        clock: Clock,
        bus: Bus,
    ) -> None:
        self._fetcher, self._topics, self._groups, self._offsets = fetcher, topics, groups, offsets
        self._readers, self._clock, self._bus = readers, clock, bus
        self._minute = clock.now_ms() // MINUTE_MS
        self._left: deque[Pair] = deque()
        self._looks: dict[Pair, Look] = {}

    def tick(self) -> None:
        """Begin a round when a minute is over and the last round is done; look at some."""
        minute = self._clock.now_ms() // MINUTE_MS
        if minute != self._minute and not self._left:
            self._minute = minute
            self._begin()
        for _ in range(min(len(self._left), LOOKS_PER_TICK)):
            self._tell(self._left.popleft())

    def _begin(self) -> None:
        self._readers.turn()
        self._groups.tell_doubled()
        online = {(group.name, topic) for group in self._groups for topic in group.subscriptions}
        pairs = sorted(online.union(self._offsets.pairs()))
        self._looks = {pair: look for pair in pairs if (look := self._looks.get(pair))}
        self._left.extend(pairs)

    def _tell(self, pair: Pair) -> None:
        group, topic = self._groups.find(pair[0]), self._topics.find(pair[1])
        if topic is None or (group is not None and group.broadcast):
            return
        before, now = self._looks.get(pair), self._look(pair[0], topic, group)
        self._looks[pair] = now
        if before is not None and now[1:] == before[1:] and not (now.members and now.lag):
            return
        known = before or now
        self._bus.emit(
            LagMinute(
                at_ms=now.at_ms,
                group=pair[0],
                topic=topic.name,
                members=now.members,
                lag=now.lag,
                produced=now.end - known.end,
                consumed=now.committed - known.committed,
                over_ms=now.at_ms - known.at_ms,
                unread=now.unread,
                read_twice=now.read_twice,
            )
        )

    def _look(self, name: str, topic: Topic, group: Group | None) -> Look:
        committed, now_ms = self._offsets.of(name, topic.name), self._clock.now_ms()
        settled = group is not None and any(now_ms - one.joined_ms >= MINUTE_MS for one in group.members.values())
        begins = group.consume_from if group else FROM_FIRST
        lag = end = reached = 0
        unread, read_twice = [], []
        for queue in range(topic.read_queues):
            bounds, seen = self._fetcher.bounds(topic.queues[queue]), self._readers.of(name, topic.name, queue)
            at = position(committed.get(queue, -1), bounds, seen.anybody, begins)
            left = bounds.max_offset - max(at, bounds.min_offset)
            lag, end, reached = lag + left, end + bounds.max_offset, reached + at
            if settled and left and not seen.anybody:
                unread.append(queue)
            if group is not None and len(seen.steady & group.members.keys()) > 1:
                read_twice.append(queue)
        return Look(now_ms, len(group.members) if group else 0, lag, end, reached, unread, read_twice)
