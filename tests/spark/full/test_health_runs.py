"""Health as a stream: whatever comes in whatever parts and runs, the troubles are the same."""

import random

import pytest
from tests.spark.stories import MINUTE_MS, Parts, Story, frame, naive
from tests.spark.test_health import STORIES, S, doubled, found_in, in_groups, joined, lag, refused, served

from penstock.spark.pipelines import health
from penstock.spark.pipelines.history import events
from penstock.spark.pipelines.sessions import SCHEMA


@pytest.fixture(scope="module")
def still_open(spark):
    """Told of at once."""
    grows = [lag(n, 2_000 * n, produced=2_500, consumed=500) for n in range(1, 5)]
    shrinks = [lag(4 + n, 8_000 - 500 * n, produced=500, consumed=1_000) for n in range(1, 3)]
    episodes = [*STORIES["refused_pulls"], refused(300 * S), refused(303 * S)]
    return found_in(
        spark, Story().events(in_groups({"grows": STORIES["backlog"], "shrinks": grows + shrinks, "twice": episodes}))
    )


def test_a_backlog_that_shrinks_again_says_when_it_will_be_caught_up(still_open):
    (row,) = still_open["shrinks"]
    assert (row["cause"], row["open"]) == ("backlog", True)
    assert (row["lag_first"], row["lag_last"], row["lag_peak"]) == (2_000, 7_000, 8_000)
    assert row["caught_up_at"] == naive((6 + 14) * MINUTE_MS)  # 7,000 at 500 a minute


def test_a_backlog_that_grows_is_never_caught_up(still_open):
    (row,) = still_open["grows"]
    assert (row["open"], row["caught_up_at"], row["gain_per_minute"]) == (True, None, -1_000)


def test_two_episodes_are_two_troubles(still_open):
    assert [(row["start"], row["count"], row["healed"]) for row in still_open["twice"]] == [
        (naive(0), 3, True),
        (naive(300 * S), 2, False),
    ]


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
