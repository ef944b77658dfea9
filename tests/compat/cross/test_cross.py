"""A topic that clients of both protocols write to and read: the real ones, in both directions."""

import contextlib
import subprocess
import time
from datetime import timedelta

import pulsar
import pytest
from tests.compat.conftest import unavailable
from tests.compat.rocketmq import toolchain
from tests.compat.rocketmq.clients import GO, JAVA_4, JAVA_5, MqAdmin, bodies, body

READERS = pytest.mark.parametrize("client", [JAVA_4, JAVA_5, GO], ids=lambda client: client.name)
WRITERS = pytest.mark.parametrize("client", [JAVA_5, GO], ids=lambda client: client.name)
COMPRESSED = {
    "lz4": pulsar.CompressionType.LZ4,
    "zlib": pulsar.CompressionType.ZLib,
    "zstd": pulsar.CompressionType.ZSTD,
    "snappy": pulsar.CompressionType.SNAPPY,
}


def produce(both, topic, sent, **settings):
    """Bodies with numbered keys and tags, in as few batches as the client makes."""
    settings = {"batching_enabled": True, "batching_max_publish_delay_ms": 100} | settings
    producer = both.client.create_producer(topic, **settings)
    for number, text in enumerate(sent):
        properties = {"TAGS": ("red", "blue")[number % 2], "n": str(number)}
        producer.send_async(text.encode(), lambda *told: None, partition_key=f"k{number}", properties=properties)
    producer.flush()
    producer.close()


# --- from RocketMQ to Pulsar ------------------------------------------------------------------------------------------


@WRITERS
@pytest.mark.parametrize("mode", ["sync", "batch"])
def test_pulsars_consumers_read_what_rocketmqs_producers_send(client, mode, both, topic):
    options = ("--mode", mode, "--keys", "--tags", "red,blue", "--properties")
    sent = both.rocketmq(client).produce(topic, 20, *options)
    assert {line["status"] for line in sent} == {"SEND_OK"}
    python = both.read(topic, 20)
    assert sorted(message.data().decode() for message in python) == sorted(bodies("m", 20))
    for message in python:
        number = int(message.data().decode().removeprefix("m-"))
        assert message.partition_key() == f"key-m-{number}"
        assert message.properties()["TAGS"] == ("red", "blue")[number % 2]
        assert message.properties()["number"] == str(number)
        assert abs(message.publish_timestamp() - time.time() * 1_000) < 60_000
    java = both.java("consume", topic, 20)
    assert sorted(line["body"] for line in java) == sorted(bodies("m", 20))
    assert {line["key"] for line in java} == {f"key-m-{number}" for number in range(20)}


def test_a_compressed_body_of_rocketmqs_is_opened(both, topic):
    both.rocketmq(JAVA_5).produce(topic, 4, "--body-bytes", "20000", "--compress-over-bytes", "1000")
    found = both.read(topic, 4)
    assert sorted(message.data().decode() for message in found) == sorted(bodies("m", 4, 20_000))


def test_a_delayed_message_of_rocketmqs_comes_when_it_is_due(both, topic):
    both.rocketmq(GO).produce(topic, 1, "--label", "first")
    both.rocketmq(GO).produce(topic, 1, "--delay-level", "1")
    first, second = both.read(topic, 2)
    assert [first.data(), second.data()] == [b"first-0", b"m-0"]
    assert time.time() * 1_000 - second.publish_timestamp() >= 950


# --- from Pulsar to RocketMQ ------------------------------------------------------------------------------------------


@READERS
def test_rocketmqs_consumers_read_what_pulsars_producers_send(client, both, topic, group):
    sent = bodies("m", 150)
    produce(both, topic, sent)
    with both.rocketmq(client).push(topic, group) as consumer:
        got = consumer.take(150)
    assert not consumer.rest
    assert sorted(line["queueOffset"] for line in got) == list(range(150))
    by_offset = sorted(got, key=lambda line: line["queueOffset"])
    assert [line["body"] for line in by_offset] == sent
    assert [line["keys"] for line in by_offset] == [f"k{number}" for number in range(150)]
    assert {line["tags"] for line in got} == {"red", "blue"}
    assert [line["properties"]["n"] for line in by_offset] == [str(number) for number in range(150)]
    assert all(0 <= line["storeTimestamp"] - line["bornTimestamp"] < 60_000 for line in got)


@READERS
def test_all_that_pulsars_producers_do_to_a_body_is_undone(client, both, topic, group):
    for label, method in COMPRESSED.items():
        produce(both, topic, bodies(label, 10, 300), compression_type=method)
    produce(both, topic, [body("chunked", 0, 350_000)], batching_enabled=False, chunking_enabled=True)
    with both.rocketmq(client).push(topic, group) as consumer:
        got = consumer.take(41)
    assert not consumer.rest
    wanted = [each for label in COMPRESSED for each in bodies(label, 10, 300)] + [body("chunked", 0, 350_000)]
    assert sorted(line["body"] for line in got) == sorted(wanted)


@READERS
def test_tags_select_among_pulsars_messages(client, both, topic, group):
    produce(both, topic, bodies("m", 40))
    with both.rocketmq(client).push(topic, group, "--tags", "blue") as consumer:
        got = consumer.take(20)
    assert not consumer.rest
    assert {int(line["properties"]["n"]) % 2 for line in got} == {1}


