"""The four types of subscription, and acknowledging: with every client."""

import zlib

import pytest
from tests.compat.pulsar.drivers import Told, until
from tests.compat.pulsar.stories import dealt_out, numbers, only, publish

TYPES = ["Exclusive", "Shared", "Failover", "Key_Shared"]
BUSY = "ConsumerBusy"


@pytest.mark.parametrize("batch", [False, True], ids=["single", "batched"])
@pytest.mark.parametrize("kind", TYPES)
def test_everything_comes_once_and_in_order_to_one_consumer(client, topic, kind, batch):
    consumer = client.subscribe(topic, "s", type=kind)
    publish(client, topic, numbers(300), batch=batch)
    assert consumer.bodies(300) == numbers(300)
    consumer.close()
    again = client.subscribe(topic, "s", type=kind)
    assert again.nothing()


def test_several_share(client, topic):
    consumers = [client.subscribe(topic, "s", type="Shared", queue=10) for _ in range(3)]
    publish(client, topic, numbers(30))
    got = dealt_out(consumers, 30)
    assert sorted(int(message.body) for part in got for message in part) == list(range(30))
    assert min(map(len, got)) > 0


@pytest.mark.parametrize("batch", [False, True], ids=["single", "batched"])
def test_a_key_has_one_consumer_and_keeps_its_order(client, topic, batch):
    """Batches are of one key each: that is what a producer has to be told."""
    consumers = [client.subscribe(topic, "s", type="Key_Shared", name=f"c{at}") for at in range(3)]
    publish(client, topic, numbers(210), batch=batch, by_key=batch)
    got = dealt_out(consumers, 210)
    of_keys = [{message.told["key"] for message in part} for part in got]
    assert sum(map(len, of_keys)) == 7
    for part in got:
        for key in {message.told["key"] for message in part}:
            of_key = [int(message.body) for message in part if message.told["key"] == key]
            assert of_key == list(range(int(key[1:]), 210, 7))


def test_key_ranges_that_consumers_bring(client, topic):
    low = client.subscribe(topic, "s", type="Key_Shared", ranges=[{"first": 0, "last": 32767}])
    high = client.subscribe(topic, "s", type="Key_Shared", ranges=[{"first": 32768, "last": 65535}])
    with pytest.raises(Told):  # they overlap
        client.subscribe(topic, "s", type="Key_Shared", ranges=[{"first": 100, "last": 200}])
    publish(client, topic, numbers(70))
    got = dealt_out([low, high], 70)
    keys = [{message.told["key"] for message in part} for part in got]
    assert not keys[0] & keys[1]
    assert sum(map(len, got)) == 70


KEYS = 40


@pytest.mark.parametrize("any_order", [False, True], ids=["in order", "in any order"])
def test_a_key_that_moves_waits_for_what_is_in_hand_unless_any_order_will_do(client, topic, any_order):
    def send(first):
        producer.send_all([{"body": str(first + at), "key": f"k{at}"} for at in range(KEYS)])

    producer = client.producer(topic)
    old = client.subscribe(topic, "s", type="Key_Shared", any_order=any_order)
    send(0)
    in_hand = old.receive(KEYS)
    new = client.subscribe(topic, "s", type="Key_Shared", any_order=any_order)
    send(KEYS)
    if not any_order:
        assert new.nothing()
        old.ack(*in_hand)
    moved = new.some(KEYS, 1_000)
    assert 0 < len(moved) < KEYS
    kept = old.receive(KEYS - len(moved))
    assert sorted(int(message.body) for message in moved + kept) == list(range(KEYS, 2 * KEYS))


@only("java")  # has priorities
def test_who_has_a_better_priority_is_served_first_where_several_share(client, topic):
    """The other gets what the first has no room for."""
    second = client.subscribe(topic, "s", type="Shared", priority=1, queue=10)
    first = client.subscribe(topic, "s", type="Shared", priority=0, queue=10)
    publish(client, topic, numbers(30))
    assert [message.body for message in second.receive(20)] == numbers(20, 10)
    assert [message.body for message in first.receive(10)] == numbers(10)


@only("java")
@pytest.mark.parametrize("names", ["ab", "ba"])
def test_a_failover_consumer_takes_over(client, open_client, topic, names):
    """The one with the better priority is active, and both hear of it."""
    other = open_client()
    first = client.subscribe(topic, "s", type="Failover", name=names[0], priority=0)
    second = other.subscribe(topic, "s", type="Failover", name=names[1], priority=1)
    until(lambda: is_active(first) and second.active() and not is_active(second))
    publish(client, topic, numbers(10))
    got = first.receive(10)
    first.ack(*got[:4])
    assert second.nothing()
    first.close()
    until(lambda: is_active(second))
    assert second.bodies(6) == numbers(6, 4)


@only("java", "go")  # tell who is active
def test_who_is_active_among_equals(client, open_client, topic):
    """One of them is, and the other when that one has left."""
    consumers = [
        each.subscribe(topic, "s", type="Failover", name=name)
        for each, name in zip((client, open_client()), "ab", strict=True)
    ]
    until(lambda: all(consumer.active() for consumer in consumers))  # the second may be chosen
    until(lambda: sorted(is_active(consumer) for consumer in consumers) == [False, True])
    consumers.sort(key=is_active)
    other, chosen = consumers
    publish(client, topic, numbers(10))
    got = chosen.receive(10)
    chosen.ack(*got[:4])
    chosen.close()
    until(lambda: is_active(other))
    assert other.bodies(6) == numbers(6, 4)


