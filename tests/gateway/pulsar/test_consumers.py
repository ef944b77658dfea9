"""Subscribing and consuming, frame by frame."""

import pytest
from tests.gateway.pulsar.conftest import client_of, one, several

from penstock import configure
from penstock.clock import ManualClock
from penstock.core.authorizer import AllowAll
from penstock.core.subscriptions.keyed import slot_of
from penstock.core.subscriptions.registry import Place
from penstock.errors import NotAuthorized
from penstock.gateway.pulsar.inspect import chunked_as
from penstock.model import Action
from penstock.testing.server import PORTS, serving
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.batch import opened_entry
from penstock.wire.pulsar.commands_pb2 import ServerError

TOPIC = "persistent://public/default/orders"
Shared, Failover = pb.CommandSubscribe.Shared, pb.CommandSubscribe.Failover
KeyShared, Latest = pb.CommandSubscribe.Key_Shared, pb.CommandSubscribe.Latest
LAST = 2**63 - 1


async def publish(client, count, topic=TOPIC, **more):
    """Messages of one each; the queue's number."""
    await client.producer(topic, 99)
    receipt = None
    for number in range(count):
        receipt = await client.send(one(b"%d" % number, number, **more), number, 99)
    await client.close_producer(99)
    return receipt.message_id.ledgerId


def body(client, entry):
    (message,) = opened_entry(memoryview(client.payloads[entry])).messages
    return message.body


# --- subscribing ------------------------------------------------------------------------------------------------------


async def test_what_was_sent_comes_as_it_was(client):
    queue = await publish(client, 3)
    await client.consumer(TOPIC)
    client.flow(10)
    message = await client.next("message")
    assert (message.message_id.ledgerId, message.message_id.entryId, message.message_id.partition) == (queue, 0, -1)
    assert not message.HasField("consumer_epoch")
    assert await client.entries(2) == [1, 2]
    assert [body(client, entry) for entry in range(3)] == [b"0", b"1", b"2"]


async def test_s32_authorization_comes_first(client, monkeypatch):
    def check(self, who, action, resource):
        if action is Action.CONSUME:
            raise NotAuthorized(who, action, resource)

    monkeypatch.setattr(AllowAll, "check", check)
    error = await client.not_a_consumer("not even//a name")
    assert error.error == ServerError.AuthorizationError
    assert error.message.startswith("Client is not authorized to subscribe")


async def test_s33_a_number_that_is_used_again_gets_what_the_first_deserves(client):
    await publish(client, 1)
    await client.consumer(TOPIC)
    request = client.ask_consumer(TOPIC)
    assert (await client.next("success")).request_id == request
    client.flow(10)
    assert await client.entries(1) == [0]


async def test_s33_while_it_is_under_way_it_is_not_ready(client, penstock):
    """Both in one write: the first has to wait for the disk."""
    first, second = client.ask_consumer(TOPIC), client.ask_consumer(TOPIC)
    error = await client.next("error")
    assert (error.request_id, error.error) == (second, ServerError.ServiceNotReady)
    assert error.message == "Consumer is already present on the connection"
    assert (await client.next("success")).request_id == first


async def test_s33_when_the_first_failed_behind_its_back_a_client_gets_the_error_once(client, connect):
    other = await connect()
    await other.consumer(TOPIC)
    client.ask_consumer(TOPIC)
    await client.settled()
    client.ask_consumer(TOPIC)  # the first is asking the other for a sign of life, or has been refused already
    errors = [await client.next("error"), await client.next("error")]
    assert {error.error for error in errors} <= {ServerError.ServiceNotReady, ServerError.ConsumerBusy}
    while (error := await client.not_a_consumer(TOPIC)).message == "Consumer is already present on the connection":
        assert error.error == ServerError.ConsumerBusy
    assert "Exclusive consumer is already connected" in error.message


