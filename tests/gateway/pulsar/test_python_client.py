"""Pulsar's own client for Python, which is the C++ client underneath: it connects, looks up and produces."""

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import pulsar
import pytest
from tests.gateway.pulsar.conftest import stored

from penstock.testing.server import Running, running
from penstock.wire.pulsar.batch import opened_entry
from penstock.wire.pulsar.entry import metadata_in

Mode, Compression = pulsar.ProducerAccessMode, pulsar.CompressionType
METHODS = [Compression.NONE, Compression.LZ4, Compression.ZLib, Compression.ZSTD, Compression.SNAPPY]
ROUND_ROBIN = pulsar.PartitionsRoutingMode.RoundRobinDistribution
PUBLIC = "persistent://public/default/"
TIMEOUT_S = 20


@pytest.fixture(scope="module")
def broker() -> Iterator[Running]:
    with running() as penstock:
        yield penstock


@pytest.fixture(scope="module")
def client(broker, tmp_path_factory) -> Iterator[pulsar.Client]:
    with connected(broker, tmp_path_factory.mktemp("client")) as client:
        yield client


@contextlib.contextmanager
def connected(penstock: Running, folder: Path) -> Iterator[pulsar.Client]:
    """A client. It says much; that goes into a file."""
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Info, str(folder / "log"))
    url = f"pulsar://{penstock.addresses['pulsar']}"
    client = pulsar.Client(url, logger=logger, operation_timeout_seconds=TIMEOUT_S)
    yield client
    client.close()


def bodies(penstock: Running, topic: str, index: int = 0) -> list[bytes]:
    """What is stored, opened."""
    entries = (opened_entry(memoryview(entry), check=True) for entry in stored(penstock, topic, index))
    return [message.body for entry in entries for message in entry.messages]


def test_it_sends_one_by_one(client, broker):
    producer = client.create_producer("one-by-one")
    assert producer.topic() == f"{PUBLIC}one-by-one"
    ids = [producer.send(b"%d" % number, properties={"n": str(number)}, partition_key="k") for number in range(5)]
    assert [message_id.entry_id() for message_id in ids] == list(range(5))
    assert bodies(broker, "one-by-one") == [b"%d" % number for number in range(5)]
    (first, *_) = stored(broker, "one-by-one")
    (message,) = opened_entry(memoryview(first)).messages
    assert (message.key, message.properties) == ("k", {"n": "0"})
    producer.close()


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
@pytest.mark.parametrize("batched", [False, True], ids=["single", "batched"])
def test_it_sends_compressed(client, broker, method, batched):
    topic = f"compressed-{method.name}-{batched}"
    producer = client.create_producer(topic, compression_type=method, batching_enabled=batched)
    sent = [b"%d " % number * 50 for number in range(30)]
    failed: list[object] = []
    for body in sent:
        producer.send_async(body, lambda result, _: failed.append(result) if result != pulsar.Result.Ok else None)
    producer.flush()
    assert failed == []
    assert bodies(broker, topic) == sent
    assert len(stored(broker, topic)) < 30 if batched else len(stored(broker, topic)) == 30
    producer.close()


def test_it_sends_chunks(client, broker):
    body = bytes(range(256)) * 48_000  # 12 MB: three of them
    producer = client.create_producer("chunked", chunking_enabled=True, batching_enabled=False)
    producer.send(body)
    entries = [memoryview(entry) for entry in stored(broker, "chunked")]
    assert [metadata_in(entry)[0].chunk_id for entry in entries] == [0, 1, 2]
    assert b"".join(bytes(entry[metadata_in(entry)[1] :]) for entry in entries) == body
    producer.close()


def test_a_message_that_is_too_large_is_not_sent(client):
    producer = client.create_producer("too-large")
    with pytest.raises(pulsar.MessageTooBig):
        producer.send(bytes(6_000_000))
    producer.send(bytes(5_000_000))
    producer.close()


def test_it_sends_to_partitions(tmp_path):
    with running(pulsar={"auto_create_partitions": 3}) as penstock, connected(penstock, tmp_path) as client:
        producer = client.create_producer("parts", message_routing_mode=ROUND_ROBIN)
        for number in range(6):
            producer.send(b"%d" % number)
        assert client.get_topic_partitions("parts") == [f"{PUBLIC}parts-partition-{index}" for index in range(3)]
        found = [bodies(penstock, "parts", index) for index in range(3)]
        assert sorted(body for part in found for body in part) == [b"%d" % number for number in range(6)]
        assert [len(part) for part in found] == [2, 2, 2]


def test_exclusive_and_shared(client):
    alone = client.create_producer("alone", access_mode=Mode.Exclusive)
    with pytest.raises(pulsar.ProducerBusy):
        client.create_producer("alone")
    with pytest.raises(pulsar.ProducerFenced):
        client.create_producer("alone", access_mode=Mode.Exclusive)
    alone.close()
    client.create_producer("alone").close()


def test_fencing(client):
    first = client.create_producer("fenced", access_mode=Mode.Exclusive)
    first.send(b"first")
    second = client.create_producer("fenced", access_mode=Mode.ExclusiveWithFencing)
    second.send(b"second")
    with pytest.raises(pulsar.ProducerFenced):
        first.send(b"first again")
    second.close()


def test_waiting_for_a_topic(client):
    first = client.create_producer("awaited", access_mode=Mode.Exclusive)
    got: list[pulsar.Producer] = []
    waiting = threading.Thread(
        target=lambda: got.append(client.create_producer("awaited", access_mode=Mode.WaitForExclusive))
    )
    waiting.start()
    first.send(b"first")
    first.close()
    waiting.join(TIMEOUT_S)
    got[0].send(b"second")
    got[0].close()


def test_a_namespace_that_is_not_there(client):
    with pytest.raises(pulsar.TopicNotFound):
        client.create_producer("no/such/topic")


def test_producing_goes_on_after_the_broker_was_away(tmp_path):
    """The client comes again by itself, and asks for its producer anew."""
    with contextlib.ExitStack() as stack:
        with running() as first:
            port = int(first.addresses["pulsar"].rpartition(":")[2])
            client = stack.enter_context(connected(first, tmp_path))
            producer = client.create_producer("through")
            producer.send(b"before")
        with running(server={"pulsar_port": port}) as second:
            producer.send(b"behind")
            assert bodies(second, "through") == [b"behind"]
            stack.close()
