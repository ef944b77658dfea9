"""Our push consumer on Penstock and on a real RocketMQ, alone and in one group with Java's: the same assertions."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable

import pytest
from tests.compat.client.test_allocate import packed, room_of
from tests.compat.rocketmq.clients import JAVA_4, JAVA_5, bodies

from penstock.client import positions
from penstock.client.allocate import (
    Averagely,
    AveragelyByCircle,
    ByConfig,
    ConsistentHash,
    MachineRoomNearby,
    Strategy,
)
from penstock.client.consumer import ConsumerSettings, Later, PushConsumer
from penstock.client.instance import Timers
from penstock.client.message import Message, Received
from penstock.client.operator import Operator
from penstock.client.positions import FIRST
from penstock.client.producer import Producer, by_key
from penstock.client.routes import MessageQueue, ids_in_order, in_order

QUICK = Timers(persist_interval_ms=200, rebalance_interval_ms=2_000, route_interval_ms=1_000)
WITHIN_S = 60
JAVA_IP = "127.0.0.1"
STRATEGIES = {  # Java's name and setting, and ours; nobody is in the brokers' room, so all share what is there
    "avg": ("AVG", "", Averagely()),
    "circle": ("AVG_BY_CIRCLE", "", AveragelyByCircle()),
    "hash": ("CONSISTENT_HASH", "10", ConsistentHash()),
    "nearby": ("MACHINE_ROOM_NEARBY-AVG", "", MachineRoomNearby(Averagely(), lambda queue: queue.broker, room_of)),
}
PAIRS = [(JAVA_4, "avg"), (JAVA_4, "circle"), (JAVA_4, "hash"), *((JAVA_5, strategy) for strategy in STRATEGIES)]


class Inbox:
    """A handler that keeps what it gets."""

    def __init__(self, answer: Callable[[Received], object] = lambda message: None) -> None:
        self.messages: list[Received] = []
        self._answer = answer

    async def __call__(self, message: Received) -> object:
        self.messages.append(message)
        return self._answer(message)

    @property
    def texts(self) -> list[str]:
        return [message.body.decode() for message in self.messages]

    async def until(self, count: int) -> None:
        await until(lambda: len(self.messages) >= count, f"message {count}")


async def until(is_so: Callable[[], object], what: str) -> None:
    try:
        async with asyncio.timeout(WITHIN_S):
            while not is_so():
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"{what} did not come within {WITHIN_S} s") from None


@pytest.fixture
async def producer(broker):
    async with Producer(broker.namesrv, "compat", timeout_ms=10_000) as producer:
        yield producer


@pytest.fixture
def consumer(broker, topic, group):
    """A consumer of the test's topic and group."""

    def make(handler=None, **more) -> PushConsumer:
        options = {"topics": {topic: "*"}, "start": FIRST, "timers": QUICK, **more}
        return PushConsumer(broker.namesrv, group, handler, **options)

    return make


async def send(producer: Producer, topic: str, count: int, first: int = 0, **more) -> list[str]:
    texts = [f"m-{number}" for number in range(first, first + count)]
    for text in texts:
        await producer.send(Message(topic, text.encode(), **more))
    return texts


def owned(one: PushConsumer, topic: str) -> list[int]:
    return sorted(queue.queue for queue in one.owned if queue.topic == topic)


async def until_owned(namesrv: str, group: str, client_id: str, queues: set[MessageQueue]) -> None:
    """Until an instance says that these are its queues of their topic."""
    topics = {queue.topic for queue in queues}
    async with Operator(namesrv) as operator, asyncio.timeout(WITHIN_S):
        while {one for one in await operator.owned(group, client_id) or () if one.topic in topics} != queues:
            await asyncio.sleep(0.1)


async def committed(producer: Producer, group: str, topic: str) -> int:
    """How many messages the broker knows to be done."""
    route = await producer.instance.cluster.fetch(topic)
    found = [await positions.committed(producer.instance.cluster, group, queue) for queue in route.to_read(topic)]
    return sum(offset or 0 for offset in found)


