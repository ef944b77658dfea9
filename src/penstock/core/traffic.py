"""How much came in and went out lately, by producer group and by consumer group.

Counted once per call, not per message, in memory only: a restart begins anew. A `Track` holds an hour by minutes and a
day by hours in fixed room; how many tracks there are has a bound, and what comes beyond it is counted together under
empty names.
"""

from array import array
from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import Generic, NamedTuple, TypeVar

from penstock.clock import Clock

MINUTE_MS, MINUTES, HOURS = 60_000, 60, 24
_DAY_MS = HOURS * MINUTES * MINUTE_MS
_SAMPLE_MS = 10_000
_SAMPLES = 61  # ten minutes

Pair = tuple[str, str]  # a group of producers or consumers, and a topic
K = TypeVar("K", bound=Hashable)


class Count(NamedTuple):
    messages: int
    bytes: int


NOTHING = Count(0, 0)


def total(counts: Iterable[Count]) -> Count:
    messages = size_bytes = 0
    for count in counts:
        messages += count.messages
        size_bytes += count.bytes
    return Count(messages, size_bytes)


class Sums(NamedTuple):
    """What there was in the last minute, hour and day. The minute is a sliding one: what is left of the one before is
    taken in proportion.
    """

    minute: Count
    hour: Count
    day: Count


