"""A batch read: a range of every queue, planned on the driver, read by the executors."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from penstock import logs
from penstock.errors import ConfigError
from penstock.spark.errors import DataLost, sentence
from penstock.spark.filters import Kept, kept, narrowed
from penstock.spark.options import Edge, Options
from penstock.spark.places import Places, Queue
from penstock.spark.plan import (
    Loss,
    Offsets,
    check_inside,
    check_matched,
    grouped,
    ranges_between,
    resolved,
    times_wanted,
)
from penstock.spark.ranges import Range

if TYPE_CHECKING:
    import pyarrow as pa

log = logs.get(__name__)


class Task(InputPartition):
    """What one task reads."""

    def __init__(self, ranges: tuple[Range, ...]) -> None:
        super().__init__(None)
        self.ranges = ranges


def tasks(ranges: list[Range], tasks_min: int | None) -> list[InputPartition]:
    return [Task(group) for group in grouped(ranges, tasks_min)]


def rows(partition: InputPartition, options: Options, schema: StructType) -> Iterator["pa.RecordBatch"]:
    """What the executors run. Where there is nothing to read, Spark makes a partition of its own that has no ranges."""
    if isinstance(partition, Task):
        from penstock.spark.read import read

        yield from read(partition.ranges, options, schema)


def report(losses: list[Loss], options: Options) -> None:
    """An error or a warning, as `failOnDataLoss` has it, with the counts."""
    if not losses:
        return
    messages = sum(loss.messages for loss in losses)
    if options.fail_on_data_loss:
        more = f", and {len(losses) - 1} more queues ({messages} messages in all)" if len(losses) > 1 else ""
        raise DataLost(f"{losses[0]}{more}", messages)
    for loss in losses:
        told = f"{loss}; the query goes on without them"  # in the sentence: workers of Spark show no fields
        log.warning(told)


class _PushFilters:
    """Spark refuses a reader that has a `pushFilters` of its own where the setting is off, though it would never call
    it. It looks at `__func__` to find out, so this one shows that of the base class.
    """

    __func__ = staticmethod(DataSourceReader.pushFilters)

    def __init__(self, reader: "BatchReader") -> None:
        self._reader = reader

    def __call__(self, filters: list[Filter]) -> Iterable[Filter]:
        self._reader.where = kept(filters)
        return filters  # Spark looks at the rows again


class BatchReader(DataSourceReader):
    def __init__(self, options: Options, schema: StructType) -> None:
        self.options, self.schema = options, schema
        self.where = Kept()

    @property
    def pushFilters(self) -> Any:  # noqa: N802
        return _PushFilters(self)

    def partitions(self) -> list[InputPartition]:
        with sentence(), Places(self.options.service) as places:
            queues = places.queues(self._topics(places))
            starts, ends = self._edges(places, queues)
            starts, ends = self._narrowed(places, queues, starts, ends)
            ranges, losses = ranges_between(queues, starts, ends)
            report([loss for loss in losses if loss.messages], self.options)
            return tasks(ranges, self.options.partitions_min)

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        return rows(partition, self.options, self.schema)

    def _topics(self, places: Places) -> list[str]:
        found = places.topics(self.options.topics, self.options.pattern)
        if not found:
            raise ConfigError(f"no topic matches topicPattern {self.options.pattern!r}: `penstock topic list` has all")
        return found

    def _edges(self, places: Places, queues: list[Queue]) -> tuple[Offsets, Offsets]:
        starts = self._offsets(places, queues, self.options.starting)
        ends = self._offsets(places, queues, self.options.ending)
        if not self.options.latest_if_no_match:
            check_matched(self.options.starting, queues, starts)
        for name, start in starts.items():
            if ends[name] < start:
                raise ConfigError(
                    f"queue {name} would be read from offset {start} up to {ends[name]}: the end is before the start"
                )
        return starts, ends

    def _offsets(self, places: Places, queues: list[Queue], edge: Edge) -> Offsets:
        found = resolved(edge, queues, places.offsets_at(times_wanted(edge, queues)))
        if self.options.fail_on_data_loss:
            check_inside(edge, queues, found)
        return found

    def _narrowed(self, places: Places, queues: list[Queue], starts: Offsets, ends: Offsets) -> tuple[Offsets, Offsets]:
        since_ms, until_ms = self.where.since_ms(), self.where.until_ms()
        names = [queue.name for queue in queues if self.where.queue(queue)]
        since = places.offsets_at(dict.fromkeys(names, since_ms)) if since_ms is not None else {}
        until = places.offsets_at(dict.fromkeys(names, until_ms)) if until_ms is not None else {}
        return narrowed(queues, starts, ends, self.where, since, until)
