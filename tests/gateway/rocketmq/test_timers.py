"""Timers frame by frame: messages that say themselves when they are due, on a clock that the test owns."""

import pytest
from tests.gateway.rocketmq.world import COMMIT, PROPERTIES

from penstock.gateway.rocketmq.delay import TIMER_TOPIC
from penstock.wire.rocketmq.codes import ResponseCode, SysFlag

DAY_MS = 24 * 3_600_000


def timer(name: str, value: object) -> str:
    return f"{name}\x01{value}\x02TAGS\x01t\x02"


def at(world, name: str, delay_ms: int) -> str:
    return timer(name, world.clock.now_ms() + delay_ms)


@pytest.mark.parametrize("name", ["TIMER_DELIVER_MS", "__STARTDELIVERTIME"])
async def test_a_message_comes_at_its_time(world, name):
    sent = await world.client.send("orders", b"later", 2, at(world, name, 123_456))
    assert (sent.code, sent.ext["queueId"]) == (0, "2")
    await world.after(123_455)
    assert await world.bodies() == []
    await world.after(1)
    (message,) = await world.client.messages("orders", 2, tags="t")
    assert (message.body, message.topic, message.queue_index) == (b"later", "orders", 2)
    assert message.properties["TIMER_OUT_MS"] == str(world.clock.now_ms())


@pytest.mark.parametrize(("name", "value", "delay_ms"), [("TIMER_DELAY_SEC", 90, 90_000), ("TIMER_DELAY_MS", 90, 90)])
async def test_a_message_comes_after_its_delay(world, name, value, delay_ms):
    await world.client.send("orders", b"later", 2, timer(name, value))
    await world.after(delay_ms - 1)
    assert await world.bodies() == []
    await world.after(1)
    assert await world.bodies() == [b"later"]


@pytest.mark.parametrize(
    ("name", "value"), [("TIMER_DELIVER_MS", 1), ("TIMER_DELAY_SEC", 0), ("TIMER_DELAY_MS", -5), ("ORDER_TIME", "noon")]
)
async def test_what_is_due_already_comes_at_once(world, name, value):
    await world.client.send("orders", b"now", 2, timer(name, value))
    assert await world.bodies() == [b"now"]


async def test_a_delay_level_counts_before_a_timer(world):
    await world.client.send("orders", b"ten seconds", 2, timer("TIMER_DELAY_SEC", 90) + "DELAY\x013\x02")
    await world.after(10_000)
    assert await world.bodies() == [b"ten seconds"]
    await world.after(90_000)
    assert await world.bodies() == [b"ten seconds"]


async def test_a_delay_counts_before_a_time_and_seconds_first(world):
    properties = at(world, "TIMER_DELIVER_MS", 500) + timer("TIMER_DELAY_MS", 100) + timer("TIMER_DELAY_SEC", 1)
    await world.client.send("orders", b"x", 2, properties)
    await world.after(999)
    assert await world.bodies() == []
    await world.after(1)
    assert await world.bodies() == [b"x"]


async def test_they_overtake_each_other(world):
    for delay_ms in (3_000, 1_000, 2_000):
        await world.client.send("orders", b"%d" % delay_ms, 2, timer("TIMER_DELAY_MS", delay_ms))
    await world.after(3_000)
    assert await world.bodies() == [b"1000", b"2000", b"3000"]


@pytest.mark.parametrize(("delay_ms", "code"), [(3 * DAY_MS, 0), (3 * DAY_MS + 1, ResponseCode.MESSAGE_ILLEGAL)])
async def test_three_days_are_the_most(world, delay_ms, code):
    sent = await world.client.send("orders", b"x", 2, at(world, "TIMER_DELIVER_MS", delay_ms))
    assert sent.code == code
    assert ("rocketmq.timer_delay_ms_max" in sent.remark) == bool(code)
    await world.after(delay_ms)
    assert len(await world.bodies()) == (0 if code else 1)


async def test_the_most_can_be_set(open_world):
    world = await open_world(timer_delay_ms_max=1_000)
    assert (await world.client.send("orders", b"x", 2, timer("TIMER_DELAY_SEC", 1))).code == 0
    assert (await world.client.send("orders", b"x", 2, timer("TIMER_DELAY_MS", 1_001))).code != 0


async def test_timers_survive_a_restart_and_happen_once(world):
    await world.client.send("orders", b"soon", 2, timer("TIMER_DELAY_MS", 1_000))
    await world.client.send("orders", b"late", 2, timer("TIMER_DELAY_MS", 2_000))
    await world.after(1_000)
    await world.again()
    assert await world.bodies() == [b"soon"]
    await world.after(1_000)
    assert await world.bodies() == [b"soon", b"late"]
    await world.again()
    await world.after(DAY_MS)
    assert await world.bodies() == [b"soon", b"late"]


async def test_a_committed_message_with_a_timer_waits(world):
    sent = await world.prepare(properties=f"{PROPERTIES}TIMER_DELAY_SEC\x015\x02")
    await world.after(60_000)
    await world.end(sent, COMMIT)
    await world.after(4_999)
    assert await world.bodies() == []
    await world.after(1)
    assert await world.bodies() == [b"paid"]


async def test_a_prepared_message_with_a_timer_that_cannot_be_is_refused(world):
    sent = await world.client.send("orders", b"x", 2, f"{PROPERTIES}TIMER_DELAY_SEC\x01soon\x02", f=SysFlag.PREPARED)
    assert sent.code == ResponseCode.MESSAGE_ILLEGAL


async def test_a_timer_whose_topic_is_gone_is_left_out(world):
    await world.client.send("orders", b"x", 2, timer("TIMER_DELAY_MS", 5))
    await world.client.send("others", b"y", 2, timer("TIMER_DELAY_MS", 6))
    await world.server.broker.topics.delete("orders")
    await world.after(6)
    assert await world.bodies("others") == [b"y"]


async def test_nobody_reads_or_writes_where_timers_stand(world):
    pull = await world.client.pull("nobody", TIMER_TOPIC, 0, 0, sysFlag=4, subscription="*")
    assert pull.code == ResponseCode.NO_PERMISSION
    assert (await world.client.send(TIMER_TOPIC, b"x")).code == ResponseCode.NO_PERMISSION
