"""A streaming read: where it begins, how far the next batch goes, which ranges that is.

An offset, as Spark keeps it in the checkpoint, is how far every queue is: {"orders": {"broker-a:0": 5}}. The checkpoint
is the truth. Offsets of `commitGroup` are advice for those who look at lag: they are written whenever Spark asks how
far to go on from an offset, since it does so only when everything before it is done, and does so once more after the
last batch; its `commit` comes a batch later, and for the last one not at all.

One reader serves one run of a query, in a process of its own; Spark calls it from one thread.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from penstock import logs
from penstock.client.errors import ClientError
from penstock.client.routes import MessageQueue
from penstock.spark.engines import Asked, engine_of
from penstock.spark.errors import DataLost, sentence
from penstock.spark.options import Options
from penstock.spark.places import Queue
from penstock.spark.plan import (
    Checkpoint,
    Offsets,
    by_topic,
    check_matched,
    from_topics,
    losses,
    ranges_between,
    resolved,
    times_wanted,
)
from penstock.spark.tasks import placed, report, rows, tasks

if TYPE_CHECKING:
    import pyarrow as pa

log = logs.get(__name__)

PATIENCE_MS = 30_000  # a broker that is started anew does not end a query


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    def __init__(self, options: Options, schema: StructType) -> None:
        self.options, self.schema = options, schema
        self._open: Asked | None = None
        self._seen: dict[MessageQueue, Queue] = {}  # as of the last time it was asked how far to go
        self._target: Offsets | None = None  # where Trigger.AvailableNow ends
        self._committed: Offsets = {}
        self._missed: set[MessageQueue] = set()  # queues that are gone, and that was said

    # --- what Spark calls ---------------------------------------------------------------------------------------------

    def initialOffset(self) -> Checkpoint:  # noqa: N802
        with sentence():
            queues, edge = self._queues(), self.options.starting
            at = self._places.offsets_at(times_wanted(edge, queues))
            starts = placed(edge, queues, resolved(edge, queues, at), self.options)
            if not self.options.latest_if_no_match:
                check_matched(edge, queues, starts)
            return self._noted(starts)

    def latestOffset(self, start: Checkpoint, limit: ReadLimit) -> Checkpoint:  # noqa: N802
        with sentence():
            starts, queues = self._read(start), self._queues()
            self._seen = {queue.name: queue for queue in queues}
            self._check_gone(starts)
            if self.options.fail_on_data_loss:  # a warning comes when the ranges are known
                report(losses(queues, starts), self.options)
            self._commit(starts)
            ends = self._places.limited(self._to_target(queues), starts, _rows_max(limit))
            return self._noted({**starts, **ends})

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        most = self.options.offsets_per_trigger_max
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def reportLatestOffset(self) -> Checkpoint | None:  # noqa: N802
        """For Spark's progress reports: what there was when it was last asked how far to go."""
        return self._noted({name: queue.max_offset for name, queue in self._seen.items()}) or None

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        with sentence():
            self._target = {queue.name: queue.max_offset for queue in self._queues()}

    def partitions(self, start: Checkpoint, end: Checkpoint) -> Sequence[InputPartition]:
        with sentence():
            starts, ends = self._read(start), self._read(end)
            if starts == ends:
                return []
            if not ends.keys() <= self._seen.keys():  # a batch that an earlier run has begun
                self._seen = {queue.name: queue for queue in self._queues()}
                self._check_gone(ends)
            ranges, missing = ranges_between(self._seen.values(), starts, ends)
            report(missing, self.options)
            return tasks(ranges, self.options.partitions_min)

    def read(self, partition: InputPartition) -> Iterator["pa.RecordBatch"]:
        return rows(partition, self.options, self.schema)

    def commit(self, end: Checkpoint) -> None:
        with sentence():
            self._commit(self._read(end))

    def stop(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    # --- offsets in the checkpoint ------------------------------------------------------------------------------------

    def _noted(self, offsets: Offsets) -> Checkpoint:
        return by_topic(offsets, engine_of(self.options.service).note)

    def _read(self, offsets: Checkpoint) -> Offsets:
        return from_topics(offsets, engine_of(self.options.service).noted)

    # --- the service --------------------------------------------------------------------------------------------------

    @property
    def _places(self) -> Asked:
        """Opened when it is first used: a reader is pickled before that."""
        if self._open is None:
            self._open = engine_of(self.options.service).places(self.options)
        return self._open

    def _queues(self) -> list[Queue]:
        """As they are now, new ones with them. From the first answer on a silence is waited out."""
        options, places = self.options, self._places
        topics = places.topics(options.topics, options.pattern)
        may_be_gone = options.pattern or not options.fail_on_data_loss
        found = places.existing(topics) if may_be_gone else places.queues(topics)
        places.patience_ms = PATIENCE_MS
        return found

    def _commit(self, offsets: Offsets) -> None:
        if not self.options.commit_group:
            return
        news = {name: to for name, to in offsets.items() if name in self._seen and self._committed.get(name) != to}
        try:
            self._places.commit(self.options.commit_group, news)
            self._committed |= news
        except ClientError as error:
            told = f"offsets of group {self.options.commit_group!r} were not written, the query goes on: {error}"
            log.warning(told)

    # --- what is missing ----------------------------------------------------------------------------------------------

    def _check_gone(self, offsets: Offsets) -> None:
        """A queue that no broker offers any more is not skipped in silence. Its offset stays in the checkpoint: when
        its broker is back, it is read on from there.
        """
        gone = [name for name in offsets if name not in self._seen]
        if gone and self.options.fail_on_data_loss:
            names = ", ".join(map(str, gone[:10]))
            raise DataLost(
                f"no broker offers these {len(gone)} queues any more, {names}: is a broker down, or was the topic "
                "deleted or given fewer queues?",
                0,
            )
        for name in set(gone) - self._missed:
            told = f"no broker offers queue {name} any more; the query goes on without it"
            log.warning(told)
        self._missed = set(gone)

    def _to_target(self, queues: list[Queue]) -> list[Queue]:
        """Under Trigger.AvailableNow: as they were when it began."""
        if self._target is None:
            return queues
        return [
            msgspec.structs.replace(queue, max_offset=min(queue.max_offset, self._target[queue.name]))
            for queue in queues
            if queue.name in self._target
        ]


def _rows_max(limit: ReadLimit) -> int | None:
    return limit.max_rows if isinstance(limit, ReadMaxRows) else None