class Track:
    """Messages and bytes, by minute and by hour. Those of the minute that runs are put away when it is over."""

    __slots__ = ("_by_hour", "_by_minute", "_bytes", "_messages", "_minute")

    def __init__(self, minute: int) -> None:
        self._minute = minute
        self._messages = self._bytes = 0
        self._by_minute = array("q", bytes(16 * MINUTES))  # messages and bytes in turn
        self._by_hour = array("q", bytes(16 * HOURS))

    def add(self, minute: int, messages: int, size_bytes: int) -> None:
        if minute != self._minute:
            self._turn(minute)
        self._messages += messages
        self._bytes += size_bytes

    def _turn(self, minute: int) -> None:
        """Empty the places of the time that has passed; a clock that goes back stays where it was."""
        before, minute = self._minute, max(minute, self._minute)
        self._put_away(before)
        self._minute = minute
        for passed in range(max(before + 1, minute - MINUTES + 1), minute + 1):
            self._by_minute[passed % MINUTES * 2] = self._by_minute[passed % MINUTES * 2 + 1] = 0
        hour = minute // MINUTES
        for passed in range(max(before // MINUTES + 1, hour - HOURS + 1), hour + 1):
            self._by_hour[passed % HOURS * 2] = self._by_hour[passed % HOURS * 2 + 1] = 0

    def _put_away(self, minute: int) -> None:
        place, hour = minute % MINUTES * 2, minute // MINUTES % HOURS * 2
        for array_, at in ((self._by_minute, place), (self._by_hour, hour)):
            array_[at] += self._messages
            array_[at + 1] += self._bytes
        self._messages = self._bytes = 0

    def of(self, minute: int) -> Count:
        """Of one minute within the last hour."""
        self._turn(minute)
        if minute <= self._minute - MINUTES:
            return NOTHING
        place = minute % MINUTES * 2
        return Count(self._by_minute[place], self._by_minute[place + 1])

    def sums(self, now_ms: int) -> Sums:
        minute, passed_ms = divmod(now_ms, MINUTE_MS)
        now, before = self.of(minute), self.of(minute - 1)
        left = 1 - passed_ms / MINUTE_MS
        last = Count(now.messages + round(before.messages * left), now.bytes + round(before.bytes * left))
        return Sums(last, _halves(self._by_minute), _halves(self._by_hour))


def _halves(numbers: "array[int]") -> Count:
    return Count(sum(numbers[::2]), sum(numbers[1::2]))


class Tracks(Generic[K]):
    """Tracks by key; beyond `tracks_max` the key `rest` stands for all others."""

    def __init__(self, rest: K, tracks_max: int) -> None:
        self._rest, self._tracks_max = rest, tracks_max
        self._tracks: dict[K, Track] = {}

    def __len__(self) -> int:
        return len(self._tracks)

    def add(self, key: K, minute: int, messages: int, size_bytes: int) -> None:
        track = self._tracks.get(key) or self._new(key, minute)
        track.add(minute, messages, size_bytes)

    def _new(self, key: K, minute: int) -> Track:
        if len(self._tracks) >= self._tracks_max:
            key = self._rest
        return self._tracks.setdefault(key, Track(minute))

    def in_minute(self, minute: int) -> list[tuple[K, Count]]:
        """Those with anything in that minute."""
        found = [(key, track.of(minute)) for key, track in self._tracks.items()]
        return [(key, count) for key, count in found if count.messages]

    def sums(self, now_ms: int, wanted: Callable[[K], bool]) -> Sums:
        """Of all wanted keys together."""
        found = [track.sums(now_ms) for key, track in self._tracks.items() if wanted(key)]
        return Sums(*(total(part) for part in zip(*found, strict=True))) if found else Sums(NOTHING, NOTHING, NOTHING)

    def prune(self, now_ms: int) -> None:
        """Forget those that had nothing for a day."""
        for key in [key for key, track in self._tracks.items() if not track.sums(now_ms).day.messages]:
            del self._tracks[key]


class Rates(NamedTuple):
    """Messages a second, over about ten seconds, a minute and ten minutes."""

    published: tuple[float, float, float]
    delivered: tuple[float, float, float]


class _Sample(NamedTuple):
    at_ms: int
    published: int
    delivered: int


class Traffic:
    def __init__(self, clock: Clock, tracks_max: int) -> None:
        self._clock = clock
        self._minute = clock.now_ms() // MINUTE_MS
        self.produced: Tracks[Pair] = Tracks(("", ""), tracks_max)
        self.consumed: Tracks[Pair] = Tracks(("", ""), tracks_max)
        self.returned: Tracks[Pair] = Tracks(("", ""), tracks_max)
        self.published = self.delivered = 0
        self._samples = deque([_Sample(clock.monotonic_ms(), 0, 0)], maxlen=_SAMPLES)
        self._day, self._mornings = clock.now_ms() // _DAY_MS, ((0, 0), (0, 0))

    def sent(self, producer: str, topic: str, messages: int, size_bytes: int) -> None:
        """A producer's messages were stored."""
        self.published += messages
        self.produced.add((producer, topic), self._minute, messages, size_bytes)

    def got(self, group: str, topic: str, messages: int, size_bytes: int) -> None:
        """A group was given messages."""
        self.delivered += messages
        self.consumed.add((group, topic), self._minute, messages, size_bytes)

    def sent_back(self, group: str, topic: str, messages: int, size_bytes: int) -> None:
        """A group could not do with messages of a topic."""
        self.returned.add((group, topic), self._minute, messages, size_bytes)

    def tick(self) -> None:
        """Every so often, at best every second."""
        now_ms, running_ms = self._clock.now_ms(), self._clock.monotonic_ms()
        minute, day = now_ms // MINUTE_MS, now_ms // _DAY_MS
        if running_ms - self._samples[-1].at_ms >= _SAMPLE_MS:
            self._samples.append(_Sample(running_ms, self.published, self.delivered))
        if day != self._day:
            self._day, self._mornings = day, (self._mornings[1], (self.published, self.delivered))
        if minute // MINUTES != self._minute // MINUTES:
            for tracks in (self.produced, self.consumed, self.returned):
                tracks.prune(now_ms)
        self._minute = minute

    def rates(self) -> Rates:
        now = _Sample(self._clock.monotonic_ms(), self.published, self.delivered)
        rates = []
        for steps in (2, 7, 61):
            then = self._samples[max(len(self._samples) - steps, 0)]
            seconds = max(now.at_ms - then.at_ms, 1_000) / 1_000
            rates.append(((now.published - then.published) / seconds, (now.delivered - then.delivered) / seconds))
        ins, outs = zip(*rates, strict=True)
        return Rates((ins[0], ins[1], ins[2]), (outs[0], outs[1], outs[2]))

    def days(self) -> tuple[tuple[int, int], tuple[int, int], tuple[int, int]]:
        """Messages published and delivered since the start: up to yesterday's midnight (UTC), today's, and now."""
        return *self._mornings, (self.published, self.delivered)
