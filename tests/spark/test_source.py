"""Batch reads, and what becomes of a read that cannot be."""

from penstock.client.message import Message
from penstock.client.sync import Producer


def test_a_topic_is_a_table(spark, penstock, service, new_name):
    topic = new_name("orders")
    with Producer(penstock.addresses["namesrv"], "tests") as producer:
        producer.send_all([Message(topic, b"body %d" % number, keys=f"k{number}") for number in range(20)])
    rows = spark.read.format("penstock").option("service", service).option("topic", topic).load().collect()
    assert sorted(bytes(row.body) for row in rows) == sorted(b"body %d" % number for number in range(20))
