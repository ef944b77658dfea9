"""Readers and seeking: at a message, at either end, at a time, within a batch."""

import time

import pytest
from tests.compat.pulsar.drivers import A_MOMENT_MS
from tests.compat.pulsar.stories import numbers, only, publish

MODES = pytest.mark.parametrize("batch", [False, True], ids=["single", "batched"])


@MODES
def test_a_reader_sees_everything_and_knows_when_it_is_at_the_end(client, topic, batch):
    publish(client, topic, numbers(20), batch=batch)
    reader = client.reader(topic)
    assert reader.all() == numbers(20)
    publish(client, topic, ["more"], batch=batch)
    assert reader.available()
    assert reader.all() == ["more"]


def test_a_reader_of_an_empty_topic(client, topic):
    reader = client.reader(topic)
    assert not reader.available()
    publish(client, topic, ["first"])
    assert reader.all() == ["first"]


def test_a_reader_from_now_on(client, topic):
    publish(client, topic, numbers(3))
    reader = client.reader(topic, "latest")
    assert not reader.available()
    publish(client, topic, ["new"])
    assert reader.available() or client.kind == "go"  # that one compares with where it began
    assert [message.body for message in reader.read(1)] == ["new"]


@MODES
def test_a_reader_from_a_message_on(client, topic, batch):
    publish(client, topic, numbers(10), batch=batch)
    third = client.reader(topic).read(3)[-1]
    assert client.reader(topic, third).all() == numbers(7, 3)
    assert client.reader(topic, third, inclusive=True).all() == numbers(8, 2)


@MODES
def test_a_reader_seeks(client, topic, batch):
    publish(client, topic, numbers(10), batch=batch)
    reader = client.reader(topic)
    messages = reader.read(10)
    assert not reader.available()
    reader.seek(messages[4])
    assert reader.all() == numbers(5, 5)
    reader.seek("earliest")
    assert reader.all() == numbers(10)
    reader.seek("latest")
    assert not reader.available() or client.kind == "go"
    reader.seek(messages[0].told["publish_ms"] - 60_000)
    assert [message.body for message in reader.read(10)] == numbers(10)  # 3.5 for Python does not know they are there


@MODES
@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
def test_a_consumer_seeks(client, topic, kind, batch):
    publish(client, topic, numbers(10), batch=batch)
    consumer = client.subscribe(topic, "s", type=kind)
    messages = consumer.receive(10)
    consumer.ack(*messages)
    consumer.seek(messages[4])
    assert consumer.bodies(5) == numbers(5, 5)
    consumer.seek("earliest")
    assert consumer.bodies(10) == numbers(10)
    consumer.seek("latest")
    assert consumer.nothing()
    publish(client, topic, ["new"])
    assert consumer.bodies(1) == ["new"]


def test_a_seek_by_time_finds_what_was_published_then(client, topic):
    publish(client, topic, numbers(3))
    time.sleep(0.05)  # clocks have to tick: the time between is what is sought
    between_ms = time.time_ns() // 1_000_000
    publish(client, topic, numbers(3, 3))
    consumer = client.subscribe(topic, "s")
    assert consumer.bodies(6) == numbers(6)
    consumer.seek(between_ms)
    assert consumer.bodies(3) == numbers(3, 3)


def test_the_last_message(client, topic):
    consumer = client.subscribe(topic, "s")
    told = publish(client, topic, numbers(3))
    (last,) = consumer.last()
    assert (last["ledger"], last["entry"]) == (told[-1]["ledger"], 2)
    publish(client, topic, numbers(5), batch=True)
    (last,) = consumer.last()
    assert (last["entry"], last["batch"]) == (3, 4)


@only("java")
def test_a_reader_from_some_time_ago_on(client, topic):
    publish(client, topic, numbers(3))
    assert client.reader(topic, rollback_s=3_600).all() == numbers(3)


@only("java")
def test_readers_of_some_keys(client, topic):
    publish(client, topic, numbers(70))
    halves = [{"first": 0, "last": 32767}], [{"first": 32768, "last": 65535}]
    readers = [client.reader(topic, ranges=ranges) for ranges in halves]
    got = [reader.ask("read", count=70, wait_ms=A_MOMENT_MS) for reader in readers]
    keys = [{told["key"] for told in part} for part in got]
    assert sorted(keys[0] | keys[1]) == [f"k{number}" for number in range(7)]
    assert not keys[0] & keys[1]
    assert [len(part) for part in got] == [10 * len(part) for part in keys]
    assert all(keys)
