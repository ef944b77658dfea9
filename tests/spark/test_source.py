"""Batch reads: what is planned, what Spark then reads, and what becomes of a read that cannot be.

Most of it asks the reader itself what it would do, on a real broker and without a Spark: a query takes a second.
"""

import asyncio
import datetime as dt
import json
import subprocess
import sys
import time

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    Not,
)

from penstock.admin.engine import opened
from penstock.client.errors import ClientError
from penstock.client.message import Message
from penstock.client.routes import MessageQueue
from penstock.errors import PenstockError
from penstock.spark import columns
from penstock.spark.batch import BatchReader
from penstock.spark.errors import DataLost, OutsideQueue, sentence
from penstock.spark.options import BATCH, read_options
from penstock.spark.source import PenstockSource

QUEUES = 4
PER_QUEUE = 10


@pytest.fixture
def create(service):
    def create(topic, queues=QUEUES):
        async def there():
            async with opened(service) as engine:
                await engine.create_topic(topic, queues, "rw")

        asyncio.run(there())
        return topic

    return create


@pytest.fixture
def fill(producer):
    def fill(topic, queues=range(QUEUES), count=PER_QUEUE, **message):
        for queue in queues:
            to = MessageQueue(topic, "penstock", queue)
            for number in range(count):
                producer.send(Message(topic, b"%d/%d" % (queue, number), **message), to)
        return topic

    return fill


@pytest.fixture
def topic(create, fill, new_name):
    """Four queues with ten messages each."""
    return fill(create(new_name("orders")))


@pytest.fixture
def reader(service):
    def reader(**options):
        given = {"service": service, **{name: str(value) for name, value in options.items()}}
        return BatchReader(read_options(given, BATCH), columns.schema())

    return reader


@pytest.fixture
def planned(reader):
    """What a read would read: start and end by queue."""

    def planned(where=(), **options):
        batch = reader(**options)
        assert list(batch.pushFilters(list(where))) == list(where)
        return spans(batch.partitions())

    return planned


def spans(partitions):
    found = {}
    for task in partitions:
        for one in task.ranges:
            first, last = found.get(one.queue, (one.start, one.start))
            assert one.start == last, "pieces of a queue follow each other"
            found[one.queue] = first, one.end
    return found


def by_queue(topic, *numbers):
    return json.dumps({topic: {str(queue): number for queue, number in enumerate(numbers)}})


def passed_ms():
    """A time that is behind everything that was sent, and before everything that will be."""
    before = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 <= before + 2:
        pass
    return before + 2


WHOLE = dict.fromkeys(range(QUEUES), (0, PER_QUEUE))


# --- where it begins and ends -----------------------------------------------------------------------------------------


def test_all_that_is_there_is_read_without_further_ado(planned, topic):
    assert planned(topic=topic) == WHOLE


def test_offsets_by_queue(planned, topic):
    edges = {"startingOffsets": by_queue(topic, 3, -2, 10, 0), "endingOffsets": by_queue(topic, 5, -1, 10, 1)}
    assert planned(topic=topic, **edges) == {0: (3, 5), 1: (0, 10), 3: (0, 1)}


def test_a_queue_may_be_named_with_its_broker(planned, topic):
    starts = {topic: {"penstock:0": 9, "1": 8, "penstock:2": -2, "3": -2}}
    assert planned(topic=topic, startingOffsets=json.dumps(starts)) == {0: (9, 10), 1: (8, 10), 2: (0, 10), 3: (0, 10)}


def test_times_for_all_and_by_queue(planned, fill, topic):
    between = passed_ms()
    fill(topic, count=5)
    assert planned(topic=topic, startingTimestamp=between) == dict.fromkeys(range(QUEUES), (10, 15))
    assert planned(topic=topic, endingTimestamp=between) == WHOLE
    times = by_queue(topic, between, 0, between, 0)
    assert planned(topic=topic, startingOffsetsByTimestamp=times)[0] == (10, 15)
    assert planned(topic=topic, endingOffsetsByTimestamp=times) == {0: (0, 10), 2: (0, 10)}


