"""Whoever asks Pulsar's HTTP side: one request, one answer, over a real connection."""

import asyncio
import http.client
import json
from typing import Any, NamedTuple
from urllib.parse import quote

from penstock.testing.server import Running

TIMEOUT_S = 30


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def reason(self) -> str:
        return self.json["reason"]


def ask(address: str, method: str, path: str, body: object = None, **headers: str) -> Answer:
    """A body that is bytes is sent as it is, anything else as JSON."""
    connection = http.client.HTTPConnection(address, timeout=TIMEOUT_S)
    data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
    try:
        connection.request(method, path, data, headers)
        answer = connection.getresponse()
        return Answer(answer.status, {key.lower(): value for key, value in answer.getheaders()}, answer.read())
    finally:
        connection.close()


class Caller:
    """`topic` and `namespace` stand in front of their paths."""

    def __init__(self, penstock: Running) -> None:
        self.address = penstock.addresses["http"]

    async def __call__(self, method: str, path: str, body: object = None, **headers: str) -> Answer:
        return await asyncio.to_thread(ask, self.address, method, path, body, **headers)

    async def topic(self, method: str, topic: str, rest: str = "", body: object = None) -> Answer:
        """A topic of public/default."""
        return await self(method, f"/admin/v2/persistent/public/default/{quote(topic, safe='')}{rest}", body)

    async def of(self, topic: str, rest: str) -> Any:
        """What is told of a topic."""
        answer = await self.topic("GET", topic, rest)
        assert answer.status == 200, answer
        return answer.json
