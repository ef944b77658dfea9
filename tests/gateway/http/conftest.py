"""An HTTP gateway on a socket of its own, with stand-ins for the core, and a client that speaks bytes."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import NamedTuple

import pytest

from penstock.config import HttpConfig
from penstock.errors import NotAuthorized
from penstock.gateway.http import http_gateway
from penstock.gateway.http.messages import Request, in_json
from penstock.gateway.http.routes import Router, by_path


class Doorman:
    """Remembers what was asked; refuses everything once told to."""

    def __init__(self):
        self.asked, self.refuses = [], False

    def check(self, principal, action, resource):
        self.asked.append((principal, action, resource))
        if self.refuses:
            raise NotAuthorized(principal, action, resource)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def reason(self) -> str:
        return json.loads(self.body)["reason"]


class Caller:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter):
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def answer(self, body: bool = True) -> Answer:
        head = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = head.decode("ascii").split("\r\n")[:-2]
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        length = int(headers.get("content-length", 0)) if body else 0
        return Answer(int(first.split()[1]), headers, await self.reader.readexactly(length))

    async def rest(self) -> bytes:
        """All until the other side closes."""
        return await self.reader.read()

    async def ask(self, path: str, method: str = "GET") -> Answer:
        await self.send(f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return await self.answer(body=method != "HEAD")


class House:
    """The gateway, what it stands on, and callers to it."""

    def __init__(self, config: HttpConfig):
        self.doorman, self.figures, self.obstacle, self.settled = Doorman(), [], "", 0
        self.router = Router(self.doorman, lambda: self.figures, lambda: self.obstacle, self.settle)
        self.gateway = http_gateway(self.router, config)
        self.stack = contextlib.AsyncExitStack()
        self.port = 0

    def settle(self) -> None:
        self.settled += 1

    async def call(self) -> Caller:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.stack.callback(writer.close)
        return Caller(reader, writer)

    def add_route(self, route) -> None:
        self.router._routes |= by_path(route)


@contextlib.asynccontextmanager
async def opened(config: HttpConfig) -> AsyncIterator[House]:
    house = House(config)
    server = await asyncio.get_running_loop().create_server(house.gateway.connect, "127.0.0.1", 0)
    house.port = server.sockets[0].getsockname()[1]
    async with house.stack:
        yield house
        server.close()
        await house.gateway.guests.see_off(0)


@pytest.fixture
def open_house():
    """Opens a house with the settings that a test wants."""
    return lambda **settings: opened(HttpConfig(**settings))


@pytest.fixture
async def house():
    async with opened(HttpConfig()) as house:
        yield house


class Held:
    """A handler that says when it was entered and answers when it is told to."""

    def __init__(self):
        self.entered, self.release = asyncio.Event(), asyncio.Event()
        self.seen: list[Request] = []

    async def __call__(self, request):
        self.seen.append(request)
        self.entered.set()
        await self.release.wait()
        return in_json({"length": len(request.body)})


@pytest.fixture
async def held():
    return Held()
