"""What was produced against what was consumed, message by message: what was lost, what came twice, what came late.

From what clients trace (`traces.py`), so it works on RocketMQ clusters too, for the producers and consumers that have
tracing on. A message is judged once, when it is `lost_after_s` old, against every group that consumes its topic and
tags at that time: no group that is done with it: lost; done with it more than once: duplicated; first done with it
after `late_after_s`: late. Which groups those are is learned from the traces. Delayed messages are not late. Half
messages count once they are committed.

From the broker's own events: offsets that a group never asked for, because retention or a reset took it past them;
those it was sent back to; and half messages that were given up.

`<lake>/audit/messages` has the messages that something was wrong with; `groups` how many there were of each, by minute
of production; `skipped` the offsets.
"""

from pathlib import Path
from typing import Annotated, Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.pipelines import running
from penstock.spark.pipelines.history import EVENTS_TOPIC, WITHOUT_EVENTS, check_told, events, of
from penstock.spark.pipelines.judging import GROUPS, aged, judged, learned
from penstock.spark.pipelines.kept import Snapshots
from penstock.spark.pipelines.lake import Table
from penstock.spark.pipelines.traces import SCHEMA, TRACE_TOPIC, traces

NAME = "audit"


class Settings(running.Settings, frozen=True, kw_only=True):
    late_after_s: Annotated[int, msgspec.Meta(description="Consumed later than this after production: late.")] = 300
    lost_after_s: Annotated[int, msgspec.Meta(description="Not consumed this long after production: lost.")] = 3_600
    broadcast: Annotated[
        str, msgspec.Meta(description="Groups that broadcast, with commas between: for them several times is right.")
    ] = ""
    trace_topic: Annotated[str, msgspec.Meta(description="Where clients trace to.")] = TRACE_TOPIC
    events_topic: Annotated[
        str, msgspec.Meta(description="Where the broker tells of itself; empty on a cluster that does not.")
    ] = EVENTS_TOPIC

    @property
    def broadcasting(self) -> list[str]:
        return [name.strip() for name in self.broadcast.split(",") if name.strip()]


def verdicts(messages: DataFrame, settings: Settings) -> StreamingQuery:
    """A stream of traces into the tables of messages and groups."""
    state = running.state_folder(settings, NAME, "traces")
    facts, groups = Snapshots(state / "facts", SCHEMA), Snapshots(state / "groups", GROUPS)
    found = Table(folder(settings) / "messages", state / "messages")
    sums = Table(folder(settings) / "groups", state / "sums")

    def take(batch: DataFrame, number: int) -> None:
        spark = batch.sparkSession
        known = facts.before(spark, number).unionByName(traces(batch)).distinct().persist()
        consumers = groups.write(learned(groups.before(spark, number), known), number)
        old, young = aged(known, settings.lost_after_s)
        all_judged = judged(old, consumers, settings.late_after_s, settings.broadcasting).persist()
        found.append(all_judged.where("lost OR duplicated OR late"), number)
        sums.append(counted(all_judged), number)
        facts.write(young, number)
        for one in (all_judged, known):
            one.unpersist()

    return running.started(messages.writeStream.foreachBatch(take), settings, NAME, "traces")


def counted(verdicts: DataFrame) -> DataFrame:
    """How many of each, by minute of production. A minute may come in several rows: add them up."""
    by = verdicts.groupBy(f.date_trunc("minute", "produced_at").alias("minute"), "topic", "group")
    return by.agg(
        f.count("*").alias("produced"),
        f.count_if(f.col("deliveries") > 0).alias("consumed"),
        *(f.count_if(name).alias(name) for name in ("lost", "duplicated", "late")),
    )


def skipped(told: DataFrame) -> DataFrame:
    """Runs of offsets that a group was taken past, or sent back to; half messages that nobody ended."""
    past = of(told, "OffsetMoved").where("asked_offset < corrected_offset AND asked_offset >= 0")
    retained = past.selectExpr(
        *_RUN, "queue", "'retention' AS why", "asked_offset AS first", "corrected_offset AS next"
    )
    resets = of(told, "ResetAsked").selectExpr(
        *_RUN, "explode(targets) AS (_queue, _to)", "from_json(before, 'MAP<STRING, STRING>') AS _before"
    )
    moved = resets.selectExpr(
        "at", "broker", "`group`", "topic", "CAST(_queue AS INT) AS queue", "CAST(_to AS BIGINT) AS _to",
        "CAST(_before[_queue] AS BIGINT) AS _from",
    ).where("_from IS NOT NULL AND _from != _to")  # fmt: skip
    runs = "if(_to > _from, 'reset', 'reset back') AS why", "least(_from, _to) AS first", "greatest(_from, _to) AS next"
    told_runs = retained.unionByName(moved.selectExpr("at", "broker", "`group`", "topic", "queue", *runs))
    told_runs = told_runs.selectExpr("*", "next - first AS messages", "CAST(NULL AS STRING) AS message_id")
    given_up = of(told, "HalfGivenUp").selectExpr(
        "at", "broker", "producer_group AS `group`", "topic", "CAST(NULL AS INT) AS queue", "'never committed' AS why",
        "CAST(NULL AS BIGINT) AS first", "CAST(NULL AS BIGINT) AS next", "1L AS messages", "message_id",
    )  # fmt: skip
    return told_runs.unionByName(given_up)


_RUN = ("at", "broker", "`group`", "topic")


# --- running ----------------------------------------------------------------------------------------------------------


def skips(messages: DataFrame, settings: Settings) -> StreamingQuery:
    table = Table(folder(settings) / "skipped", running.state_folder(settings, NAME, "skipped"))

    def take(batch: DataFrame, number: int) -> None:
        table.append(skipped(events(batch)), number)

    return running.started(messages.writeStream.foreachBatch(take), settings, NAME, "skipped")


def start(spark: SparkSession, settings: Settings) -> running.Started:
    if settings.events_topic:
        check_told(settings.service, settings.events_topic, WITHOUT_EVENTS)
    queries = [verdicts(running.messages(spark, settings, topic=settings.trace_topic), settings)]
    if settings.events_topic:
        queries.append(skips(running.messages(spark, settings, topic=settings.events_topic), settings))
    return queries


def run(settings: Settings, **how: Any) -> running.Outcome:
    return running.run(start, settings, **how)


def folder(settings: running.Settings) -> Path:
    return settings.folder / NAME