def test_a_time_behind_all_messages(planned, topic):
    now = passed_ms()
    with pytest.raises(PenstockError, match="startingOffsetsByTimestampStrategy"):
        planned(topic=topic, startingTimestamp=now)
    assert planned(topic=topic, startingTimestamp=now, startingOffsetsByTimestampStrategy="latest") == {}
    assert planned(topic=topic, endingTimestamp=now) == WHOLE


def test_several_topics_and_a_pattern(reader, create, fill, new_name):
    name = new_name("list")
    first, second = fill(create(f"{name}_a", 1), [0]), fill(create(f"{name}_b", 1), [0])
    create(f"{name}_other", 1)
    for options in ({"topic": f"{first},{second}"}, {"topicPattern": f"{name}_."}):
        tasks = reader(**options).partitions()
        assert sorted(one.topic for task in tasks for one in task.ranges) == [first, second]


def test_system_topics_match_no_pattern(reader, topic):
    tasks = reader(topicPattern=".*").partitions()
    read = {one.topic for task in tasks for one in task.ranges}
    assert topic in read
    assert "penstock_events" not in read


def test_more_tasks_on_demand(reader, topic):
    assert len(reader(topic=topic).partitions()) == 1
    assert len(reader(topic=topic, minPartitions=4).partitions()) == 4
    tasks = reader(topic=topic, minPartitions=6).partitions()
    assert len(tasks) == 6
    assert spans(tasks) == WHOLE


# --- filters ----------------------------------------------------------------------------------------------------------


def at(ms):
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC)


@pytest.mark.parametrize(
    ("where", "read"),
    [
        ([EqualTo(("queue",), 2)], {2: (0, 10)}),
        ([In(("queue",), (1, 3, 77))], {1: (0, 10), 3: (0, 10)}),
        ([GreaterThan(("queue",), 1), LessThan(("queue",), 3)], {2: (0, 10)}),
        ([EqualTo(("queue",), 0), GreaterThanOrEqual(("offset",), 4), LessThanOrEqual(("offset",), 6)], {0: (4, 7)}),
        ([EqualTo(("queue",), 0), EqualTo(("offset",), 4)], {0: (4, 5)}),
        ([EqualTo(("broker",), "elsewhere")], {}),
        ([EqualTo(("offset",), 99)], {}),
        ([Not(EqualTo(("queue",), 2))], WHOLE),
        ([EqualTo(("key",), "k")], WHOLE),
        ([EqualTo(("store_time", "x"), 1)], WHOLE),
    ],
)
def test_a_where_leaves_out_what_it_can(planned, topic, where, read):
    assert planned(where, topic=topic) == read


def test_a_where_on_the_store_time_leaves_out_all_but_a_margin(planned, fill, topic, monkeypatch):
    monkeypatch.setattr("penstock.spark.filters.MARGIN_MS", 0)
    between = passed_ms()
    fill(topic, count=5)
    assert planned([GreaterThanOrEqual(("store_time",), at(between))], topic=topic)[0] == (10, 15)
    assert planned([LessThan(("store_time",), at(between))], topic=topic)[0] == (0, 11)  # one more: see filters.py
    monkeypatch.undo()
    assert planned([GreaterThanOrEqual(("store_time",), at(between))], topic=topic)[0][0] <= 10


def test_the_edges_of_the_options_hold_under_filters(planned, topic):
    starts = by_queue(topic, 5, 5, 5, 5)
    assert planned([GreaterThan(("offset",), 2)], topic=topic, startingOffsets=starts) == dict.fromkeys(
        range(4), (5, 10)
    )


def test_spark_takes_the_reader_for_one_without_pushdown_where_that_is_off(reader, topic):
    """As Spark looks at it: with the setting off, it refuses any reader of which this does not hold."""
    assert reader(topic=topic).pushFilters.__func__ is DataSourceReader.pushFilters


# --- what cannot be ---------------------------------------------------------------------------------------------------


