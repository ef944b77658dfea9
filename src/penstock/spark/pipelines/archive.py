"""What was in the topics, for good: Parquet by topic and day (UTC, of when the broker stored it), each message once.

`<lake>/archive/topic=<topic>/day=<day>/*.parquet` can be read by anything that reads Parquet. A message is known by
broker, topic, queue and offset: what a producer sent twice was stored twice, and is there twice. A message that is old
when it comes goes to its own day. With a value format and a schema the body is parsed into columns as well.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from penstock.errors import ConfigError
from penstock.spark.pipelines import running
from penstock.spark.pipelines.lake import Table
from penstock.spark.pipelines.merging import FILES_PER_TIER, merge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NAME = "archive"
BY = ("topic", "day")
ORDER = ("broker", "queue", "offset")  # in a merged file: neighbours are alike, and ranges are skipped by statistics
DELTA_CLASS = "io.delta.sql.DeltaSparkSessionExtension"
DELTA_CATALOG = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
DELTA_PACKAGE = "io.delta:delta-spark_4.2_2.13:4.4.0"  # for pyspark 4.2


class Settings(running.Settings, frozen=True, kw_only=True):
    topics: Annotated[str, msgspec.Meta(description="One, or several with commas between.")] = ""
    pattern: Annotated[
        str, msgspec.Meta(description="Instead: all topics whose whole name this expression matches.")
    ] = ""
    format: Annotated[str, msgspec.Meta(description="parquet, or delta where Spark has Delta.")] = "parquet"
    value_format: Annotated[str, msgspec.Meta(description="json, avro, string: parse the body into columns too.")] = ""
    value_schema: Annotated[str, msgspec.Meta(description="Their names and types: 'id BIGINT, amount DOUBLE'.")] = ""
    merge_files: Annotated[int, msgspec.Meta(description="So many small files of a day become one; 0: never.")] = (
        FILES_PER_TIER
    )

    def check(self) -> None:
        super().check()
        if bool(self.topics) == bool(self.pattern):
            raise ConfigError("archive needs topics or a pattern, and not both: --topics a,b or --pattern '.*'")
        if self.format not in WRITERS:
            raise ConfigError(f"the archive's format is one of {', '.join(WRITERS)}, not {self.format[:20]!r}")


def archived(messages: "DataFrame", settings: Settings) -> "StreamingQuery":
    """A stream of messages into the lake."""
    if "day" in messages.columns:
        raise ConfigError("the value schema has a column `day`, which the archive has of its own: give it another name")
    return WRITERS[_format(messages.sparkSession, settings)](by_day(messages), settings)


def by_day(messages: "DataFrame") -> "DataFrame":
    """With the day on which the broker stored it, UTC, whatever zone the session has."""
    from pyspark.sql import functions as f

    seconds = f.unix_seconds("store_time")
    return messages.withColumn("day", f.date_from_unix_date(f.floor(seconds / 86_400).cast("int")))


def start(spark: "SparkSession", settings: Settings) -> running.Started:
    settings.check()
    return [archived(running.messages(spark, settings, **_wanted(settings)), settings)]


def run(settings: Settings, **how: Any) -> running.Outcome:
    return running.run(start, settings, **how)


def folder(settings: running.Settings) -> Path:
    return settings.folder / NAME


def table(spark: "SparkSession", settings: running.Settings) -> "DataFrame":
    """The archive, with topics as text (Spark takes a topic named 1 for a number) and all columns there ever were."""
    from pyspark.sql.types import StringType, StructField, StructType

    place = folder(settings)
    if not place.is_dir():
        raise ConfigError(f"there is no archive in {settings.lake}: `penstock pipeline run archive` makes one")
    if (place / "_delta_log").is_dir():
        return spark.read.format("delta").load(str(place))
    found = spark.read.option("mergeSchema", "true").parquet(str(place)).schema
    text = [StructField(one.name, StringType()) if one.name == "topic" else one for one in found.fields]
    return spark.read.schema(StructType(text)).parquet(str(place))


def _wanted(settings: Settings) -> Mapping[str, object]:
    return {
        "topic": settings.topics or None,
        "topicPattern": settings.pattern or None,
        "includeProperties": True,
        "valueFormat": settings.value_format or None,
        "valueSchema": settings.value_schema or None,
    }


# --- writing ----------------------------------------------------------------------------------------------------------


def _to_parquet(rows: "DataFrame", settings: Settings) -> "StreamingQuery":
    state = running.state_folder(settings, NAME)
    table = Table(folder(settings), state)

    def write(batch: "DataFrame", number: int) -> None:
        for touched in table.append(batch, number, BY):
            if settings.merge_files:
                merge(batch.sparkSession, touched, state / "merging", ORDER, settings.merge_files)

    return running.started(rows.writeStream.foreachBatch(write), settings, NAME)


def _to_delta(rows: "DataFrame", settings: Settings) -> "StreamingQuery":
    """Delta is exactly once by itself: its log names the query and the batch."""
    writer = rows.writeStream.format("delta").partitionBy(*BY).option("path", str(folder(settings)))
    return running.started(writer.option("mergeSchema", "true"), settings, NAME)


WRITERS = {"parquet": _to_parquet, "delta": _to_delta}


def _format(spark: "SparkSession", settings: Settings) -> str:
    if settings.format == "delta" and not _has_delta(spark):
        raise ConfigError(
            f"Delta is not there: give Spark its package (--conf spark.jars.packages={DELTA_PACKAGE} --conf "
            f"spark.sql.extensions={DELTA_CLASS} --conf spark.sql.catalog.spark_catalog={DELTA_CATALOG}), "
            "or take --format parquet"
        )
    return settings.format


def _has_delta(spark: "SparkSession") -> bool:
    from py4j.protocol import Py4JError

    jvm: Any = spark._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        loader.loadClass(DELTA_CLASS)
    except Py4JError:
        return False
    return True
