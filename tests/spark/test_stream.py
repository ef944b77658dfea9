"""Streaming reads: limits, triggers, restarts, queues that come and messages that go.

Most of it asks the reader itself what it would do, on a real broker and without a Spark: a query takes seconds.
"""

import asyncio
import json
import threading

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from tests.compat.rocketmq.peer import free_port

from penstock import configure
from penstock.admin.engine import opened
from penstock.client.errors import ClientError
from penstock.client.message import Message
from penstock.client.routes import MessageQueue
from penstock.client.sync import Producer
from penstock.errors import PenstockError
from penstock.spark import columns
from penstock.spark.errors import DataLost, OutsideQueue
from penstock.spark.options import STREAM, read_options
from penstock.spark.stream import StreamReader
from penstock.testing.server import PORTS, running

QUEUES = 2
ALL = ReadAllAvailable()


@pytest.fixture
def operate(service):
    """Do something as an operator does it."""

    def operate(act):
        async def there():
            async with opened(service) as engine:
                return await act(engine)

        return asyncio.run(there())

    return operate


@pytest.fixture
def topic(operate, new_name):
    name = new_name("orders")
    operate(lambda engine: engine.create_topic(name, QUEUES, "rw"))
    return name


@pytest.fixture
def send(producer, topic):
    def send(*counts, tags=""):
        for queue, count in enumerate(counts):
            for number in range(count):
                message = Message(topic, b"%d/%d" % (queue, number), tags=tags)
                producer.send(message, MessageQueue(topic, "penstock", queue))

    return send


@pytest.fixture
def reader(service, topic):
    """A reader as one run of a query has it."""
    open_ones = []

    def reader(**options):
        given = {"service": service, "topic": topic, "startingOffsets": "earliest", **options}
        given = {name: str(value) for name, value in given.items() if value is not None}
        open_ones.append(StreamReader(read_options(given, STREAM), columns.schema()))
        return open_ones[-1]

    yield reader
    for one in open_ones:
        one.stop()


@pytest.fixture
def at(topic):
    """An offset of the stream."""
    return lambda *offsets: {topic: {f"penstock:{queue}": offset for queue, offset in enumerate(offsets)}}


@pytest.fixture
def trim(penstock, topic):
    def trim(queue, offset):
        broker = penstock.server.broker
        broker.store.trim(broker.topics.get(topic).queue(queue), offset)  # nothing else goes on in this broker now

    return trim


@pytest.fixture
def committed(operate):
    def committed(group):
        return [line.committed for line in operate(lambda engine: engine.lag(group))]

    return committed


def spans(partitions):
    return {one.queue: (one.start, one.end) for task in partitions for one in task.ranges}


# --- how far ----------------------------------------------------------------------------------------------------------


def test_it_begins_where_it_is_told_to(reader, send, at, topic):
    send(3, 5)
    assert reader().initialOffset() == at(0, 0)
    assert reader(startingOffsets="latest").initialOffset() == at(3, 5)
    assert reader(startingOffsets=json.dumps({topic: {"0": 2, "1": -1}})).initialOffset() == at(2, 5)
    assert reader(startingTimestamp="0").initialOffset() == at(0, 0)


def test_without_a_word_a_stream_begins_with_what_comes_next(reader, send, at):
    send(3, 5)
    assert reader(startingOffsets=None).initialOffset() == at(3, 5)


def test_a_batch_goes_to_the_end_or_to_its_limit(reader, send, at):
    send(30, 10)
    stream = reader(maxOffsetsPerTrigger=4)
    assert stream.latestOffset(at(0, 0), ALL) == at(30, 10)
    assert stream.getDefaultReadLimit() == ReadMaxRows(4)
    assert stream.latestOffset(at(0, 0), ReadMaxRows(4)) == at(3, 1)
    assert stream.latestOffset(at(30, 10), ReadMaxRows(4)) == at(30, 10)
    assert reader().getDefaultReadLimit() == ALL


def test_what_there_is_is_told(reader, send, at):
    send(3, 5)
    stream = reader()
    assert stream.reportLatestOffset() is None
    stream.latestOffset(at(0, 0), ReadMaxRows(1))
    assert stream.reportLatestOffset() == at(3, 5)


def test_ranges_are_those_between_two_offsets(reader, send, at):
    send(30, 10)
    stream = reader()
    assert spans(stream.partitions(at(3, 10), at(8, 10))) == {0: (3, 8)}
    assert stream.partitions(at(3, 10), at(3, 10)) == []
    assert len(reader(minPartitions=4).partitions(at(0, 0), at(30, 10))) == 4


