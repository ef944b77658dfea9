"""Reset by time and skip backlog, frame by frame: cluster and broadcast, online and offline."""

import asyncio
import json

import pytest

from penstock.core import events
from penstock.gateway.rocketmq.reset import PULLS_SUFFICE_VERSION
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode

GROUP = "readers"
MOVED, RESET = ResponseCode.PULL_OFFSET_MOVED, RequestCode.RESET_CONSUMER_CLIENT_OFFSET
LATER = 4_000_000_000_000


@pytest.fixture
async def orders(client):
    """Two queues in use, with ten messages each, of a topic with four."""
    for number in range(10):
        for queue in (0, 1):
            await client.send("orders", b"%d" % number, queue=queue)
    return "orders"


async def commit(client, queue, offset):
    ext = {"consumerGroup": GROUP, "topic": "orders", "queueId": queue, "commitOffset": offset}
    await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext)


async def committed(client, queue):
    ext = {"consumerGroup": GROUP, "topic": "orders", "queueId": queue}
    return int((await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, ext)).ext["offset"])


async def reset(client, timestamp=-1, force=True, **ext):
    fields = {"topic": "orders", "group": GROUP, "timestamp": timestamp, "isForce": str(force).lower(), **ext}
    return await client.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)


def targets(answer):
    """The table of an answer: objects are its keys, which JSON does not have."""
    text = bytes(answer.body).decode().removeprefix('{"offsetTable":{').removesuffix("}}")
    pairs = [pair.rpartition(":") for pair in text.split(",{")]
    return {json.loads("{" + key.lstrip("{"))["queueId"]: int(offset) for key, _, offset in pairs}


async def join(client, client_id, **more):
    await client.heartbeat(GROUP, client_id, 1, {"orders": "*"}, **more)
    await client.pushed.get()  # the notice that the group has changed


async def pull(client, queue, offset):
    answer = await client.pull(GROUP, "orders", queue, offset, 1)
    return answer.code, int(answer.ext["nextBeginOffset"])


async def test_s18_without_force_never_forwards(client, orders):
    for queue, offset in ((0, 3), (1, 10)):
        await commit(client, queue, offset)
    assert targets(await reset(client, timestamp=LATER, force=False)) == {0: 3, 1: 10, 2: 0, 3: 0}
    assert targets(await reset(client, timestamp=0, force=False)) == {0: 0, 1: 0, 2: 0, 3: 0}


async def test_s18_by_force_to_the_time(client, orders, told):
    await commit(client, 0, 3)
    assert targets(await reset(client, timestamp=LATER)) == {0: 10, 1: 10, 2: 0, 3: 0}
    (asked,) = [event for event in told if isinstance(event, events.ResetAsked)]
    assert (asked.targets["0"], asked.before) == ("10", {"0": "3"})


async def test_s19_a_group_without_any_offset_is_refused_and_nothing_changes(client, orders, told):
    answer = await reset(client)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "group not exist" in answer.remark
    assert not told


async def test_s19_a_queue_without_an_offset_counts_as_at_its_beginning(client, orders):
    await commit(client, 0, 5)
    assert targets(await reset(client, timestamp=LATER, force=False))[1] == 0


async def test_s20_broadcast_needs_no_offset_and_every_instance_is_told(connect, orders, told, penstock):
    operator, a, b = await connect(), await connect(), await connect()
    await join(a, "a", messageModel="BROADCASTING")
    await join(b, "b", messageModel="BROADCASTING")
    await a.pushed.get()
    assert targets(await reset(operator, force=False)) == {0: 10, 1: 10, 2: 0, 3: 0}
    for instance in (a, b):
        notice = await instance.pushed.get()
        assert (notice.code, notice.ext["topic"], notice.ext["group"]) == (RESET, "orders", GROUP)
    assert len([event for event in told if isinstance(event, events.ResetTold)]) == 2
    resets = penstock.server.broker.resets
    assert {instance.client_id for instance in resets.silent(GROUP, "orders")} == {"a", "b"}
    assert await pull(a, 0, 4) == (MOVED, 10)
    assert (await pull(a, 0, 10))[0] == ResponseCode.PULL_NOT_FOUND
    assert [instance.client_id for instance in resets.silent(GROUP, "orders")] == ["b"]
    assert await pull(b, 0, 4) == (MOVED, 10)  # a's pull has not used up b's
    confirmed = [event for event in told if isinstance(event, events.ResetConfirmed)]
    assert len(confirmed) == 1


