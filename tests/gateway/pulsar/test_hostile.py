"""Connections that are slow, silent, broken or many: they are bounded, and nobody else notices."""

import asyncio
import contextlib
import random
import socket

from tests.gateway.pulsar.conftest import client_of, connections, one, send_frame

from penstock.gateway.pulsar import connection as pulsar_connection
from penstock.testing.server import serving
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.commands_pb2 import BaseCommand
from penstock.wire.pulsar.frame import command, pack

MIB = 1 << 20
PING = pack(command(BaseCommand.PING, pb.CommandPing()))


def small_socket(address: str) -> socket.socket:
    """One that takes little before it is full."""
    host, port = address.split(":")
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    made.connect((host, int(port)))
    return made


async def test_who_takes_nothing_is_not_read_from():
    """It asks and asks and does not read: it is not answered for ever, and others are served."""
    async with serving() as penstock, client_of(penstock) as other:
        before = connections(penstock)
        _, writer = await asyncio.open_connection(sock=small_socket(penstock.addresses["pulsar"]), limit=1)
        writer.write(pack(command(BaseCommand.CONNECT, pb.CommandConnect(client_version="deaf"))))
        while len(connections(penstock)) < 2:
            await asyncio.sleep(0)
        (deaf,) = connections(penstock) - before
        asked = pb.CommandLookupTopic(topic="x", request_id=1, advertised_listener_name="y" * 10_000)  # it comes back
        lookup = pack(command(BaseCommand.LOOKUP, asked))
        while not deaf._read_paused:
            writer.write(lookup * 10)
            await asyncio.sleep(0)
        assert (await other.lookup("orders")).response == pb.CommandLookupTopicResponse.Connect
        writer.transport.abort()


async def test_who_does_not_take_what_it_is_told_is_closed(monkeypatch):
    monkeypatch.setattr(pulsar_connection, "WAITING_BYTES_MAX", 100_000)
    async with serving() as penstock, client_of(penstock) as client:
        connection = next(iter(connections(penstock)))
        connection.write_all([bytes(60_000), bytes(60_000)])
        await client.closed.wait()


async def test_a_large_frame_is_held_as_far_as_it_has_come():
    """The length that it claims costs nothing."""
    async with serving(pulsar={"receive_bytes_max": MIB}) as penstock, client_of(penstock) as client:
        await client.producer("orders")
        payload = one(bytes(4 * MIB))
        frame = send_frame(payload)
        client.write(frame[: 400 * 1024])
        client.write(frame[400 * 1024 :])
        await client.closed.wait()  # it grew beyond what all together may hold
    async with serving() as penstock, client_of(penstock) as client:
        await client.producer("orders")
        client.write(frame)
        await client.next("send_receipt")


async def test_any_bytes_close_at_worst_their_own_connection():
    chance = random.Random(7)
    good = pack(command(BaseCommand.CONNECT, pb.CommandConnect(client_version="odd"))) + PING + send_frame(one(b"x"))
    async with serving() as penstock, client_of(penstock) as other:
        for _ in range(150):
            data = bytearray(good)
            for _ in range(chance.randrange(1, 6)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            async with client_of(penstock, introduced=False) as client:
                client.write(bytes(data))
        assert (await other.lookup("orders")).response == pb.CommandLookupTopicResponse.Connect


async def test_sends_that_are_not_answered_are_bounded(monkeypatch):
    """While the disk takes its time no more is read than that; then it goes on."""
    monkeypatch.setattr(pulsar_connection, "UNDER_WAY_MAX", 100)
    async with serving() as penstock, client_of(penstock) as client:
        await client.producer("orders")
        waiting, when_durable = [], penstock.server.broker.keeper.when_durable

        def held(position, then):
            waiting.append((position, then))

        with monkeypatch.context() as patch:
            patch.setattr(penstock.server.broker.keeper, "when_durable", held)
            for number in range(3_000):
                client.write(send_frame(one(bytes(1_000), number), number))
            connection = next(iter(connections(penstock)))
            while not connection._read_paused:
                await asyncio.sleep(0)
            assert connection.under_way < 1_000
        for position, then in waiting:
            when_durable(position, then)
        receipts = [await client.next("send_receipt") for _ in range(3_000)]
        assert [receipt.sequence_id for receipt in receipts] == list(range(3_000))


async def test_a_connection_that_is_silent_costs_little():
    """The buffer is everybody's: a thousand of them need no megabytes of it."""
    async with serving() as penstock, contextlib.AsyncExitStack() as stack:
        for _ in range(200):
            await stack.enter_async_context(client_of(penstock))
        present = connections(penstock)
        assert len(present) == 200
        assert all(connection._inbox._own is None for connection in present)
