"""What was wrong with the consumer groups, from when to when, with whom, and why.

From the broker's events: the troubles that can be seen live, over as long as the history goes. A trouble is a session
of events that belong together; one that lasts from one run into the next is one trouble. The causes are in
`troubles.py`.

`<lake>/health` is a table of all troubles so far, replaced whole with each batch. `open`: it still went on when the
last event was told.
"""

from pathlib import Path
from typing import Annotated, Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from penstock.spark.pipelines import running
from penstock.spark.pipelines.history import EVENTS_TOPIC, check_told, events
from penstock.spark.pipelines.kept import Snapshots, replace
from penstock.spark.pipelines.lake import lock
from penstock.spark.pipelines.sessions import SCHEMA, merged
from penstock.spark.pipelines.troubles import GAPS_S, by_cause, marks

NAME = "health"
LATE_S = 600  # events of several brokers do not come in order; so much later they still find their session
_SEEN = "seen TIMESTAMP"  # the time of the last event


class Settings(running.Settings, frozen=True, kw_only=True):
    events_topic: Annotated[str, msgspec.Meta(description="Where the broker tells of itself.")] = EVENTS_TOPIC


def watched(messages: DataFrame, settings: Settings) -> StreamingQuery:
    """A stream of the broker's events into the table of troubles."""
    state = running.state_folder(settings, NAME)
    lock(state, folder(settings))
    snapshots = Snapshots(state / "sessions", f"{SCHEMA}, {_SEEN}")

    def take(batch: DataFrame, number: int) -> None:
        known = snapshots.before(batch.sparkSession, number)
        told = events(batch).persist()
        now_known = snapshots.write(grown(known, told), number)
        replace(troubles(now_known), folder(settings), state / "aside")
        told.unpersist()

    return running.started(messages.writeStream.foreachBatch(take), settings, NAME)


def grown(known: DataFrame, told: DataFrame) -> DataFrame:
    """Sessions, with what new events add to them. Those that are over and no trouble are forgotten."""
    seen = known.select("seen").unionByName(told.select(f.col("at").alias("seen"))).agg(f.max("seen").alias("seen"))
    sessions = merged(known.drop("seen").unionByName(marks(told)), GAPS_S).crossJoin(f.broadcast(seen))
    return _opened(sessions, LATE_S).where(f"open OR ({_COUNTS})").drop("open")


def troubles(sessions: DataFrame) -> DataFrame:
    """The sessions that are troubles, with a sentence each."""
    seconds_left = "CAST(60 * lag_last / gain_per_minute AS INT)"
    shrinks = "cause = 'backlog' AND open AND gain_per_minute > 0"
    return (
        _opened(sessions, 0)
        .where(_COUNTS)
        .selectExpr(
            "cause", "`group`", "topic", "member", "start", "end", "open",
            "timestampdiff(SECOND, start, end) AS seconds",
            "count", "who", "queues", "healed", "lag_first", "lag_last", "lag_peak", "gain_per_minute",
            f"if({shrinks}, timestampadd(SECOND, {seconds_left}, end), NULL) AS caught_up_at",
            by_cause(lambda rule: f"format_string({rule.says})") + " AS says",
        )
        .orderBy("start", "cause", "group")
    )  # fmt: skip


def _opened(sessions: DataFrame, late_s: int) -> DataFrame:
    """Whether something may still be added."""
    gap_s = by_cause(lambda rule: rule.gap_s)
    return sessions.withColumn("open", f.expr(f"timestampadd(SECOND, {gap_s} + {late_s}, end) >= seen"))


_COUNTS = by_cause(lambda rule: rule.counts)


# --- running ----------------------------------------------------------------------------------------------------------


def start(spark: SparkSession, settings: Settings) -> running.Started:
    check_told(settings.service, settings.events_topic, "there is nothing for health to look at")
    return [watched(running.messages(spark, settings, topic=settings.events_topic), settings)]


def run(settings: Settings, **how: Any) -> running.Outcome:
    return running.run(start, settings, **how)


def folder(settings: running.Settings) -> Path:
    return settings.folder / NAME
