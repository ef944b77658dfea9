"""A client that speaks frames: as little between a test and the wire as there can be."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator

import pytest

from penstock.core.events import Event
from penstock.testing.server import Running, serving
from penstock.wire.rocketmq.codes import Flag, PullFlag, RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import JSON, Frame, frames_in, pack
from penstock.wire.rocketmq.record import Message, messages_in


class Client:
    """One connection. Requests are answered in any order; what the broker says by itself is in `pushed`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._opaque = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Frame]] = {}
        self.pushed: asyncio.Queue[Frame] = asyncio.Queue()
        self.closed = asyncio.Event()
        self._task = asyncio.ensure_future(self._read())

    @classmethod
    async def to(cls, address: str) -> "Client":
        host, port = address.split(":")
        return cls(*await asyncio.open_connection(host, int(port)))

    async def _read(self) -> None:
        data = b""
        while more := await self._reader.read(1 << 20):
            data += more
            frames, used = frames_in(memoryview(data), len(data))
            data = data[used:]
            for frame in frames:
                waiting = self._waiting.pop(frame.opaque, None) if frame.is_response else None
                if waiting is not None:
                    waiting.set_result(frame)
                else:
                    self.pushed.put_nowait(frame)
        self.closed.set()

    def ask(
        self,
        code: int,
        ext: dict[str, object] | None = None,
        body: bytes = b"",
        form: int = JSON,
        flag: int = 0,
        version: int = 409,
    ) -> "asyncio.Future[Frame]":
        opaque = next(self._opaque)
        future: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        self._waiting[opaque] = future
        fields = {key: str(value) for key, value in (ext or {}).items()}
        self._writer.write(pack(code, opaque, flag, version, form, "", fields, body))
        return future

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    def answer(self, asked: Frame, body: bytes) -> None:
        """Answer what the broker asked."""
        self._writer.write(pack(ResponseCode.SUCCESS, asked.opaque, Flag.RESPONSE, 409, JSON, "", {}, body))

    async def send(self, topic: str, body: bytes, queue: int = 0, properties: str = "", **ext: object) -> Frame:
        fields = {"a": "producers", "b": topic, "c": "TBW102", "d": 4, "e": queue, "f": 0, "g": 1, "h": 0}
        return await self.ask(RequestCode.SEND_MESSAGE_V2, {**fields, "i": properties, **ext}, body)

    async def heartbeat(
        self, group: str, client_id: str, version: int, topics: dict[str, str], release: int = 409, **more: object
    ) -> Frame:
        subscriptions = [{"topic": topic, "subString": tags, "subVersion": version} for topic, tags in topics.items()]
        consumer = {"groupName": group, "subscriptionDataSet": subscriptions, **more}
        body = json.dumps({"clientID": client_id, "consumerDataSet": [consumer]}).encode()
        return await self.ask(RequestCode.HEART_BEAT, {}, body, version=release)

    def pull(
        self, group: str, topic: str, queue: int, offset: int, version: int = 0, wait_ms: int = 0, **ext: object
    ) -> "asyncio.Future[Frame]":
        fields = {
            "consumerGroup": group,
            "topic": topic,
            "queueId": queue,
            "queueOffset": offset,
            "maxMsgNums": 32,
            "sysFlag": PullFlag.SUSPEND if wait_ms else 0,
            "commitOffset": 0,
            "suspendTimeoutMillis": wait_ms,
            "subVersion": version,
        }
        return self.ask(RequestCode.PULL_MESSAGE, {**fields, **ext})

    async def messages(self, topic: str, queue: int = 0, offset: int = 0, tags: str = "*") -> list[Message]:
        """All messages of a queue, without being in a group."""
        found: list[Message] = []
        while True:
            ext = {"sysFlag": PullFlag.SUBSCRIPTION, "subscription": tags}
            answer = await self.pull("nobody", topic, queue, offset, **ext)
            if answer.code == ResponseCode.PULL_NOT_FOUND:
                return found
            found += messages_in(answer.body)
            offset = int(answer.ext["nextBeginOffset"])

    async def close(self) -> None:
        self._writer.close()
        await self._task


@pytest.fixture
async def penstock() -> AsyncIterator[Running]:
    async with serving() as running:
        yield running


@pytest.fixture
async def connect(penstock: Running):
    clients: list[Client] = []

    async def new(where: str = "broker") -> Client:
        clients.append(await Client.to(penstock.addresses[where]))
        return clients[-1]

    yield new
    for client in clients:
        await client.close()


@pytest.fixture
async def client(connect) -> Client:
    return await connect()


@pytest.fixture
def told(penstock: Running) -> list[Event]:
    """Every event, in order."""
    heard: list[Event] = []
    penstock.server.broker.bus.listen(heard.append)
    return heard


@pytest.fixture
async def open_world(tmp_path):
    from tests.gateway.rocketmq.world import World  # it needs Client

    worlds: list[World] = []

    async def opened(**settings: int):
        worlds.append(World(str(tmp_path), **settings))
        await worlds[-1].open()
        return worlds[-1]

    yield opened
    for world in worlds:
        await world.close()


@pytest.fixture
async def world(open_world):
    return await open_world()
