"""How much went through, minute by minute: by topic and queue, and by producer group and consumer group.

From the messages themselves: how many, how large, and how long from the producer to the broker (`store_time` less
`born_time`: by the producer's clock, and with the delay that a delayed message asked for). From the broker's counters:
which groups produced and consumed how much, and how far they are behind.

`<lake>/traffic/queues` and `<lake>/traffic/groups` have a row per minute, in files by day and hour. A minute takes what
comes late until the watermark has passed it (`late_s`); what comes later still is not counted, and Spark tells how much
that was.
"""

from pathlib import Path
from typing import Annotated, Any

import msgspec
from pyspark.sql import Column, DataFrame, GroupedData, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.pipelines import running
from penstock.spark.pipelines.history import EVENTS_TOPIC, WITHOUT_EVENTS, check_told, events, millis, of
from penstock.spark.pipelines.kept import upsert
from penstock.spark.pipelines.lake import lock

NAME = "traffic"
QUEUE_KEYS = ("minute", "broker", "topic", "queue")
GROUP_KEYS = ("minute", "broker", "role", "group", "topic")
QUANTILES, ACCURACY = (0.5, 0.95, 0.99), 1_000


class Settings(running.Settings, frozen=True, kw_only=True):
    topics: Annotated[str, msgspec.Meta(description="One, or several with commas between.")] = ""
    pattern: Annotated[
        str, msgspec.Meta(description="Instead: all topics whose whole name this expression matches.")
    ] = ""
    late_s: Annotated[int, msgspec.Meta(description="How late a message may come and still be counted.")] = 600
    events_topic: Annotated[
        str, msgspec.Meta(description="Where the broker tells of itself; empty on a cluster that does not.")
    ] = EVENTS_TOPIC


def by_queue(messages: DataFrame, late_s: int) -> DataFrame:
    """Minutes of queues, by when the broker stored the messages."""
    sizes = messages.select(
        "store_time", "broker", "topic", "queue",
        f.octet_length("body").alias("bytes"),
        (millis("store_time") - millis("born_time")).alias("delay_ms"),
    )  # fmt: skip
    minutes = _minutes(sizes, "store_time", late_s, "broker", "topic", "queue").agg(
        f.count("*").alias("messages"),
        f.sum("bytes").alias("bytes"),
        _quantiles("bytes").alias("size"),
        f.max("bytes").alias("size_max"),
        _quantiles("delay_ms").alias("delay"),
        f.max("delay_ms").alias("delay_ms_max"),
    )
    return minutes.select(
        f.col("window.start").alias("minute"), "broker", "topic", "queue", "messages", "bytes",
        *_spread("size", "size_p{}"), "size_max", *_spread("delay", "delay_ms_p{}"), "delay_ms_max",
    )  # fmt: skip


def by_group(told: DataFrame, late_s: int) -> DataFrame:
    """Minutes of groups. What a broker tells when a minute is over is about that minute; after a restart within it, in
    two parts.
    """
    counted = of(told, "ProducerMinute", "GroupMinute", "LagMinute").select(
        f.expr("at - INTERVAL 30 SECONDS").alias("within"), "broker", "group", "topic",
        f.expr("if(kind = 'ProducerMinute', 'producer', 'consumer')").alias("role"),
        f.coalesce("messages", f.lit(0)).alias("messages"),
        f.coalesce("bytes", f.lit(0)).alias("bytes"),
        f.coalesce("sent_back", f.lit(0)).alias("sent_back"),
        "lag",
    )  # fmt: skip
    minutes = _minutes(counted, "within", late_s, "broker", "role", "group", "topic").agg(
        f.sum("messages").alias("messages"),
        f.sum("bytes").alias("bytes"),
        f.sum("sent_back").alias("sent_back"),
        f.max("lag").alias("lag"),
    )
    return minutes.select(
        f.col("window.start").alias("minute"), *GROUP_KEYS[1:], "messages", "bytes", "sent_back", "lag"
    )


def _minutes(rows: DataFrame, time: str, late_s: int, *by: str) -> GroupedData:
    return rows.withWatermark(time, f"{late_s} seconds").groupBy(f.window(time, "1 minute"), *by)


def _quantiles(column: str) -> Column:
    return f.percentile_approx(column, list(QUANTILES), ACCURACY)


def _spread(column: str, name: str) -> list[Column]:
    return [f.col(column)[at].alias(name.format(round(100 * share))) for at, share in enumerate(QUANTILES)]


# --- running ----------------------------------------------------------------------------------------------------------


def kept(minutes: DataFrame, settings: Settings, query: str, keys: tuple[str, ...]) -> StreamingQuery:
    """A stream of minutes into their table: a minute that has grown takes the place of what was known of it."""
    state = running.state_folder(settings, NAME, query)
    lock(state, folder(settings) / query)

    def take(batch: DataFrame, number: int) -> None:
        upsert(batch, folder(settings) / query, state / "aside", keys, "minute")

    return running.started(minutes.writeStream.outputMode("update").foreachBatch(take), settings, NAME, query)


def start(spark: SparkSession, settings: Settings) -> running.Started:
    if settings.events_topic:
        check_told(settings.service, settings.events_topic, WITHOUT_EVENTS)
    chosen = {"topic": settings.topics or None, "topicPattern": settings.pattern or (None if settings.topics else ".*")}
    queues = by_queue(running.messages(spark, settings, **chosen), settings.late_s)
    queries = [kept(queues, settings, "queues", QUEUE_KEYS)]
    if settings.events_topic:
        told = events(running.messages(spark, settings, topic=settings.events_topic))
        queries.append(kept(by_group(told, settings.late_s), settings, "groups", GROUP_KEYS))
    return queries


def run(settings: Settings, **how: Any) -> running.Outcome:
    return running.run(start, settings, **how)


def folder(settings: running.Settings) -> Path:
    return settings.folder / NAME