async def test_s34_without_auto_creation_topics_and_subscriptions_must_be_there():
    async with serving(pulsar={"auto_create_topics": False}) as strict, client_of(strict) as client:
        error = await client.not_a_consumer(TOPIC)
        assert (error.error, "does not exist" in error.message) == (ServerError.TopicNotFound, True)
    async with serving(pulsar={"auto_create_subscriptions": False}) as strict, client_of(strict) as client:
        error = await client.not_a_consumer(TOPIC)
        assert (error.error, error.message) == (ServerError.SubscriptionNotFound, "Subscription does not exist")
        await client.consumer(TOPIC, durable=False)
    async with serving() as loose, client_of(loose) as client:
        error = await client.not_a_consumer(TOPIC, force_topic_creation=False)
        assert error.error == ServerError.TopicNotFound


async def test_s35_a_durable_subscription_that_exists_wins_over_the_position_in_the_request(client, connect):
    queue = await publish(client, 3)
    await client.consumer(TOPIC)
    client.flow(10)
    await client.entries(3)
    client.ack(queue, 0)
    await client.settled()
    await client.close()
    again = await connect()
    await again.consumer(TOPIC, initialPosition=Latest, start_message_id=pb.MessageIdData(ledgerId=queue, entryId=2))
    again.flow(10)
    assert await again.entries(2) == [1, 2]


@pytest.mark.parametrize(
    ("start", "first"),
    [((None, 1), 1), ((None, 0), 0), ((2**64 - 1, 2**64 - 1), 0), ((LAST, LAST), 3), ((None, 2**64 - 1), 0)],
    ids=["an entry", "the first", "earliest", "latest", "before the first"],
)
async def test_s35_one_that_is_not_durable_starts_where_it_asks_and_leaves_nothing_behind(
    client, connect, penstock, start, first
):
    queue = await publish(client, 3)
    ledger, entry = start
    at = pb.MessageIdData(ledgerId=queue if ledger is None else ledger, entryId=entry)
    reader = await connect()
    await reader.consumer(TOPIC, "reader", durable=False, start_message_id=at, initialPosition=Latest)
    reader.flow(10)
    await publish(client, 1)
    assert await reader.entries(4 - first) == list(range(first, 4))
    await reader.close()
    await client.settled()
    place = Place(queue, TOPIC)
    assert list(penstock.server.broker.subscriptions.of(place)) == []


@pytest.mark.parametrize(("back_s", "first"), [(150, 0), (100, 3), (1, 6)])
@pytest.mark.parametrize("durable", [True, False])
async def test_one_that_asks_for_the_last_seconds_begins_there(back_s, first, durable):
    """Whatever else it says of where to begin."""
    clock = ManualClock()
    async with serving(clock=clock) as penstock, client_of(penstock) as client:
        for _ in range(2):
            await publish(client, 3)
            clock.advance(75_000)
        earliest = pb.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1)
        asked = {"start_message_rollback_duration_sec": back_s, "start_message_id": earliest, "durable": durable}
        await client.consumer(TOPIC, **asked)
        client.flow(10)
        await publish(client, 1)
        assert await client.entries(7 - first) == list(range(first, 7))


async def test_a_new_one_begins_at_the_end_unless_told_otherwise(client):
    await publish(client, 3)
    await client.consumer(TOPIC, initialPosition=Latest)
    client.flow(10)
    await publish(client, 1)
    assert await client.entries(1) == [3]


async def test_s36_compacted_reads_are_for_one_consumer(client):
    error = await client.not_a_consumer(TOPIC, subType=Shared, read_compacted=True)
    assert error.error == ServerError.NotAllowedError
    assert error.message == "readCompacted only allowed on failover or exclusive subscriptions"
    await client.consumer(TOPIC, read_compacted=True)


@pytest.mark.parametrize("name", ["", "  ", "pulsar.repl.x", "pulsar.dedup"])
async def test_s37_names_that_cannot_be(client, name):
    error = await client.not_a_consumer(TOPIC, name)
    assert error.error == ServerError.ProducerBusy
    assert "cannot be a subscription's name" in error.message


async def test_s38_a_connection_that_closes_while_it_subscribes_leaves_no_consumer_behind(client, connect, penstock):
    """It is gone before its subscription is durable."""
    ghost = await connect()
    ghost.ask_consumer(TOPIC, subType=Shared)
    await ghost.close()
    await client.consumer(TOPIC, subType=Shared)
    await client.settled()
    place = Place(penstock.server.broker.topics.get("orders").queue(0), TOPIC)
    (attached,) = penstock.server.broker.subscriptions.of(place)
    assert len(attached.subscription.consumers) == 1


