"""A client of each protocol at one broker."""

import pytest
from tests.gateway.pulsar.conftest import Client as PulsarClient
from tests.gateway.rocketmq.conftest import Client as RocketmqClient

from penstock.testing.server import serving


class Both:
    """One broker, its clock if a test owns it, and who talks to it."""

    def __init__(self, penstock) -> None:
        self.penstock, self.broker = penstock, penstock.server.broker
        self.pulsar: PulsarClient
        self.rocketmq: RocketmqClient

    async def connect(self) -> "Both":
        self.pulsar = await PulsarClient.to(self.penstock.addresses["pulsar"])
        await self.pulsar.connect()
        self.rocketmq = await RocketmqClient.to(self.penstock.addresses["broker"])
        return self

    async def close(self) -> None:
        await self.pulsar.close()
        await self.rocketmq.close()


@pytest.fixture
async def both():
    async with serving() as running:
        world = await Both(running).connect()
        yield world
        await world.close()
