"""Subscriptions by HTTP: made, deleted, skipped, expired, reset; and messages that are looked at without a consumer."""

import asyncio
import base64
import json

import pytest
from tests.gateway.pulsar.caller import Caller
from tests.gateway.pulsar.conftest import client_of, metadata, one, several

from penstock import configure
from penstock.testing.server import PORTS, serving
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.batch import Message, batch_of, single_of
from penstock.wire.pulsar.commands_pb2 import KeyValue

DAY_MS = 86_400_000


class Clock:
    """Moved by hand."""

    def __init__(self):
        self.ms = 1_700_000_000_000

    def now_ms(self):
        return self.ms

    def monotonic_ms(self):
        return self.ms


@pytest.fixture
async def five(client, http, penstock):
    """A topic `t` with five entries and a subscription `s` before them; the number of its queue."""
    await client.producer("t")
    for number in range(5):
        await client.send(one(b"%d" % number, number), number)
    await http.topic("PUT", "t", "/subscription/s", "earliest")
    return penstock.server.broker.topics.get("t").queue(0)


async def backlog(http, topic="t", subscription="s"):
    return (await http.of(topic, "/stats"))["subscriptions"][subscription]["msgBacklog"]


async def marks(http, topic="t", subscription="s"):
    cursor = (await http.of(topic, "/internalStats"))["cursors"][subscription]
    return cursor["markDeletePosition"], cursor["readPosition"]


def at(queue, entry, **more):
    return {"ledgerId": queue, "entryId": entry, "partitionIndex": -1, **more}


# --- made and deleted -------------------------------------------------------------------------------------------------


async def test_where_a_subscription_begins(http, five):
    largest = 2**63 - 1
    for name, body, left in (
        ("default", None, 0),
        ("latest", "latest", 0),
        ("largest", at(largest, largest), 0),
        ("smallest", at(-1, -1), 5),
        ("third", at(five, 2), 3),
        ("behind-third", at(five, 2, isExcluded=True), 2),
        ("behind-third-as-java-says-it", at(five, 2, excluded=True), 2),
        ("beyond", at(five, 77), 0),
    ):
        assert (await http.topic("PUT", "t", f"/subscription/{name}", body)).status == 204
        assert await backlog(http, subscription=name) == left, name
    assert (await http.topic("PUT", "t", "/subscription/latest", "earliest")).status == 409
    assert len(await http.of("t", "/subscriptions")) == 9


async def test_a_subscription_has_properties(http, five):
    await http.topic("PUT", "t", "/subscription/p", at(-1, -1, properties={"a": "1"}))
    assert await http.of("t", "/subscription/p/properties") == {"a": "1"}
    assert (await http.topic("PUT", "t", "/subscription/p/properties", {"b": "2"})).status == 204
    assert (await http.of("t", "/stats"))["subscriptions"]["p"]["subscriptionProperties"] == {"b": "2"}


@pytest.mark.parametrize(("body", "status"), [("middle", 412), ({"entryId": 1}, 400), (b"[", 400), (7, 400)])
async def test_positions_that_are_none(http, five, body, status):
    assert (await http.topic("PUT", "t", "/subscription/x", body)).status == status


async def test_names_of_subscriptions(http, five):
    assert (await http.topic("PUT", "t", "/subscription/%20", "latest")).status == 412
    assert (await http.topic("PUT", "t", "/subscription/pulsar.dedup", "latest")).status == 412
    assert (await http.topic("PUT", "t", "/subscription/a%2Fb", "latest")).status == 204
    assert await http.of("t", "/subscriptions") == ["a/b", "s"]
    assert (await http.topic("DELETE", "t", "/subscription/a%2Fb")).status == 204
    assert (await http.topic("DELETE", "t", "/subscription/a%2Fb")).status == 404
    assert (await http.topic("PUT", "t", "/subscription/x?replicated=true", "latest")).status == 405


async def test_a_subscription_with_consumers_is_deleted_only_by_force(http, five, client):
    await client.consumer("t")
    refused = await http.topic("DELETE", "t", "/subscription/s")
    assert (refused.status, "consumers" in refused.reason) == (412, True)
    assert (await http.topic("DELETE", "t", "/subscription/s?force=true")).status == 204
    await client.next("close_consumer")
    assert await http.of("t", "/subscriptions") == []