@pytest.mark.parametrize("kind", [Shared, Failover, KeyShared])
async def test_s39_another_type_is_refused_while_consumers_are_connected(client, connect, kind):
    await client.consumer(TOPIC)
    other = await connect()
    error = await other.not_a_consumer(TOPIC, subType=kind)
    assert error.error == ServerError.ConsumerBusy
    await client.close()
    await other.settled()
    await other.consumer(TOPIC, subType=kind)


async def test_a_second_exclusive_consumer_is_refused_while_the_first_is_alive(client, connect):
    await client.consumer(TOPIC)
    other = await connect()
    error = await other.not_a_consumer(TOPIC)
    assert (error.error, error.message) == (ServerError.ConsumerBusy, "Exclusive consumer is already connected")


async def test_s44_an_exclusive_consumer_whose_connection_is_dead_makes_way():
    async with serving(pulsar={"liveness_timeout_ms": 50}) as penstock, client_of(penstock) as dead:
        await dead.consumer(TOPIC)
        dead.answers_pings = False
        async with client_of(penstock) as alive:
            await alive.consumer(TOPIC)
        await dead.closed.wait()


async def test_overlapping_key_ranges_are_refused(client, connect):
    def keys(*ranges):
        spans = [pb.IntRange(start=start, end=end) for start, end in ranges]
        return pb.KeySharedMeta(keySharedMode=pb.STICKY, hashRanges=spans)

    await client.consumer(TOPIC, subType=KeyShared, keySharedMeta=keys((0, 100)))
    other = await connect()
    error = await other.not_a_consumer(TOPIC, subType=KeyShared, keySharedMeta=keys((100, 200)))
    assert error.error == ServerError.ConsumerAssignError
    await other.consumer(TOPIC, consumer_id=1, subType=KeyShared, keySharedMeta=keys((101, 200)))


# --- flow -------------------------------------------------------------------------------------------------------------


async def test_s40_nothing_comes_before_a_flow_and_no_more_than_was_asked_for(client):
    await publish(client, 5)
    await client.consumer(TOPIC)
    await client.settled()
    assert client.none_of("message")
    client.flow(2)
    assert await client.entries(2) == [0, 1]
    await client.settled()
    assert client.none_of("message")
    client.flow(3)
    assert await client.entries(3) == [2, 3, 4]


async def test_s40_a_flow_before_it_is_ready_is_passed_over(client):
    await publish(client, 3)
    client.ask_consumer(TOPIC)
    client.flow(2)
    await client.next("success")
    await client.settled()
    assert client.none_of("message")
    client.flow(1)
    assert await client.entries(1) == [0]
    await client.settled()
    assert client.none_of("message")


async def test_s40_a_flow_of_nothing_closes_the_connection(client):
    await client.consumer(TOPIC)
    client.flow(0)
    await client.closed.wait()


async def test_s40_a_batch_overshoots_by_one_entry(client):
    await client.producer(TOPIC, 9)
    for number in range(3):
        await client.send(several([b"x"] * 100, number * 100), number * 100, 9, num_messages=100)
    await client.consumer(TOPIC)
    client.flow(10)
    assert await client.entries(1) == [0]
    await client.settled()
    assert client.none_of("message")
    client.flow(91)
    assert await client.entries(1) == [1]


async def test_s42_a_consumer_with_too_much_in_hand_is_blocked_and_its_permits_are_kept():
    async with serving(pulsar={"unacked_per_consumer_max": 4}) as penstock, client_of(penstock) as client:
        queue = await publish(client, 10)
        await client.consumer(TOPIC, subType=Shared)
        client.flow(4)
        assert await client.entries(4) == [0, 1, 2, 3]
        client.flow(3)
        await client.settled()
        assert client.none_of("message")
        client.say(pb.CommandConsumerStats(request_id=1, consumer_id=0))
        stats = await client.next("consumerStatsResponse")
        assert (stats.unackedMessages, stats.blockedConsumerOnUnackedMsgs, stats.availablePermits) == (4, True, 0)
        client.ack(queue, 0, 1)
        assert await client.entries(2) == [4, 5]


