"""Producers: their names, their numbers on a connection, and who may write beside whom."""

import asyncio

import pytest
from tests.gateway.pulsar.conftest import client_of, connections, one

from penstock.core.authorizer import AllowAll
from penstock.core.topics import TopicSettings
from penstock.errors import NotAuthorized
from penstock.model import Action
from penstock.testing.server import serving
from penstock.wire.pulsar import commands_pb2 as pb

SHARED, EXCLUSIVE, WAIT, FENCE = pb.Shared, pb.Exclusive, pb.WaitForExclusive, pb.ExclusiveWithFencing


async def test_a_producer_makes_its_topic(client, penstock):
    success = await client.producer("orders")
    assert (success.request_id, success.last_sequence_id, success.producer_ready) == (1, -1, True)
    assert not success.HasField("topic_epoch")
    topic = penstock.server.broker.topics.get("orders")
    assert (topic.queue_count, topic.permissions) == (1, 6)


async def test_names_are_made_and_never_twice(client):
    names = {(await client.producer("orders", number)).producer_name for number in range(5)}
    assert len(names) == 5
    assert (await client.producer("orders", 9, producer_name="mine")).producer_name == "mine"


async def test_a_name_that_is_taken(client, connect):
    await client.producer("orders", producer_name="mine")
    other = await connect()
    error = await other.refused("orders", producer_name="mine")
    assert error.error == pb.ProducerBusy
    assert (await client.refused("orders", 1, producer_name="mine")).error == pb.ProducerBusy
    assert (await other.producer("payments", producer_name="mine")).producer_ready
    await client.close_producer()
    assert (await other.producer("orders", 1, producer_name="mine")).producer_ready


async def test_the_name_of_a_client_that_is_dead_is_free():
    """Its machine is gone and nobody has noticed: the connection stands, and nothing answers on it."""
    quickly = serving(pulsar={"liveness_timeout_ms": 50})
    async with quickly as penstock, client_of(penstock) as dead, client_of(penstock) as client:
        dead.answers_pings = False
        await dead.producer("orders", producer_name="mine")
        assert (await client.producer("orders", producer_name="mine")).producer_ready
        await dead.closed.wait()
        await client.send(one(b"x"))


async def test_a_connection_that_is_lost_frees_its_names(connect):
    first, second = await connect(), await connect()
    await first.producer("orders", producer_name="mine", producer_access_mode=EXCLUSIVE)
    await second.producer("orders", producer_access_mode=WAIT)
    first.write(b"\xff" * 8)  # breaks the framing
    success = await second.next("producer_success")
    assert (success.producer_ready, success.topic_epoch) == (True, 1)


# --- numbers ----------------------------------------------------------------------------------------------------------


async def test_the_same_number_again_gets_the_same_success(client):
    first = await client.producer("orders", producer_name="mine")
    again = await client.producer("orders", producer_name="mine")
    assert (again.producer_name, again.request_id) == ("mine", first.request_id + 1)


async def test_the_same_number_again_while_it_is_opened(client):
    """Both come with one read: the first is at work when the second is looked at."""
    client.ask_producer("orders")
    second = client.ask_producer("orders")
    error = await client.next("error")
    assert (error.request_id, error.error) == (second, pb.ServiceNotReady)
    assert error.message == "Producer is already present on the connection"
    assert (await client.next("producer_success")).request_id == 1


async def test_a_number_whose_producer_was_refused_is_free(client):
    assert (await client.refused("orders-partition-0")).error == pb.TopicNotFound
    assert (await client.producer("orders")).producer_ready


async def test_a_number_on_another_topic(client):
    await client.producer("orders")
    assert (await client.refused("payments")).error == pb.NotAllowedError


async def test_closing_succeeds_always(client):
    assert (await client.close_producer(77)).request_id == 1
    await client.producer("orders")
    await client.close_producer()
    await client.close_producer()


async def test_closing_while_it_is_opened_leaves_nothing_behind(client, penstock):
    client.ask_producer("orders", producer_name="mine")
    await client.close_producer()
    (connection,) = connections(penstock)
    while connection._tasks:  # until whatever was begun has ended
        await asyncio.sleep(0)
    queue = penstock.server.broker.topics.get("orders").queue(0)
    assert penstock.server.broker.producers.at(queue) == []
    assert client.none_of("producer_success")
    assert (await client.producer("orders", 1, producer_name="mine")).producer_ready


async def test_a_connection_has_so_many_producers():
    async with serving(pulsar={"producers_per_connection_max": 2}) as penstock, client_of(penstock) as client:
        await client.producer("orders", 0)
        await client.producer("orders", 1)
        assert (await client.refused("orders", 2)).error == pb.NotAllowedError


# --- alone ------------------------------------------------------------------------------------------------------------


