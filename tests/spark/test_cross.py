"""Topics that Pulsar's clients write to, read over RocketMQ's protocol: batches, chunks, what is not due yet."""

from datetime import timedelta

import pulsar
import pytest

from penstock.client.message import Message
from penstock.testing.server import running

SMALL_BYTES = 100_000  # as large as a message may be here, so that a few hundred kilobytes are chunks


@pytest.fixture(scope="module")
def penstock():
    with running(store={"durability": "async"}, pulsar={"message_bytes_max": SMALL_BYTES}) as broker:
        yield broker


@pytest.fixture
def writer(penstock, tmp_path):
    log = pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(tmp_path / "client.log"))
    client = pulsar.Client(f"pulsar://{penstock.addresses['pulsar']}", logger=log)
    yield client
    client.close()


def test_what_both_wrote_is_one_table(spark, service, producer, writer, new_name):
    topic = new_name("orders")
    batched = writer.create_producer(topic, batching_enabled=True, compression_type=pulsar.CompressionType.LZ4)
    for number in range(500):
        batched.send_async(b"p%d" % number, lambda *told: None, partition_key=f"k{number}", properties={"TAGS": "t"})
    batched.flush()
    chunked = writer.create_producer(topic, batching_enabled=False, chunking_enabled=True)
    chunked.send(b"x" * 250_000)
    producer.send(Message(topic, b"r", keys="k"))
    batched.send(b"later", deliver_after=timedelta(hours=1))
    frame = spark.read.format("penstock").option("service", service).option("topic", topic).load()
    rows = frame.orderBy("offset").collect()
    assert [bytes(row.body) for row in rows[:500]] == [b"p%d" % number for number in range(500)]
    assert [row.offset for row in rows[:500]] == list(range(500))
    assert {(row.topic, row.queue, row.tags) for row in rows[:500]} == {(topic, 0, "t")}
    assert [row.key for row in rows[:500]] == [f"k{number}" for number in range(500)]
    assert [bytes(row.body) for row in rows[500:]] == [b"x" * 250_000, b"r", b"later"]
    assert rows[500].offset > 500  # at the last of its chunks
    assert frame.filter("tags = 't'").count() == 500
