"""What all pipelines share: what they are told, where their state is, how queries start and how a run is watched.

A lake is a folder that the driver and all executors see. Each pipeline has its tables in it, and under
`_state/<pipeline>/<query>` what it has to remember: Spark's checkpoint, and what `lake.py` notes. Delete a table
together with its state, never one of them.

A run ends when its queries end (`once`), when one fails (with one sentence), or when it is asked to stop.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec

from penstock.errors import ConfigError, PenstockError
from penstock.spark.pipelines.offsets import behind
from penstock.spark.session import LOCAL, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

STATE = "_state"
CHECKPOINT = "checkpoint"
WATCH_S = 0.25
SPARK_SETTINGS = {"spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS"}  # what other tools read, with statistics
_OURS = re.compile(r"penstock\.[a-z_.]+\.[A-Za-z]+: ([^\n]{1,2000})")
_STATE = re.compile(r" SQLSTATE: .*")
_URL = re.compile(r"[a-z][a-z0-9+.-]*:/")


class PipelineFailed(PenstockError):
    """A query ended with an error; the sentence is the cause's."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """What every pipeline is told."""

    lake: Annotated[str, msgspec.Meta(description="The folder for tables and state; all executors see it.")]
    service: Annotated[
        str, msgspec.Meta(description="Penstock, or a RocketMQ cluster: rocketmq://HOST:PORT of its name servers.")
    ] = "rocketmq://127.0.0.1:9876"
    once: Annotated[bool, msgspec.Meta(description="Take what is there now, and end.")] = False
    every_s: Annotated[float, msgspec.Meta(description="Seconds from batch to batch.")] = 10.0
    batch_rows: Annotated[int, msgspec.Meta(description="At most so many messages per batch; 0: all there are.")] = 0

    def check(self) -> None:
        """ConfigError for what can be seen to be wrong before Spark is started."""
        _ = self.folder

    @property
    def folder(self) -> Path:
        if _URL.match(self.lake):
            raise ConfigError(
                f"the lake {self.lake[:200]!r} is an address: give a folder that driver and executors see (mount it)"
            )
        return Path(self.lake).absolute()


class Progress(msgspec.Struct, frozen=True):
    """One batch of one query, when it is done."""

    query: str
    batch: int
    rows: int
    rows_per_s: float
    took_ms: int
    behind: int | None  # messages that were there and are not in it yet; None when the source does not say


class Outcome(msgspec.Struct):
    """What a run has done."""

    batches: int = 0
    rows: int = 0
    behind: int | None = None

    def add(self, progress: Progress) -> None:
        self.batches += progress.rows > 0
        self.rows += progress.rows
        self.behind = progress.behind


Show = Callable[[Progress], None]
Started = Sequence["StreamingQuery"]
S = TypeVar("S", bound=Settings)


# --- for pipelines ----------------------------------------------------------------------------------------------------


def messages(spark: "SparkSession", settings: Settings, **options: object) -> "DataFrame":
    """A stream of messages, from the earliest on. Options are those of the source; None leaves one out."""
    given = {"service": settings.service, "startingOffsets": "earliest", **options}
    if settings.batch_rows:
        given["maxOffsetsPerTrigger"] = settings.batch_rows
    reader = spark.readStream.format("penstock")
    for name, value in given.items():
        if value is not None:
            reader = reader.option(name, str(value).lower() if isinstance(value, bool) else str(value))
    return reader.load()


def state_folder(settings: Settings, pipeline: str, query: str = "main") -> Path:
    return settings.folder / STATE / pipeline / query


def started(writer: "DataStreamWriter", settings: Settings, pipeline: str, query: str = "main") -> "StreamingQuery":
    """Start a query of a pipeline with its checkpoint, once or every so often."""
    checkpoint = state_folder(settings, pipeline, query) / CHECKPOINT
    writer = writer.queryName(pipeline if query == "main" else f"{pipeline} {query}")
    writer = writer.option("checkpointLocation", str(checkpoint))
    if settings.once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{int(settings.every_s * 1000)} milliseconds").start()


