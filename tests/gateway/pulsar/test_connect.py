"""How a connection begins, stays alive and ends."""

import asyncio

import pytest
from tests.gateway.pulsar.conftest import client_of, one, send_frame

from penstock.testing.server import serving
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.commands_pb2 import BaseCommand
from penstock.wire.pulsar.frame import command, pack

CONNECT = pack(command(BaseCommand.CONNECT, pb.CommandConnect(client_version="a test", protocol_version=21)))
LOOKUP = pack(command(BaseCommand.LOOKUP, pb.CommandLookupTopic(topic="orders", request_id=1)))


@pytest.mark.parametrize(("theirs", "both"), [(20, 20), (21, 21), (99, 21), (0, 0)])
async def test_both_go_by_the_lower_version(connect, theirs, both):
    client = await connect(introduced=False)
    connected = await client.connect(theirs)
    assert connected.protocol_version == both


async def test_what_a_client_is_told(connect):
    client = await connect(introduced=False)
    connected = await client.connect()
    flags = connected.feature_flags
    assert connected.server_version.startswith("Penstock")
    assert connected.max_message_size == 5 * 1024 * 1024
    assert flags.supports_topic_watchers
    assert flags.supports_get_partitioned_metadata_without_auto_creation
    assert not flags.supports_broker_entry_metadata


@pytest.mark.parametrize(
    "data",
    [
        LOOKUP,
        send_frame(one(b"x")),
        pack(command(BaseCommand.PING, pb.CommandPing())),
        CONNECT + CONNECT,
        CONNECT + pack(command(BaseCommand.CONNECTED, pb.CommandConnected(server_version="me"))),
        CONNECT + pack(command(BaseCommand.AUTH_RESPONSE, pb.CommandAuthResponse())),
        CONNECT + send_frame(one(b"x")),
        b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
        CONNECT + b"\0\0\0\x06\0\0\0\x02\x08\x63",
    ],
    ids=["lookup", "send", "ping", "twice", "broker's", "auth", "no producer", "http", "type"],
)
async def test_what_is_out_of_place_closes_the_connection(connect, data):
    client = await connect(introduced=False)
    client.write(data)
    await client.closed.wait()


async def test_frames_that_come_byte_by_byte(connect):
    client = await connect(introduced=False)
    for byte in CONNECT + LOOKUP:
        client.write(bytes((byte,)))
        await asyncio.sleep(0)
    assert (await client.next("lookupTopicResponse")).request_id == 1


async def test_a_ping_is_answered(client):
    client.say(pb.CommandPing())
    await client.next("pong")


async def test_who_does_not_answer_is_gone():
    async with serving(pulsar={"keep_alive_ms": 50}) as penstock, client_of(penstock, introduced=False) as client:
        client.answers_pings = False
        await client.connect()
        await client.next("ping")
        await client.closed.wait()


async def test_who_answers_stays():
    async with serving(pulsar={"keep_alive_ms": 30}) as penstock, client_of(penstock) as client:
        for _ in range(5):
            await client.next("ping")
        assert (await client.lookup("orders")).response == pb.CommandLookupTopicResponse.Connect


async def test_who_does_not_say_its_name_is_gone():
    async with serving(pulsar={"keep_alive_ms": 50}) as penstock, client_of(penstock, introduced=False) as client:
        await client.closed.wait()
        assert client.order == []


async def test_a_connection_too_many_is_closed():
    one_at_a_time = serving(pulsar={"connections_max": 1})
    async with one_at_a_time as penstock, client_of(penstock), client_of(penstock, introduced=False) as second:
        await second.closed.wait()


async def test_a_frame_larger_than_a_message_may_be_closes_the_connection(connect):
    client = await connect()
    client.write((5 * 1024 * 1024 + 10 * 1024 + 1).to_bytes(4, "big") + bytes(4))
    await client.closed.wait()


@pytest.mark.parametrize(
    "kind",
    [
        "newTxn",
        "addPartitionToTxn",
        "addSubscriptionToTxn",
        "endTxn",
        "endTxnOnPartition",
        "endTxnOnSubscription",
        "tcClientConnectRequest",
    ],
)
async def test_transactions_are_refused_at_once(client, kind):
    asked = BaseCommand(type=BaseCommand.DESCRIPTOR.fields_by_name[kind].number)
    getattr(asked, kind).request_id = 77
    client.write(pack(asked))
    error = await client.next("error")
    assert (error.request_id, error.error) == (77, pb.NotAllowedError)
    assert error.message == "Transactions are not enabled."
