"""Messages looked up by key and by id through the client's own interface."""

import pytest
from tests.compat.rocketmq.clients import GO, JAVA_4, JAVA_5, JAVA_5_BINARY, number_of

EACH = pytest.mark.parametrize("client", [JAVA_4, JAVA_5, JAVA_5_BINARY], ids=lambda client: client.name)
NO_MESSAGE = 208


def query(runner, topic, *options):
    with runner.start("query", "--namesrv", runner.namesrv, "--topic", topic, *options) as process:
        return process.to_the_end()


@EACH
def test_by_key_and_by_id(client, use, new_topic):
    topic = new_topic()
    for producer in (GO, JAVA_4, JAVA_5):
        sent = use(producer).produce(topic, 8, "--keys", "--label", producer.name)
        by_key = query(use(client), topic, "--key", f"key-{producer.name}-5")
        assert [(number_of(line), line["msgId"]) for line in by_key] == [(5, sent[5]["msgId"])]
        by_id = query(use(client), topic, "--id", str(sent[6]["msgId"]))
        assert [(number_of(line), line["msgId"]) for line in by_id] == [(6, sent[6]["msgId"])]


@EACH
def test_a_key_that_nothing_has(client, use, new_topic):
    topic = new_topic()
    use(GO).produce(topic, 4, "--keys")
    assert [line["code"] for line in query(use(client), topic, "--key", "nobody")] == [NO_MESSAGE]


@pytest.mark.parametrize("client", [JAVA_4, JAVA_5], ids=lambda client: client.name)
def test_as_many_as_were_asked_for(client, use, new_topic):
    topic = new_topic()
    for _ in range(5):
        use(GO).produce(topic, 1, "--keys")
    assert len(query(use(client), topic, "--key", "key-m-0")) == 5
    assert len(query(use(client), topic, "--key", "key-m-0", "--most", "2")) == 2
