"""What is told of topics: figures in Pulsar's words, of one topic and of all partitions; what holds consumers back."""

import pytest
from tests.gateway.pulsar.caller import Caller
from tests.gateway.pulsar.conftest import client_of, one, several

from penstock.core.subscriptions.cursor import Cursor
from penstock.core.subscriptions.seats import Seat
from penstock.core.subscriptions.subscription import Kind, Limits, Style, Subscription
from penstock.gateway.pulsar.admin.figures import held_back
from penstock.gateway.pulsar.admin.stats import RUNS_SHOWN_MAX, runs_in_words
from penstock.gateway.pulsar.admin.sums import summed
from penstock.testing.server import serving
from penstock.wire.pulsar import commands_pb2 as pb

Shared, Key_Shared = pb.CommandSubscribe.Shared, pb.CommandSubscribe.Key_Shared


async def subscription(http, topic="t", name="s"):
    return (await http.of(topic, "/stats"))["subscriptions"][name]


async def test_a_topic_its_producers_and_what_came_in(http, client):
    await client.producer("t", producer_name="p", metadata=[pb.KeyValue(key="k", value="v")])
    await client.send(several([b"a", b"b", b"c"]), num_messages=3)
    await client.send(one(b"d", 3), 3)
    stats = await http.of("t", "/stats")
    assert (stats["msgInCounter"], stats["waitingPublishers"], stats["deduplicationStatus"]) == (4, 0, "Disabled")
    assert stats["storageSize"] > 0
    assert stats["msgRateIn"] == pytest.approx(4 / 60)
    assert stats["lastPublishTimeStamp"] >= stats["topicCreationTimeStamp"] > 0
    (publisher,) = stats["publishers"]
    assert (publisher["producerName"], publisher["accessMode"], publisher["producerId"]) == ("p", "Shared", 0)
    assert (publisher["clientVersion"], publisher["metadata"]) == ("a test", {"k": "v"})
    assert publisher["address"].startswith("/127.0.0.1:")
    assert (await http.of("t", "/stats?excludePublishers=true"))["publishers"] == []


async def test_figures_that_are_not_known_are_left_out(http, client):
    await client.consumer("t")
    stats = await http.of("t", "/stats")
    told = stats.keys() | stats["subscriptions"]["s"].keys() | stats["subscriptions"]["s"]["consumers"][0].keys()
    assert not told & {"averageMsgSize", "bytesOutCounter", "msgRateOut", "backlogSize", "msgRateRedeliver"}


async def test_an_exclusive_subscription(http, client):
    await client.producer("t")
    for number in range(5):
        await client.send(several([b"a", b"b"], number), number, num_messages=2)
    await client.consumer("t", consumer_name="me")
    client.flow(4)
    await client.entries(2)
    await client.settled()
    told = await subscription(http)
    assert (told["type"], told["activeConsumerName"], told["isDurable"], told["durable"]) == (
        "Exclusive",
        "me",
        True,
        True,
    )
    assert told["msgBacklog"] == 5  # entries
    (consumer,) = told["consumers"]
    assert (consumer["consumerName"], consumer["availablePermits"], consumer["unackedEntries"]) == ("me", 0, 2)
    assert "asked for no more" in consumer["heldBackBecause"]
    client.flow(100)
    await client.entries(3)
    assert "heldBackBecause" not in (await subscription(http))["consumers"][0]
    assert (await http.of("t", "/stats?excludeConsumers=true"))["subscriptions"]["s"]["consumers"] == []


async def test_a_shared_consumer_that_is_blocked_says_so():
    async with serving(pulsar={"unacked_per_consumer_max": 3}) as penstock, client_of(penstock) as client:
        http = Caller(penstock)
        await client.producer("t")
        for number in range(5):
            await client.send(one(b"x", number), number)
        await client.consumer("t", subType=Shared)
        client.flow(10)
        await client.entries(3)
        client.flow(2)
        await client.settled()
        told = await subscription(http)
        (consumer,) = told["consumers"]
        assert (told["type"], told["unackedMessages"], told["blockedSubscriptionOnUnackedMsgs"]) == ("Shared", 3, False)
        assert consumer["blockedConsumerOnUnackedMsgs"] is True
        assert (consumer["unackedMessages"], consumer["availablePermits"], consumer["keptPermits"]) == (3, 7, 2)
        assert "pulsar.unacked_per_consumer_max" in consumer["heldBackBecause"]


async def test_a_shared_subscription_that_is_blocked_says_so():
    async with serving(pulsar={"unacked_per_subscription_max": 2}) as penstock, client_of(penstock) as client:
        http = Caller(penstock)
        await client.producer("t")
        for number in range(5):
            await client.send(one(b"x", number), number)
        await client.consumer("t", subType=Shared)
        client.flow(10)
        await client.entries(2)
        await client.settled()
        told = await subscription(http)
        assert told["blockedSubscriptionOnUnackedMsgs"] is True
        assert "pulsar.unacked_per_subscription_max" in told["consumers"][0]["heldBackBecause"]


async def test_key_ranges_are_shown(http, client):
    ranges = pb.KeySharedMeta(keySharedMode=pb.STICKY, hashRanges=[pb.IntRange(start=0, end=65_535)])
    await client.consumer("t", subType=Key_Shared, keySharedMeta=ranges)
    told = await subscription(http)
    assert (told["keySharedMode"], told["allowOutOfOrderDelivery"]) == ("STICKY", False)
    assert told["consumers"][0]["keyHashRanges"] == ["[0, 65535]"]


