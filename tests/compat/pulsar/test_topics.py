"""Several topics at once: partitions, lists, patterns, and topics that come while a consumer runs."""

import urllib.request

import pytest
from tests.compat.pulsar.drivers import until
from tests.compat.pulsar.stories import dealt_out, numbers, only, publish

STRING = {"kind": 1, "data": ""}  # tables of Go's need one


@pytest.fixture
def partitioned(service, new_topic):
    """Makes topics with partitions."""

    def make(count):
        topic = new_topic()
        partition(service, "PUT", topic, count)
        return topic

    return make


def partition(service, method, topic, count):
    url = f"{service.http}/admin/v2/persistent/public/default/{topic}/partitions"
    asked = urllib.request.Request(url, str(count).encode(), {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(asked) as answer:
        assert answer.status == 204


@pytest.mark.parametrize("kind", ["Exclusive", "Shared", "Failover", "Key_Shared"])
def test_s43_a_topic_with_partitions(client, partitioned, kind):
    topic = partitioned(3)
    told = publish(client, topic, numbers(60))
    assert {id["partition"] for id in told} == {0, 1, 2}
    consumer = client.subscribe(topic, "s", type=kind)
    got = consumer.receive(60)
    consumer.ack(*got)
    assert sorted(int(message.body) for message in got) == list(range(60))
    for index in range(3):
        of_one = [int(message.body) for message in got if message.told["partition"] == index]
        assert of_one == sorted(of_one)
    assert len(client.ask("partitions", topic=topic)) == 3
    consumer.close()
    assert client.subscribe(topic, "s", type=kind).nothing()


def test_who_asks_by_http_finds_topics_and_partitions_too(open_client, service, partitioned, topic):
    client, parts = open_client(service.http), partitioned(2)
    for each, partitions in ((topic, 1), (parts, 2)):
        assert len(client.ask("partitions", topic=each)) == partitions
        publish(client, each, numbers(10))
        assert sorted(client.subscribe(each, "s").bodies(10), key=int) == numbers(10)
    pattern = f"persistent://public/default/{parts}.*"
    assert sorted(client.subscribe(None, "all", pattern=pattern).bodies(10), key=int) == numbers(10)


@pytest.mark.parametrize("batch", [False, True], ids=["single", "batched"])
def test_a_reader_of_a_topic_with_partitions(client, partitioned, batch):
    topic = partitioned(3)
    publish(client, topic, numbers(30), batch=batch)
    reader = client.reader(topic)
    assert sorted(reader.all(), key=int) == numbers(30)
    publish(client, topic, ["more"], batch=batch)
    assert [message.body for message in reader.read(1)] == ["more"]


@only("java", "go")  # of Python's only the newest: gateway/pulsar/test_python_consumer.py
@pytest.mark.parametrize("partitions", [0, 3])
def test_a_table_has_the_last_value_of_each_key(client, partitioned, topic, partitions):
    short = partitioned(partitions) if partitions else topic
    topic = f"persistent://public/default/{short}"  # by a short name Java's reads on behind the caller's back
    publish(client, topic, numbers(21), schema=STRING)
    table = client.table(topic)
    assert table.entries() == {f"k{at}": str(14 + at) for at in range(7)}
    publish(client, topic, ["new"], schema=STRING)
    until(lambda: table.entries()["k0"] == "new")
    assert table.entries() == {f"k{at}": str(14 + at) for at in range(7)} | {"k0": "new"}
    table.close()


def test_partitions_are_spread_over_failover_consumers(client, open_client, partitioned):
    topic = partitioned(4)
    consumers = [
        each.subscribe(topic, "s", type="Failover", name=name) for each, name in ((client, "a"), (open_client(), "b"))
    ]
    if client.kind in ("java", "go"):  # these tell
        until(lambda: all(sorted(now_active(consumer)) in ([0, 2], [1, 3]) for consumer in consumers))
    client.producer(topic).send_all([{"body": body, "key": body} for body in numbers(80)])
    got = dealt_out(consumers, 80)
    partitions = [{message.told["partition"] for message in part} for part in got]
    assert sorted(map(sorted, partitions)) == [[0, 2], [1, 3]]
    assert {message.body for part in got for message in part} == set(numbers(80))


def now_active(consumer):
    return [partition for partition, active in dict(consumer.active()).items() if active]


def test_s43_a_list_of_topics(client, new_topic):
    topics = [new_topic() for _ in range(3)]
    for topic in topics:
        publish(client, topic, [topic])
    consumer = client.subscribe(topics, "s", type="Shared")
    got = consumer.receive(3)
    assert sorted(message.body for message in got) == topics
    assert all(message.told["topic"].endswith(message.body) for message in got)
    consumer.ack(*got)
    assert consumer.nothing()


def test_a_pattern_finds_the_topics_that_are_there(client, topic):
    for name in (f"{topic}-a", f"{topic}-b", f"other-{topic}-c"):
        publish(client, name, [name])
    consumer = client.subscribe(None, "s", pattern=f"persistent://public/default/{topic}-.*")
    assert sorted(consumer.bodies(2)) == [f"{topic}-a", f"{topic}-b"]
    assert consumer.nothing()


@only("java", "go")  # Python's asks once a minute, whatever it is told
@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
def test_a_topic_that_appears_while_a_pattern_is_consumed(client, topic, kind):
    publish(client, f"{topic}-a", ["a"])
    pattern = f"persistent://public/default/{topic}-.*"
    consumer = client.subscribe(None, "s", pattern=pattern, type=kind, discover_s=1)
    assert consumer.bodies(1) == ["a"]
    publish(client, f"{topic}-b", ["b"])
    publish(client, f"other-{topic}", ["x"])
    assert consumer.bodies(1) == ["b"]
    assert consumer.nothing()


@only("java")
def test_a_watched_pattern_is_told_and_does_not_ask(client, topic):
    """It would ask again after an hour."""
    pattern = f"persistent://public/default/{topic}-.*"
    consumer = client.subscribe(None, "s", pattern=pattern, discover_s=3_600)
    publish(client, f"{topic}-new", ["new"])
    assert consumer.bodies(1) == ["new"]


@only("java", "go")
def test_partitions_that_come_while_a_consumer_runs(client, service, partitioned):
    topic = partitioned(1)
    consumer = client.subscribe(topic, "s", type="Shared", discover_s=1)
    publish(client, topic, numbers(3))
    assert sorted(consumer.bodies(3)) == numbers(3)
    partition(service, "POST", topic, 3)
    told = publish(client, topic, numbers(30))
    assert {id["partition"] for id in told} == {0, 1, 2}
    assert sorted(map(int, consumer.bodies(30))) == list(range(30))
