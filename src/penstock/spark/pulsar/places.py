"""What the driver asks a Pulsar: partitions and their ends, the place of a time, how far a number of messages reaches.

As `spark/places.py` does it for RocketMQ, with the same words.
"""

import functools
import operator
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Self, TypeVar

from penstock import logs
from penstock.client.errors import NoRoute, TimedOut, Unreachable
from penstock.client.routes import MessageQueue
from penstock.spark.places import PATIENCE_MS, Queue
from penstock.spark.plan import Offsets, begin
from penstock.spark.pulsar.clients import Reader, new_client, sentences
from penstock.spark.pulsar.options import full, servers, short
from penstock.spark.pulsar.positions import EARLIEST, Place
from penstock.spark.pulsar.questions import Questions
from penstock.spark.pulsar.ranges import BROKER, Partition
from penstock.wire.pulsar.topics import DEFAULT, PUBLIC, topic_name

if TYPE_CHECKING:
    import pulsar

log = logs.get(__name__)

AGAIN_S = 0.1
T = TypeVar("T")


class PulsarPlaces:
    def __init__(self, service: str, prefix: str) -> None:
        self._service, self._prefix = service, prefix
        self._questions = Questions(servers(service), prefix)
        self._own: pulsar.Client | None = None
        self._walks: dict[MessageQueue, _Walk] = {}
        self.patience_ms = PATIENCE_MS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._questions.close()
        self._walks.clear()
        if self._own is not None:
            self._own.close()
            self._own = None

    # --- what is asked ------------------------------------------------------------------------------------------------

    def topics(self, names: Sequence[str], pattern: str) -> list[str]:
        """Those that are named; or all whose name matches, in the namespace that the pattern begins with."""
        if names:
            return list(names)
        namespace, slash, local = pattern.rpartition("/")
        expression = re.compile(local if slash else pattern)
        found = self._asked(lambda ask: ask.names(namespace or f"{PUBLIC}/{DEFAULT}"))
        matching = [name for name in map(topic_name, found) if expression.fullmatch(name.local)]
        return [short(name) for name in matching if not name.local.startswith("__")]

    def queues(self, topics: Iterable[str]) -> list[Queue]:
        return [queue for topic in topics for queue in self._asked(functools.partial(_queues, topic=topic))]

    def existing(self, topics: Iterable[str]) -> list[Queue]:
        found: list[Queue] = []
        for topic in topics:
            try:
                found += self.queues([topic])
            except NoRoute:
                continue
        return found

    def offsets_at(self, times_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """The first message of each partition that was published then or later; its end when there is none."""
        return {queue: self._place_at(queue, time_ms) for queue, time_ms in times_ms.items()}

    def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Move the cursors of a subscription, which is made if need be."""
        for queue, offset in offsets.items():
            name = self._name_of(queue)
            self._asked(operator.methodcaller("move", name, group, Place(offset)))

    def limited(self, queues: Iterable[Queue], starts: Offsets, limit: int | None) -> Offsets:
        """Where the next batch ends in each partition. How many messages are between two places is found out by going
        there: so many are read here, in turns, and one of each partition at least.
        """
        ends = {queue.name: (begin(queue, starts.get(queue.name, 0)), queue.max_offset) for queue in queues}
        if limit is None:
            return {name: end for name, (_, end) in ends.items()}
        reached = {name: start for name, (start, _) in ends.items()}
        waiting = [name for name, (start, end) in ends.items() if start < end]
        left = limit
        with sentences(self._service):
            while waiting and left > 0:
                share = max(left // len(waiting), 1)
                for name in tuple(waiting):
                    count, reached[name] = self._walk(name, reached[name]).on(share, ends[name][1])
                    left -= count
                    if count < share or reached[name] >= ends[name][1]:
                        waiting.remove(name)
                        reached[name] = ends[name][1]
        return reached

    # --- how it is found ----------------------------------------------------------------------------------------------

    def _asked(self, question: Callable[[Questions], T]) -> T:
        until = time.monotonic() + self.patience_ms / 1000
        while True:
            try:
                return question(self._questions)
            except (Unreachable, TimedOut) as error:
                self._questions.close()
                if time.monotonic() >= until:
                    raise
                log.info("a question is asked again", error=str(error))
                time.sleep(AGAIN_S)

    @property
    def _client(self) -> "pulsar.Client":
        if self._own is None:
            self._own = new_client(self._service)
        return self._own

    def _name_of(self, queue: MessageQueue) -> str:
        return self._asked(lambda ask: ask.partitions(full(queue.topic)))[queue.queue]

    def _place_at(self, queue: MessageQueue, time_ms: int) -> Place:
        name = self._name_of(queue)
        end = self._asked(lambda ask: ask.end(name))
        if end == EARLIEST:
            return end
        with sentences(self._service):
            reader = Reader(self._client, name, Place(EARLIEST), self._prefix)
            try:
                reader.seek(time_ms)
                while (found := reader.next()) is not None:
                    if found[1].publish_timestamp() >= time_ms:
                        return found[0]
            finally:
                reader.close()
        return end

    def _walk(self, queue: MessageQueue, start: int) -> "_Walk":
        """One that stands there already, or a new one."""
        walk = self._walks.get(queue)
        if walk is None or walk.at != start:
            if walk is not None:
                walk.close()
            walk = self._walks[queue] = _Walk(
                Reader(self._client, self._name_of(queue), Place(start), self._prefix), start
            )
        return walk


class _Walk:
    """Goes through a partition to count. `_next` was read and is not passed yet."""

    def __init__(self, reader: Reader, at: int) -> None:
        self._reader, self.at, self.close = reader, at, reader.close
        self._next: Place | None = None

    def on(self, count: int, end: int) -> tuple[int, Place]:
        """So many messages further, at most to an end: how many it were, and where that is."""
        passed = 0
        while passed < count:
            place = self._next if self._next is not None else self._read()
            if place is None or place >= end:
                self._next = place
                break
            self._next = None
            if place >= self.at:
                passed += 1
                self.at = place.next
        return passed, Place(self.at)

    def _read(self) -> Place | None:
        found = self._reader.next()
        return found[0] if found else None


def _queues(ask: Questions, topic: str) -> list[Queue]:
    names = ask.partitions(full(topic))
    return [
        Partition(MessageQueue(topic, BROKER, number), name, Place(EARLIEST), ask.end(name))
        for number, name in enumerate(names)
    ]