def test_an_offset_outside_the_queue(planned, penstock, topic):
    outside = by_queue(topic, 11, 0, 0, 0)
    with pytest.raises(OutsideQueue, match=f"offset 11 for queue {topic}/penstock/0, which holds offsets 0 up to 10"):
        planned(topic=topic, startingOffsets=outside)
    with pytest.raises(OutsideQueue):
        planned(topic=topic, endingOffsets=outside)
    broker = penstock.server.broker
    broker.store.trim(broker.topics.get(topic).queue(1), 4)  # nothing else goes on in this broker now
    with pytest.raises(OutsideQueue, match=r"offset 0 for queue .* holds offsets 4 up to 10"):
        planned(topic=topic, startingOffsets=by_queue(topic, 0, 0, 0, 0))


def test_without_fail_on_data_loss_it_is_a_warning_with_the_count(planned, penstock, topic, caplog):
    broker = penstock.server.broker
    broker.store.trim(broker.topics.get(topic).queue(1), 4)  # nothing else goes on in this broker now
    starts = by_queue(topic, 0, 0, 0, 0)
    assert planned(topic=topic, startingOffsets=starts, failOnDataLoss="false")[1] == (4, 10)
    assert f"4 messages of queue {topic}/penstock/1, offsets 0 up to 4, are gone" in caplog.text


def test_without_fail_on_data_loss_an_offset_outside_is_the_nearest(planned, topic, caplog):
    edges = {"startingOffsets": by_queue(topic, 15, 0, 0, 0), "endingOffsets": by_queue(topic, 20, 99, 10, 10)}
    assert planned(topic=topic, **edges, failOnDataLoss="false") == {1: (0, 10), 2: (0, 10), 3: (0, 10)}
    assert f"89 messages of queue {topic}/penstock/1" in caplog.text


def test_an_end_before_the_start(planned, topic):
    edges = {"startingOffsets": by_queue(topic, 5, 0, 0, 0), "endingOffsets": by_queue(topic, 4, 0, 0, 0)}
    with pytest.raises(PenstockError, match="from offset 5 up to 4: the end is before the start"):
        planned(topic=topic, **edges)


def test_a_topic_that_is_not_there(planned, new_name):
    with pytest.raises(ClientError, match="no broker has topic 'nowhere"):
        planned(topic=new_name("nowhere"))
    with pytest.raises(PenstockError, match="no topic matches topicPattern"):
        planned(topicPattern=new_name("nowhere"))


def test_nobody_at_the_address(planned):
    with pytest.raises(ClientError, match=r"127\.0\.0\.1:1 cannot be reached"):
        planned(service="rocketmq://127.0.0.1:1", topic="orders")


def test_an_error_leaves_as_its_sentence_alone():
    def within():
        with sentence():
            raise DataLost("3 messages", 3) from ValueError("inner")

    with pytest.raises(DataLost) as told:
        within()
    assert told.value.__cause__ is None
    assert sys.tracebacklimit == 0


# --- through Spark ----------------------------------------------------------------------------------------------------


@pytest.fixture
def load(spark, service):
    def load(schema=None, **options):
        read = spark.read.format("penstock").option("service", service).options(**options)
        return (read.schema(schema) if schema else read).load()

    return load


def test_s47_a_topic_is_a_table(load, create, producer, new_name):
    topic = create(new_name("orders"))
    sent = producer.send_all(
        [Message(topic, b"body %d" % n, keys=f"k{n}", tags=f"t{n % 2}", properties={"n": str(n)}) for n in range(20)]
    )
    rows = load(topic=topic, includeProperties="true").collect()
    assert {row.message_id for row in rows} == {one.message_id for one in sent}
    assert {(row.queue, row.offset) for row in rows} == {(one.queue.queue, one.offset) for one in sent}
    assert all(row.topic == topic and row.broker == "penstock" for row in rows)
    for row in rows:
        number = int(row.properties["n"])
        assert (bytes(row.body), row.key, row.tags) == (b"body %d" % number, f"k{number}", f"t{number % 2}")
        assert abs(row.store_time - row.born_time) < dt.timedelta(minutes=1)