async def test_what_is_delayed_and_what_comes_back(http, client):
    await client.producer("t")
    await client.send(one(b"later", deliver_at_time=2**50))
    await client.send(one(b"now", 1), 1)
    await client.consumer("t", subType=Shared)
    client.flow(10)
    assert await client.entries(1) == [1]
    told = await subscription(http)
    assert (told["msgDelayed"], told["msgBacklog"], told["msgBacklogNoDelayed"]) == (1, 2, 1)
    assert told["earliestMsgPublishTimeInBacklog"] > 0


async def test_the_oldest_message_that_somebody_waits_for(http, client):
    await client.producer("t")
    await http.topic("PUT", "t", "/subscription/idle")
    assert (await http.of("t", "/stats"))["oldestBacklogMessageAgeSeconds"] == -1
    await client.send(one(b"x"))
    stats = await http.of("t", "/stats")
    assert stats["oldestBacklogMessageAgeSeconds"] >= 0
    assert stats["oldestBacklogMessageSubscriptionName"] == "idle"


async def test_all_partitions_together(http, client):
    await http.topic("PUT", "wide", "/partitions", 2)
    await http.topic("PUT", "wide", "/subscription/s")
    for index in range(2):
        await client.producer(f"wide-partition-{index}", index)
        for number in range(index + 1):
            await client.send(one(b"x", number), number, index)
    stats = await http.of("wide", "/partitioned-stats")
    assert (stats["metadata"]["partitions"], stats["msgInCounter"]) == (2, 3)
    assert stats["subscriptions"]["s"]["msgBacklog"] == 3
    assert stats["msgRateIn"] == pytest.approx(3 / 60)
    assert len(stats["publishers"]) == 2
    one_of_them = stats["partitions"]["persistent://public/default/wide-partition-1"]
    assert one_of_them["subscriptions"]["s"]["msgBacklog"] == 2
    assert (await http.of("wide", "/partitioned-stats?perPartition=false"))["partitions"] == {}
    internal = await http.of("wide", "/partitioned-internalStats")
    assert internal["partitions"]["persistent://public/default/wide-partition-1"]["numberOfEntries"] == 2


async def test_stats_of_what_is_not_there(http):
    await http.topic("PUT", "wide", "/partitions", 2)
    await http.topic("PUT", "plain")
    assert (await http.topic("GET", "wide", "/stats")).status == 404
    assert (await http.topic("GET", "wide-partition-2", "/stats")).status == 404
    assert (await http.topic("GET", "plain", "/partitioned-stats")).status == 404
    assert (await http.topic("GET", "nowhere", "/internalStats")).status == 404


async def test_what_lies_below(http, client, penstock):
    await client.producer("t")
    for number in range(4):
        await client.send(one(b"x", number), number)
    queue = penstock.server.broker.topics.get("t").queue(0)
    await client.consumer("t")
    client.flow(3)
    await client.entries(3)
    client.ack(queue, 0, 2)
    await client.settled()
    told = await http.of("t", "/internalStats")
    assert (told["entriesAddedCounter"], told["numberOfEntries"], told["lastConfirmedEntry"]) == (4, 4, f"{queue}:3")
    assert [ledger["ledgerId"] for ledger in told["ledgers"]] == [queue]
    cursor = told["cursors"]["s"]
    assert (cursor["markDeletePosition"], cursor["readPosition"]) == (f"{queue}:0", f"{queue}:3")
    assert cursor["individuallyDeletedMessages"] == f"[({queue}:1..{queue}:2]]"
    assert (cursor["active"], cursor["numberOfEntriesSinceFirstNotAckedMessage"]) == (True, 2)


# --- without a broker -------------------------------------------------------------------------------------------------


def test_runs_beyond_a_limit_are_not_all_written_down():
    cursor = Cursor(0)
    for row in range(1, 2 * RUNS_SHOWN_MAX + 4, 2):
        cursor.ack(row)
    assert runs_in_words(cursor, 7).endswith(",...]")


def test_sums_join_what_can_be_joined_and_leave_out_what_each_has_for_itself():
    first = {"msgBacklog": 1, "blockedSubscriptionOnUnackedMsgs": False, "activeConsumerName": "a", "type": "Shared"}
    second = {"msgBacklog": 2, "blockedSubscriptionOnUnackedMsgs": True, "activeConsumerName": "b", "type": "Shared"}
    assert summed([first, second]) == {"msgBacklog": 3, "blockedSubscriptionOnUnackedMsgs": True, "type": "Shared"}


class Somebody:
    def __init__(self, seat):
        self.seat = seat

    def deliver(self, deliveries): ...

    def activate(self, active): ...


def test_why_a_consumer_is_held_back():
    failover = Subscription("s", "t", -1, Cursor(0), Style(Kind.FAILOVER), Limits())
    seats = [Seat(number, "ab"[number], permits=1) for number in range(2)]
    for seat in seats:
        failover.join(Somebody(seat), Style(Kind.FAILOVER), [], 0)
    reasons = sorted(held_back(seat, failover) for seat in seats)
    assert reasons == ["", "another consumer is the active one"]
    shared = Subscription("s", "t", -1, Cursor(0), Style(Kind.SHARED), Limits())
    assert "connection" in held_back(Seat(0, permits=1, open=False), shared)
    assert "asked for no more" in held_back(Seat(0), shared)
