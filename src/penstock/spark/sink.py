"""The sink: `df.write.format("penstock")` and `writeStream`.

Into a Penstock exactly once: tasks stage their rows, the driver's commit publishes those of the attempts that count,
once per query and batch; a commit that is repeated, since nobody heard of its success, publishes nothing. A batch write
has a key of its own, or the one that the option `commitKey` gives: then also a write that is repeated as a whole
publishes nothing.

Into a RocketMQ at least once, since it knows nothing of staging, and so through Pulsar's protocol: rows are there as
soon as they are sent.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from penstock import logs
from penstock.client.errors import ClientError
from penstock.errors import ConfigError
from penstock.spark.errors import sentence
from penstock.spark.options import BATCH, SCHEME, STREAM
from penstock.spark.sink_options import SinkOptions, sink_options
from penstock.spark.stage import commit, drop, penstock_at
from penstock.spark.targets import Target, target
from penstock.spark.writing import Job, Written, write

log = logs.get(__name__)

Messages = Sequence[WriterCommitMessage | None]


def job_for(options: SinkOptions) -> Job:
    """Asks the service what it is, and whether the topic is there or can be made: here and now, on the driver."""
    is_pulsar = options.service.startswith(SCHEME)
    if options.topic:
        queues = len(_target(options.service, options.topic).queues)
        if options.queue is not None and options.queue >= queues:
            raise ConfigError(f"topic {options.topic!r} has queues 0 to {queues - 1}, not {options.queue}")
    found, token = None if is_pulsar else penstock_at(options.service), secrets.token_hex(16)
    if found is not None:
        return Job(options, token, found)
    who = "Pulsar's protocol knows no staging" if is_pulsar else "this is no Penstock"
    told = f"{who}: rows are written at least once, not exactly once"
    log.warning(told, service=options.service)
    return Job(options, token)


def _target(service: str, topic: str) -> Target:
    if not service.startswith(SCHEME):
        return target(service, topic)
    from penstock.spark.pulsar import writing as pulsar  # an extra

    return pulsar.target(service, topic)


def _publish(job: Job, key: str, messages: Messages, others: str) -> None:
    stages = [message.stage for message in messages if isinstance(message, Written) and message.stage]
    if job.address and stages and not commit(job.address, key, stages, others):
        log.info("nothing is published: this commit was made before", key=key)


def _give_up(job: Job, others: str) -> None:
    """What was staged is not needed. It would expire by itself: not being able to say so is no error."""
    try:
        if job.address:
            drop(job.address, others)
    except ClientError as error:
        log.info("stages could not be dropped, they will expire", error=str(error))


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, job: Job) -> None:
        self.job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        with sentence():
            return write(iterator, self.job)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        given = self.job.options.commit_key
        with sentence():
            _publish(self.job, f"given/{given}" if given else f"job/{self.job.token}", messages, f"{self.job.token}/")

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        _give_up(self.job, f"{self.job.token}/")


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, job: Job) -> None:
        self.job = job

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        with sentence():
            return write(iterator, self.job)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803  # Spark's name
        query = next((message.query for message in messages if isinstance(message, Written)), "")
        with sentence():
            _publish(self.job, f"query/{query}/{batchId}", messages, f"{self.job.token}/{batchId}/")

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        _give_up(self.job, f"{self.job.token}/{batchId}/")


def batch_writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    return BatchWriter(_job(given, BATCH, schema, overwrite))


def stream_writer(given: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    return StreamWriter(_job(given, STREAM, schema, overwrite))


def _job(given: Mapping[str, str], kind: str, schema: StructType, overwrite: bool) -> Job:
    if overwrite:
        raise ConfigError("a topic cannot be overwritten: write to it with mode append")
    return job_for(sink_options(given, kind, schema))
