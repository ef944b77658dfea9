"""Our client on a real RocketMQ cluster: two masters, a slave of one of them, two name servers, any of which may go.

Nothing that a broker has acknowledged is left out by a consumer, whoever is killed; what is read twice is no error.
"""

import asyncio
import contextlib
from collections.abc import Callable

import pytest
from tests.compat.conftest import unavailable
from tests.compat.rocketmq import toolchain
from tests.compat.rocketmq.cluster import (
    BROKER_A,
    BROKER_B,
    MASTER_A,
    MASTER_B,
    NAMES_1,
    NAMES_2,
    SLAVE_A,
    RealCluster,
    real_cluster,
)

from penstock.client import positions, tables
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


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    try:
        toolchain.peer_classpath(toolchain.BROKER_4)
    except toolchain.Missing as reason:
        unavailable("a real RocketMQ cluster", reason)
    with real_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def cluster(running):
    running.whole()
    return running


@pytest.fixture
async def operator(cluster):
    async with Operator(cluster.namesrv) as operator:
        yield operator


@pytest.fixture
async def topic(operator, cluster, name):
    """A topic with two queues on each master."""
    topic = name("spread")
    for master in (MASTER_A, MASTER_B):
        config = tables.TopicConfig(topic_name=topic, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
        await operator.put_topic(cluster.address(master), config)

    async def there() -> bool:
        with contextlib.suppress(ClientError):
            route = await operator.cluster.fetch(topic)
            return [(queue.broker, queue.queue) for queue in route.to_write(topic)] == SPREAD
        return False

    await until(there, "the topic on both masters")
    return topic


@pytest.fixture
async def producer(cluster):
    options = {"timeout_ms": 10_000, "avoid_slow_brokers": True, "timers": QUICK}
    async with Producer(cluster.namesrv, "compat", **options) as producer:
        yield producer


class Inbox:
    def __init__(self) -> None:
        self.texts: list[str] = []

    async def __call__(self, message: Received) -> None:
        self.texts.append(message.body.decode())

    async def has(self, texts: list[str]) -> None:
        async def all_of_them() -> bool:
            return set(texts) <= set(self.texts)

        await until(all_of_them, f"all {len(texts)} messages")


async def until(is_so: Callable[[], object], what: str) -> None:
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


def consumer(cluster: RealCluster, group: str, handler, topic: str) -> PushConsumer:
    return PushConsumer(cluster.namesrv, group, handler, topics={topic: "*"}, start=FIRST, timers=QUICK)


async def offset_at(operator: Operator, address: str, queue: MessageQueue, group: str = "") -> int:
    """Where a queue ends at one of its brokers, or how far a group is there."""
    code = RequestCode.QUERY_CONSUMER_OFFSET if group else RequestCode.GET_MAX_OFFSET
    more = {"consumerGroup": group} if group else {}
    try:
        answer = await operator.cluster.of_queue(code, queue, address, **more)
    except ClientError:
        return -1
    return int(answer.ext["offset"])


def replicated(operator: Operator, cluster: RealCluster, topic: str, group: str = "") -> Callable[[], object]:
    """Whether the slave has what its master has: messages, or how far a group is."""
    queues = [MessageQueue(topic, BROKER_A, number) for number in range(QUEUES)]

    async def same() -> bool:
        places = [cluster.address(name) for name in (MASTER_A, SLAVE_A)]
        found = [[await offset_at(operator, place, queue, group) for queue in queues] for place in places]
        return found[0] == found[1]

    return same


# --- the stories ------------------------------------------------------------------------------------------------------


async def test_messages_are_spread_over_the_masters_and_all_arrive(cluster, operator, producer, topic, group):
    inbox = Inbox()
    texts, brokers = await send(producer, topic, "m")
    await until(replicated(operator, cluster, topic), "all at the slave")
    async with consumer(cluster, group, inbox, topic) as one:
        await inbox.has(texts)
        owned = sorted((queue.broker, queue.queue) for queue in one.owned if queue.topic == topic)
    assert brokers == {BROKER_A, BROKER_B}
    assert owned == SPREAD
    assert sorted(inbox.texts) == sorted(texts)


@pytest.mark.parametrize("kind", ["push", "pull"])
async def test_a_backlog_is_read_from_the_slave_and_what_is_new_from_the_master(
    kind, cluster, operator, producer, topic, group
):
    queue, asked = MessageQueue(topic, BROKER_A, 0), list[str]()
    texts = [f"m-{number}" for number in range(200)]
    for text in texts:
        await producer.send(Message(topic, text.encode()), queue)
    await until(replicated(operator, cluster, topic), "all at the slave")
    inbox = Inbox()
    async with reading(kind, cluster, group, inbox, topic, asked):
        await inbox.has(texts)
        assert cluster.address(SLAVE_A) in asked
        await producer.send(Message(topic, b"new"), queue)
        await inbox.has(["new"])
        assert inbox.texts == [*texts, "new"]

        async def back() -> bool:
            return asked[-1] == cluster.address(MASTER_A)

        await until(back, "a pull at the master")
        assert len(asked) < len(texts), "nobody is asked again and again"


@contextlib.asynccontextmanager
async def reading(kind: str, cluster: RealCluster, group: str, inbox: Inbox, topic: str, asked: list[str]):
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


async def test_a_master_is_killed_and_comes_back(cluster, operator, producer, topic, group):
    """Through it all: sends go on, a consumer that runs goes on, one that was away begins where it was."""
    running, away, pulling = Inbox(), Inbox(), Inbox()
    before, _ = await send(producer, topic, "before")
    async with consumer(cluster, f"{group}-away", away, topic):
        await away.has(before)
    async with (
        consumer(cluster, f"{group}-running", running, topic),
        reading("pull", cluster, f"{group}-pulling", pulling, topic, []),
    ):
        await until(replicated(operator, cluster, topic, f"{group}-away"), "the group's offsets at the slave")
        backlog, _ = await send(producer, topic, "backlog")
        await until(replicated(operator, cluster, topic), "all at the slave")
        acknowledged = list[str]()
        stream = asyncio.ensure_future(send_on(producer, topic, acknowledged))
        await until(lambda: some(acknowledged), "the first of a stream")
        cluster.kill(MASTER_A)

        meanwhile, brokers = await send(producer, topic, "meanwhile")
        assert brokers == {BROKER_B}, "nothing else can take them"
        async with consumer(cluster, f"{group}-away", away, topic):
            await away.has([*backlog, *meanwhile])
            assert not set(before) & set(away.texts[len(before) :]), "it went on where it was"
            await running.has([*backlog, *meanwhile])
            await pulling.has([*backlog, *meanwhile])

            cluster.whole()
            stream.cancel()
            everything = [*before, *backlog, *meanwhile, *acknowledged]
            for inbox in (running, away, pulling):
                await inbox.has(everything)
            for who in ("running", "away", "pulling"):
                await until(lambda who=who: caught_up(operator, cluster, topic, f"{group}-{who}"), f"{who}'s offsets")
        later = await sent_to_all(producer, topic)
        await running.has(later)


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


async def some(texts: list[str]) -> bool:
    return len(texts) >= 10


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


async def test_a_name_server_is_killed(cluster, producer, topic, group, name):
    inbox, fresh = Inbox(), name("fresh")
    async with consumer(cluster, group, inbox, topic):
        texts, _ = await send(producer, topic, "m", 4)
        await inbox.has(texts)
        cluster.kill((NAMES_1, NAMES_2)[producer.instance.cluster._at])  # the one that it sticks to
        await producer.instance.refresh()
        _, brokers = await send(producer, fresh, "m", 4)  # made by its first message: the route is asked for
        assert brokers <= {BROKER_A, BROKER_B}
        texts, brokers = await send(producer, topic, "later")
        assert brokers == {BROKER_A, BROKER_B}
        await inbox.has(texts)
    again = Inbox()
    async with consumer(cluster, name("another"), again, topic):
        await again.has(texts)
