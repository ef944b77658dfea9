"""Health as a stream: whatever comes in whatever parts and runs, the troubles are the same."""

import random

from tests.spark.stories import MINUTE_MS, Parts, Story, frame, naive
from tests.spark.test_health import STORIES, S, doubled, joined, refused, served

from penstock.spark.pipelines import health
from penstock.spark.pipelines.history import events
from penstock.spark.pipelines.sessions import SCHEMA


def test_whatever_the_parts_the_sessions_are_the_same(spark):
    history = [*STORIES["doubled_client_id"], *STORIES["refused_pulls"], *STORIES["correction_loop"]]
    rows = Story().events(history)
    nothing = spark.createDataFrame([], f"{SCHEMA}, seen TIMESTAMP")
    whole = health.troubles(health.grown(nothing, events(frame(spark, rows)))).collect()
    random.Random(3).shuffle(rows)
    sessions = nothing
    for part in (rows[:5], rows[5:6], rows[6:]):
        sessions = health.grown(sessions, events(frame(spark, part))).localCheckpoint()
    assert health.troubles(sessions).collect() == whole


# --- as a stream, in two runs -----------------------------------------------------------------------------------------


def test_s50_a_trouble_that_lasts_into_the_next_run_is_one(spark, tmp_path):
    parts, settings, story = (
        Parts(spark, tmp_path / "parts"),
        health.Settings(lake=str(tmp_path / "lake"), once=True),
        Story(),
    )

    def run():
        health.watched(parts.stream, settings).awaitTermination()
        return spark.read.parquet(str(health.folder(settings))).collect()

    parts.add(story.events([doubled(0), doubled(MINUTE_MS), refused(0)]))
    parts.add(story.events([refused(3 * S), joined(0, "x")]))
    first = run()
    assert [(row["cause"], row["open"], row["count"]) for row in first] == [
        ("doubled_client_id", True, 2), ("refused_pulls", False, 2),
    ]  # fmt: skip
    parts.add(story.events([doubled(3 * MINUTE_MS), doubled(2 * MINUTE_MS), served(5 * S, 0, 2)]))  # one is late
    second = run()
    assert [(row["cause"], row["end"], row["count"], row["healed"]) for row in second] == [
        ("doubled_client_id", naive(3 * MINUTE_MS), 4, False), ("refused_pulls", naive(5 * S), 2, True),
    ]  # fmt: skip
    assert run() == second


def test_a_batch_that_is_done_again_changes_nothing(spark, tmp_path):
    """As after a crash behind the table and before Spark's own note."""
    parts, settings, story = (
        Parts(spark, tmp_path / "parts"),
        health.Settings(lake=str(tmp_path / "lake"), once=True),
        Story(),
    )
    parts.add(story.events([refused(0), refused(3 * S)]))
    parts.add(story.events([refused(6 * S)]))
    health.watched(parts.stream, settings).awaitTermination()
    before = spark.read.parquet(str(health.folder(settings))).collect()
    notes = tmp_path / "lake" / "_state" / "health" / "main" / "checkpoint" / "commits"
    for name in ("1", ".1.crc"):
        (notes / name).unlink()
    health.watched(parts.stream, settings).awaitTermination()
    assert spark.read.parquet(str(health.folder(settings))).collect() == before
    assert [row["count"] for row in before] == [3]
