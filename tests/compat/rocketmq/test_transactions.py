"""Transactions of the real clients: committed, rolled back, and asked about."""

import pytest
from tests.compat.rocketmq.clients import GO, JAVA_4, JAVA_5, JAVA_5_BINARY, body

TRANSACTING = pytest.mark.parametrize("client", [JAVA_4, JAVA_5, JAVA_5_BINARY, GO], ids=lambda client: client.name)


def transact(runner, topic: str, group: str, count: int, *options: str):
    words = ("--namesrv", runner.namesrv, "--topic", topic, "--group", group, "--count", str(count))
    return runner.start("transact", *words, *options).ready()


@TRANSACTING
def test_what_is_committed_comes_and_what_is_rolled_back_does_not(client, use, new_topic, group):
    topic = new_topic()
    with use(GO).push(topic, group) as consumer:
        with transact(use(client), topic, f"{group}-p", 6, "--outcomes", "commit,rollback", "--tags", "a") as producer:
            sent = producer.take(6)
            got = consumer.take(3)
        assert {line["status"] for line in sent} == {"SEND_OK"}
        assert sorted(line["body"] for line in got) == [body("m", number) for number in (0, 2, 4)]
        assert {line["msgId"] for line in got} == {line["msgId"] for line in sent if line["number"] % 2 == 0}
        assert {(line["topic"], line["tags"]) for line in got} == {(topic, "a")}
    assert not consumer.rest
    assert not producer.rest


@TRANSACTING
def test_a_producer_is_asked_what_it_left_open_and_its_answer_counts(client, use, new_topic, group):
    topic = new_topic()
    words = ("--outcomes", "unknown", "--answers", "commit,rollback", "--immunity-s", "3")
    with use(GO).push(topic, group) as consumer:
        with transact(use(client), topic, f"{group}-p", 4, *words) as producer:
            assert {line["status"] for line in producer.take(4)} == {"SEND_OK"}
            asked = producer.take(4)
            got = consumer.take(2)
        assert sorted(line["asked"] for line in asked) == [body("m", number) for number in range(4)]
        assert {line["topic"] for line in asked} == {topic}
        assert all(line["transactionId"] for line in asked)
        assert sorted(line["body"] for line in got) == [body("m", 0), body("m", 2)]
    assert not consumer.rest
    assert not producer.rest


@pytest.mark.parametrize("client", [JAVA_4, JAVA_5, GO], ids=lambda client: client.name)
def test_another_producer_of_the_group_is_asked_when_the_first_is_gone(client, use, new_topic, group):
    topic = new_topic()
    words = ("--outcomes", "unknown", "--immunity-s", "5")
    with use(GO).push(topic, group) as consumer:
        with transact(use(client), topic, f"{group}-p", 1, *words) as first:
            first.take(1)
            first.kill()
        with transact(use(client, "second"), topic, f"{group}-p", 1, "--label", "second") as second:
            lines = second.take(2)  # one is its own message: a client that sends nothing does not look for the broker
            got = consumer.take(2)
    assert [line["asked"] for line in lines if "asked" in line] == [body("m", 0)]
    assert sorted(line["body"] for line in got) == [body("m", 0), body("second", 0)]