def test_available_now_ends_with_what_there_was(reader, send, at):
    send(3, 3)
    stream = reader()
    stream.prepareForTriggerAvailableNow()
    send(5, 5)
    assert stream.latestOffset(at(0, 0), ReadMaxRows(2)) == at(1, 1)
    assert stream.latestOffset(at(1, 1), ALL) == at(3, 3)
    assert stream.latestOffset(at(3, 3), ALL) == at(3, 3)


# --- queues that come and go ------------------------------------------------------------------------------------------


def test_a_queue_that_is_added_is_read_from_its_beginning(reader, send, at, operate, topic):
    send(3, 3)
    stream = reader(startingOffsets="latest")
    start = stream.initialOffset()
    operate(lambda engine: engine.alter_topic(topic, 3, 3, None))
    send(0, 0, 4)
    end = stream.latestOffset(start, ALL)
    assert (start, end) == (at(3, 3), at(3, 3, 4))
    assert spans(stream.partitions(start, end)) == {2: (0, 4)}


def test_a_topic_that_comes_later_is_read_from_its_beginning(reader, send, at, operate, topic, new_name):
    send(2, 2)
    later = f"{topic}_later"
    stream = reader(topic=None, topicPattern=f"{topic}.*", startingOffsets="latest")
    start = stream.initialOffset()
    operate(lambda engine: engine.create_topic(later, 1, "rw"))
    assert stream.latestOffset(start, ALL) == {**at(2, 2), later: {"penstock:0": 0}}


def test_a_stream_may_wait_for_topics(reader, new_name):
    stream = reader(topic=None, topicPattern=new_name("nothing"))
    assert stream.initialOffset() == {}
    assert stream.latestOffset({}, ALL) == {}


def test_a_queue_that_is_gone_is_an_error_or_a_warning_and_keeps_its_place(reader, send, at, operate, topic, caplog):
    send(3, 3)
    start = at(1, 1)
    operate(lambda engine: engine.alter_topic(topic, 1, 1, None))
    with pytest.raises(DataLost, match=f"these 1 queues any more, {topic}/penstock/1: is a broker down"):
        reader().latestOffset(start, ALL)
    stream = reader(failOnDataLoss="false")
    end = stream.latestOffset(start, ALL)
    assert end == at(3, 1)
    assert spans(stream.partitions(start, end)) == {0: (1, 3)}
    assert caplog.text.count(f"no broker offers queue {topic}/penstock/1 any more") == 1


def test_a_topic_that_is_deleted(reader, send, at, operate, topic):
    send(3, 3)
    operate(lambda engine: engine.delete_topic(topic))
    with pytest.raises(ClientError, match="no broker has topic"):
        reader().latestOffset(at(1, 1), ALL)
    assert reader(failOnDataLoss="false").latestOffset(at(1, 1), ALL) == at(1, 1)


# --- messages that go -------------------------------------------------------------------------------------------------


def test_retention_that_overtakes_is_an_error_with_the_count(reader, send, at, trim, topic):
    send(30, 10)
    trim(0, 12)
    sentence = f"7 messages of queue {topic}/penstock/0, offsets 5 up to 12, are gone: retention was faster"
    with pytest.raises(DataLost, match=sentence) as told:
        reader().latestOffset(at(5, 0), ALL)
    assert told.value.messages == 7
    with pytest.raises(DataLost, match=sentence):
        reader().partitions(at(5, 0), at(30, 10))


def test_or_a_warning_with_the_count(reader, send, at, trim, caplog):
    send(30, 10)
    trim(0, 12)
    stream = reader(failOnDataLoss="false")
    assert stream.latestOffset(at(5, 10), ReadMaxRows(4)) == at(16, 10)
    assert spans(stream.partitions(at(5, 10), at(16, 10))) == {0: (12, 16)}
    assert "7 messages of queue" in caplog.text


def test_a_topic_that_was_made_anew(reader, send, at, caplog):
    send(3, 3)
    with pytest.raises(DataLost, match=r"17 messages of queue .* it ends at 3"):
        reader().latestOffset(at(20, 3), ALL)
    stream = reader(failOnDataLoss="false")
    assert stream.latestOffset(at(20, 3), ALL) == at(3, 3)
    assert spans(stream.partitions(at(20, 3), at(3, 3))) == {0: (0, 3)}
    assert "made anew" in caplog.text


