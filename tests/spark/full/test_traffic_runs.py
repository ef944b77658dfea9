"""Traffic as a stream: late messages, and a second run that goes on where the first stopped."""

from tests.spark.stories import MINUTE_MS, Parts, Story, naive

from penstock.spark.pipelines import traffic

S = 1_000


def minute(row):
    return (row["minute"], row["topic"], row["queue"], row["messages"], row["bytes"])


def test_s49_minutes_of_queues_with_late_messages_in_two_runs(spark, tmp_path):
    parts, story = Parts(spark, tmp_path / "parts"), Story()
    settings = traffic.Settings(lake=str(tmp_path / "lake"), once=True, late_s=60)

    def run():
        minutes = traffic.by_queue(parts.stream, settings.late_s)
        query = traffic.kept(minutes, settings, "queues", traffic.QUEUE_KEYS)
        query.awaitTermination()
        rows = spark.read.parquet(str(traffic.folder(settings) / "queues")).orderBy(*traffic.QUEUE_KEYS).collect()
        dropped = [
            operator["numRowsDroppedByWatermark"]
            for told in query.recentProgress
            for operator in told["stateOperators"]
        ]
        return rows, sum(dropped)

    sizes = [story.message(b"x" * size, ms=size * 100, born_ms=size * 100 - size) for size in range(1, 101)]
    parts.add([*sizes, story.message(b"12345", queue=1, ms=70 * S), story.message(b"12345", queue=1, ms=70 * S)])
    rows, dropped = run()
    assert dropped == 0
    assert [minute(row) for row in rows] == [
        (naive(0), "orders", 0, 100, 5_050),
        (naive(MINUTE_MS), "orders", 1, 2, 10),
    ]
    first = rows[0]
    assert (first["size_p50"], first["size_p95"], first["size_p99"], first["size_max"]) == (50, 95, 99, 100)
    assert (first["delay_ms_p50"], first["delay_ms_p99"], first["delay_ms_max"]) == (50, 99, 100)

    parts.add([story.message(b"late", ms=55 * S), story.message(b"now", ms=200 * S)])  # 15 s behind the last one
    parts.add([story.message(b"other", topic="payments", ms=201 * S)])
    parts.add([story.message(b"too late", ms=20 * S)])  # the watermark of the last batch but one counts
    rows, dropped = run()
    assert dropped == 1
    assert [minute(row) for row in rows] == [
        (naive(0), "orders", 0, 101, 5_054),
        (naive(MINUTE_MS), "orders", 1, 2, 10),
        (naive(3 * MINUTE_MS), "orders", 0, 1, 3),
        (naive(3 * MINUTE_MS), "payments", 0, 1, 5),
    ]
    assert rows[0]["size_max"] == 100
    files = [file.relative_to(tmp_path).as_posix() for file in (tmp_path / "lake" / "traffic").rglob("*.parquet")]
    assert files == ["lake/traffic/queues/day=2023-11-14/hour=22/rows.parquet"]
