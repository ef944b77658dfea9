"""SQL filters: consumers get what their expression selects, and are told when it is none."""

import pytest
from tests.compat.rocketmq.clients import GO, JAVA_4, JAVA_5, JAVA_5_BINARY, bodies, number_of

JAVA = pytest.mark.parametrize("client", [JAVA_4, JAVA_5], ids=lambda client: client.name)
EACH = pytest.mark.parametrize("client", [JAVA_4, JAVA_5, JAVA_5_BINARY, GO], ids=lambda client: client.name)


@EACH
def test_a_push_consumer_gets_what_its_expression_selects(client, use, new_topic, group):
    topic = new_topic()
    use(JAVA_5).produce(topic, 40, "--properties")
    use(GO).produce(topic, 4, "--label", "bare")
    with use(client).push(topic, group, "--sql", "number BETWEEN 10 AND 29 AND colour = 'red'") as consumer:
        assert sorted(map(number_of, consumer.take(10))) == list(range(11, 30, 2))
        use(GO).produce(topic, 30, "--properties", "--label", "later")
        assert sorted(map(number_of, consumer.take(10))) == list(range(11, 30, 2))
    assert not consumer.rest


@EACH
def test_a_consumer_finds_its_one_message_behind_many(client, use, new_topic, group):
    topic = new_topic(queues=1)
    use(GO).produce(topic, 1_500, "--mode", "batch", "--batch", "50", "--properties")
    with use(client).push(topic, group, "--sql", "number = 1400") as consumer:
        assert [number_of(line) for line in consumer.take(1)] == [1400]
    assert not consumer.rest


@JAVA
@pytest.mark.parametrize("mode", ["subscribe", "queues"])
def test_a_pull_consumer_gets_what_its_expression_selects(client, mode, use, new_topic, group):
    topic = new_topic()
    use(GO).produce(topic, 40, "--properties")
    with use(client).pull(topic, group, "--mode", mode, "--sql", "colour = 'blue' AND number >= 20") as consumer:
        assert sorted(map(number_of, consumer.take(10))) == list(range(20, 40, 2))
    assert not consumer.rest


EXPRESSIONS = {
    "number > 2.5": [3, 4, 5],
    "number NOT BETWEEN 1 AND 4": [0, 5],
    "number IN ('1', '3') OR colour IN ('green')": [1, 3],
    "colour <> 'red'": [0, 2, 4],
    "NOT (number = 3)": [0, 1, 2, 4, 5],
    "absent IS NULL AND number IS NOT NULL AND number < 2": [0, 1],
    "number = 5 OR colour > 1": [5],  # a colour is no number: that ends it
    "absent <> 1 OR number = 1": [1],
    "colour <> absent AND number = 2": [2],
    "number = -(-3)": [3],
    "TAGS = 'green' AND number = 4": [],
    "colour CONTAINS 'lu' AND NOT (number STARTSWITH '2')": [0, 4],
    "colour NOT ENDSWITH 'ed'": [0, 2, 4],
}


def test_expressions_select_the_same_as_at_rocketmq(use, new_topic, group):
    """What each selects was seen at a real one; run with PENSTOCK_COMPAT_NAMESRV=rocketmq to see it again."""
    topic = new_topic(queues=1)
    use(JAVA_5).produce(topic, 6, "--properties")
    for number, (expression, expected) in enumerate(EXPRESSIONS.items()):
        with use(JAVA_5).pull(topic, f"{group}-{number}", "--mode", "queues", "--sql", expression) as consumer:
            pass
        assert [number_of(line) for line in consumer.rest] == expected, expression


@JAVA
def test_a_consumer_is_told_that_its_expression_is_none(client, use, new_topic, group):
    with pytest.raises(AssertionError, match=r"(?s)ended early.*CODE: 23"):
        use(client).push(new_topic(), group, "--sql", "number = = 1")


def test_other_consumers_do_not_notice_a_bad_expression(use, new_topic, group):
    topic = new_topic()
    with use(GO).push(topic, f"{group}-bad", "--sql", "number >"), use(GO).push(topic, group) as good:
        use(GO).produce(topic, 8)
        assert sorted(line["body"] for line in good.take(8)) == bodies("m", 8)
