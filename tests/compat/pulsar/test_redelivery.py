"""What comes again, later or elsewhere: negative acknowledgements, dead letters, retries, delays."""

import pytest
from tests.compat.pulsar.stories import numbers, only, publish


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
def test_what_is_refused_comes_again_and_says_how_often(client, topic, kind):
    consumer = client.subscribe(topic, "s", type=kind, nack_ms=100)
    publish(client, topic, ["x", "y"])
    kept, refused = consumer.receive(2)
    consumer.ack(kept)
    for times in range(1, 4):
        consumer.nack(refused)
        (refused,) = consumer.receive()
        assert (refused.body, refused.redelivered) == ("y", times)
    consumer.ack(refused)
    assert consumer.nothing()


def test_who_consumes_alone_and_refuses_one_gets_all_again(client, topic):
    consumer = client.subscribe(topic, "s")
    publish(client, topic, numbers(5))
    first, *_, last = consumer.receive(5)
    consumer.ack(first)
    consumer.nack(last)
    assert consumer.bodies(4) == numbers(4, 1)
    assert consumer.nothing()


@only("java", "python")
def test_who_consumes_alone_gives_all_back(client, topic):
    consumer = client.subscribe(topic, "s")
    publish(client, topic, numbers(5))
    first, *_ = consumer.receive(5)
    consumer.ack(first)
    consumer.redeliver()
    assert consumer.bodies(4) == numbers(4, 1)
    assert consumer.nothing()


def test_a_dead_letter_goes_where_clients_send_it(client, topic):
    dead = client.subscribe(f"{topic}-dead", "keep")
    policy = {"times": 2, "topic": f"{topic}-dead", "subscription": "first"}
    consumer = client.subscribe(topic, "s", type="Shared", nack_ms=50, dead=policy)
    publish(client, topic, ["poison"])
    for times in range(3):
        (message,) = consumer.receive()
        assert message.redelivered == times
        consumer.nack(message)
    assert dead.bodies(1) == ["poison"]
    assert consumer.nothing()
    assert client.subscribe(f"{topic}-dead", "first", type="Shared").bodies(1) == ["poison"]  # made by the client


@only("java", "go")
def test_what_is_tried_later_comes_through_the_retry_topic(client, topic):
    policy = {"times": 2, "topic": f"{topic}-dead", "retry_topic": f"{topic}-retry"}
    dead = client.subscribe(f"{topic}-dead", "keep")
    consumer = client.subscribe(topic, "s", type="Shared", retry=True, dead=policy)
    publish(client, topic, ["again"])
    (message,) = consumer.receive()
    for times in (1, 2):
        consumer.later(message, 300)
        (message,) = consumer.receive()
        assert message.told["topic"].endswith(f"{topic}-retry")
        assert message.told["properties"]["RECONSUMETIMES"] == str(times)
    consumer.later(message, 300)
    assert dead.bodies(1) == ["again"]
    assert consumer.nothing()


@pytest.mark.parametrize("kind", ["Shared", "Key_Shared"])
def test_what_is_for_later_comes_later_where_several_share(client, topic, kind):
    consumer = client.subscribe(topic, "s", type=kind)
    producer = client.producer(topic)
    producer.send("later", deliver_after_ms=1_500)
    producer.send("now")
    assert [message.body for message in consumer.receive()] == ["now"]
    assert consumer.nothing()
    assert [message.body for message in consumer.receive()] == ["later"]


def test_who_consumes_alone_does_not_wait_for_what_is_for_later(client, topic):
    consumer = client.subscribe(topic, "s")
    client.producer(topic).send("later", deliver_after_ms=60_000)
    assert [message.body for message in consumer.receive()] == ["later"]


def test_what_a_consumer_had_in_hand_goes_to_the_others(client, open_client, topic):
    other = open_client()
    first = client.subscribe(topic, "s", type="Shared", queue=100)
    publish(client, topic, numbers(10))
    first.receive(10)
    second = other.subscribe(topic, "s", type="Shared")
    assert second.nothing()
    first.close()
    assert sorted(second.bodies(10)) == numbers(10)