# --- offsets of a group -----------------------------------------------------------------------------------------------


def test_a_group_is_where_the_stream_is(reader, send, at, committed, new_name):
    group = new_name("lake")
    send(30, 10)
    stream = reader(commitGroup=group)
    stream.latestOffset(at(0, 0), ReadMaxRows(4))
    assert committed(group) == [0, 0]
    stream.latestOffset(at(3, 1), ALL)  # asked after a batch: it is done
    assert committed(group) == [3, 1]
    stream.commit(at(30, 10))
    assert committed(group) == [30, 10]


def test_a_group_that_cannot_be_written_does_not_end_the_query(reader, send, at, caplog, monkeypatch, new_name):
    send(3, 3)
    stream = reader(commitGroup=new_name("lake"))

    def refused(*_):
        raise ClientError("not now")

    monkeypatch.setattr("penstock.spark.places.Places.commit", refused)
    assert stream.latestOffset(at(0, 0), ALL) == at(3, 3)
    assert "were not written, the query goes on: not now" in caplog.text


# --- a broker that goes and comes back --------------------------------------------------------------------------------


def test_a_broker_that_is_started_anew_is_waited_for(tmp_path, new_name):
    ports = {name: free_port() for name in PORTS}
    config = configure.load(None, {}, {"server": {"data": str(tmp_path), **ports}})
    topic, over = new_name("orders"), threading.Event()
    with running(config) as broker:
        names = broker.addresses["namesrv"]
        with Producer(names, "tests") as producer:
            sent = producer.send(Message(topic, b"before"))
        given = {"service": names, "topic": topic, "startingOffsets": "earliest"}
        stream = StreamReader(read_options(given, STREAM), columns.schema())
        start = stream.initialOffset()

    def anew():
        with running(config):
            over.wait()

    again = threading.Thread(target=anew)
    again.start()  # while the reader asks, or a little before: its connections are gone in any case
    try:
        end = stream.latestOffset(start, ALL)
    finally:
        stream.stop()
        over.set()
        again.join()
    assert end[topic][f"penstock:{sent.queue.queue}"] == 1


# --- what cannot be ---------------------------------------------------------------------------------------------------


def test_a_start_that_is_not_there(reader, send, at, topic):
    send(3, 3)
    with pytest.raises(OutsideQueue, match="offset 4 for queue"):
        reader(startingOffsets=json.dumps({topic: {"0": 4, "1": 0}})).initialOffset()
    lenient = reader(startingOffsets=json.dumps({topic: {"0": 4, "1": 0}}), failOnDataLoss="false")
    assert lenient.initialOffset() == at(3, 0)
    with pytest.raises(PenstockError, match="behind the last message"):
        reader(startingTimestamp="2100-01-01T00:00Z").initialOffset()


def test_a_start_without_its_topic(reader, new_name):
    with pytest.raises(ClientError, match="no broker has topic"):
        reader(topic=new_name("nowhere")).initialOffset()


# --- through Spark ----------------------------------------------------------------------------------------------------


@pytest.fixture
def run(spark, service, topic, tmp_path):
    """One run of a query up to what there is; gives the rows of its batches."""

    def run(**options):
        batches = []

        def take(frame, number):
            batches.append((number, sorted(bytes(row.body).decode() for row in frame.collect())))

        read = spark.readStream.format("penstock").option("service", service).option("topic", topic)
        query = (
            read.options(startingOffsets="earliest", **options)
            .schema("body binary")
            .load()
            .writeStream.foreachBatch(take)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return batches

    return run


def test_s47_a_stream_goes_on_where_it_stopped(run, send, committed, operate, topic, new_name):
    group = new_name("lake")
    send(2, 2)
    assert run(maxOffsetsPerTrigger="2") == [(0, ["0/0", "1/0"]), (1, ["0/1", "1/1"])]
    operate(lambda engine: engine.alter_topic(topic, 3, 3, None))
    send(0, 1, 1)
    assert run(commitGroup=group) == [(2, ["1/0", "2/0"])]
    assert committed(group) == [2, 3, 1]


def test_spark_shows_the_sentence_of_a_stream(run, send, trim):
    from pyspark.errors import StreamingQueryException

    send(9, 0)
    assert len(run()) == 1
    send(9, 0)
    trim(0, 12)
    with pytest.raises(StreamingQueryException) as told:
        run()
    assert "3 messages of queue" in str(told.value)
    assert "set failOnDataLoss to false" in str(told.value)
    assert "Traceback" not in str(told.value)
