"""Audit: produced against consumed from traces in the forms that clients of different ages and languages write."""

from tests.spark.stories import T0_MS, Story, frame, naive

from penstock.core import events as told
from penstock.spark.pipelines import audit
from penstock.spark.pipelines.history import events
from penstock.spark.pipelines.traces import HALF, traces

S = 1_000


def text(*fields: object) -> str:
    return "\x01".join(str(field) for field in fields) + "\x02"


def pub(ms, ids, topic="orders", tags="null", kind=0, good="true"):
    return text("Pub", T0_MS + ms, "cn", "shop", topic, ids, tags, "null", "h:1", 5, 2, kind, "OFFSETID", good)


def before(ms, request, message_id, group="billing"):
    return text("SubBefore", T0_MS + ms, "cn", group, request, message_id, 0, "null")


def after(ms, request, message_id, group="billing", good="true"):
    return text("SubAfter", request, message_id, 3, good, "null", 0, T0_MS + ms, group)


def end(ms, message_id, state):
    return text(
        "EndTransaction", T0_MS + ms, "cn", "shop", "orders", message_id, "", "", "h:1", HALF, "t", state, "false"
    )


def consumed(ms, message_id, group="billing", request=None):
    request = request or f"r{ms}{message_id}"
    return before(ms, request, message_id, group) + after(ms + 1, request, message_id, group)


def messages(story, *texts):
    return [story.message(one.encode(), "RMQ_SYS_TRACE_TOPIC") for one in texts]


def test_records_of_every_form_are_read(spark):
    old_pub = text("Pub", T0_MS, "cn", "shop", "orders", "p13", "TagA", "null", "h:1", 5, 2, 0, "true")
    go_pub = text("Pub", T0_MS, "cn", "shop", "orders", "p15", "", "", "h:1", 5, 2, 0, "OFFSETID", "false", "client")
    old_after = text("SubAfter", "r1", "p13", 3, "true", "null", 0)
    rows = messages(
        Story(), old_pub + pub(0, "b1,b2") + go_pub, before(5, "r1", "p13") + old_after, "nonsense", "Pub\x01x\x02"
    )
    found = traces(frame(spark, [*rows, rows[0]])).collect()  # one is read twice
    facts = sorted(
        (row["kind"], row["message_id"], row["tags"], row["good"], row["group"])
        for row in found
        if row["good"] is not False
    )
    assert ("Pub", "p13", "TagA", True, "shop") in facts
    assert [(row["message_id"], row["good"]) for row in found if row["message_id"] == "p15"] == [("p15", False)]
    assert {row["message_id"] for row in found if row["kind"] == "Pub"} == {"p13", "b1", "b2", "p15"}
    assert len(found) == 6


def test_s51_what_a_group_was_taken_past_is_told_from_the_broker_s_events(spark):
    both = {"group": "billing", "topic": "orders"}
    moved = {"client_id": "c", **both}
    history = [
        told.OffsetMoved(at_ms=T0_MS, queue=1, asked_offset=5, corrected_offset=25, **moved),
        told.OffsetMoved(at_ms=T0_MS, queue=1, asked_offset=999, corrected_offset=25, **moved),
        told.ResetAsked(
            at_ms=T0_MS + 1, broadcast=False, targets={"0": "70", "1": "10", "2": "4", "3": "8"},
            before={"0": "50", "1": "30", "2": "4"}, **both,
        ),
        told.HalfGivenUp(at_ms=T0_MS + 2, topic="orders", producer_group="shop", message_id="h1", asks=15),
    ]  # fmt: skip
    rows = audit.skipped(events(frame(spark, Story().events(history)))).orderBy("at", "queue").collect()
    found = [(row["why"], row["queue"], row["first"], row["next"], row["messages"], row["message_id"]) for row in rows]
    assert found == [
        ("retention", 1, 5, 25, 20, None),
        ("reset", 0, 50, 70, 20, None),
        ("reset back", 1, 10, 30, 20, None),
        ("never committed", None, None, None, 1, "h1"),
    ]
    assert rows[0]["at"] == naive(0)
