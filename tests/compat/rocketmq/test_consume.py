"""Push consumers: waiting, filtering, sharing, broadcasting, going on where they were."""

import pytest
from tests.compat.rocketmq.clients import DIFFERENT, GO, JAVA_4, JAVA_5, JAVA_5_BINARY, NODE, bodies, number_of

EACH = pytest.mark.parametrize("client", DIFFERENT, ids=lambda client: client.name)
ROUNDS_MAX = 12


@EACH
def test_a_waiting_consumer_gets_what_comes(client, use, new_topic, group):
    """It is started on an empty topic: what it gets was held back for by long polling."""
    topic = new_topic()
    with use(client).push(topic, group) as consumer:
        for label in ("first", "second"):
            use(GO).produce(topic, 8, "--label", label)
            assert sorted(line["body"] for line in consumer.take(8)) == bodies(label, 8)
    assert not consumer.rest


@EACH
def test_a_tag_filter_lets_only_its_tags_through(client, use, new_topic, group):
    topic = new_topic()
    use(GO).produce(topic, 30, "--tags", "red,green,blue")
    use(GO).produce(topic, 3, "--label", "untagged")
    use(GO).produce(topic, 4, "--label", "last", "--tags", "blue")
    with use(client).push(topic, group, "--tags", "red || blue") as consumer:
        got = consumer.take(24)
    wanted = [body for number, body in enumerate(bodies("m", 30)) if number % 3 != 1] + bodies("last", 4)
    assert sorted(line["body"] for line in got) == sorted(wanted)
    assert not consumer.rest


@EACH
def test_tags_of_one_hash_are_told_apart(client, use, new_topic, group):
    """Java's hash of "Aa" and "BB" is the same: the broker lets both through and the client looks again."""
    topic = new_topic(queues=1)
    use(GO).produce(topic, 10, "--tags", "Aa,BB")
    with use(client).push(topic, group, "--tags", "Aa") as consumer:
        got = consumer.take(5)
    assert sorted(map(number_of, got)) == [0, 2, 4, 6, 8]
    assert not consumer.rest


PAIRS = [(JAVA_4, JAVA_5), (JAVA_5_BINARY, GO), (GO, GO), (GO, NODE)]


@pytest.mark.parametrize(("one", "other"), PAIRS, ids=lambda client: client.name)
def test_two_consumers_share_the_queues_of_a_group(one, other, use, new_topic, group):
    """Rounds of messages to all queues, until each has half of them; in that round nothing comes twice."""
    topic = new_topic()
    with use(one, "one").push(topic, group) as first, use(other, "other").push(topic, group) as second:
        for number in range(ROUNDS_MAX):
            shares = one_round(use(GO), topic, f"round{number}", (first, second))
            if [len(queues_of(share)) for share in shares] == [2, 2]:
                break
    assert [len(queues_of(share)) for share in shares] == [2, 2]
    assert not queues_of(shares[0]) & queues_of(shares[1])
    assert sorted(line["body"] for share in shares for line in share) == bodies(f"round{number}", 8)
    assert not [line for line in first.rest + second.rest if line["body"].startswith(f"round{number}-")]


def one_round(producer, topic, label, consumers):
    """Two messages to each of four queues; what each consumer got of them, once all have come."""
    producer.produce(topic, 8, "--label", label)
    shares = [[] for _ in consumers]
    while len({line["body"] for share in shares for line in share}) < 8:
        for consumer, share in zip(consumers, shares, strict=True):
            share += [line for line in consumer.waiting() if line["body"].startswith(f"{label}-")]
    return shares


def queues_of(lines):
    return {line["queueId"] for line in lines}


@pytest.mark.parametrize(("one", "other"), [(JAVA_4, JAVA_5), (GO, NODE)], ids=lambda client: client.name)
def test_broadcasting_gives_everything_to_both(one, other, use, new_topic, group):
    topic = new_topic()
    flags = ("--broadcast", "--instance")
    with (
        use(one, "one").push(topic, group, *flags, "one") as first,
        use(other, "two").push(topic, group, *flags, "two") as second,
    ):
        use(GO).produce(topic, 12)
        for consumer in (first, second):
            assert sorted(line["body"] for line in consumer.take(12)) == sorted(bodies("m", 12))
    assert not first.rest + second.rest


@EACH
def test_a_group_goes_on_where_it_stopped(client, use, new_topic, group):
    topic = new_topic()
    for label in ("before", "while"):
        use(GO).produce(topic, 16, "--label", label)
        with use(client).push(topic, group) as consumer:
            got = consumer.take(16)
        assert sorted(line["body"] for line in got) == sorted(bodies(label, 16))
        assert not consumer.rest


@EACH
def test_another_client_goes_on_where_a_group_stopped(client, use, new_topic, group):
    topic = new_topic()
    use(GO).produce(topic, 16, "--label", "before")
    with use(client).push(topic, group) as consumer:
        consumer.take(16)
    use(GO).produce(topic, 4, "--label", "after")
    with use(GO).push(topic, group) as consumer:
        assert sorted(line["body"] for line in consumer.take(4)) == bodies("after", 4)
    assert not consumer.rest


@EACH
def test_a_new_group_on_a_young_topic_starts_at_the_beginning(client, use, new_topic, group):
    """Although it asks for the end: the broker answers 0 for a queue that still has its first message."""
    topic = new_topic()
    use(GO).produce(topic, 8)
    with use(client).push(topic, group, "--from", "last") as consumer:
        assert sorted(line["body"] for line in consumer.take(8)) == bodies("m", 8)


@pytest.mark.parametrize("client", [JAVA_4, JAVA_5_BINARY, GO], ids=lambda client: client.name)
def test_an_orderly_consumer_keeps_the_order_of_each_queue(client, use, new_topic, group):
    topic = new_topic()
    use(GO).produce(topic, 40)
    with use(client).push(topic, group, "--orderly") as consumer:
        got = consumer.take(40)
    assert sorted(map(number_of, got)) == list(range(40))
    for queue in range(4):
        offsets = [line["queueOffset"] for line in got if line["queueId"] == queue]
        assert offsets == list(range(len(offsets)))
    assert not consumer.rest


@pytest.mark.parametrize("client", [JAVA_4, JAVA_5, GO], ids=lambda client: client.name)
def test_a_large_backlog_arrives_once(client, use, new_topic, group):
    """Many pulls, each full; bodies large enough that bytes bound a pull and not only the number of messages."""
    topic = new_topic()
    use(GO).produce(topic, 2_000, "--mode", "batch", "--batch", "50", "--label", "small")
    large = ("--body-bytes", "60000", "--compress-over-bytes", str(1 << 20))
    use(GO).produce(topic, 40, "--mode", "async", "--label", "large", *large)
    with use(client).push(topic, group) as consumer:
        got = consumer.take(2_040)
    assert sorted(line["body"] for line in got) == sorted(bodies("small", 2_000) + bodies("large", 40, 60_000))
    assert not consumer.rest
