"""The source on a real RocketMQ, which gives 32 messages at a time: all that is there, once, by the same code."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.conftest import unavailable
from tests.compat.rocketmq import toolchain
from tests.compat.rocketmq.peer import Peer, real_rocketmq

from penstock.client import Message, Producer
from penstock.spark import fetch
from penstock.spark.fetch import Answer, answers
from penstock.spark.link import Links
from penstock.spark.ranges import Range

TOPIC, MESSAGES, LARGE = "orders", 20_000, 40


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    try:
        toolchain.peer_classpath(toolchain.BROKER_5)
    except toolchain.Missing as reason:
        unavailable("a real RocketMQ", reason)
    with real_rocketmq(Path(tmp_path_factory.mktemp("rocketmq"))) as found:
        asyncio.run(fill(found.namesrv))
        yield found


async def fill(namesrv: str) -> None:
    """Small ones in batches; large ones alone, since a client compresses those."""
    async with Producer(namesrv, "fill") as producer:
        for at in range(0, MESSAGES, 200):
            await producer.send_batch([message(number) for number in range(at, at + 200)])
        for number in range(MESSAGES, MESSAGES + LARGE):
            await producer.send(message(number, b"z" * 50_000))


def message(number: int, more: bytes = b"") -> Message:
    return Message(TOPIC, b"%d " % number + more, tags=f"t{number % 5}", keys=f"k{number}")


@pytest.fixture
def orders(spark, peer: Peer):
    return spark.read.format("penstock").option("service", f"rocketmq://{peer.namesrv}").option("topic", TOPIC)


def test_everything_is_there_once(orders):
    rows = orders.load().select("key", "tags", "body", "queue", "offset", "message_id").collect()
    numbers = [int(bytes(row.body).partition(b" ")[0]) for row in rows]
    assert sorted(numbers) == list(range(MESSAGES + LARGE))
    assert all((row.key, row.tags) == (f"k{at}", f"t{at % 5}") for row, at in zip(rows, numbers, strict=True))
    assert len({(row.queue, row.offset) for row in rows}) == len({row.message_id for row in rows}) == len(rows)
    assert sum(len(row.body) > 50_000 for row in rows) == LARGE  # opened


def test_tags_are_filtered_there(orders):
    assert orders.option("tags", "t1 || t4").load().count() == (MESSAGES + LARGE) * 2 // 5


def test_several_pulls_are_under_way(peer: Peer, monkeypatch: pytest.MonkeyPatch):
    """It gives little at a time, so it is asked ahead."""
    seen: list[int] = []
    real = fetch._Puller._top_up

    def noted(self, link):
        real(self, link)
        seen.append(len(self._under_way))

    monkeypatch.setattr(fetch._Puller, "_top_up", noted)
    (whole,) = {queue_of(peer)}
    with Links() as links:
        found = list(answers(whole, links, "spark-tests"))
    assert all(isinstance(answer, Answer) for answer in found)
    assert [answer.first for answer in found[1:]] == [answer.until for answer in found[:-1]]
    assert (found[0].first, found[-1].until) == (whole.start, whole.end)
    assert max(seen) > 4


def queue_of(peer: Peer) -> Range:
    """The first queue."""

    async def ask() -> Range:
        async with Producer(peer.namesrv, "ask") as producer:
            queue = min(await producer.queues(TOPIC))
            address = producer.instance.cluster.address(queue.broker)
            end = int((await producer.instance.cluster.ask(address, 30, queue_ext(queue))).ext["offset"])
            return Range(TOPIC, queue.broker, address, queue.queue, 0, end)

    return asyncio.run(ask())


def queue_ext(queue) -> dict[str, str]:
    return {"topic": queue.topic, "queueId": str(queue.queue), "bname": queue.broker}


def test_what_is_not_there_is_told(peer: Peer):
    whole = queue_of(peer)
    beyond = Range(whole.topic, whole.broker, whole.address, whole.queue, whole.end - 5, whole.end + 5)
    with Links() as links:
        *_, last = answers(beyond, links, "spark-tests")
    assert (last.first, last.until) == (whole.end, whole.end + 5)
    assert "ends at offset" in last.why
