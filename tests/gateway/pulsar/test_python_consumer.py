"""Pulsar's own client for Python consumes: the four types, batches, readers, seeking, what comes back or later."""

import datetime as dt
import threading

import pulsar
import pytest
from tests.gateway.pulsar.test_python_client import TIMEOUT_S, connected

from penstock import configure
from penstock.testing.server import PORTS, running

Type = pulsar.ConsumerType
Earliest = pulsar.InitialPosition.Earliest
TYPES = [Type.Exclusive, Type.Shared, Type.Failover, Type.KeyShared]
WAIT_MS = TIMEOUT_S * 1000
A_MOMENT_MS = 300  # in which nothing comes


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    with running() as penstock, connected(penstock, tmp_path_factory.mktemp("client")) as client:
        yield client


def publish(client, topic, bodies, **more):
    """Batched, in order."""
    more.setdefault("batching_enabled", True)
    producer = client.create_producer(topic, block_if_queue_full=True, **more)
    for number, body in enumerate(bodies):
        producer.send_async(body, lambda result, message_id: None, partition_key=f"k{number % 7}")
    producer.flush()
    producer.close()


def numbers(count):
    return [b"%d" % number for number in range(count)]


def taken(consumer, count, wait_ms=WAIT_MS):
    """Received and acknowledged."""
    bodies = []
    for _ in range(count):
        message = consumer.receive(wait_ms)
        consumer.acknowledge(message)
        bodies.append(message.data())
    return bodies


def nothing_comes(consumer):
    with pytest.raises(pulsar.Timeout):
        consumer.receive(A_MOMENT_MS)
    return True


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: kind.name)
def test_everything_comes_once_and_in_order_to_one_consumer(client, kind):
    topic = f"once-{kind.name}"
    consumer = client.subscribe(topic, "s", consumer_type=kind)
    publish(client, topic, numbers(3_000))
    assert taken(consumer, 3_000) == numbers(3_000)
    consumer.close()
    again = client.subscribe(topic, "s", consumer_type=kind)
    assert nothing_comes(again)
    again.close()


@pytest.mark.parametrize("kind", [Type.Shared, Type.KeyShared], ids=lambda kind: kind.name)
def test_several_share_and_keys_stay_together(client, kind):
    topic = f"several-{kind.name}"
    got, lock, done = [], threading.Lock(), threading.Event()

    def take(consumer, message):
        with lock:
            got.append((consumer.consumer_name(), message.partition_key(), int(message.data())))
            if len(got) == 400:
                done.set()
        consumer.acknowledge(message)

    consumers = [
        client.subscribe(topic, "s", consumer_type=kind, message_listener=take, consumer_name=f"c{number}")
        for number in range(3)
    ]
    publish(client, topic, numbers(400), batching_enabled=False)
    assert done.wait(TIMEOUT_S)
    assert sorted(number for _, _, number in got) == list(range(400))
    assert len({name for name, _, _ in got}) > 1
    if kind is Type.KeyShared:
        owners = {(key, name) for name, key, _ in got}
        assert len(owners) == 7  # each key has one
        for key in {key for _, key, _ in got}:
            of_key = [number for _, mine, number in got if mine == key]
            assert of_key == sorted(of_key)
    for consumer in consumers:
        consumer.close()


@pytest.mark.parametrize("queue", [0, 1, 10])
def test_s41_small_receiver_queues_do_not_stall_on_large_batches(client, queue):
    topic = f"queue-{queue}"
    consumer = client.subscribe(topic, "s", receiver_queue_size=queue)
    publish(client, topic, numbers(500), batching_enabled=queue > 0, batching_max_messages=200)
    wait_ms = WAIT_MS if queue else None  # without a queue this client can only wait for ever
    assert taken(consumer, 500, wait_ms) == numbers(500)
    consumer.close()


def test_a_reader_sees_everything_and_knows_when_it_is_at_the_end(client):
    publish(client, "read", numbers(100))
    reader = client.create_reader("read", pulsar.MessageId.earliest)
    found = []
    while reader.has_message_available():
        found.append(reader.read_next(WAIT_MS).data())
    assert found == numbers(100)
    late = client.create_reader("read", pulsar.MessageId.latest)
    assert not late.has_message_available()
    reader.close()
    late.close()


def test_a_seek_by_message_and_by_time(client):
    publish(client, "seek", numbers(20), batching_enabled=False)
    consumer = client.subscribe("seek", "s", initial_position=Earliest)
    messages = [consumer.receive(WAIT_MS) for _ in range(20)]
    consumer.acknowledge_cumulative(messages[-1])
    consumer.seek(messages[10].message_id())
    assert taken(consumer, 9) == numbers(20)[11:]
    consumer.seek(pulsar.MessageId.earliest)
    assert taken(consumer, 20) == numbers(20)
    consumer.seek(messages[0].publish_timestamp() - 1_000)
    assert taken(consumer, 20) == numbers(20)
    consumer.close()


def test_what_is_refused_comes_again_and_says_how_often(client):
    consumer = client.subscribe("nack", "s", consumer_type=Type.Shared, negative_ack_redelivery_delay_ms=100)
    publish(client, "nack", [b"x"])
    for times in range(3):
        message = consumer.receive(WAIT_MS)
        assert message.redelivery_count() == times
        consumer.negative_acknowledge(message)
    consumer.acknowledge(consumer.receive(WAIT_MS))
    consumer.close()


