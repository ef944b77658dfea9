"""Facts about messages become verdicts: pure functions of `audit`.

A group is taken for a consumer of a topic's messages with certain tags once it was given one of them: from that
message's production on, until it was given none for a day. So a group that filters by tags misses nothing that it did
not ask for.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from penstock.spark.pipelines.traces import DELAYED, HALF

GROUPS = "topic STRING, tags STRING, `group` STRING, since TIMESTAMP, until TIMESTAMP"
MISSED_FOR = "INTERVAL 1 DAY"  # after so long without a message a group does not consume a topic any more


def aged(facts: DataFrame, lost_after_s: int) -> tuple[DataFrame, DataFrame]:
    """Facts of messages that are old enough to be judged, and those of the others. Time is that of the traces. Facts
    about messages whose production nobody traced are let go when they are as old.
    """
    now = facts.agg(f.max("at").alias("_now"))
    begun = facts.groupBy("message_id").agg(
        f.coalesce(f.min(f.expr("if(kind = 'Pub', at, NULL)")), f.min("at")).alias("_at")
    )
    limit = f.expr(f"coalesce(_at < timestampadd(SECOND, -{int(lost_after_s)}, _now), true)")
    dated = facts.join(begun, "message_id").crossJoin(f.broadcast(now)).withColumn("_old", limit)
    return tuple(dated.where(which).drop("_at", "_now", "_old") for which in ("_old", "NOT _old"))  # type: ignore[return-value]


def produced(facts: DataFrame) -> DataFrame:
    """Messages that were stored for consumers, and when: not what failed, nor what was not committed."""
    committed = facts.where("kind = 'EndTransaction' AND good").select("message_id", f.lit(True).alias("_committed"))
    sent = facts.where("kind = 'Pub' AND good").groupBy("message_id").agg(
        f.min_by("topic", "at").alias("topic"), f.coalesce(f.min_by("tags", "at"), f.lit("")).alias("tags"),
        f.min_by("group", "at").alias("producer"), f.min("at").alias("produced_at"), f.max("type").alias("type"),
    )  # fmt: skip
    known = sent.join(committed.distinct(), "message_id", "left")
    return known.where(f"coalesce(type, 0) != {HALF} OR _committed").drop("_committed")


def deliveries(facts: DataFrame) -> DataFrame:
    """How often a group was done with a message, and when first."""
    before = facts.where("kind = 'SubBefore'").groupBy("message_id", "request").agg(
        f.first("group").alias("_group"), f.min("at").alias("_at")
    )  # fmt: skip
    done = facts.where("kind = 'SubAfter' AND good").join(before, ["message_id", "request"], "left")
    named = done.select(
        "message_id", "request", f.coalesce("group", "_group").alias("group"), f.coalesce("at", "_at").alias("at")
    ).where("group IS NOT NULL")  # fmt: skip
    return named.groupBy("message_id", "group").agg(
        f.count_distinct("request").alias("deliveries"), f.min("at").alias("consumed_at")
    )


def learned(known: DataFrame, facts: DataFrame) -> DataFrame:
    """Which groups consume what, with what new facts show."""
    seen = produced(facts).join(deliveries(facts), "message_id").select(
        "topic", "tags", "group", f.col("produced_at").alias("since"), f.col("produced_at").alias("until")
    )  # fmt: skip
    return known.unionByName(seen).groupBy("topic", "tags", "group").agg(
        f.min("since").alias("since"), f.max("until").alias("until")
    )  # fmt: skip


def judged(facts: DataFrame, groups: DataFrame, late_after_s: int, broadcasting: Sequence[str] = ()) -> DataFrame:
    """Every message with every group that should have got it."""
    expected = produced(facts).join(groups, ["topic", "tags"]).where(
        f"produced_at >= since AND produced_at <= until + {MISSED_FOR}"
    )  # fmt: skip
    both = expected.join(deliveries(facts), ["message_id", "group"], "left").fillna(0, ["deliveries"])
    delay_ms = f.unix_millis("consumed_at") - f.unix_millis("produced_at")
    may_be_late = f.coalesce("type", f.lit(0)) != DELAYED
    several = f.col("deliveries") > 1
    if broadcasting:
        several &= ~f.col("group").isin(*broadcasting)
    return both.select(
        "message_id", "topic", "tags", "group", "producer", "produced_at", "consumed_at", "deliveries",
        delay_ms.alias("delay_ms"),
        (f.col("deliveries") == 0).alias("lost"),
        several.alias("duplicated"),
        f.coalesce((delay_ms > 1000 * late_after_s) & may_be_late, f.lit(False)).alias("late"),
    )  # fmt: skip
