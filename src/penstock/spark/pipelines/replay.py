"""Put a time span of the archive back into a topic, in the order of time, each message once per replay.

    penstock pipeline replay --topic orders --since 2026-01-31T12:00Z --until 2026-01-31T13:00Z --into orders_again

A replay has an id: one of its own, or made of what it is asked for. The messages of the span (from `since` on, before
`until`, by when the broker stored them) are first copied into slices under `<lake>/_state/replay/<id>`, so that neither
the archive's growth nor its merging changes what is replayed; then slice after slice goes into the topic, through the
exactly-once sink. Killed in between it goes on there when it is run again; done, it puts nothing more into the topic.
Each message tells in its properties which replay it is of and when it was first stored.
"""

import hashlib
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from penstock.admin.place import TIME, place
from penstock.errors import ConfigError
from penstock.spark.options import SCHEME
from penstock.spark.pipelines import archive, running
from penstock.spark.pipelines.files import parquet_files, put_whole, synced
from penstock.wire.cross.names import EMPTY

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NAME = "replay"
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
# What brokers and producers add to the properties; a message that is sent again gets its own.
ADDED = (
    "KEYS", "TAGS", "UNIQ_KEY", "WAIT", "CLUSTER", "TRACE_ON", "MSG_REGION", "DELAY", "MIN_OFFSET", "MAX_OFFSET",
    "REAL_TOPIC", "REAL_QID", "CONSUME_START_TIME", "TRAN_MSG", "PGROUP", "INNER_NUM",
)  # fmt: skip


TOLD = ("REPLAY_ID", "REPLAY_STORED_MS", EMPTY)


class Settings(running.Settings, frozen=True, kw_only=True):
    topic: Annotated[str, msgspec.Meta(description="Of the archive: whose messages.")]
    since: Annotated[str, msgspec.Meta(description="From when on: 2026-01-31T12:00Z.")]
    until: Annotated[str, msgspec.Meta(description="Before when: as since.")]
    into: Annotated[str, msgspec.Meta(description="The topic that gets them.")]
    id: Annotated[str, msgspec.Meta(description="Another id is another replay. Default: made of the request.")] = ""
    keep_queues: Annotated[bool, msgspec.Meta(description="Into the queues they came from, not by their keys.")] = False
    slice_rows: Annotated[int, msgspec.Meta(description="Messages that are committed together.", ge=1)] = 50_000

    def check(self) -> None:
        super().check()
        folder(self, requested(self))


class Request(msgspec.Struct, frozen=True):
    """What is replayed; and, once it lies in slices, how much that is."""

    topic: str
    since_ms: int
    until_ms: int
    into: str
    messages: int = 0
    slices: int = 0

    @property
    def own_id(self) -> str:
        digest = hashlib.sha256(msgspec.json.encode([self.topic, self.since_ms, self.until_ms, self.into])).hexdigest()
        return f"{re.sub('[^A-Za-z0-9]', '-', self.topic).strip('-') or 'topic'}-{digest[:12]}"


def start(spark: "SparkSession", settings: Settings) -> running.Started:
    asked = requested(settings)
    state = folder(settings, asked)
    plan = prepared(spark, settings, asked, state)
    if not plan.messages:
        raise ConfigError(f"the archive has no message of {asked.topic} in that span: see `pipeline status archive`")
    rows = spark.readStream.schema(spark.read.parquet(str(state / "slices")).schema).option("maxFilesPerTrigger", 1)
    writer = rows.parquet(str(state / "slices")).coalesce(1).writeStream.format("penstock")
    writer = writer.option("service", settings.service).option("topic", settings.into)
    once = msgspec.structs.replace(settings, once=True)  # the slices are all there
    return [running.started(writer, once, NAME, state.name)]


def run(settings: Settings, **how: Any) -> running.Outcome:
    return running.run(start, settings, **how)


