"""Topics are terminated over HTTP: seen by producers and consumers frame by frame, and by the client for Python."""

import asyncio

import pulsar
import pytest
from tests.gateway.pulsar.caller import Caller
from tests.gateway.pulsar.conftest import client_of, one
from tests.gateway.pulsar.test_consumers import TOPIC, publish
from tests.gateway.pulsar.test_python_client import connected

from penstock import configure
from penstock.testing.server import PORTS, serving
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.commands_pb2 import ServerError

TERMINATE = "/admin/v2/persistent/public/default/orders/terminate"


async def test_the_answer_is_the_last_id_and_nothing_is_taken_any_more(http, client):
    queue = await publish(client, 3)
    last = (await http("POST", TERMINATE)).json
    assert last == {"ledgerId": queue, "entryId": 2, "partitionIndex": -1}
    error = await client.refused(TOPIC, 7)
    assert error.error == ServerError.TopicTerminatedError
    assert (await http("POST", TERMINATE)).json == last
    assert (await http.of("orders", "/internalStats"))["state"] == "Terminated"


async def test_a_producer_that_is_there_is_sent_away(http, client):
    await client.producer(TOPIC, 1)
    assert (await http("POST", TERMINATE)).json["entryId"] == -1
    assert (await client.next("close_producer")).producer_id == 1
    client.send_later(one(b"on its way"), producer_id=1)
    assert (await client.refused(TOPIC, 2)).error == ServerError.TopicTerminatedError
    assert client.none_of("send_receipt")


async def test_consumers_hear_of_the_end_when_all_is_acknowledged(http, client):
    queue = await publish(client, 2)
    await client.consumer(TOPIC)
    client.flow(10)
    await client.entries(2)
    await http("POST", TERMINATE)
    client.ack(queue, 1)
    await client.settled()
    assert client.none_of("reachedEndOfTopic")
    client.ack(queue, 0)
    assert (await client.next("reachedEndOfTopic")).consumer_id == 0
    await client.consumer(TOPIC, "another", 1, initialPosition=pb.CommandSubscribe.Latest)
    assert (await client.next("reachedEndOfTopic")).consumer_id == 1
    await client.settled()
    assert client.none_of("reachedEndOfTopic")  # each hears of it once


@pytest.mark.parametrize("name", ["Pulsar-CPP-v3.5.1", "Pulsar-Go-0.14"])
async def test_clients_that_do_not_know_of_an_end_are_not_told(http, connect, name):
    client = await connect(introduced=False)
    client.say(pb.CommandConnect(client_version=name, protocol_version=21))
    await client.next("connected")
    await client.consumer(TOPIC)
    await http("POST", TERMINATE)
    await client.settled()
    assert client.none_of("reachedEndOfTopic")


async def test_partitions_are_ended_together_or_one_by_one(http, client):
    await http.topic("PUT", "parts", "/partitions", 2)
    path = "/admin/v2/persistent/public/default/parts"
    assert (await http("POST", f"{path}/terminate")).status == 405
    alone = await http("POST", f"{path}-partition-1/terminate")
    assert (alone.json["partitionIndex"], alone.json["entryId"]) == (1, -1)
    await client.producer("persistent://public/default/parts-partition-0")
    ended = (await http("POST", f"{path}/terminate/partitions")).json
    assert {number: id["partitionIndex"] for number, id in ended.items()} == {"0": 0, "1": 1}
    await client.next("close_producer")
    assert (await http("POST", f"{path}-partition-0/terminate/partitions")).status == 405


async def test_an_end_is_an_end_after_a_restart(tmp_path):
    config = configure.load(None, {}, {"server": {"data": str(tmp_path), **dict.fromkeys(PORTS, 0)}})
    async with serving(config) as penstock, client_of(penstock) as client:
        await publish(client, 1)
        await Caller(penstock)("POST", TERMINATE)
    async with serving(config) as penstock, client_of(penstock) as client:
        assert (await client.refused(TOPIC)).error == ServerError.TopicTerminatedError
        await client.consumer(TOPIC)
        client.flow(1)
        assert await client.entries(1) == [0]


async def test_pulsars_client_is_told_in_its_own_words(penstock, http, tmp_path):
    def produce_until_the_end():
        with connected(penstock, tmp_path) as client:
            producer = client.create_producer("orders")
            producer.send(b"before")
            ended = asyncio.run_coroutine_threadsafe(http("POST", TERMINATE), loop).result()
            assert ended.status == 200
            with pytest.raises(pulsar.PulsarException):
                producer.send(b"after")
            with pytest.raises(pulsar.TopicTerminated):
                client.create_producer("orders")
            reader = client.create_reader("orders", pulsar.MessageId.earliest)
            assert reader.read_next(10_000).data() == b"before"
            assert not reader.has_message_available()

    loop = asyncio.get_running_loop()
    await asyncio.to_thread(produce_until_the_end)