async def consumer_stats(client, consumer_id=0):
    request = client.request()
    client.say(pb.CommandConsumerStats(request_id=request, consumer_id=consumer_id))
    stats = await client.next("consumerStatsResponse")
    assert stats.request_id == request
    return stats


async def test_a_consumer_asks_for_its_own_figures(client):
    """As the C++ client does (getBrokerConsumerStats)."""
    queue = await publish(client, 10)
    await client.consumer(TOPIC, consumer_name="me", subType=Shared)
    client.flow(7)
    await client.entries(7)
    client.ack(queue, 0, 1)
    client.flow(2)
    await client.entries(2)
    stats = await consumer_stats(client)
    assert (stats.consumerName, stats.type, stats.HasField("error_code")) == ("me", "Shared", False)
    assert (stats.availablePermits, stats.unackedMessages, stats.blockedConsumerOnUnackedMsgs) == (0, 7, False)
    assert stats.msgBacklog == 8
    assert stats.address.startswith("127.0.0.1:")
    assert stats.connectedSince.startswith("20")


async def test_figures_of_a_consumer_that_is_not_there(client):
    stats = await consumer_stats(client, 5)
    assert (stats.error_code, bool(stats.error_message)) == (pb.ConsumerNotFound, True)


# --- acknowledgements -------------------------------------------------------------------------------------------------


async def reconnected(penstock, **more):
    """What a durable subscription still has for whoever comes next: the entries of 1,000 permits."""
    async with client_of(penstock) as client:
        await client.consumer(TOPIC, **more)
        client.flow(1_000)
        await client.settled()
        found = []
        while not client.none_of("message"):
            found += await client.entries(1)
        return found


async def test_individual_and_cumulative_acknowledgements(penstock, client):
    queue = await publish(client, 6)
    await client.consumer(TOPIC)
    client.flow(10)
    await client.entries(6)
    client.ack(queue, 1, cumulative=True)
    client.ack(queue, 3, 5, request_id=7)
    answer = await client.next("ackResponse")
    assert (answer.request_id, answer.HasField("error")) == (7, False)
    await client.close()
    assert await reconnected(penstock) == [2, 4]


async def test_a_cumulative_acknowledgement_means_nothing_where_several_share(penstock, client):
    queue = await publish(client, 3)
    await client.consumer(TOPIC, subType=Shared)
    client.flow(10)
    await client.entries(3)
    client.ack(queue, 2, cumulative=True)
    await client.settled()
    await client.close()
    assert await reconnected(penstock) == [0, 1, 2]


async def test_what_names_no_message_or_no_consumer_is_passed_over(penstock, client):
    queue = await publish(client, 2)
    await client.consumer(TOPIC)
    client.flow(10)
    await client.entries(2)
    client.ack(queue, 2, 77, 2**64 - 1)
    client.ack(queue + 1, 0)
    client.ack(queue, 0, consumer_id=5)
    client.ack(queue, 1, consumer_id=5, request_id=3)
    assert (await client.next("ackResponse")).request_id == 3
    await client.close()
    assert await reconnected(penstock) == [0, 1]


async def test_part_of_a_batch(penstock, client):
    await client.producer(TOPIC, 9)
    receipt = await client.send(several([b"a", b"b", b"c"]), 0, 9, num_messages=3)
    queue = receipt.message_id.ledgerId
    await client.consumer(TOPIC, subType=Shared)
    client.flow(10)
    await client.entries(1)
    left = pb.MessageIdData(ledgerId=queue, entryId=0, ack_set=[0b101])
    client.say(pb.CommandAck(consumer_id=0, ack_type=pb.CommandAck.Individual, message_id=[left]))
    client.say(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=0))
    again = await client.next("message")
    assert (list(again.ack_set), again.redelivery_count) == ([0b101], 1)
    left.ack_set[:] = [0b010]
    client.say(pb.CommandAck(consumer_id=0, ack_type=pb.CommandAck.Individual, message_id=[left]))
    await client.settled()
    await client.close()
    assert await reconnected(penstock) == []


async def test_transactions_are_refused_at_once(client):
    await client.consumer(TOPIC)
    client.ack(1, 0, txnid_most_bits=1, txnid_least_bits=1, request_id=4)
    answer = await client.next("ackResponse")
    assert answer.error == ServerError.NotAllowedError


