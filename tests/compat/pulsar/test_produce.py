"""Produce in every mode with every client: what is stored is what was sent, once and in order."""

import urllib.request

import pytest
from tests.compat.pulsar.drivers import Told, until
from tests.compat.pulsar.stories import numbers, only
from tests.gateway.pulsar.conftest import stored

from penstock.wire.pulsar.batch import opened_entry
from penstock.wire.pulsar.entry import metadata_in

COUNT = 60
MODES = ["single", "batched", "lz4", "zlib", "zstd", "snappy"]


def body(number: int, size: int = 100) -> bytes:
    return f"m-{number} ".encode().ljust(size, b".")


@pytest.mark.parametrize("mode", MODES)
def test_what_is_sent_is_stored_once(client, penstock, topic, mode):
    compress = mode if mode not in ("single", "batched") else None
    producer = client.producer(topic, batch=mode != "single", compress=compress)
    numbered = [(number, {"n": str(number)}) for number in range(COUNT)]
    sent = [{"body": f"m-{n} ", "body_bytes": 100, "key": f"k{n % 3}", "properties": pairs} for n, pairs in numbered]
    told = producer.send_all(sent)
    entries = [opened_entry(memoryview(entry), check=True) for entry in stored(penstock, topic)]
    messages = [message for entry in entries for message in entry.messages]
    assert sorted(message.body for message in messages) == sorted(body(number) for number in range(COUNT))
    assert {message.key for message in messages} == {"k0", "k1", "k2"}
    assert sorted(int(message.properties["n"]) for message in messages) == list(range(COUNT))
    assert (len(entries) < COUNT) == (mode != "single")
    queue = penstock.server.broker.topics.get(topic).queue(0)
    assert {(id["ledger"], id["entry"]) for id in told} == {(queue, entry) for entry in range(len(entries))}


def test_a_large_message_is_stored_in_chunks(client, penstock, topic):
    (told,) = client.producer(topic, chunk=True).send("m-0 ", body_bytes=12_000_000)
    entries = [memoryview(entry) for entry in stored(penstock, topic)]
    found = [metadata_in(entry) for entry in entries]
    assert [metadata.chunk_id for metadata, _ in found] == list(range(len(entries)))
    assert len(entries) == 3
    assert told["entry"] == 2
    whole = b"".join(bytes(entry[at:]) for entry, (_, at) in zip(entries, found, strict=True))
    assert whole == body(0, 12_000_000)


def test_who_comes_to_a_topic_that_another_has(client, topic):
    client.producer(topic, access="Exclusive")
    with pytest.raises(Told, match="ProducerBusy"):
        client.producer(topic)


def test_who_waits_for_a_topic_gets_it_when_the_other_has_left(client, topic):
    first = client.producer(topic, access="Exclusive")
    second = client.producer(topic, access="WaitForExclusive", later=True)
    first.send("first")
    assert not second.there()
    first.close()
    until(second.there)
    second.send("second")
    with pytest.raises(Told, match="ProducerBusy"):
        client.producer(topic)
    assert client.subscribe(topic, "s").bodies(2) == ["first", "second"]


@only("java", "python")
def test_who_fences_takes_the_topic_from_the_other(client, open_client, topic):
    first = client.producer(topic, access="Exclusive")
    second = open_client().producer(topic, access="ExclusiveWithFencing")
    with pytest.raises(Told):
        first.send("too late")
    second.send("mine")
    assert client.subscribe(topic, "s").bodies(1) == ["mine"]


def set_policy(penstock, topic, name, value):
    """A real Pulsar obeys a little later."""
    url = f"{penstock.http}/admin/v2/persistent/public/default/{topic}/{name}"
    asked = urllib.request.Request(url, value.encode(), {"Content-Type": "application/json"}, method="POST")
    with urllib.request.urlopen(asked) as answer:
        assert answer.status == 204


@only("java")  # Python sends it again and again, and Go nothing more, until their patience ends
def test_what_a_topic_does_not_take_is_refused_and_the_next_is_taken(client, penstock, topic):
    producer = client.producer(topic)
    set_policy(penstock, topic, "maxMessageSize", "1000")
    producer.send("first")
    with pytest.raises(Told):
        producer.send("too large", body_bytes=2_000)
    producer.send("second")
    assert client.subscribe(topic, "s").bodies(2) == ["first", "second"]


def test_what_a_producer_sends_again_is_stored_once(client, penstock, topic):
    """By its name and its numbers, where that is asked for."""
    client.producer(topic).close()
    set_policy(penstock, topic, "deduplicationEnabled", "true")
    for first in (0, 3):
        producer = client.producer(topic, name="writer")
        producer.send_all([{"body": str(number), "sequence": number} for number in range(first, first + 5)])
        producer.close()
    consumer = client.subscribe(topic, "s")
    assert consumer.bodies(8) == numbers(8)
    assert consumer.nothing()


@only("java", "go")
def test_who_wants_transactions_is_told_at_once(open_client):
    with pytest.raises(Told, match=r"(?i)transaction ?coordinator"):
        open_client(transactions=True).ask("transaction")
