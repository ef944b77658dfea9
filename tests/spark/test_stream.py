"""Streaming reads: triggers, limits, restarts, queues that come and messages that go."""

from penstock.client.message import Message
from penstock.client.sync import Producer


def test_a_stream_goes_on_where_it_stopped(spark, penstock, service, new_name, tmp_path):
    topic = new_name("orders")
    seen = []

    def run(count):
        with Producer(penstock.addresses["namesrv"], "tests") as producer:
            producer.send_all([Message(topic, b"body %d" % number) for number in range(count)])
        read = spark.readStream.format("penstock").option("service", service).option("topic", topic)
        query = (
            read.option("startingOffsets", "earliest")
            .load()
            .writeStream.foreachBatch(lambda frame, number: seen.append((number, frame.count())))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    run(20)
    run(5)
    assert seen == [(0, 20), (1, 5)]