@pytest.mark.parametrize("kind", [pb.CommandSubscribe.Exclusive, Failover])
async def test_a_single_consumer_gets_everything_again_with_its_epoch(client, kind):
    queue = await publish(client, 3)
    await client.consumer(TOPIC, subType=kind)
    client.flow(10)
    assert await client.entries(3) == [0, 1, 2]
    client.ack(queue, 1)
    client.say(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=0, consumer_epoch=5))
    again = [await client.next("message") for _ in range(2)]
    assert [message.message_id.entryId for message in again] == [0, 2]
    assert [message.consumer_epoch for message in again] == [5, 5]
    assert [message.redelivery_count for message in again] == [0, 0]


async def test_failover_consumers_are_told_who_is_active(client, connect):
    other = await connect()
    await client.consumer(TOPIC, subType=Failover, priority_level=0)
    client.flow(1)
    assert (await client.next("active_consumer_change")).is_active
    await other.consumer(TOPIC, subType=Failover, priority_level=1)
    other.flow(1)
    assert not (await other.next("active_consumer_change")).is_active
    await client.close()
    assert (await other.next("active_consumer_change")).is_active


@pytest.mark.parametrize(("half", "expected"), [((0, 32767), "low"), ((32768, 65535), "high")])
async def test_a_reader_of_some_keys_gets_those_alone(client, half, expected):
    await client.producer(TOPIC)
    keys = [f"k{number}" for number in range(8)]
    for number, key in enumerate(keys):
        await client.send(one(b"x", number, partition_key=key), number)
    span = pb.IntRange(start=half[0], end=half[1])
    ranges = pb.KeySharedMeta(keySharedMode=pb.STICKY, hashRanges=[span])
    earliest = pb.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1)
    await client.consumer(TOPIC, "reader", durable=False, start_message_id=earliest, keySharedMeta=ranges)
    client.flow(10)
    mine = [row for row, key in enumerate(keys) if ("low" if slot_of(key.encode()) < 32768 else "high") == expected]
    assert 0 < len(mine) < len(keys)
    assert await client.entries(len(mine)) == mine
    await client.settled()
    assert client.none_of("message")


async def test_who_is_active_is_told_once_the_client_knows_its_consumer(client):
    """Go's client knows it only when it has taken in the success: before it asks for messages nothing is said."""
    await client.consumer(TOPIC, subType=Failover)
    await client.settled()
    assert client.none_of("active_consumer_change")
    client.flow(1)
    client.flow(1)
    assert (await client.next("active_consumer_change")).is_active
    await client.settled()
    assert client.none_of("active_consumer_change")


async def test_who_asks_for_nothing_is_told_all_the_same(client):
    await client.consumer(TOPIC, subType=Failover)
    assert (await client.next("active_consumer_change")).is_active


# --- moving about -----------------------------------------------------------------------------------------------------


async def test_a_seek_sends_the_consumer_away_and_then_succeeds(client):
    queue = await publish(client, 4)
    await client.consumer(TOPIC)
    client.flow(10)
    await client.entries(4)
    client.ack(queue, 3, cumulative=True)
    to = pb.MessageIdData(ledgerId=queue, entryId=2)
    client.say(pb.CommandSeek(consumer_id=0, request_id=8, message_id=to))
    assert (await client.next("success")).request_id == 8
    assert client.order.index("close_consumer") < len(client.order) - 1
    await client.consumer(TOPIC)
    client.flow(10)
    assert await client.entries(2) == [2, 3]


async def test_a_seek_by_time_goes_to_what_was_stored_then(client, penstock):
    await publish(client, 2)
    await client.consumer(TOPIC)
    time_ms = penstock.server.clock.now_ms() + 60_000
    client.say(pb.CommandSeek(consumer_id=0, request_id=8, message_publish_time=time_ms))
    await client.next("success")
    await client.consumer(TOPIC)
    client.flow(10)
    await client.settled()
    assert client.none_of("message")