async def test_a_subscription_of_a_topic_with_partitions_is_on_all_of_them(http):
    await http.topic("PUT", "wide", "/partitions", 3)
    assert (await http.topic("PUT", "wide", "/subscription/s")).status == 204
    assert (await http.topic("PUT", "wide", "/subscription/s")).status == 409
    assert await http.of("wide-partition-2", "/subscriptions") == await http.of("wide", "/subscriptions") == ["s"]
    assert (await http.topic("POST", "wide", "/subscription/s/skip_all")).status == 204
    assert (await http.topic("POST", "wide", "/subscription/s/skip/1")).status == 405
    assert (await http.topic("DELETE", "wide", "/subscription/s")).status == 204
    assert await http.of("wide", "/subscriptions") == []


async def test_what_was_made_and_moved_is_there_after_a_restart(tmp_path):
    config = configure.load(None, {}, {"server": {"data": str(tmp_path), **dict.fromkeys(PORTS, 0)}})
    async with serving(config) as penstock, client_of(penstock) as client:
        http = Caller(penstock)
        await client.producer("t")
        for number in range(5):
            await client.send(one(b"x", number), number)
        await http.topic("PUT", "t", "/subscription/s", "earliest")
        await http.topic("POST", "t", "/subscription/s/skip/2")
        await http("PUT", "/admin/v2/tenants/a", {"adminRoles": ["me"], "allowedClusters": ["standalone"]})
        await http("PUT", "/admin/v2/namespaces/a/b")
    async with serving(config) as penstock:
        http = Caller(penstock)
        assert await backlog(http) == 3
        assert (await http("GET", "/admin/v2/tenants/a")).json["adminRoles"] == ["me"]
        assert (await http("GET", "/admin/v2/namespaces/a")).json == ["a/b"]


async def test_a_cursor_is_kept_without_a_stop():
    async with serving(broker={"chore_interval_ms": 10}) as penstock, client_of(penstock) as client:
        http = Caller(penstock)
        await client.producer("t")
        await client.send(one(b"x"))
        await http.topic("PUT", "t", "/subscription/s", "earliest")
        await http.topic("POST", "t", "/subscription/s/skip/1")
        queue = penstock.server.broker.topics.get("t").queue(0)
        while penstock.server.broker.progress.get("cursor", f"{queue}\ts") is None:
            await asyncio.sleep(0.01)


# --- skipped and expired ----------------------------------------------------------------------------------------------


async def test_skipping(http, five, client):
    assert (await http.topic("POST", "t", "/subscription/s/skip/2")).status == 204
    assert await marks(http) == (f"{five}:1", f"{five}:2")
    await client.consumer("t")
    client.flow(1)
    assert await client.entries(1) == [2]
    assert (await http.topic("POST", "t", "/subscription/s/skip/100")).status == 204
    assert await backlog(http) == 0
    assert (await http.topic("POST", "t", "/subscription/none/skip/1")).status == 404
    assert (await http.topic("POST", "t", "/subscription/s/skip/many")).status == 412


async def test_what_was_acknowledged_is_not_counted_when_skipping(http, five, client):
    await client.consumer("t", subType=pb.CommandSubscribe.Shared)
    client.flow(5)
    await client.entries(5)
    client.ack(five, 1, 2)
    await client.settled()
    assert (await http.of("t", "/internalStats"))["cursors"]["s"][
        "individuallyDeletedMessages"
    ] == f"[({five}:0..{five}:2]]"
    await http.topic("POST", "t", "/subscription/s/skip/2")
    assert await backlog(http) == 1
    consumer = (await http.of("t", "/stats"))["subscriptions"]["s"]["consumers"][0]
    assert consumer["unackedMessages"] == 1


async def test_a_consumer_goes_on_behind_what_was_skipped(http, five, client):
    await client.consumer("t")
    await http.topic("POST", "t", "/subscription/s/skip_all")
    client.flow(10)
    await client.send(one(b"new", 9), 9)
    assert await client.entries(1) == [5]


async def test_expiring_what_is_old():
    clock = Clock()
    async with serving(clock=clock) as penstock, client_of(penstock) as client:
        http = Caller(penstock)
        await client.producer("t")
        for number in range(4):
            await client.send(one(b"x", number), number)
            clock.ms += 60_000
        for name in ("s", "r"):
            await http.topic("PUT", "t", f"/subscription/{name}", "earliest")
        assert (await http.topic("POST", "t", "/subscription/s/expireMessages/150")).status == 204
        assert (await backlog(http), await backlog(http, subscription="r")) == (2, 4)
        assert (await http.topic("POST", "t", "/all_subscription/expireMessages/90")).status == 204
        assert (await backlog(http), await backlog(http, subscription="r")) == (1, 1)
        await http.topic("POST", "t", "/subscription/s/expireMessages/1000000000")
        assert await backlog(http) == 1


