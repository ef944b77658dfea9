"""What tests on a cluster share: sending to several masters, consumers of either kind, and looks at who has what."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

from tests.compat.rocketmq.cluster import BROKER_A, BROKER_B, MASTER_A, MASTER_B, SLAVE_A, RealCluster

from penstock.client import positions
from penstock.client.consumer import PushConsumer
from penstock.client.errors import ClientError
from penstock.client.instance import Timers
from penstock.client.message import Message, Received
from penstock.client.operator import Operator
from penstock.client.positions import FIRST
from penstock.client.producer import Producer
from penstock.client.pull import PullConsumer
from penstock.client.routes import MessageQueue
from penstock.wire.rocketmq.codes import RequestCode

QUICK = Timers(persist_interval_ms=200, rebalance_interval_ms=2_000, route_interval_ms=1_000)
WITHIN_S = 60
QUEUES = 2  # of a topic on each master
SPREAD = [(BROKER_A, number) for number in range(QUEUES)] + [(BROKER_B, number) for number in range(QUEUES)]


class Inbox:
    def __init__(self) -> None:
        self.texts: list[str] = []

    async def __call__(self, message: Received) -> None:
        self.texts.append(message.body.decode())

    async def has(self, texts: list[str]) -> None:
        async def all_of_them() -> bool:
            return set(texts) <= set(self.texts)

        await until(all_of_them, f"all {len(texts)} messages")


async def until(is_so: Callable[[], Awaitable[bool]], what: str) -> None:
    try:
        async with asyncio.timeout(WITHIN_S):
            while not await is_so():
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise AssertionError(f"{what}: not within {WITHIN_S} s") from None


async def send(producer: Producer, topic: str, label: str, count: int = 40) -> tuple[list[str], set[str]]:
    """Their texts, and the brokers that took them."""
    texts = [f"{label}-{number}" for number in range(count)]
    sent = [await producer.send(Message(topic, text.encode())) for text in texts]
    return texts, {one.queue.broker for one in sent}


def consumer(cluster: RealCluster, group: str, handler, topic: str, **more) -> PushConsumer:
    return PushConsumer(cluster.namesrv, group, handler, topics={topic: "*"}, start=FIRST, timers=QUICK, **more)


async def offset_at(operator: Operator, address: str, queue: MessageQueue, group: str = "") -> int:
    """Where a queue ends at one of its brokers, or how far a group is there."""
    code = RequestCode.QUERY_CONSUMER_OFFSET if group else RequestCode.GET_MAX_OFFSET
    more = {"consumerGroup": group} if group else {}
    try:
        answer = await operator.cluster.of_queue(code, queue, address, **more)
    except ClientError:
        return -1
    return int(answer.ext["offset"])


def replicated(operator: Operator, cluster: RealCluster, topic: str, group: str = "") -> Callable[[], Awaitable[bool]]:
    """Whether the slave has what its master has: messages, or how far a group is."""
    queues = [MessageQueue(topic, BROKER_A, number) for number in range(QUEUES)]

    async def same() -> bool:
        places = [cluster.address(name) for name in (MASTER_A, SLAVE_A)]
        found = [[await offset_at(operator, place, queue, group) for queue in queues] for place in places]
        return found[0] == found[1]

    return same


async def sent_to_all(producer: Producer, topic: str) -> list[str]:
    """Messages, until both masters have taken some: one that has failed is passed over for a while."""
    texts, brokers = list[str](), set[str]()

    async def both() -> bool:
        more, takers = await send(producer, topic, f"later-{len(texts)}", 4)
        texts.extend(more)
        brokers.update(takers)
        return brokers == {BROKER_A, BROKER_B}

    await until(both, "messages on both masters")
    return texts


async def send_on(producer: Producer, topic: str, acknowledged: list[str]) -> None:
    """One message after the other, until it is cancelled; what was acknowledged is noted."""
    number = 0
    while True:
        await producer.send(Message(topic, f"stream-{number}".encode()))
        acknowledged.append(f"stream-{number}")
        number += 1
        await asyncio.sleep(0.01)


async def caught_up(operator: Operator, cluster: RealCluster, topic: str, group: str) -> bool:
    """Whether the masters know that a group is through with everything."""
    route = await operator.cluster.fetch(topic)
    masters = {BROKER_A: cluster.address(MASTER_A), BROKER_B: cluster.address(MASTER_B)}
    return all(
        [
            await offset_at(operator, masters[queue.broker], queue, group)
            == await positions.max_offset(operator.cluster, queue)
            for queue in route.to_read(topic)
        ]
    )


@contextlib.asynccontextmanager
async def reading(
    kind: str, cluster: RealCluster, group: str, inbox: Inbox, topic: str, asked: list[str]
) -> AsyncIterator[None]:
    """A consumer of either kind; `asked` gets the address of each pull of the first broker's first queue."""
    if kind == "push":
        one = consumer(cluster, group, inbox, topic)
        watch(one.instance.cluster, topic, asked)
        async with one:
            yield
        return
    async with PullConsumer(cluster.namesrv, group, start=FIRST, timers=QUICK) as one:
        watch(one.instance.cluster, topic, asked)
        await one.assign(await one.queues(topic))
        handing_on = asyncio.ensure_future(hand_on(one, inbox))
        yield
        handing_on.cancel()


def watch(cluster, topic: str, asked: list[str]) -> None:
    ask = cluster.ask

    def watched(address, code, ext, *more):
        about = tuple(ext.get(name) for name in ("topic", "bname", "queueId"))
        if code == RequestCode.PULL_MESSAGE and about == (topic, BROKER_A, "0"):
            asked.append(address)
        return ask(address, code, ext, *more)

    cluster.ask = watched


async def hand_on(consumer: PullConsumer, inbox: Inbox) -> None:
    async for message in consumer:
        await inbox(message)
