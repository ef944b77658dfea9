"""A cluster that does what a test says: one name server and some brokers, each a socket on loopback.

async with cluster("broker-a", "broker-b") as fake:
    fake.answers["broker-a"] = lambda frame: refused(14, "the disk is full")
    ... Producer(fake.namesrv) ...
    fake.asked["broker-a"]                     # the frames that came, heartbeats and farewells left out

"broker-a/1" is a slave of broker-a. One that is in `fake.gone` is not told of by the name server any more.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import msgspec

from penstock.wire.rocketmq.codes import Flag, RequestCode
from penstock.wire.rocketmq.frame import Frame, frames_in, pack

QUEUES = 2
QUIET = (RequestCode.HEART_BEAT, RequestCode.UNREGISTER_CLIENT)

Reply = tuple[int, str, dict[str, str]] | None  # code, remark, fields; None: no answer at all
Answers = Callable[[Frame], Reply]


def stored(frame: Frame) -> Reply:
    return 0, "", {"msgId": "7F000001000074B40000000000000000", "queueId": frame.ext["e"], "queueOffset": "0"}


def refused(code: int, remark: str) -> Reply:
    return code, remark, {}


class Server:
    """One socket."""

    def __init__(self, answer: Callable[[Frame], tuple[int, str, dict[str, str], bytes] | None]) -> None:
        self._answer, self._writers, self._tasks = answer, set[asyncio.StreamWriter](), set[asyncio.Task[None]]()
        self._server: asyncio.Server | None = None
        self.port = 0

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accepted, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Gone, with all its connections; its port stays known."""
        if self._server:
            self._server.close()
            self.hang_up()
            await self._server.wait_closed()
            await asyncio.gather(*self._tasks)
            self._server = None

    def hang_up(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        buffer = b""
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                buffer += data
                frames, used = frames_in(memoryview(buffer), len(buffer))
                buffer = buffer[used:]
                for frame in frames:
                    answer = self._answer(frame)
                    if answer is not None and not frame.oneway:
                        code, remark, ext, body = answer
                        writer.write(pack(code, frame.opaque, Flag.RESPONSE, 409, frame.form, remark, ext, body))
        self._writers.discard(writer)
        writer.close()


class FakeCluster:
    def __init__(self, *names: str) -> None:
        self.answers: dict[str, Answers] = dict.fromkeys(names, stored)
        self.asked: dict[str, list[Frame]] = {name: [] for name in names}
        self.brokers = {name: Server(lambda frame, name=name: self._broker(name, frame)) for name in names}
        self._names = Server(self._route)
        self.routes_asked = 0
        self.gone: set[str] = set()
        self.order = ""

    @property
    def namesrv(self) -> str:
        return f"127.0.0.1:{self._names.port}"

    @property
    def name_server(self) -> Server:
        return self._names

    def _broker(self, name: str, frame: Frame) -> tuple[int, str, dict[str, str], bytes] | None:
        if frame.code in QUIET:
            return 0, "", {}, b""
        frame.body = memoryview(bytes(frame.body))
        self.asked[name].append(frame)
        reply = self.answers[name](frame)
        return None if reply is None else (*reply, b"")

    def _route(self, frame: Frame) -> tuple[int, str, dict[str, str], bytes]:
        self.routes_asked += 1
        addresses = self._addresses()
        route: dict[str, object] = {
            "queueDatas": [
                {"brokerName": name, "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6} for name in addresses
            ],
            "brokerDatas": [
                {"brokerName": name, "brokerAddrs": found, "cluster": "C"} for name, found in addresses.items()
            ],
        }
        if self.order:
            route["orderTopicConf"] = self.order
        return 0, "", {}, msgspec.json.encode(route)

    def _addresses(self) -> dict[str, dict[str, str]]:
        """By broker and number."""
        found: dict[str, dict[str, str]] = {}
        for name, server in self.brokers.items():
            broker, _, number = name.partition("/")
            if name not in self.gone:
                found.setdefault(broker, {})[number or "0"] = f"127.0.0.1:{server.port}"
        return found


@contextlib.asynccontextmanager
async def cluster(*names: str) -> AsyncIterator[FakeCluster]:
    fake = FakeCluster(*names)
    servers = [*fake.brokers.values(), fake.name_server]
    for server in servers:
        await server.start()
    try:
        yield fake
    finally:
        for server in servers:
            await server.stop()