async def test_expiring_up_to_a_message(http, five):
    assert (await http.topic("POST", "t", "/subscription/s/expireMessages", at(five, 1, excluded=True))).status == 204
    assert await backlog(http) == 4
    await http.topic("POST", "t", "/subscription/s/expireMessages", at(five, 1))
    assert await backlog(http) == 3
    await http.topic("POST", "t", "/subscription/s/expireMessages", at(five, 0))
    assert await backlog(http) == 3
    assert (await http.topic("POST", "t", "/subscription/s/expireMessages")).status == 412


# --- reset ------------------------------------------------------------------------------------------------------------


async def test_a_reset_sends_consumers_away_and_they_go_on_there(http, five, client):
    await client.consumer("t")
    client.flow(10)
    assert await client.entries(5) == [0, 1, 2, 3, 4]
    client.ack(five, 4, cumulative=True)
    await client.settled()
    assert (await http.topic("POST", "t", "/subscription/s/resetcursor", at(five, 3))).status == 204
    await client.next("close_consumer")
    await client.consumer("t")
    client.flow(10)
    assert await client.entries(2) == [3, 4]


async def test_a_reset_behind_a_message_and_into_a_batch(http, client, penstock):
    await client.producer("t")
    await client.send(several([b"a", b"b", b"c"]), num_messages=3)
    await client.send(one(b"d", 3), 3)
    queue = penstock.server.broker.topics.get("t").queue(0)
    await http.topic("PUT", "t", "/subscription/s")
    await http.topic("POST", "t", "/subscription/s/resetcursor", at(queue, 0, isExcluded=True))
    assert await marks(http) == (f"{queue}:0", f"{queue}:1")
    for body, left in ((at(queue, 0, batchIndex=1), 0b110), (at(queue, 0, batchIndex=1, isExcluded=True), 0b100)):
        await http.topic("POST", "t", "/subscription/s/resetcursor", body)
        await client.consumer("t")
        client.flow(1)
        assert (await client.next("message")).ack_set == [left]
        client.say(pb.CommandCloseConsumer(consumer_id=0, request_id=client.request()))
        await client.next("success")
    await http.topic("POST", "t", "/subscription/s/resetcursor", at(queue, 0, batchIndex=2, isExcluded=True))
    assert await backlog(http) == 1


async def test_a_reset_to_a_time():
    clock = Clock()
    async with serving(clock=clock) as penstock, client_of(penstock) as client:
        http = Caller(penstock)
        start_ms = clock.ms
        await client.producer("t")
        for number in range(3):
            await client.send(one(b"x", number), number)
            clock.ms += 60_000
        await http.topic("PUT", "t", "/subscription/s")
        for time_ms, left in ((start_ms + 60_000, 2), (0, 3), (start_ms + DAY_MS, 0)):
            assert (await http.topic("POST", "t", f"/subscription/s/resetcursor/{time_ms}")).status == 204
            assert await backlog(http) == left
        found = await http.of("t", f"/messageid/{start_ms + 1}")
        assert (found["entryId"], found["partitionIndex"]) == (1, -1)


async def test_a_reader_that_was_reset_goes_on_and_leaves_nothing_behind(http, five, connect):
    reading = await connect()
    await reading.consumer("t", "reader", durable=False)
    assert (await http.topic("POST", "t", "/subscription/reader/resetcursor", at(five, 4))).status == 204
    await reading.next("close_consumer")
    assert "reader" in await http.of("t", "/subscriptions")
    await reading.consumer("t", "reader", durable=False)
    reading.flow(5)
    assert await reading.entries(1) == [4]
    await http.topic("POST", "t", "/subscription/reader/resetcursor", at(five, 4))
    await reading.next("close_consumer")
    await reading.close()
    while "reader" in await http.of("t", "/subscriptions"):
        pass


# --- looking at messages ----------------------------------------------------------------------------------------------


async def test_peeking_at_what_is_not_acknowledged(http, five, client):
    await client.consumer("t")
    client.ack(five, 0, 2)
    await client.settled()
    seen = [await http.topic("GET", "t", f"/subscription/s/position/{number}") for number in (1, 2, 3, 4)]
    assert [answer.status for answer in seen] == [200, 200, 200, 404]
    assert [answer.body for answer in seen[:3]] == [b"1", b"3", b"4"]
    assert seen[1].headers["x-pulsar-message-id"] == f"{five}:3"
    assert seen[1].headers["x-pulsar-producer-name"] == "a"
    assert seen[1].headers["x-pulsar-publish-time"] == "2023-11-14T22:13:20.000+00:00"
    assert (await http.topic("GET", "t", "/subscription/s/position/0")).status == 412


