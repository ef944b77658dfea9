"""The pipelines over a broker on which the trouble is really made: with our own client, and frame by frame.

The broker's clock is moved on by the test, so that minutes pass without being waited for.
"""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from tests.client.pushing import QUICK, WAITS, Inbox
from tests.gateway.rocketmq.conftest import Client
from tests.spark.stories import naive_ms

from penstock.client.consumer import PushConsumer
from penstock.client.message import Message
from penstock.client.positions import FIRST
from penstock.client.producer import Producer
from penstock.clock import SystemClock
from penstock.spark.pipelines import audit, health, traffic
from penstock.testing.server import Running, running

QUEUES, WRONG = 4, 999_999_999
SAME = "127.0.0.1@the-same"


class MovedClock(SystemClock):
    """The machine's time, and what a test has added."""

    added_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.added_ms


class Scene:
    def __init__(self, broker: Running, clock: MovedClock) -> None:
        self.broker, self.clock = broker, clock
        self.servers = broker.addresses["namesrv"]

    async def minute(self) -> None:
        """The broker's next minute, and what it tells at its end."""
        watch = self.broker.server.broker.watch
        before = watch._minute
        self.clock.added_ms += 60_000
        await until(lambda: watch._minute > before and not watch._left)

    async def settled(self) -> None:
        """All events so far are in their topic."""
        core = self.broker.server.broker
        await until(lambda: not core.bus._pending)


async def until(is_so: Callable[[], object], within_s: float = 60) -> None:
    async with asyncio.timeout(within_s):
        while not is_so():
            await asyncio.sleep(0.05)


@pytest.fixture(scope="module")
def scene():
    clock = MovedClock()
    settings = {"topic_queues_default": QUEUES, "chore_interval_ms": 50}
    with running(clock=clock, store={"durability": "async"}, broker=settings) as broker:
        yield Scene(broker, clock)


def consumer(scene: Scene, group: str, client_id: str) -> PushConsumer:
    return PushConsumer(
        scene.servers, group, Inbox(), topics={"orders": "*"}, start=FIRST, timers=BEATS, settings=WAITS,
        client_id=client_id, keep_client_id=True,
    )  # fmt: skip


BEATS = type(QUICK)(persist_interval_ms=50, rebalance_interval_ms=200, route_interval_ms=200, heartbeat_interval_ms=200)


async def fill(producer: Producer, count: int) -> None:
    for queue in await producer.queues("orders"):
        await asyncio.gather(*(producer.send(Message("orders", b"%d" % number), queue) for number in range(count)))


async def twins(scene: Scene, producer: Producer) -> None:
    """S15, S17: two instances with one ClientID and a third: the first share is read twice, the second by nobody."""
    async with (
        consumer(scene, "twins", SAME) as one,
        consumer(scene, "twins", SAME) as two,
        consumer(scene, "twins", "127.0.0.1@z") as three,
    ):
        members = scene.broker.server.broker.groups
        await until(lambda: len(members.find("twins").members) == 3)
        await until(lambda: one.owned.keys() == two.owned.keys() and len({*one.owned, *three.owned}) >= 3)
        for _ in range(4):
            await fill(producer, 5)
            beats = {line: member.seen_ms for line, member in members.find("twins").members.items()}
            await scene.minute()
            now = members.find("twins").members
            await until(lambda now=now, beats=beats: all(now[line].seen_ms > seen for line, seen in beats.items()))


async def refusals(scene: Scene) -> None:
    """S08: pulls with a newer version than the last heartbeat, until the next one."""
    client = await Client.to(scene.broker.addresses["broker"])
    await client.heartbeat("hasty", "hasty@1", 1, {"orders": "*"})
    codes = [(await client.pull("hasty", "orders", 0, 0, version=2)).code for _ in range(3)]
    await client.heartbeat("hasty", "hasty@1", 2, {"orders": "*"})
    codes.append((await client.pull("hasty", "orders", 0, 0, version=2)).code)
    assert codes == [25, 25, 25, 0]
    await client.close()


async def wrong_offsets(scene: Scene) -> None:
    """S26: an offset of 999999999 in two queues, corrected once. S27: an instance that asks for it again and again."""
    client = await Client.to(scene.broker.addresses["broker"])
    for group, times in (("absent", 1), ("naive", 5)):
        await client.heartbeat(group, f"{group}@1", 1, {"orders": "*"})
        for _ in range(times):
            for queue in (0, 1):
                assert (await client.pull(group, "orders", queue, WRONG, version=1)).code == 21
    await client.close()


