"""Audit as a stream: produced in one part, consumed in another, judged in a third; a second run goes on."""

from collections import Counter

from tests.spark.stories import Parts, Story
from tests.spark.test_audit import S, after, consumed, end, messages, pub

from penstock.spark.pipelines import audit
from penstock.spark.pipelines.traces import DELAYED, HALF

COLUMNS = ("message_id", "group", "deliveries", "lost", "duplicated", "late")
COUNTED = ("produced", "consumed", "lost", "duplicated", "late")


def verdict(row):
    return tuple(row[name] for name in COLUMNS)


def rows_of(spark, folder, order):
    """A table without rows has no file."""
    return spark.read.parquet(str(folder)).orderBy(*order).collect() if list(folder.rglob("*.parquet")) else []


def test_s51_lost_duplicated_and_late_are_named_in_two_runs(spark, tmp_path):
    parts, story = Parts(spark, tmp_path / "parts"), Story()
    settings = audit.Settings(
        lake=str(tmp_path / "lake"), once=True, late_after_s=10, lost_after_s=60, broadcast="screens", events_topic=""
    )

    def run():
        audit.verdicts(parts.stream, settings).awaitTermination()
        found = rows_of(spark, audit.folder(settings) / "messages", ("message_id", "group"))
        sums = Counter()
        for row in rows_of(spark, audit.folder(settings) / "groups", ("minute", "group")):
            sums.update({name: row[name] for name in COUNTED if row["group"] == "billing"})
        return [verdict(row) for row in found], tuple(sums[name] for name in COUNTED)

    # consumption comes before production, and some of it in another part
    parts.add(
        messages(
            story,
            consumed(900, "ok"),
            pub(0, "ok,dup"),
            pub(0, "lost"),
            consumed(1 * S, "dup") + consumed(2 * S, "dup"),
        )
    )
    parts.add(messages(
        story,
        pub(1 * S, "late"), consumed(31 * S, "late"),
        pub(1 * S, "retried"), after(2 * S, "q1", "retried", good="false"), after(9 * S, "q2", "retried"),
        pub(1 * S, "failed", good="false"),
        pub(1 * S, "delayed", kind=DELAYED), consumed(41 * S, "delayed"),
        pub(1 * S, "half", kind=HALF), pub(1 * S, "rolled", kind=HALF), end(2 * S, "rolled", "ROLLBACK_MESSAGE"),
        pub(1 * S, "committed", kind=HALF), end(2 * S, "committed", "COMMIT_MESSAGE"),
        pub(1 * S, "other tag", tags="TagB"), pub(1 * S, "other topic", topic="payments"),
        consumed(3 * S, "ok", "screens", "s1"), consumed(3 * S, "ok", "screens", "s2"),
        pub(50 * S, "young"),
    ))  # fmt: skip
    assert run() == ([], (0, 0, 0, 0, 0))  # nothing is old enough: the last trace is 50 s younger than the first
    parts.add(messages(story, pub(90 * S, "newest"), consumed(90 * S, "newest")))
    found, sums = run()
    billing = [row for row in found if row[1] == "billing"]
    assert billing == [
        ("committed", "billing", 0, True, False, False),
        ("dup", "billing", 2, False, True, False),
        ("late", "billing", 1, False, False, True),
        ("lost", "billing", 0, True, False, False),
    ]
    assert sums == (7, 5, 2, 1, 1)
    screens = [row for row in found if row[1] == "screens"]
    assert ("ok", "screens", 2, False, True, False) not in screens  # a group that broadcasts
    assert {row[0] for row in screens if row[3]} == {"dup", "lost", "late", "retried", "delayed", "committed"}
    parts.add(messages(story, pub(200 * S, "end")))
    found, _ = run()
    assert ("young", "billing", 0, True, False, False) in found  # judged in the run in which it was old enough
    assert len([row for row in found if row[0] == "lost" and row[1] == "billing"]) == 1  # and nothing twice