def test_a_dead_letter_goes_where_clients_send_it(client):
    policy = pulsar.ConsumerDeadLetterPolicy(2, "dead-letters", "keep")
    consumer = client.subscribe(
        "dead", "s", consumer_type=Type.Shared, negative_ack_redelivery_delay_ms=50, dead_letter_policy=policy
    )
    dead = client.subscribe("dead-letters", "keep", initial_position=Earliest)
    publish(client, "dead", [b"poison", b"food"], batching_enabled=False)
    rounds = 0
    while rounds < 4:
        message = consumer.receive(WAIT_MS)
        if message.data() == b"poison":
            rounds += 1
            consumer.negative_acknowledge(message)
            if message.redelivery_count() == 2:
                break
        else:
            consumer.acknowledge(message)
    assert taken(dead, 1) == [b"poison"]
    consumer.close()
    dead.close()


def test_what_is_for_later_comes_later_where_several_share(client):
    consumer = client.subscribe("later", "s", consumer_type=Type.Shared)
    producer = client.create_producer("later")
    producer.send(b"later", deliver_after=dt.timedelta(milliseconds=1_000))
    producer.send(b"now")
    first, second = consumer.receive(WAIT_MS), consumer.receive(WAIT_MS)
    assert (first.data(), second.data()) == (b"now", b"later")
    for message in (first, second):
        consumer.acknowledge(message)
    producer.close()
    consumer.close()


def test_a_message_in_chunks_comes_whole(client):
    whole = bytes(range(256)) * 50_000
    consumer = client.subscribe("chunks", "s")
    producer = client.create_producer("chunks", chunking_enabled=True, batching_enabled=False)
    producer.send(whole)
    message = consumer.receive(WAIT_MS)
    assert message.data() == whole
    consumer.acknowledge(message)
    producer.close()
    consumer.close()


def test_a_second_exclusive_consumer_is_refused_and_can_come_when_the_first_has_left(client):
    first = client.subscribe("alone", "s")
    with pytest.raises(pulsar.ConsumerBusy):
        client.subscribe("alone", "s")
    first.close()
    client.subscribe("alone", "s").close()


def test_s43_partitions_are_topics_that_one_consumer_reads_together(tmp_path):
    with running(pulsar={"auto_create_partitions": 3}) as penstock, connected(penstock, tmp_path) as client:
        consumer = client.subscribe("parts", "s", receiver_queue_size=4)
        publish(client, "parts", numbers(90), message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution)
        got = [consumer.receive(WAIT_MS) for _ in range(90)]
        assert sorted(int(message.data()) for message in got) == list(range(90))
        names = [f"persistent://public/default/parts-partition-{index}" for index in range(3)]
        assert {message.topic_name() for message in got} == set(names)
        for message in got:
            consumer.acknowledge(message)
        consumer.close()
        assert nothing_comes(client.subscribe("parts", "s"))


def test_s43_several_topics_at_once(client):
    for name in ("many-a", "many-b"):
        publish(client, name, [name.encode()])
    both = client.subscribe(["many-a", "many-b"], "list", initial_position=Earliest)
    assert sorted(taken(both, 2)) == [b"many-a", b"many-b"]
    both.close()


def test_a_table_has_the_last_value_of_each_key(client):
    publish(client, "table", numbers(21))
    table = client.create_table_view("table")
    assert {f"k{at}": table.get(f"k{at}") for at in range(7)} == {f"k{at}": b"%d" % (14 + at) for at in range(7)}
    changed = threading.Event()
    table.for_each_and_listen(lambda key, value: changed.set() if (key, value) == ("k0", b"new") else None)
    publish(client, "table", [b"new"])
    assert changed.wait(TIMEOUT_S)
    assert (table.get("k0"), table.get("nothing")) == (b"new", None)
    table.close()


def test_unsubscribing_forgets(client):
    publish(client, "forget", numbers(3))
    consumer = client.subscribe("forget", "s", initial_position=Earliest)
    assert taken(consumer, 3) == numbers(3)
    consumer.unsubscribe()
    again = client.subscribe("forget", "s", initial_position=Earliest)
    assert taken(again, 3) == numbers(3)
    again.close()


def test_a_consumer_goes_on_after_the_broker_was_restarted(tmp_path):
    """On the same port: the client connects again by itself. What was acknowledged does not come again."""
    data = {"server": {"data": str(tmp_path / "data"), **dict.fromkeys(PORTS, 0)}}
    config = configure.load(None, {}, data)
    with running(config) as penstock:
        config.server.pulsar_port = int(penstock.addresses["pulsar"].rpartition(":")[2])
        with connected(penstock, tmp_path) as client:
            publish(client, "restart", numbers(10), batching_enabled=False)
            consumer = client.subscribe("restart", "s", consumer_type=Type.Shared, initial_position=Earliest)
            messages = [consumer.receive(WAIT_MS) for _ in range(10)]
            for at in (0, 1, 2, 5, 7):
                consumer.acknowledge(messages[at])
            consumer.close()
    with running(config) as penstock, connected(penstock, tmp_path) as client:
        consumer = client.subscribe("restart", "s", consumer_type=Type.Shared)
        assert taken(consumer, 5) == [b"3", b"4", b"6", b"8", b"9"]
        assert nothing_comes(consumer)
        consumer.close()
