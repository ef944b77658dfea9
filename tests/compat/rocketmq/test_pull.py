"""Consumers that pull: lite pull with shared and with chosen queues, and the old pull consumer."""

import pytest
from tests.compat.rocketmq.clients import GO, JAVA, JAVA_4, JAVA_5, bodies

EACH = pytest.mark.parametrize("client", JAVA, ids=lambda client: client.name)


@EACH
@pytest.mark.parametrize("mode", ["subscribe", "assign", "queues"])
def test_everything_is_pulled_once(client, mode, use, new_topic, group):
    topic = new_topic()
    use(GO).produce(topic, 100)
    with use(client).pull(topic, group, "--mode", mode) as consumer:
        got = consumer.take(100)
    assert sorted(line["body"] for line in got) == sorted(bodies("m", 100))
    assert not consumer.rest


@pytest.mark.parametrize("client", [JAVA_4, JAVA_5], ids=lambda client: client.name)
def test_committed_offsets_are_gone_on_from(client, use, new_topic, group):
    topic = new_topic()
    for label in ("before", "after"):
        use(GO).produce(topic, 20, "--label", label)
        with use(client).pull(topic, group, "--mode", "subscribe") as consumer:
            assert sorted(line["body"] for line in consumer.take(20)) == sorted(bodies(label, 20))
        assert not consumer.rest


@pytest.mark.parametrize("client", [JAVA_4, JAVA_5], ids=lambda client: client.name)
def test_a_lite_consumer_filters_by_tag(client, use, new_topic, group):
    topic = new_topic()
    use(GO).produce(topic, 20, "--tags", "red,blue")
    with use(client).pull(topic, group, "--mode", "subscribe", "--tags", "red") as consumer:
        got = consumer.take(10)
    assert {line["tags"] for line in got} == {"red"}
    assert not consumer.rest