def folder(settings: Settings, asked: Request) -> Path:
    name = settings.id or asked.own_id
    if not _ID.fullmatch(name):
        raise ConfigError(f"{name[:100]!r} is no id for a replay: take letters, digits, _, . and -")
    return running.state_folder(settings, NAME, name)


def requested(settings: Settings) -> Request:
    since, until = (place(text, 0) for text in (settings.since, settings.until))
    if (since.kind, until.kind) != (TIME, TIME) or not 0 < since.value < until.value:
        raise ConfigError(
            f"{settings.since} to {settings.until} is no span of time: give two times such as 2026-01-31T12:00Z, the "
            "later one last (not how long ago: run again, that would be another span)"
        )
    return Request(settings.topic, since.value, until.value, settings.into)


def prepared(spark: "SparkSession", settings: Settings, asked: Request, state: Path) -> Request:
    """The slices are there when the plan is; what was begun without one is begun anew."""
    noted = state / "plan.json"
    if noted.exists():
        plan = msgspec.json.decode(noted.read_bytes(), type=Request)
        if msgspec.structs.replace(plan, messages=0, slices=0) != asked:
            raise ConfigError(f"the replay {state.name} was one of another span or topic: give this one another id")
        return plan
    slices = state / "slices"
    shutil.rmtree(slices, ignore_errors=True)
    rows = as_messages(span(spark, settings, asked), state.name, fills=not settings.service.startswith(SCHEME))
    count = rows.count()
    parts = rows.repartitionByRange(-(-count // settings.slice_rows) or 1, "store_time", "broker", "queue", "offset")
    parts = parts.sortWithinPartitions("store_time", "broker", "queue", "offset").drop("store_time", "broker", "offset")
    parts = parts if settings.keep_queues else parts.drop("queue")
    parts.write.option("maxRecordsPerFile", settings.slice_rows).parquet(str(slices))
    files = list(parquet_files(slices))
    for number, one in enumerate(files):  # Spark takes the oldest file first
        os.utime(slices / one.source, (number + 1, number + 1))
    synced(slices, files)
    plan = msgspec.structs.replace(asked, messages=sum(one.rows for one in files), slices=len(files))
    put_whole(noted, msgspec.json.encode(plan))
    return plan


def span(spark: "SparkSession", settings: Settings, asked: Request) -> "DataFrame":
    """The archived messages of one topic and time span."""
    from pyspark.sql import functions as f

    rows = archive.table(spark, settings).where(f.col("topic") == asked.topic)
    within = (f.unix_millis("store_time") >= asked.since_ms) & (f.unix_millis("store_time") < asked.until_ms)
    days = [f.date_from_unix_date(f.lit(time_ms // 86_400_000)) for time_ms in (asked.since_ms, asked.until_ms)]
    return rows.where(within & f.col("day").between(*days))


def as_messages(rows: "DataFrame", replay: str, fills: bool) -> "DataFrame":
    """What the sink takes, with the columns that order it. `fills` an empty body, which RocketMQ does not take, with a
    space.
    """
    from pyspark.sql import functions as f

    none = f.create_map().cast("map<string,string>")
    empty = (f.length("body") == 0) & f.lit(fills)
    filled = f.when(empty, "true").otherwise(f.try_element_at(f.coalesce("properties", none), f.lit(EMPTY)))
    values = f.lit(replay), f.unix_millis("store_time").cast("string"), filled
    told = f.create_map(*(part for name, value in zip(TOLD, values, strict=True) for part in (f.lit(name), value)))
    own = f.map_filter(f.coalesce("properties", none), lambda name, _: ~name.isin(*ADDED, *TOLD))
    ordered = ("store_time", "broker", "queue", "offset")
    properties = f.map_filter(f.map_concat(own, told), lambda _, value: value.isNotNull())
    body = f.when(empty, f.lit(b" ")).otherwise(f.col("body"))
    return rows.select(*ordered, "key", "tags", body.alias("body"), properties.alias("properties"))
