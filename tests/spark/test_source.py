"""Batch reads, and what becomes of a read that cannot be."""

import pytest
from pyspark.errors import AnalysisException

from penstock.client.message import Message
from penstock.client.sync import Producer


def test_a_topic_is_a_table(spark, penstock, service, new_name):
    topic = new_name("orders")
    with Producer(penstock.addresses["namesrv"], "tests") as producer:
        producer.send_all([Message(topic, b"body %d" % number, keys=f"k{number}") for number in range(20)])
    rows = spark.read.format("penstock").option("service", service).option("topic", topic).load().collect()
    assert sorted(bytes(row.body) for row in rows) == sorted(b"body %d" % number for number in range(20))


def test_a_column_that_messages_do_not_have_is_named(spark, service):
    asked = spark.read.format("penstock").option("service", service).option("topic", "any").schema("bdy binary")
    with pytest.raises(AnalysisException, match="did you mean 'body'"):
        asked.load().collect()


def test_a_column_of_another_type_is_refused(spark, service):
    asked = spark.read.format("penstock").option("service", service).option("topic", "any").schema("body string")
    with pytest.raises(AnalysisException, match="'body' is binary, not string"):
        asked.load().collect()
