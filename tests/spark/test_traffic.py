"""Traffic: minutes of queues and of groups, from messages and events whose sizes and times are known."""

from tests.spark.stories import MINUTE_MS, T0_MS, Story, frame, naive

from penstock.core.events import GroupMinute, LagMinute, ProducerMinute
from penstock.spark.pipelines import traffic
from penstock.spark.pipelines.history import events

GROUP_COLUMNS = ("minute", "role", "group", "messages", "bytes", "sent_back", "lag")


def test_s49_minutes_of_queues(spark):
    story = Story()
    sizes = [story.message(b"x" * size, ms=size * 100, born_ms=size * 100 - size) for size in range(1, 101)]
    again = [story.message(b"12345", queue=1, ms=70_000), story.message(b"12345", queue=1, ms=70_000)]
    rows = traffic.by_queue(frame(spark, [*again, *reversed(sizes)]), 60).orderBy("minute").collect()
    assert [(row["minute"], row["topic"], row["queue"], row["messages"], row["bytes"]) for row in rows] == [
        (naive(0), "orders", 0, 100, 5_050),
        (naive(MINUTE_MS), "orders", 1, 2, 10),
    ]
    first = rows[0]
    assert (first["size_p50"], first["size_p95"], first["size_p99"], first["size_max"]) == (50, 95, 99, 100)
    assert (first["delay_ms_p50"], first["delay_ms_p99"], first["delay_ms_max"]) == (50, 99, 100)


def test_s49_minutes_of_groups_from_the_broker_s_counters(spark):
    story, end = Story(), T0_MS + MINUTE_MS
    common = {"group": "billing", "topic": "orders"}
    told = [
        GroupMinute(at_ms=end, **common, messages=3, bytes=30, sent_back=1),
        GroupMinute(at_ms=end, **common, messages=4, bytes=40, sent_back=0),  # after a restart within the minute
        LagMinute(
            at_ms=end + 700, **common, members=1, lag=9, produced=7, consumed=7, over_ms=MINUTE_MS, unread=[],
            read_twice=[],
        ),
        ProducerMinute(at_ms=end, group="shop", topic="orders", messages=7, bytes=70),
    ]  # fmt: skip
    messages = [*story.events(told), story.message(b"not JSON", "penstock_events")]
    rows = traffic.by_group(events(frame(spark, messages)), 60).orderBy("role").collect()
    assert [tuple(row[name] for name in GROUP_COLUMNS) for row in rows] == [
        (naive(0), "consumer", "billing", 7, 70, 1, 9),
        (naive(0), "producer", "shop", 7, 70, 0, None),
    ]