async def test_s20_a_broadcast_group_that_is_away_is_reset_too_to_the_time(connect, orders, told, penstock):
    """With offsets on the broker as well, from when it shared its messages: they do not count."""
    operator, a = await connect(), await connect()
    await commit(operator, 0, 3)
    await join(a, "a", messageModel="BROADCASTING")
    await a.close()
    while penstock.server.broker.groups.find(GROUP):
        await asyncio.sleep(0)
    for queue in (0, 1):
        answer = await reset(operator, timestamp=LATER, force=False, queueId=queue)
        assert (answer.code, targets(answer)) == (0, {queue: 10})
    assert await committed(operator, 0) == 3
    assert [event.broadcast for event in told if isinstance(event, events.ResetAsked)] == [True, True]
    assert not [event for event in told if isinstance(event, events.ResetTold)]
    asked = {"topic": "orders", "group": GROUP}
    answer = await operator.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, asked)
    found = json.loads(bytes(answer.body))
    assert found["consumerTable"] == {}
    assert (found["reset"]["instances"], found["reset"]["away"]) == ([], ["a"])  # S25: named


async def test_s20_a_broadcast_group_that_is_away_is_known_after_a_restart(world):
    await world.client.send("orders", b"x")
    reader = await world.connected()
    await reader.heartbeat(GROUP, "a", 1, {"orders": "*"}, messageModel="BROADCASTING")
    await reader.close()
    await world.again()
    assert targets(await reset(world.client, timestamp=0, force=False))[0] == 0
    found = world.server.broker.resets.status(GROUP, "orders")
    assert (found.broadcast, found.away) == (True, ["a"])


async def test_the_status_of_a_group_that_is_away_and_was_never_reset(client, orders):
    asked = {"topic": "orders", "group": GROUP}
    answer = await client.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, asked)
    assert answer.code == ResponseCode.CONSUMER_NOT_ONLINE


async def test_s25_who_stays_silent_after_a_reset_is_an_event(world):
    """The broker's chores tell of it, in their time."""
    await world.client.send("orders", b"x")
    reader, heard = await world.connected(), asyncio.Queue()
    await reader.heartbeat(GROUP, "a", 1, {"orders": "*"}, messageModel="BROADCASTING")
    world.server.broker.bus.listen(lambda event: heard.put_nowait(event))
    await reset(world.client)
    world.clock.advance(120_000)
    async with asyncio.timeout(10):
        while not isinstance(silent := await heard.get(), events.ResetSilent):
            pass
    assert (silent.client_id, silent.topic, silent.told) == ("a", "orders", True)
    await reader.close()


async def test_s23_skip_backlog_consumes_nothing_before_and_everything_after(connect, orders):
    operator, reader = await connect(), await connect()
    await join(reader, "a")
    await commit(reader, 0, 2)
    await reset(operator)
    await operator.send("orders", b"after", queue=0)
    assert await pull(reader, 0, 2) == (MOVED, 10)
    assert await pull(reader, 0, 10) == (0, 11)


async def test_s25_a_cluster_group_with_nobody_online(connect, orders):
    operator, reader = await connect(), await connect()
    await commit(operator, 0, 2)
    await reset(operator)
    assert await committed(operator, 0) == 10
    await join(reader, "a")
    assert (await pull(reader, 0, 10))[0] == ResponseCode.PULL_NOT_FOUND


async def test_a_commit_from_before_the_reset_does_not_undo_it(connect, orders):
    operator, reader = await connect(), await connect()
    await join(reader, "a")
    await commit(reader, 0, 2)
    await reset(operator)
    await commit(reader, 0, 3)  # was on its way
    assert await committed(operator, 0) == 10
    await pull(reader, 0, 3)
    await pull(reader, 0, 10)
    await commit(reader, 0, 11)
    assert await committed(operator, 0) == 11


