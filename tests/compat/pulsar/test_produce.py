"""Produce in every mode with every client: what is stored is what was sent, once and in order."""

import pytest
from tests.compat.pulsar.toolchain import JAVA_LTS
from tests.gateway.pulsar.conftest import stored

from penstock.wire.pulsar.batch import opened_entry
from penstock.wire.pulsar.entry import metadata_in

COUNT = 60
MODES = ["single", "batched", "lz4", "zlib", "zstd", "snappy"]
BUSY = {"python": "ProducerBusy", "java": "ProducerBusyException", "go": "ProducerBusy"}


def body(number: int, size: int = 100) -> bytes:
    return f"m-{number} ".encode().ljust(size, b".")


@pytest.fixture
def topic(name):
    return name("topic")


@pytest.mark.parametrize("mode", MODES)
def test_what_is_sent_is_stored_once(drive, penstock, topic, mode):
    told = drive("produce", topic, COUNT, mode)
    assert [line["ok"] for line in told] == [True] * COUNT
    entries = [opened_entry(memoryview(entry), check=True) for entry in stored(penstock, topic)]
    messages = [message for entry in entries for message in entry.messages]
    assert sorted(message.body for message in messages) == sorted(body(number) for number in range(COUNT))
    assert {message.key for message in messages} == {"k0", "k1", "k2"}
    assert sorted(int(message.properties["n"]) for message in messages) == list(range(COUNT))
    assert (len(entries) < COUNT) == (mode != "single")
    queue = penstock.server.broker.topics.get(topic).queue(0)
    places = [(line["ledger"], line["entry"]) for line in told]
    assert set(places) == {(queue, entry) for entry in range(len(entries))}


def test_a_large_message_is_stored_in_chunks(drive, penstock, topic):
    (told,) = drive("produce", topic, 1, "chunked")
    entries = [memoryview(entry) for entry in stored(penstock, topic)]
    found = [metadata_in(entry) for entry in entries]
    assert [metadata.chunk_id for metadata, _ in found] == list(range(len(entries)))
    assert len(entries) == 3
    assert told["entry"] == 2
    whole = b"".join(bytes(entry[at:]) for entry, (_, at) in zip(entries, found, strict=True))
    assert whole == body(0, 12_000_000)


def test_who_comes_to_a_topic_that_another_has(drive, topic):
    (told,) = drive("refused", topic)
    assert BUSY[drive.client.partition("-")[0]] in str(told["error"])


@pytest.mark.parametrize("drive", [f"java-{JAVA_LTS}"], indirect=True)
def test_who_wants_transactions_is_told_at_once(drive, topic):
    (told,) = drive("transaction", topic)
    assert "TransactionCoordinator" in str(told["error"])
