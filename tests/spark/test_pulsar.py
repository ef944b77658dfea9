"""The source on a Pulsar: on a Penstock, through Pulsar's own client. Most of it without a Spark."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compat.rocketmq.peer import free_port
from tests.spark import pulsar_stories as told
from tests.spark.pulsar_stories import ALL, Story, bodies_of, rows_between

from penstock.client.errors import ClientError
from penstock.client.message import Message
from penstock.errors import ConfigError
from penstock.spark.errors import DataLost, SparkSourceError
from penstock.spark.pulsar.positions import Place, packed, unpacked
from penstock.spark.pulsar.ranges import PlaceRange


@pytest.fixture
def story(penstock):
    found = Story(f"pulsar://{penstock.addresses['pulsar']}", penstock.http, 2)
    yield found
    found.close()


def later_ms():
    """A time that is behind everything before, and before everything behind."""
    now = time.time_ns() // 1_000_000
    while time.time_ns() // 1_000_000 <= now + 1:
        time.sleep(0.001)
    return now + 1


def test_everything_is_read_with_its_columns(story):
    told.everything_is_read_with_its_columns(story)


def test_a_stream_goes_on_where_it_stopped(story):
    told.a_stream_goes_on_where_it_stopped(story)


def test_a_limit_is_kept_within_batches_too(story):
    told.a_limit_is_kept_within_batches_too(story)


def test_available_now_ends_with_what_there_was(story):
    told.available_now_ends_with_what_there_was(story)


def test_a_time_is_found(story):
    told.a_time_is_found(story, later_ms)


def test_offsets_can_be_named(story):
    told.offsets_can_be_named(story)


def test_tags_are_a_property(story):
    told.tags_are_a_property(story)


def test_a_partition_that_is_added_is_read_from_its_beginning(story):
    told.a_partition_that_is_added_is_read_from_its_beginning(story)


def test_chunks_become_one_message(story):
    told.chunks_become_one_message(story)


def test_a_subscription_follows_and_keeps_what_was_not_read(story):
    told.a_subscription_follows_and_keeps_what_was_not_read(story)


# --- what is missing --------------------------------------------------------------------------------------------------


@pytest.fixture
def trim(penstock, story):
    def trim(row):
        broker = penstock.server.broker
        queue = broker.topics.get(story.topic).queue(0)
        broker.store.trim(queue, row)  # nothing else goes on in this broker now

    return trim


def test_retention_that_overtakes_the_reader_is_an_error_or_a_warning(story, trim, caplog):
    story.send(0, b"a", b"b", b"c", b"d")
    stream = story.stream(maxOffsetsPerTrigger=1)
    start = stream.initialOffset()
    end = stream.latestOffset(start, told.ReadMaxRows(1))
    trim(3)
    rest = story.stream().latestOffset(end, ALL)
    with pytest.raises(DataLost, match=r"the first message that is left is .*failOnDataLoss"):
        rows_between(stream, end, rest)
    assert rows_between(story.stream(failOnDataLoss="false"), end, rest) == [b"d"]
    assert "messages are not there any more" in caplog.text


def test_what_was_read_may_be_deleted(story, trim):
    story.send(0, b"a", b"b", b"c")
    stream = story.stream()
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    trim(2)
    story.send(0, b"d")
    assert rows_between(stream, end, stream.latestOffset(end, ALL)) == [b"d"]


def test_a_topic_that_was_made_anew_is_an_error(story):
    story.send(0, b"a", b"b")
    stream = story.stream()
    end = stream.latestOffset(stream.initialOffset(), ALL)
    story.admin("DELETE", f"{story.topic}/partitions?force=true")
    with pytest.raises(ClientError, match=f"no broker has topic 'persistent://public/default/{story.topic}'"):
        stream.latestOffset(end, ALL)
    story.admin("PUT", f"{story.topic}/partitions", 2)
    with pytest.raises(DataLost, match="as if the topic had been deleted and made anew"):
        story.stream().latestOffset(end, ALL)


def test_a_missing_topic_is_one_sentence_and_is_not_made(story):
    reader = story.batch(topic="nobody")
    with pytest.raises(ClientError, match="no broker has topic 'persistent://public/default/nobody'"):
        reader.partitions()
    with pytest.raises(ClientError, match="no broker has topic"):
        reader.partitions()
    assert story.stream(failOnDataLoss="false", topic="nobody").initialOffset() == {}


def test_an_unreachable_service_is_one_sentence(story):
    story.service = f"pulsar://127.0.0.1:{free_port()}"
    with pytest.raises(ClientError, match="cannot be reached"):
        story.batch().partitions()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"service": "pulsar+ssl://127.0.0.1:6651"}, "TLS is not supported"),
        ({"service": "pulsar://127.0.0.1"}, "has no port"),
        ({"topic": "non-persistent://public/default/x"}, "is not persistent"),
        ({"topic": "x-partition-3"}, "is a partition: give its topic x"),
        ({"topic": "a/b"}, "a name is TENANT/NAMESPACE/NAME"),
        ({"topic": " , "}, "give the name of a topic"),
        ({"startingOffsets": '{"x": {"0": "12"}}'}, "is no place"),
        ({"startingOffsets": "12"}, "give earliest, latest, or JSON"),
        ({"startingOffsets": '{"x": {"0": -3}}'}, "-3 is no offset"),
    ],
)
def test_what_is_wrong_with_an_option_is_said(story, options, says):
    with pytest.raises(ConfigError, match=says):
        story.batch(**options)


# --- places -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.integers(0, 2**29 - 1), st.integers(0, 2**21 - 1), st.integers(0, 4095)), min_size=1))
def test_the_column_offset_keeps_the_order_and_loses_nothing(parts):
    places = sorted(Place.of(*one) for one in parts)
    offsets = [packed(place) for place in places]
    assert [unpacked(offset) for offset in offsets] == places
    assert offsets == sorted(offsets)
    assert offsets[0] >= 0
    assert offsets[-1] < 2**63
    assert [Place.parsed(str(place)) for place in places] == places


@pytest.mark.parametrize(
    "place", [Place.of(2**29, 0), Place.of(3, 2**33), Place.of(2**20, 2**21), Place.of(0, 0, 4096)]
)
def test_a_message_that_does_not_fit_says_how_to_read_it(place):
    with pytest.raises(SparkSourceError, match=r"does not fit into the column offset.*\.schema"):
        packed(place)


def test_a_range_is_cut_at_entries_within_a_ledger():
    one = PlaceRange("t", "pulsar", "t-partition-0", 0, Place.of(7, 10, 3), Place.of(7, 19, 1))
    cut = one.cut(3)
    assert [str(piece) for piece in cut] == [
        "t/0 from 7:10:3 to 7:13:0",
        "t/0 from 7:13:0 to 7:16:0",
        "t/0 from 7:16:0 to 7:19:1",
    ]
    whole = PlaceRange("t", "pulsar", "t-partition-0", 0, Place(0), Place.of(7, 19, 1))
    assert whole.cut(3) == [whole]


def test_tasks_share_a_partition(story):
    story.send(0, *[b"%d" % number for number in range(100)])
    reader = story.batch(minPartitions=4)
    stream = story.stream(minPartitions=4)
    start = stream.latestOffset(stream.initialOffset(), ALL)
    story.send(0, *[b"%d" % number for number in range(100, 200)])
    tasks = stream.partitions(start, stream.latestOffset(start, ALL))
    assert len(tasks) == 4
    assert bodies_of(stream, tasks) == [b"%d" % number for number in range(100, 200)]
    assert len(bodies_of(reader, reader.partitions())) == 200


def test_a_pattern_chooses_among_the_topics_of_a_namespace(story):
    story.send(0, b"a")
    reader = story.batch(topic=None, topicPattern=f"{story.topic[:-1]}.")
    assert bodies_of(reader, reader.partitions()) == [b"a"]
    reader = story.batch(topic=None, topicPattern=f"public/default/{story.topic}")
    assert bodies_of(reader, reader.partitions()) == [b"a"]
    with pytest.raises(ConfigError, match="no topic matches"):
        story.batch(topic=None, topicPattern="nothing.*").partitions()


def test_what_rocketmqs_clients_wrote_is_read_too(story, producer, new_name):
    topic = new_name("orders")
    producer.send_all([Message(topic, b"%d" % number, tags="web", keys=f"k{number}") for number in range(20)])
    stream = story.stream(topic=topic)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    rows = told.rows_of(stream, stream.partitions(start, end))
    assert sorted((int(row["body"]), row["key"], row["tags"]) for row in rows) == [
        (number, f"k{number}", "web") for number in range(20)
    ]
    producer.send(Message(topic, b"20"))
    assert rows_between(stream, end, stream.latestOffset(end, ALL)) == [b"20"]


# --- on Spark ---------------------------------------------------------------------------------------------------------


def test_spark_reads_batches_and_streams(spark, story, tmp_path):
    story.send(0, *[b'{"id": %d}' % number for number in range(50)], batched=True)
    story.send(1, *[b'{"id": %d}' % number for number in range(50, 60)])
    options = {"service": story.service, "topic": story.topic, "valueFormat": "json", "valueSchema": "id long"}
    rows = spark.read.format("penstock").options(**options).load()
    assert rows.selectExpr("count(*)", "sum(id)").collect() == [(60, sum(range(60)))]
    last = rows.where("id = 30").select("offset").collect()[0][0]
    narrow = spark.read.format("penstock").options(**options).load().where(f"queue = 0 AND offset > {last}")
    assert narrow.count() == 19

    def run():
        stream = spark.readStream.format("penstock").options(**options, startingOffsets="earliest").load()
        writer = stream.writeStream.format("parquet").option("path", str(tmp_path / "out"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return spark.read.parquet(str(tmp_path / "out")).selectExpr("count(*)", "sum(id)").collect()

    assert run() == [(60, sum(range(60)))]
    story.send(1, b'{"id": 60}', b"no JSON")
    assert run() == [(62, sum(range(61)))]


def test_spark_writes_rows_with_all_that_they_carry(spark, story):
    rows = spark.sql(
        "SELECT concat('k', id) AS key, 'web' AS tags, map('n', string(id)) AS properties, string(id) AS body, "
        "int(id % 2) AS queue FROM range(20)"
    )
    writer = rows.write.format("penstock").option("service", story.service).option("topic", story.topic)
    writer.mode("append").save()
    reader = story.batch()
    found = told.rows_of(reader, reader.partitions())
    assert sorted(int(row["body"]) for row in found) == list(range(20))
    for row in found:
        number = int(row["body"])
        assert (row["queue"], row["key"], row["tags"]) == (number % 2, f"k{number}", "web")
        assert dict(row["properties"]) == {"n": str(number)}
    with pytest.raises(Exception, match="has queues 0 to 1, not 7"):
        rows.withColumn("queue", rows.queue + 7).write.format("penstock").options(
            service=story.service, topic=story.topic
        ).mode("append").save()
