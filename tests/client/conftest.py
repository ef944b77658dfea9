"""A broker in this process, and a producer that talks to it through a real socket."""

import pytest

from penstock.client.producer import Producer
from penstock.testing.server import serving


@pytest.fixture
async def penstock():
    async with serving() as running:
        yield running


@pytest.fixture
async def producer(penstock):
    async with Producer(penstock.addresses["namesrv"], "tests") as producer:
        yield producer