async def test_one_queue_to_one_offset(client, orders):
    await commit(client, 0, 9)
    assert targets(await reset(client, queueId=0, offset=4)) == {0: 4}
    assert targets(await reset(client, queueId=0, offset=400)) == {0: 10}


async def test_where_the_clients_are(connect, orders):
    operator, a, silent = await connect(), await connect(), await connect()
    await join(a, "a")
    waiting = operator.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"topic": "orders", "group": GROUP})
    asked = await a.pushed.get()
    assert asked.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
    table = b'{"messageQueueTable":{{"brokerName":"penstock","queueId":0,"topic":"orders"}:7}}'
    a.answer(asked, table)
    answer = await waiting
    inner = table.removeprefix(b'{"messageQueueTable":').removesuffix(b"}")
    assert bytes(answer.body) == b'{"consumerTable":{"a":' + inner + b"}}"
    assert silent.pushed.empty()


async def test_a_client_of_5_0_hears_of_a_reset_by_its_pulls_and_at_once(client, connect, orders):
    """Two requests in a row keep such a client from hearing any answer: it would leave, and come as two."""
    operator = await connect()
    await join(client, "a", release=PULLS_SUFFICE_VERSION)
    await commit(client, 0, 10)
    for target in (0, 5):
        waiting = client.pull(GROUP, "orders", 0, 10, 1, wait_ms=30_000)
        elsewhere = client.pull(GROUP, "orders", 3, 0, 1, wait_ms=30_000)
        await reset(operator, queueId=0, offset=target)
        assert (await waiting).code == ResponseCode.PULL_NOT_FOUND
        assert await pull(client, 0, 10) == (MOVED, target)
        assert not elsewhere.done()
        await pull(client, 0, target)
    assert client.pushed.empty()


@pytest.fixture
async def operator(client, connect, orders):
    """Beside a client from before 5.0 that has consumed all of a queue."""
    await join(client, "a")
    await commit(client, 0, 10)
    return await connect()


async def test_an_older_client_is_told_once_while_it_sleeps_over_it(client, operator):
    for target in (0, 5):
        await reset(operator, queueId=0, offset=target)
    assert (await client.pushed.get()).code == RESET
    assert await pull(client, 0, 0) == (MOVED, 5)
    assert client.pushed.empty()


async def test_it_is_told_again_when_it_has_slept(client, operator, monkeypatch):
    monkeypatch.setattr("penstock.gateway.rocketmq.reset.ASLEEP_MS", 0)
    for target in (0, 5):
        await reset(operator, queueId=0, offset=target)
        assert (await client.pushed.get()).code == RESET


async def test_s25_who_has_confirmed_a_reset_can_be_asked_for(connect, orders, penstock):
    operator, a, b = await connect(), await connect(), await connect()
    for client, name in ((a, "a"), (b, "b")):
        await join(client, name, messageModel="BROADCASTING")
    await a.pushed.get()
    for queue in (0, 1):  # one by one, and it is one reset all the same
        await reset(operator, queueId=queue, offset=5)
    await pull(a, 0, 5)
    for client in (a, b):  # once: it sleeps over it, and its pulls tell it the rest
        assert (await client.pushed.get()).code == RESET
    assert await pull(b, 1, 10) == (MOVED, 5)
    waiting = operator.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"topic": "orders", "group": GROUP})
    for client in (a, b):
        client.answer(await client.pushed.get(), b'{"messageQueueTable":{}}')
    found = json.loads(bytes((await waiting).body))["reset"]
    assert (found["targets"], found["broadcast"]) == ({"0": 5, "1": 5}, True)
    assert {one["clientId"]: one["confirmed"] for one in found["instances"]} == {"a": [0], "b": []}
    await reset(operator, queueId=0, offset=6)  # what was confirmed of it does not count any more
    assert [one.confirmed for one in penstock.server.broker.resets.status(GROUP, "orders").instances] == [set(), set()]
