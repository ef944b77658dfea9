"""What a source is made of that depends on the service: RocketMQ's protocol (a Penstock, a RocketMQ) or Pulsar's.

Everything else is one for both: an offset is a number that has an order, a queue has a first and a last one, a range is
what lies between two. Only here is decided which of the two a service speaks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self

from penstock.client.routes import MessageQueue
from penstock.spark.filters import Kept
from penstock.spark.options import SCHEME, Options
from penstock.spark.places import Places, Queue
from penstock.spark.plan import Noted, Offsets, limited
from penstock.spark.ranges import Range

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType


class Asked(Protocol):
    """What the driver asks a service."""

    patience_ms: int

    def __enter__(self) -> Self: ...

    def __exit__(self, *error: object) -> None: ...

    def close(self) -> None: ...

    def topics(self, names: Sequence[str], pattern: str) -> list[str]: ...

    def queues(self, topics: Iterable[str]) -> list[Queue]: ...

    def existing(self, topics: Iterable[str]) -> list[Queue]: ...

    def offsets_at(self, times_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]: ...

    def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None: ...

    def limited(self, queues: Iterable[Queue], starts: Offsets, limit: int | None) -> Offsets:
        """Where the next batch ends in each queue."""
        ...


class Numbered(Places):
    """Offsets are numbers without gaps: how many messages are between two is known."""

    def limited(self, queues: Iterable[Queue], starts: Offsets, limit: int | None) -> Offsets:
        return limited(queues, starts, limit)


class Engine(NamedTuple):
    places: Callable[[Options], Asked]
    read: "Callable[[Sequence[Range], Options, StructType], Iterator[pa.RecordBatch]]"
    note: Callable[[int], Noted] = int  # an offset, as a checkpoint has it
    noted: Callable[[Noted], int] = int
    where: Callable[[Kept], Kept] = lambda kept: kept  # a filter on offsets as rows have them, as one on ours


def engine_of(service: str) -> Engine:
    return _pulsar() if service.startswith(SCHEME) else _rocketmq()


def _rocketmq() -> Engine:
    return Engine(lambda options: Numbered(options.service), _read_rocketmq)


def _read_rocketmq(ranges: Sequence[Range], options: Options, wanted: "StructType") -> "Iterator[pa.RecordBatch]":
    from penstock.spark.read import read  # when it is needed: on executors

    return read(ranges, options, wanted)


def _pulsar() -> Engine:
    """Loaded when it is needed: it is an extra."""
    from penstock.spark.pulsar.places import PulsarPlaces
    from penstock.spark.pulsar.positions import Place, in_places

    def places(options: Options) -> Asked:
        return PulsarPlaces(options.service, options.group_prefix)

    return Engine(
        places, _read_pulsar, lambda place: str(Place(place)), lambda text: Place.parsed(str(text)), in_places
    )


def _read_pulsar(ranges: Sequence[Range], options: Options, wanted: "StructType") -> "Iterator[pa.RecordBatch]":
    from penstock.spark.pulsar.reading import read

    return read(ranges, options, wanted)