async def make_trouble(scene: Scene) -> None:
    async with Producer(scene.servers, "shop") as producer:
        await producer.send(Message("orders", b"first"))
        await fill(producer, 1)
        await twins(scene, producer)
        await refusals(scene)
        await wrong_offsets(scene)
    await scene.minute()
    await scene.settled()


def run_in(scene: Scene, what: Callable[[Scene], Awaitable[None]]) -> None:
    asyncio.run(what(scene))


@pytest.fixture(scope="module")
def troubled(scene) -> Scene:
    run_in(scene, make_trouble)
    return scene


def settings_of(pipeline, scene: Scene, folder, **more):
    return pipeline.Settings(lake=str(folder), service=f"rocketmq://{scene.servers}", once=True, **more)


def test_s50_the_troubles_are_found_again_in_the_history(spark, troubled, tmp_path):
    settings = settings_of(health, troubled, tmp_path)
    health.run(settings, spark=spark)
    rows = spark.read.parquet(str(health.folder(settings))).collect()
    found = {(row["cause"], row["group"]): row for row in rows}
    assert {
        ("doubled_client_id", "twins"),
        ("queues_read_twice", "twins"),
        ("unread_queues", "twins"),
        ("refused_pulls", "hasty"),
        ("offset_outside", "absent"),
        ("correction_loop", "naive"),
    } <= found.keys()
    assert found["doubled_client_id", "twins"]["member"] == SAME
    twice, unread = (set(found[cause, "twins"]["queues"]) for cause in ("queues_read_twice", "unread_queues"))
    assert twice and unread and not twice & unread  # noqa: PT018
    refused = found["refused_pulls", "hasty"]
    assert (refused["count"], refused["healed"], refused["member"]) == (3, True, "hasty@1")
    assert found["correction_loop", "naive"]["queues"] == [0, 1]
    assert found["correction_loop", "naive"]["count"] == 10
    assert ("correction_loop", "absent") not in found
    health.run(settings, spark=spark)
    again = spark.read.parquet(str(health.folder(settings))).collect()
    assert [(row["cause"], row["group"], row["count"]) for row in again if row["group"] != "twins"] == [
        (row["cause"], row["group"], row["count"]) for row in rows if row["group"] != "twins"
    ]


def test_s49_what_went_through_is_counted(spark, troubled, tmp_path):
    settings = settings_of(traffic, troubled, tmp_path, topics="orders")
    traffic.run(settings, spark=spark)
    core = troubled.broker.server.broker
    stored = sum(core.fetcher.bounds(queue).max_offset for queue in core.topics.get("orders").queues)
    queues = spark.read.parquet(str(traffic.folder(settings) / "queues"))
    assert queues.agg({"messages": "sum"}).first()[0] == stored
    groups = spark.read.parquet(str(traffic.folder(settings) / "groups"))
    assert (
        groups.where("role = 'producer' AND `group` = 'shop' AND topic = 'orders'").agg({"messages": "sum"}).first()[0]
    )
    assert groups.where("role = 'consumer' AND `group` = 'twins'").agg({"lag": "max"}).first()[0] > 0


def test_s51_a_lost_message_is_named_from_the_traces_in_their_topic(spark, scene, tmp_path):
    now_ms = scene.clock.now_ms()

    async def trace(scene: Scene) -> None:
        async with Producer(scene.servers, "tracers") as producer:
            for text in (
                pub(now_ms, "kept") + pub(now_ms, "gone") + done(now_ms + 5, "kept"),
                pub(now_ms + 120_000, "later"),
            ):
                await producer.send(Message("RMQ_SYS_TRACE_TOPIC", text.encode()))

    run_in(scene, trace)
    settings = settings_of(audit, scene, tmp_path, lost_after_s=60)
    audit.run(settings, spark=spark)
    rows = spark.read.parquet(str(audit.folder(settings) / "messages")).collect()
    assert [(row["message_id"], row["group"], row["lost"], row["produced_at"]) for row in rows] == [
        ("gone", "billing", True, naive_ms(now_ms))
    ]


def pub(ms: int, message_id: str) -> str:
    return "\x01".join(
        (
            "Pub",
            str(ms),
            "DefaultRegion",
            "shop",
            "orders",
            message_id,
            "null",
            "null",
            "h:1",
            "1",
            "1",
            "0",
            "ID",
            "true\x02",
        )
    )


def done(ms: int, message_id: str) -> str:
    return "\x01".join(("SubAfter", "r1", message_id, "1", "true", "null", "0", str(ms), "billing\x02"))