def is_active(consumer):
    heard = consumer.active()
    return bool(heard) and heard[-1][1]


def test_another_type_is_refused_while_somebody_is_connected(client, topic):
    consumer = client.subscribe(topic, "s", type="Shared")
    for kind in ("Exclusive", "Failover", "Key_Shared"):
        with pytest.raises(Told, match=BUSY):
            client.subscribe(topic, "s", type=kind)
    consumer.close()
    client.subscribe(topic, "s", type="Failover").close()


def test_a_second_exclusive_consumer_is_refused(client, open_client, topic):
    first = client.subscribe(topic, "s")
    with pytest.raises(Told, match=BUSY):
        open_client().subscribe(topic, "s")
    first.close()
    client.subscribe(topic, "s").close()


@pytest.mark.parametrize("kind", ["Shared", "Exclusive"])
def test_messages_of_a_batch_are_acknowledged_one_by_one(client, topic, kind):
    acknowledge_some_of_a_batch(client, topic, kind)


@only("java", "go")
@pytest.mark.parametrize("kind", ["Shared", "Exclusive"])
def test_acknowledgements_with_receipt(client, topic, kind):
    acknowledge_some_of_a_batch(client, topic, kind, ack_receipt=True)


def acknowledge_some_of_a_batch(client, topic, kind, **more):
    consumer = client.subscribe(topic, "s", type=kind, batch_ack=True, **more)
    publish(client, topic, numbers(10), batch=True)
    got = consumer.receive(10)
    assert {message.row for message in got} == {(0, index) for index in range(10)}
    consumer.ack(*(got[at] for at in (0, 3, 4, 9)))
    consumer.close()
    again = client.subscribe(topic, "s", type=kind, batch_ack=True)
    assert again.bodies(6) == ["1", "2", "5", "6", "7", "8"]
    assert again.nothing()


@pytest.mark.parametrize("batch", [False, True], ids=["single", "batched"])
def test_cumulative_acknowledgements(client, topic, batch):
    acknowledge_until_one(client, topic, batch)


@only("java", "go")
@pytest.mark.parametrize("batch", [False, True], ids=["single", "batched"])
def test_cumulative_acknowledgements_with_receipt(client, topic, batch):
    acknowledge_until_one(client, topic, batch, ack_receipt=True)


def acknowledge_until_one(client, topic, batch, **more):
    consumer = client.subscribe(topic, "s", batch_ack=True, **more)
    publish(client, topic, numbers(20), batch=batch)
    got = consumer.receive(20)
    consumer.ack_until(got[12])
    consumer.close()
    again = client.subscribe(topic, "s", batch_ack=True)
    assert again.bodies(7) == numbers(7, 13)
    assert again.nothing()


def test_individual_acknowledgements_with_holes(client, topic):
    consumer = client.subscribe(topic, "s", type="Shared")
    publish(client, topic, numbers(10))
    got = consumer.receive(10)
    consumer.ack(*(got[at] for at in (1, 2, 5, 9)))
    consumer.close()
    again = client.subscribe(topic, "s", type="Shared")
    assert sorted(again.bodies(6)) == ["0", "3", "4", "6", "7", "8"]


@pytest.mark.parametrize("queue", [0, 1, 10])
def test_s41_small_receiver_queues_do_not_stall(client, topic, queue):
    consumer = client.subscribe(topic, "s", queue=queue)
    publish(client, topic, numbers(100), batch=queue > 0, batch_max=50)
    assert consumer.bodies(100) == numbers(100)


@pytest.mark.parametrize("how", ["lz4", "zlib", "zstd", "snappy"])
def test_compressed_messages(client, topic, how):
    consumer = client.subscribe(topic, "s")
    publish(client, topic, [f"{body} " * 50 for body in numbers(20)], batch=True, compress=how)
    assert consumer.bodies(20) == [(f"{body} " * 50)[:200] for body in numbers(20)]


@pytest.mark.parametrize("kind", ["Exclusive", "Shared"])
def test_a_message_in_chunks_comes_whole(client, topic, kind):
    consumer = client.subscribe(topic, "s", type=kind)
    producer = client.producer(topic, chunk=True)
    producer.send("large", body_bytes=12_000_000)
    (message,) = consumer.receive()
    assert (message.told["bytes"], message.told["crc"]) == (12_000_000, zlib.crc32(b"large".ljust(12_000_000, b".")))
    consumer.ack(message)
    consumer.close()
    assert client.subscribe(topic, "s", type=kind).nothing()


def test_all_that_a_message_carries(client, topic):
    consumer = client.subscribe(topic, "s")
    client.producer(topic).send("body", key="key", ordering_key="order", event_ms=1234, properties={"a": "ä", "b": ""})
    (message,) = consumer.receive()
    told = message.told
    assert (told["key"], told["ordering_key"], told["event_ms"]) == ("key", "order", 1234)
    assert told["properties"] == {"a": "ä", "b": ""}
    assert told["topic"].removesuffix("-partition-0") == f"persistent://public/default/{topic}"


def test_unsubscribing_forgets(client, topic):
    publish(client, topic, numbers(3))
    consumer = client.subscribe(topic, "s")
    assert consumer.bodies(3) == numbers(3)
    consumer.unsubscribe()
    assert client.subscribe(topic, "s").bodies(3) == numbers(3)


def test_one_of_several_cannot_unsubscribe(client, topic):
    first, second = (client.subscribe(topic, "s", type="Shared") for _ in range(2))
    with pytest.raises(Told):
        first.unsubscribe()
    second.close()
    first.unsubscribe()
