"""S52: a time span of the archive goes back into a topic, once per replay, in the order of time. ETL into a topic."""

import datetime as dt
import json

import msgspec
import pytest

from penstock.client.message import Message
from penstock.client.sync import Producer
from penstock.errors import ConfigError
from penstock.spark.pipelines import archive, etl, replay, running
from penstock.spark.pipelines.lake import Table

NOON = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
MESSAGES = (
    "topic string, queue int, offset long, key string, tags string, body binary, properties map<string,string>, "
    "store_time timestamp, broker string"
)


@pytest.fixture
def lake(spark, tmp_path):
    """An archive of 61 messages, a minute apart from 11:30 on, of which every second is of another topic."""
    rows = [
        (
            ("orders", "other")[n % 2],
            n % 3,
            n,
            f"k{n}",
            "t",
            b"%d" % n,
            properties(n),
            NOON + dt.timedelta(minutes=n - 30),
            "a",
        )
        for n in reversed(range(61))
    ]
    folder = tmp_path / "lake"
    table = Table(folder / "archive", folder / "_state" / "archive" / "main")
    table.append(archive.by_day(spark.createDataFrame(rows, MESSAGES)), 0, archive.BY)
    return folder


def properties(number):
    return {"UNIQ_KEY": "AC11", "colour": "red"} if number == 30 else None


@pytest.fixture
def settings(lake, service, new_name):
    return replay.Settings(
        lake=str(lake), service=service, topic="orders", since="2026-01-31T12:00Z", until="2026-01-31T12:20Z",
        into=new_name("again"), slice_rows=4,
    )  # fmt: skip


@pytest.fixture
def received(spark, service):
    """What is in a topic."""

    def received(topic):
        reader = spark.read.format("penstock").option("service", service).option("topic", topic)
        return reader.option("includeProperties", "all").load().collect()

    return received


def test_s52_a_time_span_is_replayed_once(spark, settings, received):
    outcome = replay.run(settings, spark=spark)
    found = received(settings.into)
    wanted = list(range(30, 50, 2))  # from twelve on, and before twenty past
    assert sorted(int(row.body) for row in found) == wanted
    assert outcome.rows == len(wanted)
    assert outcome.batches > 1, "in slices"
    for row in found:
        number = int(row.body)
        stored = NOON + dt.timedelta(minutes=number - 30)
        assert (row.key, row.tags) == (f"k{number}", "t")
        assert row.properties["REPLAY_STORED_MS"] == str(int(stored.timestamp() * 1000))
    (first,) = [row.properties for row in found if row.body == b"30"]
    assert (first["colour"], first.get("UNIQ_KEY")) == ("red", None), "what its first life added is left out"

    assert replay.run(settings, spark=spark).rows == 0, "it is done"
    assert len(received(settings.into)) == len(wanted)


def test_s52_killed_between_two_slices_it_goes_on(spark, settings, received):
    plan = replay.requested(settings)
    state = replay.folder(settings, plan)
    replay.run(settings, spark=spark)
    checkpoint = state / "checkpoint"
    last = max(int(path.name) for path in (checkpoint / "commits").glob("[0-9]*"))
    for path in (checkpoint / "commits").glob(f"*{last}*"):
        path.unlink()  # as if killed before Spark had noted its last batch as done
    replay.run(settings, spark=spark)
    assert sorted(int(row.body) for row in received(settings.into)) == list(range(30, 50, 2))


@pytest.mark.parametrize("fills", [True, False])
def test_an_empty_body_is_filled_where_none_may_be_empty(spark, fills):
    """Archived from Pulsar, into RocketMQ; what was filled before says so still."""
    bodies = [(b"", None), (b"", {"a": "b"}), (b" ", {"PULSAR_EMPTY": "true"}), (b"x", {"a": "b"})]
    rows = [("t", 0, n, None, None, body, more, NOON, "a") for n, (body, more) in enumerate(bodies)]
    found = replay.as_messages(spark.createDataFrame(rows, MESSAGES), "r", fills).orderBy("offset").collect()
    assert [bytes(row.body) for row in found] == ([b" ", b" "] if fills else [b"", b""]) + [b" ", b"x"]
    marked = [row.properties.get("PULSAR_EMPTY") for row in found]
    assert marked == (["true", "true"] if fills else [None, None]) + ["true", None]
    assert [row.properties.get("a") for row in found] == [None, "b", None, "b"]


def test_into_the_queues_that_they_came_from_in_the_order_of_time(spark, settings, received):
    replay.run(msgspec.structs.replace(settings, keep_queues=True), spark=spark)
    by_queue = {}
    for row in sorted(received(settings.into), key=lambda row: (row.queue, row.offset)):
        by_queue.setdefault(row.queue, []).append(int(row.body))
    assert by_queue == {queue: [n for n in range(30, 50, 2) if n % 3 == queue] for queue in range(3)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"since": "2h"}, "is no span"),
        ({"until": "2026-01-31T11:00Z"}, "is no span"),
        ({"id": "../x"}, "is no id"),
        ({"topic": "nothing"}, "no message of nothing"),
        ({"lake": "/nowhere"}, "no archive in"),
    ],
)
def test_what_cannot_be_replayed_is_said(spark, settings, change, words):
    with pytest.raises(ConfigError, match=words):
        replay.start(spark, msgspec.structs.replace(settings, **change))


def test_an_id_is_of_one_span(spark, settings):
    named = msgspec.structs.replace(settings, id="tuesday")
    replay.prepared(spark, named, replay.requested(named), replay.folder(named, replay.requested(named)))
    other = msgspec.structs.replace(named, until="2026-01-31T12:10Z")
    with pytest.raises(ConfigError, match="another span"):
        replay.start(spark, other)


def test_one_sql_file_brings_rows_into_another_topic(spark, penstock, service, received, new_name, tmp_path):
    topic, target, file = new_name("orders"), new_name("large"), tmp_path / "large.sql"
    file.write_text(
        f"-- source: {topic} as orders\n--  valueFormat: json\n--  valueSchema: id BIGINT, amount DOUBLE\n"
        f"-- target: topic {target}\nSELECT 'k' || id AS key, id, amount FROM orders WHERE amount > 2"
    )
    settings = etl.Settings(lake=str(tmp_path / "lake"), service=service, sql=str(file), once=True)
    with Producer(penstock.addresses["namesrv"], "tests") as producer:
        producer.send_all([Message(topic, json.dumps({"id": n, "amount": n / 2}).encode()) for n in range(8)])
        producer.send_all([Message(topic, b"no JSON")])
        etl.run(settings, spark=spark)
        producer.send_all([Message(topic, b'{"id": 3, "amount": 9}')])  # a second run goes on
        etl.run(settings, spark=spark)
    found = sorted((row.key, json.loads(row.body)["amount"]) for row in received(target))
    assert found == [("k3", 9.0), ("k5", 2.5), ("k6", 3.0), ("k7", 3.5)]


def test_the_state_of_a_job_is_its_files_name(tmp_path):
    settings = etl.Settings(lake=str(tmp_path), sql="/somewhere/large_orders.sql")
    assert running.state_folder(settings, "etl", settings.job) == tmp_path / "_state" / "etl" / "large_orders"
