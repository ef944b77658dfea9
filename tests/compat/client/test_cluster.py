"""Our client on a real RocketMQ cluster: two masters, a slave of one of them, two name servers, any of which may go.

Nothing that a broker has acknowledged is left out by a consumer, whoever is killed; what is read twice is no error.
"""

import asyncio
import contextlib

import pytest
from tests.compat.client.spread import (
    QUEUES,
    QUICK,
    SPREAD,
    Inbox,
    caught_up,
    consumer,
    reading,
    replicated,
    send,
    send_on,
    sent_to_all,
    until,
)
from tests.compat.client.test_allocate import ITEM, room_of
from tests.compat.client.test_push import until_owned
from tests.compat.conftest import unavailable
from tests.compat.rocketmq import toolchain
from tests.compat.rocketmq.clients import JAVA_4, JAVA_5, Runner
from tests.compat.rocketmq.cluster import (
    BROKER_A,
    BROKER_B,
    MASTER_A,
    MASTER_B,
    NAMES_1,
    NAMES_2,
    ROOM_A,
    ROOM_B,
    SLAVE_A,
    real_cluster,
)

from penstock.client import tables
from penstock.client.allocate import Averagely, ByMachineRoom, MachineRoomNearby
from penstock.client.errors import ClientError
from penstock.client.message import Message
from penstock.client.operator import Operator
from penstock.client.producer import Producer
from penstock.client.routes import MessageQueue

A_0, A_1, B_0, B_1 = SPREAD
BOTH = (ROOM_A, ROOM_B)
NEARBY = MachineRoomNearby(Averagely(), lambda queue: room_of(queue.broker), room_of)
NEARBY_TO_JAVA = ("MACHINE_ROOM_NEARBY-AVG", "0")

# A Java instance, the room that it is in, its strategy and setting; our room and strategy, the queues that are ours
# then, and those that nobody reads.
ROOMS = {
    "both rooms read": (JAVA_4, "x", ("MACHINE_ROOM", ITEM.join(BOTH)), "y", ByMachineRoom(BOTH), {B_0, B_1}, ()),
    "one room read": (JAVA_5, "x", ("MACHINE_ROOM", ROOM_A), "y", ByMachineRoom([ROOM_A]), {A_1}, {B_0, B_1}),
    "each in its room": (JAVA_4, ROOM_A, NEARBY_TO_JAVA, ROOM_B, NEARBY, {B_0, B_1}, ()),
    "one in no room": (JAVA_5, "bj", NEARBY_TO_JAVA, ROOM_A, NEARBY, {A_0, A_1, B_1}, ()),
}


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


@pytest.mark.parametrize("case", ROOMS)
async def test_java_and_python_share_a_group_by_machine_rooms(case, cluster, producer, topic, group, name, tmp_path):
    """No queue is read twice, and none is left but those that the strategy leaves."""
    java, their_room, (named, setting), our_room, strategy, ours, unread = ROOMS[case]
    runner, inbox = driver(java, cluster, tmp_path), Inbox()
    client_id = f"{our_room}@python"
    async with consumer(cluster, group, inbox, topic, strategy=strategy, client_id=client_id) as one:
        instance = name("java")
        words = ("--strategy", named, "--setting", setting, "--ip", their_room, "--instance", instance)
        theirs = await asyncio.to_thread(runner.push, topic, group, *words)
        with theirs:

            async def shared() -> bool:
                return {(queue.broker, queue.queue) for queue in one.owned if queue.topic == topic} == ours

            await until(shared, "our share")
            read = set(SPREAD) - set(unread)
            rest = {MessageQueue(topic, broker, number) for broker, number in read - ours}
            await until_owned(cluster.namesrv, group, f"{their_room}@{instance}", rest)
            for broker, number in SPREAD:
                queue = MessageQueue(topic, broker, number)
                await producer.send(Message(topic, f"{broker}-{number}".encode()), queue)
            await inbox.has([f"{broker}-{number}" for broker, number in ours])
            lines = await asyncio.to_thread(theirs.take, len(read - ours))
    got = [*inbox.texts, *(str(line["body"]) for line in [*lines, *theirs.rest])]
    assert sorted(got) == sorted(f"{broker}-{number}" for broker, number in read)


def driver(java, cluster, folder) -> Runner:
    try:
        command = toolchain.DRIVERS[java.driver]()
    except toolchain.Missing as reason:
        unavailable(java.name, reason)
    return Runner(java, command, cluster.namesrv, folder / java.name)


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


async def some(texts: list[str]) -> bool:
    return len(texts) >= 10


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