@pytest.mark.parametrize(
    ("options", "of_the_body"),
    [
        ({}, set()),
        ({"valueFormat": "json", "valueSchema": "id long"}, {"id", "_corrupt"}),
        ({"valueFormat": "string"}, {"value", "_corrupt"}),
    ],
)
def test_of_a_message_only_key_and_tags_may_be_null(load, topic, options, of_the_body):
    frame = load(topic=topic, includeProperties="true", **options)
    assert {field.name for field in frame.schema if field.nullable} == {"key", "tags"} | of_the_body
    assert frame.where("offset IS NOT NULL").count() == QUEUES * PER_QUEUE


def test_columns_are_those_of_the_schema(load, topic):
    assert "properties" not in load(topic=topic).columns
    frame = load("offset long, queue int", topic=topic)
    assert sorted(map(tuple, frame.collect())) == sorted((o, q) for q in range(QUEUES) for o in range(PER_QUEUE))


def test_a_where_gives_the_same_with_pushdown_and_without(spark, load, topic):
    setting = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(setting)
    counts = []
    try:
        for value in ("true", "false"):
            spark.conf.set(setting, value)
            counts.append(
                load(topic=topic).where("queue in (1, 2) and offset >= 7 and store_time > '2020-01-01'").count()
            )
    finally:
        spark.conf.set(setting, before)
    assert counts == [6, 6]


def test_tags_are_selected(load, fill, topic):
    fill(topic, count=3, tags="a")
    fill(topic, count=2, tags="b")
    assert load(topic=topic, tags="a").count() == 3 * QUEUES
    assert load(topic=topic, tags="a || b").count() == 5 * QUEUES


def test_an_empty_topic_is_an_empty_table(load, create, new_name):
    assert load(topic=create(new_name("empty"))).count() == 0


def test_spark_shows_the_sentence_and_no_stack(load, topic):
    with pytest.raises(AnalysisException) as told:
        load(topic=topic, startingOffset="earliest")
    assert_one_sentence(told, "startingoffset is not an option of a read query: did you mean startingOffsets?")
    with pytest.raises(AnalysisException) as told:
        load(topic="nowhere").count()
    assert_one_sentence(told, "no broker has topic 'nowhere'")
    with pytest.raises(AnalysisException) as told:
        load("offset long, boddy binary", topic=topic).count()
    assert_one_sentence(told, "did you mean 'body'?")


def assert_one_sentence(told, words):
    text = str(told.value)
    assert words in text
    assert "Traceback" not in text
    assert "\tat " not in text


def test_the_name_that_spark_finds_it_by():
    import pyspark_penstock

    assert pyspark_penstock.DefaultSource is PenstockSource
    assert PenstockSource.name() == "penstock"


# --- bodies as columns ------------------------------------------------------------------------------------------------


def test_a_column_of_another_type_is_refused(load):
    with pytest.raises(AnalysisException, match="'body' is binary, not string"):
        load("body string", topic="any").collect()


def test_bodies_become_columns_and_what_does_not_parse_is_kept(load, create, producer, new_name):
    topic = create(new_name("json"))
    producer.send_all([Message(topic, body) for body in (b'{"id": 1, "name": "a"}', b"no json", b'{"id": 2}')])
    whole = load(topic=topic, valueFormat="json", valueSchema="id long, name string")
    assert whole.columns[-3:] == ["id", "name", "_corrupt"]
    found = sorted((str(row.id), row.name, row["_corrupt"] and bytes(row["_corrupt"])) for row in whole.collect())
    assert found == [("1", "a", None), ("2", None, None), ("None", None, b"no json")]
    few = load("id long, `offset` long", topic=topic, valueFormat="json")
    assert sorted(row.id for row in few.where("id is not null").collect()) == [1, 2]


def test_a_column_of_the_body_that_messages_have_too_is_named(load):
    with pytest.raises(AnalysisException, match="'key' is there twice"):
        load(topic="any", valueFormat="json", valueSchema="key string").collect()


def test_warnings_are_shown_with_their_fields_where_nobody_has_set_logging_up():
    code = (
        "from penstock import logs; from penstock.spark.errors import sentence\n"
        "with sentence(): logs.get('penstock.x').warning('lost', messages=3)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "penstock.x: lost messages=3" in done.stderr
