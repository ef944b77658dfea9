"""Pulsar's own client for Python finds topics by HTTP (its service URL is http://...) and sees what is done there."""

import re
from collections.abc import Iterator

import pulsar
import pytest
from tests.gateway.pulsar.caller import ask
from tests.gateway.pulsar.test_python_client import TIMEOUT_S

from penstock.testing.server import Running, running

Earliest = pulsar.InitialPosition.Earliest
WAIT_MS = TIMEOUT_S * 1000
TOPICS = "/admin/v2/persistent/public/default"


@pytest.fixture(scope="module")
def broker() -> Iterator[Running]:
    with running() as penstock:
        yield penstock


@pytest.fixture(scope="module")
def client(broker, tmp_path_factory) -> Iterator[pulsar.Client]:
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Info, str(tmp_path_factory.mktemp("client") / "log"))
    client = pulsar.Client(broker.http, logger=logger, operation_timeout_seconds=TIMEOUT_S)
    yield client
    client.close()


def admin(broker, method, path, body=None):
    return ask(broker.addresses["http"], method, path, body)


def taken(consumer, count):
    bodies = []
    for _ in range(count):
        message = consumer.receive(WAIT_MS)
        consumer.acknowledge(message)
        bodies.append(message.data())
    return bodies


def test_it_produces_and_consumes(client, broker):
    consumer = client.subscribe("plain", "s")
    producer = client.create_producer("plain")
    for number in range(10):
        producer.send(b"%d" % number)
    assert taken(consumer, 10) == [b"%d" % number for number in range(10)]
    told = admin(broker, "GET", f"{TOPICS}/plain/stats").json
    assert (told["msgInCounter"], len(told["publishers"])) == (10, 1)
    assert told["subscriptions"]["s"]["consumers"][0]["address"].startswith("/127.0.0.1:")
    producer.close()
    consumer.close()


def test_partitions_that_were_made_by_hand_are_used(client, broker):
    assert admin(broker, "PUT", f"{TOPICS}/wide/partitions", 3).status == 204
    assert len(client.get_topic_partitions("wide")) == 3
    consumer = client.subscribe("wide", "s", initial_position=Earliest)
    producer = client.create_producer("wide", batching_enabled=False)
    sent = [b"%d" % number for number in range(30)]
    for body in sent:
        producer.send(body)
    assert sorted(taken(consumer, 30)) == sorted(sent)
    told = admin(broker, "GET", f"{TOPICS}/wide/partitioned-stats").json
    assert told["msgInCounter"] == 30
    assert [each["msgInCounter"] for each in told["partitions"].values()] == [10, 10, 10]
    producer.close()
    consumer.close()


def test_a_pattern_finds_topics(client, broker):
    for name in ("find-a", "find-b", "lose-c"):
        admin(broker, "PUT", f"{TOPICS}/{name}")
    consumer = client.subscribe(re.compile("persistent://public/default/find-.*"), "s", initial_position=Earliest)
    for name in ("find-a", "find-b"):
        producer = client.create_producer(name)
        producer.send(name.encode())
        producer.close()
    assert sorted(taken(consumer, 2)) == [b"find-a", b"find-b"]
    consumer.close()


def test_a_reset_by_hand_has_the_consumer_read_again(client, broker):
    consumer = client.subscribe("again", "s")
    producer = client.create_producer("again")
    for number in range(5):
        producer.send(b"%d" % number)
    assert taken(consumer, 5)[-1] == b"4"
    assert admin(broker, "POST", f"{TOPICS}/again/subscription/s/resetcursor/0").status == 204
    assert taken(consumer, 5) == [b"%d" % number for number in range(5)]
    producer.close()
    consumer.close()


def test_a_topic_deleted_by_force_is_made_again_by_who_uses_it(client, broker):
    producer = client.create_producer("forced")
    producer.send(b"before")
    assert admin(broker, "DELETE", f"{TOPICS}/forced?force=true").status == 204
    producer.send(b"after")
    answer = admin(broker, "GET", f"{TOPICS}/forced/examinemessage?initialPosition=earliest")
    assert answer.headers["x-pulsar-producer-name"] == producer.producer_name()
    assert b"after" in answer.body
    producer.close()


def test_what_is_not_there_is_an_error_at_once(client):
    with pytest.raises(pulsar.PulsarException):
        client.create_producer("persistent://nobody/nowhere/x")