def quiet(level: str = "off") -> dict[str, str]:
    """Settings that have Spark say no more than this. Its errors reach the user as one sentence all the same.

    By TCP: with a Unix socket, Python workers that are idle when Spark ends may print that they lost their connection.
    """
    told = Path(__file__).with_name("log4j2.properties")
    return {
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{told} -Dpenstock.log={level}",
        "spark.python.unix.domain.socket.enabled": "false",
    }


class Stop:
    """Asks a run to stop. The handler of a signal may do that, which an Event does not allow: the handler runs in the
    middle of the main thread's wait, and would itself wait for the lock that this holds.
    """

    def __init__(self) -> None:
        self._asked, self._bell = False, SimpleQueue[None]()

    def set(self) -> None:
        self._asked = True
        self._bell.put(None)

    def is_set(self) -> bool:
        return self._asked

    def wait(self, seconds: float) -> bool:
        if not self._asked:
            with suppress(Empty):
                self._bell.get(timeout=seconds)
        return self._asked


def run(
    start: "Callable[[SparkSession, S], Started]",
    settings: S,
    *,
    spark: "SparkSession | None" = None,
    master: str = LOCAL,
    conf: Mapping[str, str] | None = None,
    show: Show | None = None,
    stop: Stop | None = None,
) -> Outcome:
    """Start a pipeline and stay with it until it ends. Without a session of the caller's it has one of its own."""
    settings.check()
    settings.folder.mkdir(parents=True, exist_ok=True)
    own = spark or session("penstock", master, {**SPARK_SETTINGS, **(conf or {})})
    try:
        return watched(start(own, settings), show, stop)
    except PenstockError:
        raise
    except Exception as error:  # whatever Spark raises: its first sentence, and the rest as the cause
        raise PipelineFailed(sentence_of(error)) from error
    finally:
        if spark is None:
            own.stop()


# --- watching ---------------------------------------------------------------------------------------------------------


def watched(queries: Started, show: Show | None = None, stop: Stop | None = None) -> Outcome:
    """Tell of each batch as it is done, until all queries have ended; one that fails ends all of them."""
    seen, outcome, asked = _Seen(), Outcome(), stop or Stop()
    try:
        while any(query.isActive for query in queries) and not asked.wait(WATCH_S):
            _tell(queries, seen, outcome, show)
            if any(query.exception() is not None for query in queries if not query.isActive):
                break
    finally:
        for query in queries:
            query.stop()
    _tell(queries, seen, outcome, show)
    for query in () if asked.is_set() else queries:  # what breaks because it was stopped is no failure
        if (error := query.exception()) is not None:
            raise PipelineFailed(sentence_of(error))
    return outcome


class _Seen:
    """Which batches were told of. A query that waits tells of its last batch again."""

    def __init__(self) -> None:
        self._batch: dict[str, int] = {}

    def is_new(self, query: "StreamingQuery", told: Mapping[str, Any]) -> bool:
        key, batch = str(query.id), int(told["batchId"])
        if batch <= self._batch.get(key, -1) or "addBatch" not in told["durationMs"]:
            return False
        self._batch[key] = batch
        return True


def _tell(queries: Started, seen: _Seen, outcome: Outcome, show: Show | None) -> None:
    for query in queries:
        for told in query.recentProgress:
            if seen.is_new(query, told):
                progress = progress_of(told)
                outcome.add(progress)
                if show is not None:
                    show(progress)


def progress_of(told: Mapping[str, Any]) -> Progress:
    """What Spark tells of a batch, in our words."""
    return Progress(
        query=told.get("name") or "",
        batch=told["batchId"],
        rows=told["numInputRows"],
        rows_per_s=float(told.get("processedRowsPerSecond") or 0.0),
        took_ms=told["durationMs"].get("triggerExecution", 0),
        behind=behind(told["sources"]),
    )


def sentence_of(error: BaseException) -> str:
    """The sentence in an error of Spark's: one of ours if there is one in its stack, else its first line."""
    text = str(error)
    if ours := _OURS.findall(text):
        return str(ours[-1]).strip()
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(error).__name__)
    return _STATE.sub("", first)[:500]
