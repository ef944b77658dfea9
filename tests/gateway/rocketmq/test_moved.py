"""OFFSET_MOVED_EVENT: pulls that were corrected can be read from a topic."""

import json

import pytest

from penstock.clock import ManualClock
from penstock.config import ServerConfig
from penstock.core.events import Bus, OffsetMoved
from penstock.gateway.rocketmq.house import House
from penstock.gateway.rocketmq.moved import MESSAGES_MAX, SILENT_MS, MovedEvents
from penstock.wire.rocketmq.codes import ResponseCode

GROUP, TOPIC = "readers", "OFFSET_MOVED_EVENT"


async def correct(client, offset, queue=0, group=GROUP):
    await client.heartbeat(group, "a", 1, {"orders": "*"})
    answer = await client.pull(group, "orders", queue, offset, 1)
    assert answer.code == ResponseCode.PULL_OFFSET_MOVED


async def written(client, penstock):
    broker = penstock.server.broker
    await broker.keeper.durable(broker.store.end_position)
    return await client.messages(TOPIC)


async def test_a_corrected_pull_is_written_down(client, penstock):
    await client.send("orders", b"x")
    await correct(client, 99)
    (message,) = await written(client, penstock)
    assert json.loads(message.body) == {
        "consumerGroup": GROUP,
        "messageQueue": {"brokerName": "penstock", "queueId": 0, "topic": "orders"},
        "offsetNew": 1,
        "offsetRequest": 99,
    }
    assert (message.properties["TAGS"], message.properties["KEYS"]) == (GROUP, GROUP)
    port = int(penstock.addresses["broker"].rpartition(":")[2])
    assert message.store_host == bytes([127, 0, 0, 1]) + port.to_bytes(4, "big")
    assert message.sound


async def test_a_consumer_of_that_topic_is_woken(connect, client):
    await client.send("orders", b"x")
    watcher = await connect()
    await watcher.heartbeat("watchers", "w", 1, {TOPIC: GROUP})
    waiting = watcher.pull("watchers", TOPIC, 0, 0, 1, wait_ms=60_000)
    await correct(client, 99)
    assert (await waiting).code == ResponseCode.SUCCESS


async def test_the_same_again_is_not_written_down_again(client, penstock):
    await client.send("orders", b"x")
    for offset in (99, 99, -1, 99, -1):
        await correct(client, offset)
    await correct(client, 99, queue=1)
    await correct(client, 99, group="others")
    bodies = [json.loads(message.body) for message in await written(client, penstock)]
    found = [(body["consumerGroup"], body["messageQueue"]["queueId"], body["offsetRequest"]) for body in bodies]
    assert found == [(GROUP, 0, 99), (GROUP, 0, -1), (GROUP, 1, 99), ("others", 0, 99)]


async def test_nobody_may_send_to_it(client):
    assert (await client.send(TOPIC, b"forged")).code == ResponseCode.NO_PERMISSION


@pytest.fixture
def heard(penstock):
    """What is written down of pulls that are only told of, on a clock that the test owns."""
    broker, clock, bus = penstock.server.broker, ManualClock(), Bus(10)
    MovedEvents(broker.topics, broker.publisher, House(ServerConfig(), lambda: 10911), clock, bus)

    def tell(group, asked):
        bus.emit(
            OffsetMoved(at_ms=1, group=group, client_id="a", topic="t", queue=0, asked_offset=asked, corrected_offset=0)
        )
        queue = broker.topics.get(TOPIC).queue(0)
        return broker.store.table(queue).next_offset

    return clock, tell


async def test_after_a_while_it_is_written_down_again(heard):
    clock, tell = heard
    assert [tell(GROUP, 99), tell(GROUP, 99)] == [1, 1]
    clock.advance(SILENT_MS - 1)
    assert tell(GROUP, 99) == 1
    clock.advance(1)
    assert tell(GROUP, 99) == 2


async def test_however_many_pulls_go_wrong_messages_are_bounded(heard):
    clock, tell = heard
    counts = [tell(GROUP, number) for number in range(MESSAGES_MAX + 50)]
    assert counts[-1] == MESSAGES_MAX
    clock.advance(SILENT_MS)
    assert tell(GROUP, 0) == MESSAGES_MAX + 1


async def test_a_group_with_an_impossible_name_is_left_out(heard):
    _, tell = heard
    assert [tell("x" * 1_000, 1), tell("KEYS\x01a\x02", 1), tell("", 1)] == [0, 0, 0]