def test_mqadmin_counts_and_finds_pulsars_messages(both, topic):
    produce(both, topic, bodies("m", 30))
    with contextlib.closing(MqAdmin(both.rocketmq(JAVA_5, "admin"))) as mqadmin:
        (line,) = [line.split() for line in mqadmin("topicStatus", "-t", topic).splitlines() if line.startswith("pens")]
        assert line[1:4] == ["0", "0", "30"]
        found = mqadmin("queryMsgByKey", "-t", topic, "-k", "k7").splitlines()[-1].split()
        assert found[1:3] == ["0", "7"]  # queue and offset
        printed = mqadmin("queryMsgById", "-t", topic, "-i", found[0])
    assert "Keys:                [k7]" in printed
    assert "Tags:                [blue]" in printed


def test_a_message_that_is_refused_comes_again(both, topic, group):
    """One client: others take half a minute to hear of the topic that it comes again through."""
    produce(both, topic, bodies("m", 5))
    with both.rocketmq(JAVA_4).push(topic, group, "--fail-times", "1", "--retry-level", "1") as consumer:
        got = consumer.take(10)
    assert sorted(line["body"] for line in got if line["reconsumeTimes"] == 1) == bodies("m", 5)
    assert {line["topic"] for line in got} == {topic}


@READERS
def test_delayed_null_and_encrypted_ones(client, both, topic, group, tmp_path):
    both.java("nulls", topic, 2)
    secret(both, topic, tmp_path)
    producer = both.client.create_producer(topic)
    producer.send(b"later", deliver_after=timedelta(seconds=4))
    producer.send(b"behind")
    with both.rocketmq(client).push(topic, group) as consumer:
        got = sorted(consumer.take(5), key=lambda line: line["queueOffset"])
        came_ms = time.time() * 1_000
    assert not consumer.rest
    first, second, locked, later, behind = got
    assert [first["body"].strip(), second["body"].strip()] == ["", ""]  # a space for clients that break over none
    assert {line["properties"]["PULSAR_NULL_VALUE"] for line in (first, second)} == {"true"}
    assert [first["keys"], second["keys"]] == ["k0", "k1"]
    assert (locked["properties"]["PULSAR_ENCRYPTED"], "secret" in locked["body"]) == ("true", False)
    assert [later["body"], behind["body"]] == ["later", "behind"]
    assert came_ms - later["bornTimestamp"] >= 3_900


def secret(both, topic, folder):
    """One message that is encrypted, with a key made now."""
    try:
        openssl = toolchain.tool("openssl", "the key of an encrypted message is made with it")
    except toolchain.Missing as reason:
        unavailable("encryption", reason)
    private, public = str(folder / "private.pem"), str(folder / "public.pem")
    subprocess.run([openssl, "genrsa", "-out", private, "2048"], check=True, capture_output=True)
    subprocess.run([openssl, "rsa", "-in", private, "-pubout", "-out", public], check=True, capture_output=True)
    reader = pulsar.CryptoKeyReader(public, private)
    producer = both.client.create_producer(topic, encryption_key="key", crypto_key_reader=reader)
    producer.send(b"secret")
    producer.close()


# --- both at once -----------------------------------------------------------------------------------------------------


def test_both_write_and_both_read_the_same_order(both, topic, group):
    producer = both.client.create_producer(topic)  # the topic has one queue from now on
    for turn in range(4):
        for number in range(5):
            producer.send_async(f"p{turn}-{number}".encode(), lambda *told: None)
        producer.flush()
        both.rocketmq(GO).produce(topic, 5, "--label", f"r{turn}")
    wanted = [f"{side}{turn}-{number}" for turn in range(4) for side in "pr" for number in range(5)]
    assert [message.data().decode() for message in both.read(topic, 40)] == wanted
    with both.rocketmq(JAVA_5).push(topic, group, "--orderly") as consumer:
        assert [line["body"] for line in consumer.take(40)] == wanted


def test_a_restart_in_the_middle_loses_nothing(opened, topic, group, tmp_path):
    sections = {"server": {"data": str(tmp_path / "data")}}
    with opened(**sections) as before:
        produce(before, topic, bodies("p", 60))
        before.rocketmq(GO).produce(topic, 60, "--label", "r")
        early = [message.data().decode() for message in before.read(topic, 50, batch_index_ack_enabled=True)]
        with before.rocketmq(JAVA_5).push(topic, group, "--orderly") as consumer:
            consumed = [line["body"] for line in consumer.take(50)]
        consumed += [line["body"] for line in consumer.rest]
    with opened(**sections) as after:
        produce(after, topic, bodies("more", 10))
        late = [message.data().decode() for message in after.read(topic, 80, batch_index_ack_enabled=True)]
        with after.rocketmq(JAVA_5).push(topic, group, "--orderly") as consumer:
            consumed += [line["body"] for line in consumer.take(130 - len(consumed))]
    wanted = bodies("p", 60) + bodies("r", 60) + bodies("more", 10)
    assert early + late == wanted
    assert consumed == wanted
