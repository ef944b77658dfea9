"""From places in queues to what each task reads. Pure: whatever has to be known is passed in.

queues (where they begin and end now)  +  an edge of the options  ->  an offset for each queue  (`resolved`)
offsets to start from and to end at    ->  ranges, and what is missing of them                  (`ranges_between`)
ranges                                 ->  groups of ranges, one per task                       (`grouped`)
backlogs and a limit                   ->  how much of each queue the next batch takes          (`limited`)
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from penstock.client.routes import MessageQueue
from penstock.errors import ConfigError
from penstock.spark.errors import OutsideQueue, SparkSourceError
from penstock.spark.options import EARLIEST, EARLIEST_NUMBER, LATEST_NUMBER, ByQueue, Edge
from penstock.spark.places import Queue
from penstock.spark.ranges import Range

MESSAGES_PER_TASK = 10_000  # a task costs as much time as this many messages: below, it reads several queues

Offsets = dict[MessageQueue, int]
Noted = int | str  # an offset in a checkpoint: a number, or a text where it is more than one
Checkpoint = dict[str, dict[str, Noted]]  # topic -> queue -> offset


class Loss(msgspec.Struct, frozen=True):
    """Messages that were to be read and are not there (any more). `why` is a part of a sentence."""

    queue: MessageQueue
    start: int
    end: int
    why: str
    messages: int | None  # None: nobody knows how many

    def __str__(self) -> str:
        count = "" if self.messages is None else f"{self.messages} "
        return f"{count}messages of queue {self.queue}, offsets {self.start} up to {self.end}, {self.why}"


# --- names of queues --------------------------------------------------------------------------------------------------


def text_of(queue: MessageQueue) -> str:
    """How a queue is named within its topic, in checkpoints and wherever several brokers have the topic."""
    return f"{queue.broker}:{queue.queue}"


def queue_of(topic: str, text: str) -> MessageQueue:
    """What `text_of` has written; ValueError for anything else."""
    broker, mark, number = text.rpartition(":")
    if not mark:
        raise ValueError(f"{text!r} names no queue of {topic!r}: it has to be broker:number")
    return MessageQueue(topic, broker, int(number))


def by_topic(offsets: Offsets, note: Callable[[int], Noted] = int) -> Checkpoint:
    """Offsets as a checkpoint has them. Always in one order: Spark compares the texts."""
    found: Checkpoint = {}
    for queue in sorted(offsets):
        found.setdefault(queue.topic, {})[text_of(queue)] = note(offsets[queue])
    return found


def from_topics(offsets: Checkpoint, read: Callable[[Noted], int] = int) -> Offsets:
    """What `by_topic` has written."""
    return {queue_of(topic, text): read(noted) for topic, texts in offsets.items() for text, noted in texts.items()}


def by_queue_of(numbers: ByQueue, queues: Sequence[Queue], option: str) -> Offsets:
    """What an option says for each of these queues. ConfigError unless it names exactly these."""
    names = _names(queues)
    found: Offsets = {}
    for topic, by_text in numbers.items():
        if topic not in names:
            raise ConfigError(f"{option} has topic {topic!r}, which is not read: there are {', '.join(names)}")
        for text, number in by_text.items():
            if text not in names[topic]:
                known = ", ".join(text_of(queue) for queue in dict.fromkeys(names[topic].values()))
                raise ConfigError(f"{option} has queue {text!r} of topic {topic!r}: its queues are {known}")
            found[names[topic][text]] = number
    missing = [str(queue.name) for queue in queues if queue.name not in found]
    if missing:
        raise ConfigError(
            f"{option} has to name every queue ({EARLIEST_NUMBER} is its earliest offset, {LATEST_NUMBER} its latest): "
            f"there is nothing for {', '.join(missing[:10])}"
        )
    return found


def _names(queues: Iterable[Queue]) -> dict[str, dict[str, MessageQueue]]:
    """Each queue under all its names, by topic. The number alone will do where one broker has the topic."""
    by_topic: dict[str, list[MessageQueue]] = defaultdict(list)
    for queue in queues:
        by_topic[queue.name.topic].append(queue.name)
    names = {}
    for topic, found in by_topic.items():
        names[topic] = {text_of(queue): queue for queue in found}
        if len({queue.broker for queue in found}) == 1:
            names[topic] |= {str(queue.queue): queue for queue in found}
    return names


# --- offsets ----------------------------------------------------------------------------------------------------------


def times_wanted(edge: Edge, queues: Sequence[Queue]) -> Offsets:
    """The times, in ms, whose offsets have to be known before this edge can be resolved."""
    if edge.time_ms is not None:
        return {queue.name: edge.time_ms for queue in queues}
    return by_queue_of(edge.times, queues, edge.option) if edge.times is not None else {}


def resolved(edge: Edge, queues: Sequence[Queue], at: Mapping[MessageQueue, int]) -> Offsets:
    """The offset of each queue that an edge means. `at` has what was found for `times_wanted`. It may be outside of the
    queue only where somebody gave a number.
    """
    if edge.offsets is not None:
        return _numbered(by_queue_of(edge.offsets, queues, edge.option), queues)
    if edge.word:
        return {queue.name: queue.min_offset if edge.word == EARLIEST else queue.max_offset for queue in queues}
    return {queue.name: _within(at[queue.name], queue) for queue in queues}


def _numbered(numbers: Offsets, queues: Sequence[Queue]) -> Offsets:
    words: dict[int, Callable[[Queue], int]] = {
        EARLIEST_NUMBER: lambda queue: queue.min_offset,
        LATEST_NUMBER: lambda queue: queue.max_offset,
    }
    found = {}
    for queue in queues:
        number = numbers[queue.name]
        found[queue.name] = words[number](queue) if number in words else number
    return found


def check_matched(edge: Edge, queues: Sequence[Queue], starts: Mapping[MessageQueue, int]) -> None:
    """SparkSourceError when a starting time is behind the last message of a queue."""
    behind = [str(queue.name) for queue in queues if starts[queue.name] >= queue.max_offset]
    if behind and (edge.time_ms is not None or edge.times is not None):
        raise SparkSourceError(
            f"{edge.option} is behind the last message of {', '.join(behind[:10])}: give an earlier time, or set "
            "startingOffsetsByTimestampStrategy to latest to begin there with what comes next"
        )


def check_inside(edge: Edge, queues: Sequence[Queue], offsets: Mapping[MessageQueue, int]) -> None:
    """OutsideQueue when a number that somebody gave is not in its queue."""
    for queue in queues:
        offset = offsets[queue.name]
        if not queue.min_offset <= offset <= queue.max_offset:
            raise OutsideQueue(edge.option, queue.name, offset, queue.min_offset, queue.max_offset)


def inside(queues: Sequence[Queue], offsets: Mapping[MessageQueue, int]) -> Offsets:
    """The nearest offsets that are in their queues."""
    return {queue.name: _within(offsets[queue.name], queue) for queue in queues}


def _within(offset: int, queue: Queue) -> int:
    return min(max(offset, queue.min_offset), queue.max_offset)


# --- ranges -----------------------------------------------------------------------------------------------------------


def ranges_between(queues: Iterable[Queue], starts: Offsets, ends: Offsets) -> tuple[list[Range], list[Loss]]:
    """What there is to read of each queue that has an end, and what there should be and is not. A queue without a start
    is new, and read from its beginning.
    """
    ranges: list[Range] = []
    missing: list[Loss] = []
    for queue in queues:
        if queue.name not in ends:
            continue
        start, end = starts.get(queue.name, 0), ends[queue.name]
        loss = lost(queue, start, end)
        if loss is not None:
            missing.append(loss)
        first = begin(queue, start)
        last = min(end, queue.max_offset)
        if first < last:
            ranges.append(queue.between(first, last))
    return ranges, missing


def begin(queue: Queue, start: int) -> int:
    """Where a queue is read from: where it was left, or the first message there is when that place is gone."""
    return queue.min_offset if start > queue.max_offset else max(start, queue.min_offset)


def lost(queue: Queue, start: int, end: int) -> Loss | None:
    """What is missing between two offsets of a queue."""
    if start > queue.max_offset or end > queue.max_offset:
        why = f"are not there: it ends at {queue.max_offset}, as if the topic had been deleted and made anew"
        return _loss(queue, queue.max_offset, max(start, end), why)
    if start < queue.min_offset and start < end:
        return _loss(queue, start, min(queue.min_offset, end), "are gone: retention was faster than this query")
    return None


def _loss(queue: Queue, start: int, end: int, why: str) -> Loss:
    return Loss(queue.name, start, end, why, queue.count(start, end))


def losses(queues: Iterable[Queue], starts: Offsets) -> list[Loss]:
    """What is missing of the queues from these places on."""
    found = (lost(queue, starts.get(queue.name, 0), queue.max_offset) for queue in queues)
    return [loss for loss in found if loss is not None]


# --- tasks ------------------------------------------------------------------------------------------------------------


def grouped(ranges: Sequence[Range], tasks_min: int | None) -> list[tuple[Range, ...]]:
    """One group per task, of about the same number of messages. A task per queue, fewer when there is little to read,
    more when `tasks_min` asks for it.

    >>> three = [Range("t", "b", "a", queue, 0, 100) for queue in range(3)]
    >>> [len(group) for group in grouped(three, None)]
    [3]
    >>> [[r.messages for r in group] for group in grouped(three, 4)]
    [[50], [50], [100], [100]]
    """
    if not ranges:
        return []
    messages = sum(one.messages for one in ranges)
    count = min(max(math.ceil(messages / MESSAGES_PER_TASK), 1), len(ranges))
    count = max(count, min(tasks_min or 1, messages))
    return [(one,) for one in _split(ranges, count)] if count >= len(ranges) else _packed(ranges, count)


def _split(ranges: Sequence[Range], count: int) -> list[Range]:
    """At least one piece of each, and `count` in all: the next cut is always made where pieces are largest."""
    pieces = [1] * len(ranges)
    largest = [(-one.messages, at) for at, one in enumerate(ranges)]
    heapq.heapify(largest)
    for _ in range(count - len(ranges)):
        at = largest[0][1]
        pieces[at] += 1
        heapq.heapreplace(largest, (-ranges[at].messages // pieces[at], at))
    return [part for one, number in zip(ranges, pieces, strict=True) for part in one.cut(number)]


def _packed(ranges: Sequence[Range], count: int) -> list[tuple[Range, ...]]:
    """The largest first, each into the group that has least so far."""
    groups: list[list[Range]] = [[] for _ in range(count)]
    filled = [0] * count
    for one in sorted(ranges, key=lambda one: -one.messages):
        least = filled.index(min(filled))
        groups[least].append(one)
        filled[least] += one.messages
    return [tuple(group) for group in groups if group]


# --- limits -----------------------------------------------------------------------------------------------------------


def limited(queues: Iterable[Queue], starts: Offsets, limit: int | None) -> Offsets:
    """Where the next batch ends in each queue. A limit is shared out in proportion to what waits, so that all queues
    come to their ends together and none runs ahead in time; one message of each at least.

    >>> from penstock.client.routes import MessageQueue as Q
    >>> two = [Queue(Q("t", "b", 0), "", 0, 900), Queue(Q("t", "b", 1), "", 0, 100)]
    >>> list(limited(two, {Q("t", "b", 0): 0}, 100).values())
    [90, 10]
    """
    first = {queue.name: (begin(queue, starts.get(queue.name, 0)), queue.max_offset) for queue in queues}
    waiting = sum(end - start for start, end in first.values())
    if limit is None or waiting <= limit:
        return {name: end for name, (_, end) in first.items()}
    return {
        name: start + min(max((end - start) * limit // waiting, 1), end - start) for name, (start, end) in first.items()
    }