# --- alone ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", [JAVA_4, JAVA_5], ids=lambda client: client.name)
async def test_what_java_sends_arrives(client, use, consumer, topic):
    options = ("--tags", "a,b", "--keys", "--properties", "--body-bytes", "6000")
    sent = await asyncio.to_thread(use(client).produce, topic, 20, *options)
    inbox = Inbox()
    async with consumer(inbox, topics={topic: "a"}):
        await inbox.until(10)
    assert sorted(inbox.texts) == sorted(bodies("m", 20, 6_000)[::2])
    assert {message.message_id for message in inbox.messages} == {line["msgId"] for line in sent[::2]}
    first = min(inbox.messages, key=lambda message: message.keys)
    assert (first.tags, first.keys, first.properties["colour"]) == ("a", "key-m-0", "blue")


async def test_a_consumer_goes_on_where_the_last_one_stopped(producer, consumer, topic, group):
    first, second = Inbox(), Inbox()
    sent = await send(producer, topic, 40)
    async with consumer(first):
        await first.until(40)
    assert await committed(producer, group, topic) == 40
    later = await send(producer, topic, 10, first=40)
    async with consumer(second):
        await second.until(10)
    assert (sorted(first.texts), sorted(second.texts)) == (sorted(sent), sorted(later))


async def test_what_fails_comes_again_from_the_broker(producer, consumer, topic, group):
    inbox = Inbox(lambda message: Later(delay_level=1) if message.reconsume_times < 2 else None)
    await producer.send(Message(topic, b"body", tags="t", keys="k"))
    async with consumer(inbox):
        await inbox.until(3)
    assert [message.reconsume_times for message in inbox.messages] == [0, 1, 2]
    assert {(message.topic, message.body, message.tags) for message in inbox.messages} == {(topic, b"body", "t")}
    assert len({message.message_id for message in inbox.messages}) == 1


async def test_a_dead_letter(producer, consumer, topic, group):
    inbox = Inbox(lambda message: Later(delay_level=1))
    await send(producer, topic, 1)
    async with consumer(inbox, settings=ConsumerSettings(reconsume_max=1)):
        await inbox.until(2)
        dead = await queue_of(producer, f"%DLQ%{group}")
        async with asyncio.timeout(WITHIN_S):  # the topic is there before its first message is durable
            while not (count := await positions.max_offset(producer.instance.cluster, dead)):
                await asyncio.sleep(0.05)
        assert count == 1


