"""A batch read: a range of every queue, planned on the driver, read by the executors."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from penstock.client.routes import MessageQueue
from penstock.errors import ConfigError
from penstock.spark.engines import Asked, engine_of
from penstock.spark.errors import sentence
from penstock.spark.filters import Kept, kept, narrowed
from penstock.spark.options import Edge, Options
from penstock.spark.places import Queue
from penstock.spark.plan import (
    Offsets,
    check_matched,
    ranges_between,
    resolved,
    times_wanted,
)
from penstock.spark.ranges import Range
from penstock.spark.tasks import placed, report, rows, tasks

if TYPE_CHECKING:
    import pyarrow as pa


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
        with sentence(), engine_of(self.options.service).places(self.options) as places:
            queues = places.queues(self._topics(places))
            starts, ends = self._edges(places, queues)
            ranges, missing = ranges_between(filter(self.where.queue, queues), starts, ends)
            report(missing, self.options)
            return tasks(self._narrowed(places, ranges), self.options.partitions_min)

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        return rows(partition, self.options, self.schema)

    def _topics(self, places: Asked) -> list[str]:
        found = places.topics(self.options.topics, self.options.pattern)
        if not found:
            raise ConfigError(f"no topic matches topicPattern {self.options.pattern!r}: `penstock topic list` has all")
        return found

    def _edges(self, places: Asked, queues: list[Queue]) -> tuple[Offsets, Offsets]:
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

    def _offsets(self, places: Asked, queues: list[Queue], edge: Edge) -> Offsets:
        found = resolved(edge, queues, places.offsets_at(times_wanted(edge, queues)))
        return placed(edge, queues, found, self.options)

    def _narrowed(self, places: Asked, ranges: list[Range]) -> list[Range]:
        names = [MessageQueue(one.topic, one.broker, one.queue) for one in ranges]
        since_ms, until_ms = self.where.since_ms(), self.where.until_ms()
        since = places.offsets_at(dict.fromkeys(names, since_ms)) if since_ms is not None else {}
        until = places.offsets_at(dict.fromkeys(names, until_ms)) if until_ms is not None else {}
        return narrowed(ranges, engine_of(self.options.service).where(self.where), since, until)