async def test_a_reader_lives_through_its_own_seek(client, connect, penstock):
    queue = await publish(client, 3)
    reader = await connect()
    await reader.consumer(TOPIC, "reader", durable=False)
    earliest = pb.MessageIdData(ledgerId=2**64 - 1, entryId=2**64 - 1)
    reader.say(pb.CommandSeek(consumer_id=0, request_id=8, message_id=earliest))
    await reader.next("success")
    stale = pb.MessageIdData(ledgerId=queue, entryId=2)  # some clients come back with the place of an earlier seek
    await reader.consumer(TOPIC, "reader", durable=False, start_message_id=stale)
    reader.flow(10)
    assert await reader.entries(3) == [0, 1, 2]


async def test_the_last_message(client):
    await client.consumer(TOPIC)

    async def last():
        client.say(pb.CommandGetLastMessageId(consumer_id=0, request_id=1))
        return (await client.next("getLastMessageIdResponse")).last_message_id

    assert (await last()).entryId == 2**64 - 1
    queue = await publish(client, 2)
    found = await last()
    assert (found.ledgerId, found.entryId, found.batch_index) == (queue, 1, -1)
    await client.producer(TOPIC, 9)
    await client.send(several([b"a", b"b"], 9), 9, 9, num_messages=2)
    assert (await last()).batch_index == 1


async def test_unsubscribing_forgets_and_is_for_the_last_one_alone(client, connect, penstock):
    await publish(client, 2)
    await client.consumer(TOPIC, subType=Shared)
    other = await connect()
    await other.consumer(TOPIC, subType=Shared)
    client.say(pb.CommandUnsubscribe(consumer_id=0, request_id=5))
    error = await client.next("error")
    assert (error.error, error.request_id) == (ServerError.MetadataError, 5)
    await other.close()
    await client.settled()
    client.say(pb.CommandUnsubscribe(consumer_id=0, request_id=6))
    assert (await client.next("success")).request_id == 6
    await client.consumer(TOPIC, initialPosition=Latest)
    client.flow(10)
    await client.settled()
    assert client.none_of("message")


async def test_a_closed_consumer_gives_its_messages_to_the_others(client, connect):
    await publish(client, 4)
    await client.consumer(TOPIC, subType=Shared)
    client.flow(4)
    await client.entries(4)
    other = await connect()
    await other.consumer(TOPIC, subType=Shared)
    other.flow(10)
    client.say(pb.CommandCloseConsumer(consumer_id=0, request_id=3))
    assert (await client.next("success")).request_id == 3
    assert await other.entries(4) == [0, 1, 2, 3]


async def test_what_came_with_a_consumer_that_is_not_there(client):
    client.flow(5)
    client.say(pb.CommandRedeliverUnacknowledgedMessages(consumer_id=0))
    client.say(pb.CommandCloseConsumer(consumer_id=0, request_id=3))
    assert (await client.next("success")).request_id == 3
    client.say(pb.CommandSeek(consumer_id=0, request_id=4))
    assert (await client.next("error")).error == ServerError.MetadataError


async def test_progress_survives_a_restart_also_beyond_the_mark(tmp_path):
    config = configure.load(None, {}, {"server": {"data": str(tmp_path), **dict.fromkeys(PORTS, 0)}})
    async with serving(config) as penstock, client_of(penstock) as client:
        queue = await publish(client, 5)
        await client.consumer(TOPIC, subType=Shared)
        client.flow(10)
        await client.entries(5)
        client.ack(queue, 0, 3)
        await client.settled()
    async with serving(config) as penstock:
        assert await reconnected(penstock, subType=Shared) == [1, 2, 4]


async def test_s37_a_topic_that_cannot_be_written_is_temporarily_unavailable(client, penstock):
    queue = await publish(client, 1)
    await client.consumer(TOPIC)
    client.flow(10)
    penstock.server.broker.store.sync_failed("the disk is gone")
    for error in (await client.not_a_consumer(TOPIC, "another", 1), await client.refused(f"{TOPIC}-2", 2)):
        assert error.error == ServerError.ServiceNotReady
        assert error.message.startswith("Topic is temporarily unavailable: ")
    assert await client.entries(1) == [0]  # reading goes on
    client.ack(queue, 0)


async def test_what_parts_of_a_message_have_in_common_takes_little():
    long = b"u" * 5_000_000
    assert chunked_as(b"a-1") == "a-1"
    assert len(chunked_as(long)) < 100
    assert chunked_as(long) == chunked_as(bytes(long)) != chunked_as(long + b"u")