async def test_examining_from_either_end_and_by_id(http, five):
    async def body(rest):
        answer = await http.topic("GET", "t", rest)
        return answer.body if answer.status == 200 else answer.status

    assert await body("/examinemessage?initialPosition=earliest&messagePosition=2") == b"1"
    assert await body("/examinemessage?initialPosition=latest&messagePosition=1") == b"4"
    assert await body("/examinemessage?initialPosition=latest&messagePosition=6") == 404
    assert await body("/examinemessage?initialPosition=middle") == 412
    assert await body(f"/ledger/{five}/entry/3") == b"3"
    assert await body(f"/ledger/{five}/entry/5") == 404
    assert await body(f"/ledger/{five + 1}/entry/3") == 404


async def test_what_a_producer_says_becomes_headers_whatever_it_is(http, client):
    await client.producer("t")
    properties = [KeyValue(key="k\r\nX-Evil: 1", value="ü"), KeyValue(key="a", value="b")]
    await client.send(
        single_of(
            metadata(properties=properties, partition_key="ключ\r\nX-Evil: 1", event_time=2**63),
            b"body" * 100,
            pb.ZLIB,
        )
    )
    seen = await http.topic("GET", "t", "/examinemessage")
    assert (seen.status, seen.body) == (200, b"body" * 100)
    assert "x-evil" not in seen.headers
    assert json.loads(seen.headers["x-pulsar-property"]) == {"k\r\nX-Evil: 1": "ü", "a": "b"}
    assert seen.headers["x-pulsar-compression"] == "ZLIB"
    assert "x-pulsar-event-time" not in seen.headers  # no calendar has it


async def test_what_is_encrypted_is_passed_on_as_it_is(http, client):
    await client.producer("t")
    key = pb.EncryptionKeys(key="k", value=b"secret")
    told = metadata(encryption_keys=[key], encryption_param=b"iv", ordering_key=b"o", uncompressed_size=99)
    told.compression = pb.LZ4
    await client.send(single_of(told, b"\x00\x01unreadable"))
    seen = await http.topic("GET", "t", "/examinemessage")
    assert (seen.status, seen.body) == (200, b"\x00\x01unreadable")
    assert seen.headers["x-pulsar-is-encrypted"] == "true"
    assert base64.b64decode(seen.headers["x-pulsar-base64-encryption-keys"]) == key.SerializeToString()
    assert base64.b64decode(seen.headers["x-pulsar-base64-ordering-key"]) == b"o"


async def test_a_batch_stays_a_batch(http, client):
    await client.producer("t")
    batch = batch_of(metadata(), [Message(body=b"a"), Message(body=b"b", sequence=1)])
    await client.send(batch, num_messages=2)
    seen = await http.topic("GET", "t", "/examinemessage")
    assert seen.headers["x-pulsar-num-batch-message"] == "2"
    assert int(seen.headers["x-pulsar-batch-size"]) == len(seen.body)
    assert (await http.of("t", "/lastMessageId"))["batchIndex"] == 1


async def test_the_last_message(http, five):
    assert await http.of("t", "/lastMessageId") == at(five, 4)
    await http.topic("PUT", "empty", "/partitions", 2)
    assert await http.of("empty-partition-1", "/lastMessageId") == at(-1, -1) | {"partitionIndex": 1}
    assert (await http.topic("GET", "empty", "/lastMessageId")).status == 405


async def test_the_backlogs_of_a_namespace_are_cleared(http, client):
    await http.topic("PUT", "parts", "/partitions", 2)
    for topic in ("one", "parts-partition-1"):
        for subscription in ("s", "t"):
            assert (await http.topic("PUT", topic, f"/subscription/{subscription}", "earliest")).status == 204
        await client.producer(f"persistent://public/default/{topic}", 9)
        await client.send(one(b"x"), producer_id=9)
        await client.close_producer(9)

    async def backlogs():
        several = [(await http.of(topic, "/stats"))["subscriptions"] for topic in ("one", "parts-partition-1")]
        return [(each["s"]["msgBacklog"], each["t"]["msgBacklog"]) for each in several]

    assert await backlogs() == [(1, 1), (1, 1)]
    assert (await http("POST", "/admin/v2/namespaces/public/default/clearBacklog/t")).status == 204
    assert await backlogs() == [(1, 0), (1, 0)]
    assert (await http("POST", "/admin/v2/namespaces/public/default/clearBacklog")).status == 204
    assert await backlogs() == [(0, 0), (0, 0)]
    assert (await http("POST", "/admin/v2/namespaces/public/nothing/clearBacklog")).status == 404
