"""A client that speaks Pulsar's frames: as little between a test and the wire as there can be."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.gateway.pulsar.caller import Caller

from penstock.gateway.pulsar.connection import Connection
from penstock.server import GATEWAYS
from penstock.testing.server import Running, serving
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.batch import Message, batch_of, single_of
from penstock.wire.pulsar.commands_pb2 import BaseCommand, MessageMetadata
from penstock.wire.pulsar.frame import FIELDS, command, frames_in, pack, pack_head

FRAME_BYTES_MAX = 64 << 20


class Client:
    """One connection. What the broker says waits in `heard`, by the name of its field, until a test asks for it."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._requests = itertools.count(1)
        self._heard: dict[str, asyncio.Queue[Any]] = {}
        self.order: list[str] = []  # of all that was heard
        self.payloads: dict[int, bytes] = {}  # of messages, by entry
        self.answers_pings = True
        self.closed = asyncio.Event()
        self._task = asyncio.ensure_future(self._read())

    @classmethod
    async def to(cls, address: str) -> "Client":
        host, port = address.split(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def _read(self) -> None:
        data = b""
        try:
            while more := await self._reader.read(1 << 20):
                data += more
                frames, used = frames_in(memoryview(data), len(data), FRAME_BYTES_MAX)
                for frame in frames:
                    self._take(FIELDS[frame.type], frame.body, bytes(frame.payload))
                data = data[used:]
        except ConnectionError:
            pass
        self.closed.set()

    def _take(self, kind: str, body: Any, payload: bytes) -> None:
        if kind == "message":
            self.payloads[body.message_id.entryId] = payload
        self.order.append(kind)
        if kind == "ping" and self.answers_pings:
            self.say(pb.CommandPong())
        self._of(kind).put_nowait(body)

    def _of(self, kind: str) -> asyncio.Queue[Any]:
        return self._heard.setdefault(kind, asyncio.Queue())

    async def next(self, kind: str) -> Any:
        """The next of its kind that the broker says."""
        return await self._of(kind).get()

    def none_of(self, kind: str) -> bool:
        return self._of(kind).empty()

    # --- saying -------------------------------------------------------------------------------------------------------

    def say(self, body: Any) -> None:
        self._writer.write(pack(command(type_of(body), body)))

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def connect(self, version: int = 21) -> Any:
        self.say(pb.CommandConnect(client_version="a test", protocol_version=version))
        return await self.next("connected")

    def request(self) -> int:
        return next(self._requests)

    async def partitions(self, topic: str, **more: object) -> Any:
        self.say(pb.CommandPartitionedTopicMetadata(topic=topic, request_id=self.request(), **more))
        return await self.next("partitionMetadataResponse")

    async def lookup(self, topic: str, **more: object) -> Any:
        self.say(pb.CommandLookupTopic(topic=topic, request_id=self.request(), **more))
        return await self.next("lookupTopicResponse")

    async def topics(self, namespace: str = "public/default", **more: object) -> Any:
        self.say(pb.CommandGetTopicsOfNamespace(namespace=namespace, request_id=self.request(), **more))
        return await self.next("getTopicsOfNamespaceResponse")

    def ask_producer(self, topic: str, producer_id: int = 0, **more: object) -> int:
        request = self.request()
        self.say(pb.CommandProducer(topic=topic, producer_id=producer_id, request_id=request, **more))
        return request

    async def producer(self, topic: str, producer_id: int = 0, **more: object) -> Any:
        self.ask_producer(topic, producer_id, **more)
        return await self.next("producer_success")

    async def refused(self, topic: str, producer_id: int = 0, **more: object) -> Any:
        """The error that a producer gets."""
        self.ask_producer(topic, producer_id, **more)
        return await self.next("error")

    async def close_producer(self, producer_id: int = 0) -> Any:
        self.say(pb.CommandCloseProducer(producer_id=producer_id, request_id=self.request()))
        return await self.next("success")

    def ask_consumer(self, topic: str, subscription: str = "s", consumer_id: int = 0, **more: object) -> int:
        request = self.request()
        more.setdefault("subType", pb.CommandSubscribe.Exclusive)
        more.setdefault("initialPosition", pb.CommandSubscribe.Earliest)
        asked = pb.CommandSubscribe(
            topic=topic, subscription=subscription, consumer_id=consumer_id, request_id=request, **more
        )
        self.say(asked)
        return request

    async def consumer(self, topic: str, subscription: str = "s", consumer_id: int = 0, **more: object) -> Any:
        self.ask_consumer(topic, subscription, consumer_id, **more)
        return await self.next("success")

    async def not_a_consumer(self, topic: str, subscription: str = "s", consumer_id: int = 0, **more: object) -> Any:
        """The error that a consumer gets."""
        self.ask_consumer(topic, subscription, consumer_id, **more)
        return await self.next("error")

    async def close_consumer(self, consumer_id: int = 0) -> Any:
        self.say(pb.CommandCloseConsumer(consumer_id=consumer_id, request_id=self.request()))
        return await self.next("success")

    def flow(self, permits: int, consumer_id: int = 0) -> None:
        self.say(pb.CommandFlow(consumer_id=consumer_id, messagePermits=permits))

    async def entries(self, count: int) -> list[int]:
        """The entries of the next messages."""
        return [(await self.next("message")).message_id.entryId for _ in range(count)]

    async def settled(self) -> None:
        """Until the broker has done what was said so far, and has had a turn to push."""
        for _ in range(3):
            self.say(pb.CommandPing())
            await self.next("pong")

    def ack(self, queue: int, *entries: int, cumulative: bool = False, consumer_id: int = 0, **more: object) -> None:
        kind = pb.CommandAck.Cumulative if cumulative else pb.CommandAck.Individual
        ids = [pb.MessageIdData(ledgerId=queue, entryId=entry) for entry in entries]
        self.say(pb.CommandAck(consumer_id=consumer_id, ack_type=kind, message_id=ids, **more))

    def send_later(self, payload: bytes, sequence: int = 0, producer_id: int = 0, **more: object) -> None:
        self.write(send_frame(payload, sequence, producer_id, **more))

    async def send(self, payload: bytes, sequence: int = 0, producer_id: int = 0, **more: object) -> Any:
        self.send_later(payload, sequence, producer_id, **more)
        return await self.next("send_receipt")

    async def close(self) -> None:
        self._writer.close()
        await self._task


@contextlib.asynccontextmanager
async def client_of(penstock: Running, introduced: bool = True) -> AsyncIterator[Client]:
    client = await Client.to(penstock.addresses["pulsar"])
    if introduced:
        await client.connect()
    yield client
    await client.close()


_TYPES = {field.message_type.name: field.number for field in BaseCommand.DESCRIPTOR.fields if field.message_type}


def type_of(body: Any) -> int:
    return _TYPES[type(body).DESCRIPTOR.name]


def send_frame(payload: bytes, sequence: int = 0, producer_id: int = 0, **more: object) -> bytes:
    body = pb.CommandSend(producer_id=producer_id, sequence_id=sequence, **more)
    return pack_head(command(BaseCommand.SEND, body), len(payload)) + payload


def metadata(sequence: int = 0, name: str = "a", **more: object) -> MessageMetadata:
    return MessageMetadata(producer_name=name, sequence_id=sequence, publish_time=1_700_000_000_000, **more)


def one(body: bytes, sequence: int = 0, **more: object) -> bytes:
    """A message, as a producer sends it."""
    return single_of(metadata(sequence, **more), body)


def several(bodies: list[bytes], sequence: int = 0) -> bytes:
    messages = [Message(body=body, sequence=sequence + number) for number, body in enumerate(bodies)]
    return batch_of(metadata(sequence), messages)


def connections(penstock: Running) -> set[Connection]:
    """The broker's side of all that there are."""
    return set(penstock.server._listening[list(GATEWAYS).index("pulsar")].guests._present)


def stored(penstock: Running, topic: str, index: int = 0) -> list[bytes]:
    """What the log has in a queue, entry by entry."""
    broker = penstock.server.broker
    queue = broker.topics.get(topic).queue(index)
    batch = broker.fetcher.load_now(broker.fetcher.plan(queue, 0, 1_000_000, 1 << 30, None))
    assert batch is not None
    return [bytes(payload) for payload in batch.payloads]


@pytest.fixture
async def penstock() -> AsyncIterator[Running]:
    async with serving() as running:
        yield running


@pytest.fixture
async def connect(penstock: Running):
    """New connections, introduced already."""
    async with contextlib.AsyncExitStack() as stack:

        async def new(introduced: bool = True) -> Client:
            return await stack.enter_async_context(client_of(penstock, introduced))

        yield new


@pytest.fixture
async def client(connect) -> Client:
    return await connect()


@pytest.fixture
def http(penstock: Running) -> Caller:
    """The HTTP side."""
    return Caller(penstock)
