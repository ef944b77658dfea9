"""What of a topic a `where` can leave out before it is read. Pure.

Spark looks at every row again, so it is enough that nothing is left out that it would keep. Constants of a queue
(topic, broker, number) decide about the whole queue, offsets cut its range, and store times cut it by a margin: brokers
find an offset by time with a binary search, and older ones give the nearest message, not the first.
"""

import datetime as dt
import operator
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec
from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from penstock.client.routes import MessageQueue
from penstock.spark.places import Queue
from penstock.spark.ranges import Range

MARGIN_MS = 1_000
T = TypeVar("T")

_COMPARED: dict[type[Filter], Callable[[Any, Any], bool]] = {
    EqualTo: operator.eq,
    In: lambda value, among: value in among,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
}
_FROM = (EqualTo, GreaterThan, GreaterThanOrEqual)  # a value below which no row is kept
_UPTO = (EqualTo, LessThan, LessThanOrEqual)


class Test(msgspec.Struct, frozen=True):
    """`column comparison value`, of a row that is to be kept."""

    column: str
    kind: type[Filter]
    value: object


class Kept(msgspec.Struct, frozen=True):
    """What a `where` says about the place of a row; every one of them holds for all that it keeps."""

    tests: tuple[Test, ...] = ()

    def queue(self, queue: Queue) -> bool:
        """Whether a queue can have rows that are kept."""
        constants = {"topic": queue.name.topic, "broker": queue.name.broker, "queue": queue.name.queue}
        return all(
            _COMPARED[test.kind](constants[test.column], test.value)
            for test in self.tests
            if test.column in constants and _comparable(constants[test.column], test)
        )

    def offsets(self, start: int, end: int) -> tuple[int, int]:
        """The part of a range that has rows that are kept."""
        start = max([start, *self._values("offset", _FROM, int)])
        return start, max(start, min([end, *(last + 1 for last in self._values("offset", _UPTO, int))]))

    def since_ms(self) -> int | None:
        """A time before which no row is kept, with a margin."""
        found = self._values("store_time", _FROM, dt.datetime)
        return max(_ms(max(found)) - MARGIN_MS, 0) if found else None

    def until_ms(self) -> int | None:
        """A time behind which no row is kept, with a margin."""
        found = self._values("store_time", _UPTO, dt.datetime)
        return max(_ms(min(found)) + MARGIN_MS, 0) if found else None

    def _values(self, column: str, kinds: tuple[type[Filter], ...], type_: type[T]) -> list[T]:
        found = (test.value for test in self.tests if test.column == column and test.kind in kinds)
        return [value for value in found if isinstance(value, type_)]


def kept(filters: Iterable[Filter]) -> Kept:
    """What these say together; one that says nothing about a place is passed over."""
    found = []
    for one in filters:
        attribute: tuple[str, ...] = getattr(one, "attribute", ())
        if type(one) in _COMPARED and len(attribute) == 1:
            found.append(Test(attribute[0], type(one), getattr(one, "value", None)))
    return Kept(tuple(found))


def narrowed(
    ranges: Iterable[Range], where: Kept, since: Mapping[MessageQueue, int], until: Mapping[MessageQueue, int]
) -> list[Range]:
    """What is left to read. `since` and `until` have the offsets of `since_ms` and `until_ms`, if there are such."""
    found = []
    for one in ranges:
        name = MessageQueue(one.topic, one.broker, one.queue)
        start = max(one.start, since.get(name, 0))
        end = min(one.end, until[name] + 1) if name in until else one.end
        start, end = where.offsets(start, end)
        if start < end:
            found.append(msgspec.structs.replace(one, start=start, end=end))
    return found


def _comparable(constant: object, test: Test) -> bool:
    values = test.value if test.kind is In else (test.value,)
    return isinstance(values, tuple | list) and all(type(value) is type(constant) for value in values)


def _ms(time: dt.datetime) -> int:
    return int(time.timestamp() * 1000)
