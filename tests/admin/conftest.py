"""A broker in the test's loop, an engine on it, and groups to look at."""

import pytest

from penstock.admin.engine import opened
from penstock.client import positions
from penstock.client.instance import Instance
from penstock.client.message import Message
from penstock.client.producer import Producer
from penstock.client.reading import Source, Steps, Wanted
from penstock.client.routes import MessageQueue
from penstock.testing.server import serving
from penstock.wire.rocketmq.bodies import QueueName, table
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode


@pytest.fixture
async def penstock():
    async with serving() as running:
        yield running


@pytest.fixture
async def engine(penstock):
    async with opened(f"rocketmq://{penstock.addresses['namesrv']}") as engine:
        yield engine


@pytest.fixture
async def producer(penstock):
    async with Producer(penstock.addresses["namesrv"], "tests") as producer:
        yield producer


@pytest.fixture
async def orders(engine, producer):
    """A topic with two queues, ten messages in each; the first queue."""
    await engine.create_topic("orders", 2, "rw")
    queues = await producer.queues("orders")
    for number in range(10):
        for queue in queues:
            await producer.send(Message("orders", b"%d" % number, keys=f"k{number}"), queue)
    return queues[0]


@pytest.fixture
def commit(producer):
    async def commit(queue: MessageQueue, offset: int, group: str = "readers") -> None:
        await positions.commit(producer.instance.cluster, group, queue, offset)

    return commit


class Instanced:
    """A consumer that does what it is told by a test: it is online, it says what it has, it pulls."""

    def __init__(self, servers: str, group: str, broadcast: bool, offsets: dict[MessageQueue, int]) -> None:
        self.group, self.producer_group, self.topics, self.offsets = group, "", {"orders"}, offsets
        self._model = "BROADCASTING" if broadcast else "CLUSTERING"
        self.instance = Instance(servers, f"{group}@{id(self)}")
        self.told: list[int] = []

    async def join(self) -> None:
        self.instance.join(self)
        await self.instance.refresh()
        await self.instance.heartbeat()

    def consumer_data(self):
        subscribed = [{"topic": "orders", "subString": "*", "subVersion": 1}]
        return {"groupName": self.group, "messageModel": self._model, "subscriptionDataSet": subscribed}

    def routes_changed(self) -> None:
        pass

    def asked(self, frame, link) -> bool:
        self.told.append(frame.code)
        names = {QueueName(q.broker, q.queue, q.topic): offset for q, offset in self.offsets.items()}
        if frame.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT:
            body = b'{"messageQueueTable":%b}' % table(names.items())
        else:
            body = b'{"mqTable":%b}' % table((name, {"commitOffset": offset}) for name, offset in names.items())
        link.reply(frame, ResponseCode.SUCCESS, body=body)
        return True

    async def pull(self, queue: MessageQueue, offset: int) -> int:
        """Where the broker sends it next."""
        source = Source(self.instance.cluster, self.group, Steps(messages_max=1, wait_ms=0))
        return (await source.pull(queue, offset, Wanted())).next_offset


@pytest.fixture
async def join(penstock):
    """Makes members of groups."""
    made = []

    async def join(group: str = "readers", broadcast: bool = False, **offsets) -> Instanced:
        made.append(Instanced(penstock.addresses["namesrv"], group, broadcast, offsets.pop("offsets", {})))
        await made[-1].join()
        return made[-1]

    yield join
    for member in made:
        await member.instance.leave(member, consumerGroup=member.group)
