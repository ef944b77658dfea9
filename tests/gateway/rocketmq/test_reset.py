"""Reset by time and skip backlog, frame by frame: cluster and broadcast, online and offline."""

import json

import pytest

from penstock.core import events
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


async def test_s25_who_has_confirmed_a_reset_can_be_asked_for(connect, orders, penstock):
    operator, a, b = await connect(), await connect(), await connect()
    for client, name in ((a, "a"), (b, "b")):
        await join(client, name, messageModel="BROADCASTING")
    await a.pushed.get()
    for queue in (0, 1):  # one by one, and it is one reset all the same
        await reset(operator, queueId=queue, offset=5)
    await pull(a, 0, 5)
    for client in (a, b):
        assert [(await client.pushed.get()).code for _ in (0, 1)] == [RESET, RESET]
    waiting = operator.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, {"topic": "orders", "group": GROUP})
    for client in (a, b):
        client.answer(await client.pushed.get(), b'{"messageQueueTable":{}}')
    found = json.loads(bytes((await waiting).body))["reset"]
    assert (found["targets"], found["broadcast"]) == ({"0": 5, "1": 5}, True)
    assert {one["clientId"]: one["confirmed"] for one in found["instances"]} == {"a": [0], "b": []}
    await reset(operator, queueId=0, offset=6)  # what was confirmed of it does not count any more
    assert [one.confirmed for one in penstock.server.broker.resets.status(GROUP, "orders").instances] == [set(), set()]
