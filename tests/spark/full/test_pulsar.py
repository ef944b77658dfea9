"""The source on a real Pulsar, whose ledgers are short: they end after ten entries, and are deleted when all is read.

What is told is the same as on a Penstock (`tests/spark/pulsar_stories.py`), and what only a real one has: many ledgers.
"""

import itertools
import json
import time

import pytest
from tests.compat.conftest import unavailable
from tests.compat.pulsar import toolchain
from tests.compat.pulsar.peer import real_pulsar
from tests.spark import pulsar_stories as told
from tests.spark.pulsar_stories import ALL, Story, rows_between

from penstock.client.errors import ClientError
from penstock.spark.errors import DataLost

SHORT_LEDGERS = {"managedLedgerMaxEntriesPerLedger": "10", "managedLedgerMinLedgerRolloverTimeMinutes": "0"}
STORIES = (
    told.everything_is_read_with_its_columns,
    told.a_stream_goes_on_where_it_stopped,
    told.a_limit_is_kept_within_batches_too,
    told.available_now_ends_with_what_there_was,
    told.offsets_can_be_named,
    told.tags_are_a_property,
    told.a_partition_that_is_added_is_read_from_its_beginning,
    told.chunks_become_one_message,
    told.a_subscription_follows_and_keeps_what_was_not_read,
)


@pytest.fixture(scope="module")
def pulsar(tmp_path_factory):
    try:
        toolchain.peer_home()
    except toolchain.Missing as missing:
        unavailable("a real Pulsar", missing)
    with real_pulsar(tmp_path_factory.mktemp("pulsar"), SHORT_LEDGERS) as peer:
        yield peer


@pytest.fixture
def story(pulsar):
    found = Story(pulsar.service, pulsar.web, 2)
    yield found
    found.close()


def later_ms():
    """A time that is behind everything before, and before everything behind."""
    now = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 <= now + 1:
        time.sleep(0.001)
    return now + 1


@pytest.mark.parametrize("tell", STORIES, ids=lambda tell: tell.__name__)
def test_it_is_as_on_a_penstock(story, tell):
    tell(story)


def test_a_time_is_found(story):
    told.a_time_is_found(story, later_ms)


def test_a_missing_topic_is_one_sentence_and_is_not_made(story):
    for _ in range(2):
        with pytest.raises(ClientError, match="no broker has topic 'persistent://public/default/nobody'"):
            story.batch(topic="nobody").partitions()


def ledgers(story):
    stats = json.loads(story.admin("GET", f"{story.topic}-partition-0/internalStats"))
    return [one["ledgerId"] for one in stats["ledgers"]]


def test_many_ledgers_are_read_through_and_a_subscription_keeps_them(story):
    """A ledger is deleted when it is full and everybody is done with it: nothing unread with it, and no false alarm."""
    numbers, found, seen = itertools.count(), [], set()
    stream = story.stream(commitGroup="lake")
    at = stream.latestOffset(stream.initialOffset(), ALL)
    deadline = time.monotonic() + 60
    while len(seen - set(ledgers(story))) < 3:
        assert time.monotonic() < deadline, f"Pulsar has kept {ledgers(story)}"
        story.send(0, *[b"%d" % next(numbers) for _ in range(7)])
        end = stream.latestOffset(at, ALL)
        seen |= set(ledgers(story))
        found += rows_between(stream, at, end)
        at = end
    assert found == [b"%d" % number for number in range(next(numbers))]


def test_ledgers_that_are_deleted_before_they_are_read_are_noticed(story):
    """Nobody keeps them: no subscription, no retention."""
    story.send(0, b"0")
    stream = story.stream()
    at = stream.latestOffset(stream.initialOffset(), ALL)
    first = ledgers(story)[0]
    story.send(0, *[b"%d" % number for number in range(1, 40)])
    deadline = time.monotonic() + 30
    while first in ledgers(story):
        assert time.monotonic() < deadline, "Pulsar has deleted nothing"
        story.send(0, b"more")
        time.sleep(0.1)
    end = stream.latestOffset(at, ALL)
    with pytest.raises(DataLost, match="the first message that is left"):
        rows_between(stream, at, end)
    rest = rows_between(story.stream(failOnDataLoss="false"), at, end)
    assert rest[-1] == b"more"


def test_spark_reads_all_ledgers(spark, story):
    story.client.subscribe(f"{story.topic}-partition-0", "keeps").close()
    story.send(0, *[b"%d" % number for number in range(95)])
    rows = spark.read.format("penstock").option("service", story.service).option("topic", story.topic).load()
    found = rows.selectExpr("string(body) AS body", "offset").orderBy("offset").collect()
    assert [row.body for row in found] == [str(number) for number in range(95)]