async def test_who_is_alone_stays_alone(client, connect):
    alone = await client.producer("orders", producer_access_mode=EXCLUSIVE)
    assert alone.topic_epoch == 0
    other = await connect()
    assert (await other.refused("orders")).error == pb.ProducerBusy
    assert (await other.refused("orders", producer_access_mode=EXCLUSIVE)).error == pb.ProducerFenced
    await client.close_producer()
    assert (await other.producer("orders")).topic_epoch == 0


async def test_who_waits_is_told_twice(client, connect):
    await client.producer("orders")
    waiting = await connect()
    first = await waiting.producer("orders", producer_access_mode=WAIT)
    assert not first.producer_ready
    assert (await waiting.refused("orders", producer_access_mode=WAIT)).error == pb.ServiceNotReady
    await client.close_producer()
    second = await waiting.next("producer_success")
    assert (second.producer_ready, second.topic_epoch, second.request_id) == (True, 0, first.request_id)
    await waiting.send(one(b"x"))


async def test_who_fences_takes_over(client, connect):
    writer, waiting = client, await connect()
    await writer.producer("orders", 5)
    await waiting.producer("orders", 6, producer_access_mode=WAIT)
    fencing = await connect()
    taken = await fencing.producer("orders", producer_access_mode=FENCE)
    assert (taken.producer_ready, taken.topic_epoch) == (True, 0)
    closing = await writer.next("close_producer")
    assert (closing.producer_id, closing.request_id) == (5, 2**64 - 1)
    assert (await waiting.next("error")).error == pb.ProducerFenced
    await fencing.send(one(b"x"))


async def test_who_was_fenced_stays_so(client, connect):
    first = await client.producer("orders", producer_access_mode=EXCLUSIVE)
    other = await connect()
    await other.producer("orders", producer_access_mode=FENCE)
    await client.next("close_producer")
    await other.close_producer()
    back = {"producer_access_mode": EXCLUSIVE, "topic_epoch": first.topic_epoch}
    assert (await client.refused("orders", **back)).error == pb.ProducerFenced


async def test_what_was_on_its_way_from_a_closed_producer_is_passed_over(client, connect):
    await client.producer("orders")
    other = await connect()
    await other.producer("orders", producer_access_mode=FENCE)
    await client.next("close_producer")
    client.send_later(one(b"too late"))
    client.say(pb.CommandPing())
    await client.next("pong")
    assert client.none_of("send_receipt")
    assert not client.closed.is_set()


async def test_a_seat_is_left_when_the_client_goes_while_it_waits(client, connect):
    await client.producer("orders", producer_access_mode=EXCLUSIVE)
    gone, next_one = await connect(), await connect()
    await gone.producer("orders", producer_access_mode=WAIT)
    await next_one.producer("orders", producer_access_mode=WAIT)
    await gone.close()
    await client.close_producer()
    assert (await next_one.next("producer_success")).producer_ready


# --- refused ----------------------------------------------------------------------------------------------------------


async def test_permissions_that_rocketmqs_tools_gave_hold_here(client, penstock):
    await penstock.server.broker.topics.create("theirs", TopicSettings(write_queues=2, permissions=4))
    refused = await client.refused("theirs-partition-0")
    assert (refused.error, "written" in refused.message) == (pb.NotAllowedError, True)
    assert (await client.refused("theirs")).error == pb.NotAllowedError  # it names no partition
    assert (await client.refused("penstock_events-partition-0")).error == pb.NotAllowedError


async def test_a_producer_can_have_a_subscription_made_from_the_beginning(client):
    await client.producer("orders", 1)
    await client.send(one(b"before"), 0, 1)
    await client.producer("orders", 2, initial_subscription_name="kept")
    await client.producer("orders", 3, initial_subscription_name="kept")
    await client.consumer("orders", "kept", initialPosition=pb.CommandSubscribe.Latest)
    client.flow(10)
    assert await client.entries(1) == [0]
    assert (await client.refused("orders", 4, initial_subscription_name="pulsar.dedup")).error == pb.ProducerBusy


async def test_a_name_that_is_none(client):
    assert (await client.refused("orders", producer_name="x" * 2_000)).error == pb.NotAllowedError
    asked = pb.CommandProducer(topic="orders", producer_id=0, request_id=9, producer_name="ab").SerializeToString()
    client.say(pb.CommandProducer.FromString(asked.replace(b"ab", b"\xff\xfe")))
    assert (await client.next("error")).error == pb.NotAllowedError


@pytest.mark.parametrize("topic", ["spa ce", "tab\there"])
async def test_names_that_no_topic_can_have(client, topic):
    assert (await client.refused(topic)).error == pb.InvalidTopicName


async def test_who_may_not_produce(monkeypatch):
    def check(self, who, action, resource):
        if action is Action.PRODUCE:
            raise NotAuthorized(who, action, resource)

    monkeypatch.setattr(AllowAll, "check", check)
    async with serving() as penstock, client_of(penstock) as client:
        assert (await client.refused("orders")).error == pb.AuthorizationError
        assert (await client.partitions("orders")).partitions == 0
