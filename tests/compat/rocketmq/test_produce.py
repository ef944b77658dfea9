"""Produce in every mode with every client; look at it with the same client and with another."""

import pytest
from tests.compat.rocketmq.clients import (
    CLIENTS,
    GO,
    JAVA_4,
    JAVA_5,
    JAVA_5_BINARY,
    LANES,
    NODE,
    Client,
    bodies,
    number_of,
)

COUNT = 40
EVERY_MODE = [pytest.param(client, mode, id=f"{client.name}-{mode}") for client in CLIENTS for mode in client.modes]


def places(lines):
    return sorted((line["queueId"], line["queueOffset"]) for line in lines)


@pytest.mark.parametrize(("client", "mode"), EVERY_MODE)
def test_what_is_sent_arrives_once(client: Client, mode: str, use, topic_of, group):
    """Sent in that mode, consumed by the Go client, which decodes records with code of its own."""
    topic = topic_of(client)
    sent = use(client).produce(topic, COUNT, "--mode", mode)
    assert {line["status"] for line in sent} == {"ONEWAY" if mode == "oneway" else "SEND_OK"}
    with use(GO).push(topic, group) as consumer:
        got = consumer.take(COUNT)
    assert sorted(line["body"] for line in got + consumer.rest) == sorted(bodies("m", COUNT))
    if mode != "oneway":
        assert places(got) == places(sent)
        assert len(set(places(sent))) == COUNT
        for queue in {line["queueId"] for line in sent}:
            offsets = [line["queueOffset"] for line in sent if line["queueId"] == queue]
            assert sorted(offsets) == list(range(len(offsets)))


@pytest.mark.parametrize("client", [JAVA_4, JAVA_5, GO], ids=lambda client: client.name)
def test_a_selector_keeps_the_order_of_a_lane(client, use, topic, group):
    sent = use(client).produce(topic, 60, "--mode", "ordered")
    for lane in range(LANES):
        of_lane = sent[lane::LANES]
        assert len({line["queueId"] for line in of_lane}) == 1
        offsets = [line["queueOffset"] for line in of_lane]
        assert offsets == sorted(offsets)
    with use(JAVA_5).push(topic, group, "--orderly") as consumer:
        got = consumer.take(60)
    for lane in range(LANES):
        numbers = [number_of(line) for line in got if number_of(line) % LANES == lane]
        assert numbers == list(range(lane, 60, LANES))
    assert not consumer.rest


@pytest.mark.parametrize("sender", [JAVA_4, JAVA_5_BINARY, GO, NODE], ids=lambda client: client.name)
@pytest.mark.parametrize("receiver", [JAVA_4, JAVA_5_BINARY, GO, NODE], ids=lambda client: client.name)
def test_keys_tags_and_properties_arrive(sender, receiver, use, topic_of, group):
    topic = topic_of(sender)
    sent = use(sender).produce(topic, 4, "--label", "grün✓", "--keys", "--tags", "red,blau", "--properties")
    with use(receiver).push(topic, group) as consumer:
        got = sorted(consumer.take(4), key=number_of)
    assert [line["body"] for line in got] == bodies("grün✓", 4)
    assert [line["keys"] for line in got] == [f"key-grün✓-{number}" for number in range(4)]
    assert [line["tags"] for line in got] == ["red", "blau"] * 2
    assert [line["properties"]["number"] for line in got] == ["0", "1", "2", "3"]
    assert [line["properties"]["colour"] for line in got] == ["blue", "red"] * 2
    assert {line["topic"] for line in got} == {topic}
    assert {line["reconsumeTimes"] for line in got} == {0}
    assert all(line["bornTimestamp"] <= line["storeTimestamp"] for line in got)
    assert {line["properties"]["CLUSTER"] for line in got} == {"DefaultCluster"}
    if sender is not NODE:  # it gives no ids; the broker may
        shown = "offsetMsgId" if receiver is NODE else "msgId"
        assert [line["msgId"] for line in got] == [line[shown] for line in sent]


@pytest.mark.parametrize("sender", [JAVA_4, JAVA_5, GO, NODE], ids=lambda client: client.name)
@pytest.mark.parametrize("receiver", [JAVA_4, JAVA_5, GO, NODE], ids=lambda client: client.name)
def test_a_compressed_body_arrives_whole(sender, receiver, use, topic_of, group):
    topic = topic_of(sender)
    use(sender).produce(topic, 3, "--body-bytes", "20000", "--compress-over-bytes", "100")
    with use(receiver).push(topic, group) as consumer:
        got = consumer.take(3)
    assert sorted(line["body"] for line in got) == bodies("m", 3, 20_000)
    assert not consumer.rest


@pytest.mark.parametrize(("kind", "bits"), [("LZ4", 1), ("ZSTD", 2), ("ZLIB", 3)])
@pytest.mark.parametrize("sender", [JAVA_4, JAVA_5], ids=lambda client: client.name)
def test_each_kind_of_compression_is_kept_as_it_is(sender, kind, bits, use, topic_of, group):
    """What is stored is as small as it was sent, and says of what kind it is."""
    topic = topic_of(sender)
    use(sender).produce(topic, 3, "--body-bytes", "20000", "--compress-over-bytes", "100", "--compress-type", kind)
    with use(JAVA_5).push(topic, group) as consumer:
        got = consumer.take(3)
    assert sorted(line["body"] for line in got) == bodies("m", 3, 20_000)
    assert {line["sysFlag"] >> 8 & 7 for line in got} == {bits}
    assert all(line["storeSize"] < 2_000 for line in got)


@pytest.mark.parametrize("client", [JAVA_4, JAVA_5_BINARY], ids=lambda client: client.name)
def test_a_message_above_the_limit_is_refused(client, use, topic):
    """The broker's limit is 4 MiB of body; the client's own is raised. The connection lives on."""
    for body_bytes, told in ((4 << 20, ("SEND_OK", None)), ((4 << 20) + 1, ("REFUSED", 13))):
        sent = use(client).produce(topic, 2, "--body-bytes", str(body_bytes), "--compress-over-bytes", str(1 << 30))
        assert [(line["status"], line.get("code")) for line in sent] == [told] * 2
