"""What a task does with its rows: encode them, and stage them on a Penstock, or send them to a RocketMQ or a Pulsar.

Nobody sees what is staged before the driver commits. A stage has a name that no other attempt has, also not one of an
earlier run of the same query that has left its stage behind.
"""

import random
import secrets
import time
from collections.abc import Callable, Iterable
from typing import Protocol

import msgspec
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage

from penstock.spark.options import SCHEME
from penstock.spark.rows import Rows, batch, packed
from penstock.spark.send import Sender
from penstock.spark.sink_options import SinkOptions
from penstock.spark.splitting import rows_in
from penstock.spark.stage import Stager
from penstock.spark.targets import Target, target

FindTarget = Callable[[str, str], Target]  # of a service and a topic
BATCH_ID, QUERY_ID = "streaming.sql.batchId", "sql.streaming.queryId"


class Job(msgspec.Struct, frozen=True):
    """A write as the driver hands it to its tasks. Without the address of a Penstock it is plain sends."""

    options: SinkOptions
    token: str  # no other job has it: all its stages begin so
    address: str = ""


class Written(WriterCommitMessage):
    """What a task tells the driver: the stage that counts, if it had rows, and the query that it belongs to."""

    def __init__(self, stage: str, query: str, rows: int) -> None:
        self.stage, self.query, self.rows = stage, query, rows


class Outlet(Protocol):
    """Where a task's messages go."""

    @property
    def stage(self) -> str:
        """Where they are staged; empty when there are none, or they are sent."""
        ...

    def put(self, where: Target, rows: Rows) -> None: ...

    def finish(self) -> None: ...

    def close(self) -> None: ...


class StageOutlet:
    def __init__(self, job: Job, name: str) -> None:
        self._stager = Stager(job.address, name)

    @property
    def stage(self) -> str:
        return self._stager.name if self._stager.parts else ""

    def put(self, where: Target, rows: Rows) -> None:
        self._stager.add(rows.topic, len(where.queues), packed(rows), _now_ms(), rows.delay_ms is not None)

    def finish(self) -> None:
        self._stager.finish()

    def close(self) -> None:
        self._stager.close()


class SendOutlet:
    @property
    def stage(self) -> str:
        return ""

    def __init__(self) -> None:
        self._sender = Sender()

    def put(self, where: Target, rows: Rows) -> None:
        if rows.delay_ms is None:
            self._sender.add(where, batch(rows), _now_ms())
        else:
            self._sender.add_delayed(where, rows, _now_ms())

    def finish(self) -> None:
        self._sender.finish()

    def close(self) -> None:
        self._sender.close()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def write(batches: Iterable[pa.RecordBatch], job: Job) -> Written:
    """All rows of a task; returns when the brokers have them."""
    context = TaskContext.get()
    if context is None:
        return _written(batches, job, f"{job.token}/{secrets.token_hex(8)}", "")
    place = f"{context.getLocalProperty(BATCH_ID) or 0}/{context.partitionId()}/{context.attemptNumber()}"
    name = f"{job.token}/{place}/{secrets.token_hex(8)}"
    return _written(batches, job, name, context.getLocalProperty(QUERY_ID) or "")


def _outlet(job: Job, name: str) -> tuple[Outlet, FindTarget]:
    """Where messages go, and how it is found out where a topic's are to go."""
    if job.address:
        return StageOutlet(job, name), target
    if not job.options.service.startswith(SCHEME):
        return SendOutlet(), target
    from penstock.spark.pulsar import writing as pulsar  # an extra

    return pulsar.PulsarOutlet(job.options.service), pulsar.target


def _written(batches: Iterable[pa.RecordBatch], job: Job, name: str, query: str) -> Written:
    outlet, found = _outlet(job, name)
    targets: dict[str, Target] = {}

    def to(topic: str) -> Target:
        if topic not in targets:
            targets[topic] = found(job.options.service, topic)
        return targets[topic]

    turn, count = random.randrange(1 << 16), 0
    try:
        for some in batches:
            for rows in rows_in(some, job.options, lambda topic: len(to(topic).queues), turn):
                outlet.put(to(rows.topic), rows)
            turn, count = turn + 1, count + len(some)
        outlet.finish()
    finally:
        outlet.close()
    return Written(outlet.stage, query, count)
