"""Health: troubles of consumer groups found in a history of events, whose answer is known by construction."""

import random
import re

import msgspec
import pytest
from tests.spark.stories import MINUTE_MS, T0_MS, Story, frame, naive

from penstock.core import events as told
from penstock.spark.pipelines import health
from penstock.spark.pipelines.history import FIELDS, events
from penstock.spark.pipelines.sessions import SCHEMA

G, ORDERS = "billing", "orders"


def doubled(ms, client_id="a", group=G):
    return told.MemberDoubled(at_ms=T0_MS + ms, group=group, client_id=client_id, addresses=["1:1", "2:2"])


def refused(ms, client_id="b", group=G):
    return told.PullRefused(
        at_ms=T0_MS + ms, group=group, client_id=client_id, topic=ORDERS, pull_version=3, known_version=2
    )


def served(ms, since, count, client_id="b"):
    return told.RefusalsOver(
        at_ms=T0_MS + ms, group=G, client_id=client_id, topic=ORDERS, since_ms=T0_MS + since, refusals=count
    )


def joined(ms, client_id, group=G):
    return told.MemberJoined(
        at_ms=T0_MS + ms, group=group, client_id=client_id, address="1:1", language="JAVA", members=2
    )


def left(ms, client_id, group=G):
    return told.MemberLeft(at_ms=T0_MS + ms, group=group, client_id=client_id, why="connection lost", members=1)


def moved(ms, queue, group=G):
    return told.OffsetMoved(
        at_ms=T0_MS + ms,
        group=group,
        client_id="c",
        topic=ORDERS,
        queue=queue,
        asked_offset=999_999_999,
        corrected_offset=5,
    )


def lag(minute, lag=0, produced=0, consumed=0, members=2, unread=(), read_twice=(), group=G, topic=ORDERS):
    return told.LagMinute(
        at_ms=T0_MS + minute * MINUTE_MS, group=group, topic=topic, members=members, lag=lag, produced=produced,
        consumed=consumed, over_ms=MINUTE_MS, unread=list(unread), read_twice=list(read_twice),
    )  # fmt: skip


def changed(ms, client_id, before, after):
    return told.SubscriptionChanged(
        at_ms=T0_MS + ms, group=G, client_id=client_id, topic=ORDERS, before=before, after=after
    )


def reset(ms, kind, address):
    extra = {"client_id": "x"} if kind is told.ResetTold else {"queue": 0}
    return kind(at_ms=T0_MS + ms, group=G, topic=ORDERS, address=address, **extra)


MUCH_LATER = told.BrokerStopping(at_ms=T0_MS + 86_400_000)
S = 1_000
STORIES = {
    "doubled_client_id": [doubled(5 * S), doubled(MINUTE_MS), doubled(2 * MINUTE_MS)],
    "refused_pulls": [refused(0), refused(3 * S), refused(6 * S), served(6 * S, 0, 3)],  # within a millisecond
    "rebalance_storm": [
        event for n in range(6) for event in (joined(n * 40 * S, "flaps"), left(n * 40 * S + 20 * S, "flaps"))
    ],
    "offset_outside": [moved(0, 0), moved(10, 1)],
    "correction_loop": [moved(n * 20 * S, queue) for n in range(5) for queue in (0, 1)],
    "unread_queues": [lag(n, 10 * n, unread=[2, 3]) for n in (1, 2, 3)],
    "queues_read_twice": [lag(n, read_twice=[0, 1]) for n in (1, 2)],
    "backlog": [lag(n, 1_000 * n, produced=1_500, consumed=500) for n in range(1, 6)],
    "nobody_there": [lag(n, 5 * n, produced=5, members=0) for n in (1, 4, 8)],
    "subscriptions_differ": [
        changed(n * 15 * S, who, *both) for n, (who, both) in enumerate([("a", ("x", "y")), ("b", ("y", "x"))] * 2)
    ],
    "reset_unconfirmed": [reset(0, told.ResetTold, "1:1")],
}  # fmt: skip
HARMLESS = {
    "a connection that was lost and came again": [doubled(5 * S)],
    "a deployment": [e for n in range(20) for e in (left(n * 20 * S, f"i{n}"), joined(n * 20 * S + 9 * S, f"i{n}"))],
    "a backlog that shrinks": [lag(n, 9_000 - 1_000 * n, consumed=1_000) for n in range(1, 6)],
    "a few messages behind": [lag(n, n, produced=1) for n in range(1, 30)],
    "a queue that changes hands": [lag(1, 5, unread=[3])],
    "a confirmed reset": [reset(0, told.ResetTold, "1:1"), reset(8 * S, told.ResetConfirmed, "1:1")],
    "a new version of an application": [changed(0, "a", "x", "y"), changed(60 * S, "b", "x", "y")],
    "retries": [lag(n, 10, unread=[0], topic="%RETRY%billing") for n in (1, 2, 3)],
}  # fmt: skip


def in_groups(stories):
    """Every story in a group of its own, as one history; the groups' names are the stories'."""
    return [msgspec.structs.replace(event, group=name) for name, story in stories.items() for event in story]


def found_in(spark, rows):
    nothing = spark.createDataFrame([], f"{SCHEMA}, seen TIMESTAMP")
    found = {}
    for row in health.troubles(health.grown(nothing, events(frame(spark, rows)))).collect():
        found.setdefault(row["group"], []).append(row)
    return found


@pytest.fixture(scope="module")
def all_found(spark):
    """All stories in one history: out of order, some events read twice, and told of a day later."""
    rows = Story().events([*in_groups({**STORIES, **HARMLESS}), MUCH_LATER])
    random.Random(7).shuffle(rows)
    return found_in(spark, rows + rows[: len(rows) // 2])


@pytest.mark.parametrize("cause", STORIES)
def test_s50_each_trouble_is_found_and_nothing_else(all_found, cause):
    assert [row["cause"] for row in all_found.get(cause, ())] == [cause]
    (row,) = all_found[cause]
    times = [event.at_ms - T0_MS for event in STORIES[cause]]
    assert (row["start"], row["end"], row["open"]) == (naive(min(times)), naive(max(times)), False)
    assert row["seconds"] == (max(times) - min(times)) // 1000
    assert row["says"]


@pytest.mark.parametrize("story", HARMLESS)
def test_what_is_no_trouble_is_not_told(all_found, story):
    assert story not in all_found


def test_s08_an_episode_of_code_25_says_who_how_often_and_that_it_passed(all_found):
    (row,) = all_found["refused_pulls"]
    assert (row["member"], row["count"], row["healed"], row["seconds"]) == ("b", 3, True, 6)


def test_s15_s17_who_is_doubled_and_which_queues_nobody_reads(all_found):
    (row,) = all_found["doubled_client_id"]
    assert (row["member"], row["who"]) == ("a", ["1:1", "2:2"])
    assert all_found["unread_queues"][0]["queues"] == [2, 3]


def test_s26_offsets_that_were_corrected_once_are_no_loop(all_found):
    (row,) = all_found["offset_outside"]
    assert (row["count"], row["queues"], row["member"]) == (2, [0, 1], "c")


def test_s27_a_correction_loop_names_its_queues(all_found):
    (row,) = all_found["correction_loop"]
    assert (row["count"], row["queues"], row["member"]) == (10, [0, 1], "c")


def test_the_fields_that_are_read_are_those_that_the_broker_tells():
    told_fields = {field.name for kind in told.Event.__subclasses__() for field in msgspec.structs.fields(kind)}
    read = {field.strip().split()[0].strip("`") for field in re.sub(r"<[^>]*>", "", FIELDS).split(",")}
    assert read - {"kind"} <= told_fields
