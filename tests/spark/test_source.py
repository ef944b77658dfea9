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


def test_bodies_become_columns_and_what_does_not_parse_is_kept(spark, penstock, service, new_name):
    topic = new_name("json")
    bodies = [b'{"id": 1, "name": "a"}', b"no json", b'{"id": 2}']
    with Producer(penstock.addresses["namesrv"], "tests") as producer:
        producer.send_all([Message(topic, body) for body in bodies])
    asked = spark.read.format("penstock").option("service", service).option("topic", topic)
    asked = asked.option("valueFormat", "json")
    whole = asked.option("valueSchema", "id long, name string").load()
    assert whole.columns[-3:] == ["id", "name", "_corrupt"]
    rows = whole.collect()
    found = sorted((str(row.id), row.name, row["_corrupt"] and bytes(row["_corrupt"])) for row in rows)
    assert found == [("1", "a", None), ("2", None, None), ("None", None, b"no json")]
    few = asked.schema("id long, `offset` long").load()
    assert sorted(row.id for row in few.where("id is not null").collect()) == [1, 2]


def test_a_column_of_the_body_that_messages_have_too_is_named(spark, service):
    asked = spark.read.format("penstock").option("service", service).option("topic", "any")
    with pytest.raises(AnalysisException, match="'key' is there twice"):
        asked.option("valueFormat", "json").option("valueSchema", "key string").load().collect()