async def queue_of(producer: Producer, topic: str) -> MessageQueue:
    """The first queue of a topic that comes to be in a moment."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                route = await producer.instance.cluster.fetch(topic)
                return MessageQueue(topic, route.queue_datas[0].broker_name, 0)
            except Exception:  # noqa: BLE001  # not yet
                await asyncio.sleep(0.2)


async def test_a_sql_filter(producer, consumer, topic):
    for price in (5, 15, 25):
        await producer.send(Message(topic, b"%d" % price, properties={"price": str(price)}))
    inbox = Inbox()
    one = consumer(inbox, topics={})
    await one.subscribe(topic, "price > 10", "SQL92")
    async with one:
        await inbox.until(2)
    assert sorted(inbox.texts) == ["15", "25"]


async def test_in_order(producer, consumer, topic):
    """Each queue in order, also where a handler fails now and then."""
    inbox = Inbox(lambda message: Later(suspend_ms=10) if failing(message) else None)

    def failing(message: Received) -> bool:
        return message.body.endswith(b"5") and message.reconsume_times == 0

    for number in range(20):
        for key in "abc":
            await producer.send(Message(topic, b"%d" % number, keys=key), by_key(key))
    async with consumer(inbox, orderly=True):
        await inbox.until(66)
    for key in "abc":
        got = [int(message.body) for message in inbox.messages if message.keys == key]
        assert got == sorted([*range(20), 5, 15])


async def test_illegal_offsets_are_corrected(producer, consumer, topic, group):
    await send(producer, topic, 8)
    inbox = Inbox()
    async with consumer(inbox):
        await inbox.until(8)
    cluster = producer.instance.cluster
    for queue in (await cluster.fetch(topic)).to_read(topic):
        await positions.commit(cluster, group, queue, 999_999_999)
    again = Inbox()
    async with consumer(again):
        await asyncio.sleep(1)
        later = await send(producer, topic, 8, first=8)
        await again.until(8)
    assert sorted(again.texts) == sorted(later)
    assert await committed(producer, group, topic) == 16


async def test_a_broadcast_instance_keeps_its_own_offsets(producer, consumer, topic, group, tmp_path):
    first, second, third = Inbox(), Inbox(), Inbox()
    sent = await send(producer, topic, 12)
    one = {"broadcast": True, "offsets_folder": tmp_path, "client_id": "192.0.2.1@DEFAULT"}
    async with consumer(first, **one), consumer(second, **one | {"client_id": "192.0.2.2@DEFAULT"}):
        await first.until(12)
        await second.until(12)
    later = await send(producer, topic, 4, first=12)
    async with consumer(third, **one):
        await third.until(4)
    assert sorted(first.texts) == sorted(second.texts) == sorted(sent)
    assert sorted(third.texts) == sorted(later)


# --- with Java's tools and instances ----------------------------------------------------------------------------------


async def test_a_reset_by_the_tool(producer, consumer, admin, topic, group):
    inbox = Inbox()
    sent = await send(producer, topic, 8)
    async with consumer(inbox):
        await inbox.until(8)
        async with asyncio.timeout(WITHIN_S):
            while await committed(producer, group, topic) < 8:
                await asyncio.sleep(0.1)
        printed = await asyncio.to_thread(admin, "resetOffsetByTime", "-g", group, "-t", topic, "-s", "0")
        assert topic in printed or "queueId" in printed or "offset" in printed, printed
        await inbox.until(16)
    assert Counter(inbox.texts) == dict.fromkeys(sent, 2)


async def test_the_tool_shows_the_consumer(producer, consumer, admin, topic, group):
    inbox = Inbox(lambda message: Later(delay_level=3) if message.body == b"m-3" else None)
    await send(producer, topic, 40)
    async with consumer(inbox) as one:
        await inbox.until(40)
        words = ("consumerStatus", "-g", group, "-i", one.instance.client_id)
        printed = await asyncio.to_thread(admin, *words)
    assert "PROP_ALLOCATE_STRATEGY" in printed
    assert "AVG" in printed
    figures = printed[printed.index("#Consumer RT&TPS#") :]
    _, _, pull_tps, _, ok_tps, failed_tps, failed = next(
        line for line in figures.splitlines() if line.startswith(topic)
    ).split()
    assert float(pull_tps) > float(ok_tps) > float(failed_tps) > 0
    assert failed == "1"


@pytest.mark.parametrize(("client", "strategy"), PAIRS, ids=lambda value: getattr(value, "name", value))
async def test_java_and_python_share_a_group(client, strategy, producer, consumer, use, new_topic, group, broker):
    """No queue is read twice and none is left, whoever comes first; when one goes, the other has them all."""
    topic = await asyncio.to_thread(new_topic, 8)
    queues, inbox = in_order(await producer.queues(topic)), Inbox()
    named, setting, ours = STRATEGIES[strategy]
    async with consumer(inbox, topics={topic: "*"}, strategy=ours) as one:
        await until(lambda: len(owned(one, topic)) == 8, "all queues")
        instance, share = part_of(ours, queues, one.instance.client_id)
        words = ("--strategy", named, "--setting", setting, "--ip", JAVA_IP, "--instance", instance)
        java = await asyncio.to_thread(use(client).push, topic, group, *words)
        with java:
            await until(lambda: owned(one, topic) == share, "our share, and one for Java")
            rest = {queue for queue in queues if queue.queue not in share}
            await until_owned(broker.namesrv, group, f"{JAVA_IP}@{instance}", rest)
            sent = await send(producer, topic, 80)
            expected = 10 * len(share)
            await inbox.until(expected)
            theirs = [line["body"] for line in await asyncio.to_thread(java.take, 80 - expected)]
        assert Counter([*inbox.texts, *theirs, *(line["body"] for line in java.rest)]) == dict.fromkeys(sent, 1)
        await until(lambda: len(owned(one, topic)) == 8, "all queues again")


def part_of(strategy: Strategy, queues: list[MessageQueue], client_id: str) -> tuple[str, list[int]]:
    """A name for a Java instance with which both have a share, and ours then. The hash gives all queues to one of two
    once in fifty times: that is right, and shows nothing.
    """

    def ours(instance: str) -> list[int]:
        ids = ids_in_order([client_id, f"{JAVA_IP}@{instance}"])
        return sorted(queue.queue for queue in strategy.allocate("", client_id, queues, ids))

    instance = next(name for name in map(str, range(100)) if 0 < len(ours(name)) < len(queues))
    return instance, ours(instance)


async def test_java_and_python_read_what_they_were_told_to(producer, consumer, use, new_topic, group):
    """By config: each has its list, and reads that and nothing else, whoever is there."""
    topic, inbox = await asyncio.to_thread(new_topic, 4), Inbox()
    queues = await producer.queues(topic)
    async with consumer(inbox, topics={topic: "*"}, strategy=ByConfig(queues[1:])) as one:
        words = ("--strategy", "CONFIG", "--setting", packed(queues[:1]))
        java = await asyncio.to_thread(use(JAVA_5).push, topic, group, *words)
        with java:
            for queue in queues:
                await producer.send(Message(topic, b"m-%d" % queue.queue), queue)
            await inbox.until(3)
            theirs = [line["body"] for line in await asyncio.to_thread(java.take, 1)]
            assert owned(one, topic) == [1, 2, 3]
    assert (sorted(inbox.texts), theirs, java.rest) == (["m-1", "m-2", "m-3"], ["m-0"], [])


async def test_java_and_python_share_a_group_in_order(producer, consumer, use, new_topic, group):
    """Java comes in the middle: of each queue, first one and then the other has every message, in order, once."""
    topic, inbox = await asyncio.to_thread(new_topic, 4), Inbox()
    queues = await producer.queues(topic)

    async def send_rows(rows: range) -> None:
        for number in rows:
            for queue in queues:
                await producer.send(Message(topic, f"m-{queue.queue}-{number}".encode()), queue)

    async with consumer(inbox, topics={topic: "*"}, orderly=True) as one:
        await send_rows(range(20))
        await inbox.until(80)
        java = await asyncio.to_thread(use(JAVA_5).push, topic, group, "--orderly")
        with java:
            sending = asyncio.ensure_future(send_rows(range(20, 60)))
            await until(lambda: len(owned(one, topic)) == 2, "a share for Java")
            await sending
            await send_rows(range(60, 70))
            await inbox.until(80 + 50)
            theirs = [str(line["body"]) for line in await asyncio.to_thread(take_all, java, 280, inbox)]
    for queue in queues:
        got = [text for text in [*inbox.texts, *theirs] if text.startswith(f"m-{queue.queue}-")]
        assert got == [f"m-{queue.queue}-{number}" for number in range(70)]


def take_all(java, count: int, inbox: Inbox) -> list:
    """What Java has to have, once both have all."""
    got: list = []
    deadline = time.monotonic() + WITHIN_S
    while len(got) + len(inbox.messages) < count and time.monotonic() < deadline:
        got += java.waiting()
    return got
