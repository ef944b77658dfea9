"""Offsets, frame by frame: what a group may commit, and where a time is."""

import pytest
from tests.gateway.rocketmq.conftest import Client

from penstock.testing.server import serving
from penstock.wire.rocketmq.codes import PullFlag, RequestCode, ResponseCode
from penstock.wire.rocketmq.record import messages_in

GROUP = "readers"
NO_GROUPS = ["bad\tgroup", "", "x" * 256, "a b", "\u7ec4"]


@pytest.fixture
async def orders(client):
    await client.send("orders", b"first")
    return "orders"


async def commit(client, group, topic, queue=0, offset=1):
    ext = {"consumerGroup": group, "topic": topic, "queueId": queue, "commitOffset": offset}
    return await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, ext)


async def committed(client, group, topic, queue=0, **more):
    ext = {"consumerGroup": group, "topic": topic, "queueId": queue, **more}
    return await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, ext)


@pytest.mark.parametrize("name", NO_GROUPS)
async def test_what_cannot_be_a_group_has_no_offsets(client, orders, penstock, name):
    ext = {"sysFlag": PullFlag.COMMIT | PullFlag.SUBSCRIPTION, "subscription": "*", "commitOffset": 1}
    answers = [await commit(client, name, "orders"), await client.pull(name, "orders", 0, 0, **ext)]
    clone = {"srcGroup": GROUP, "destGroup": name, "topic": "orders"}
    await commit(client, GROUP, "orders")
    answers.append(await client.ask(RequestCode.CLONE_GROUP_OFFSET, clone))
    assert {answer.code for answer in answers} == {ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST}
    assert all("names of groups are" in answer.remark for answer in answers)
    assert penstock.server.broker.offsets.all_groups() == [GROUP]


async def test_offsets_are_of_what_there_is(client, orders, penstock):
    assert (await commit(client, GROUP, "no\ttopic")).code == ResponseCode.TOPIC_NOT_EXIST
    assert (await commit(client, GROUP, "orders", queue=99)).code == ResponseCode.SYSTEM_ERROR
    assert (await commit(client, GROUP, "orders", queue=-1)).code == ResponseCode.SYSTEM_ERROR
    assert penstock.server.broker.offsets.pairs() == []


async def test_a_new_group_begins_at_0_where_a_queue_does(client, orders):
    assert (await committed(client, GROUP, "orders")).ext["offset"] == "0"
    for topic, queue in (("orders", 99), ("nothing", 0)):
        assert (await committed(client, GROUP, topic, queue)).code == ResponseCode.QUERY_NOT_FOUND
    asked = await committed(client, GROUP, "orders", setZeroIfNotFound="false")
    assert asked.code == ResponseCode.QUERY_NOT_FOUND


async def test_a_new_group_on_an_old_topic_begins_where_it_was_set_to():
    """The client asks for the end then, or for the beginning, or a time."""
    young_bytes = 64 * 1024
    async with serving(broker={"young_bytes": young_bytes}) as penstock:
        client = await Client.to(penstock.addresses["broker"])
        for body, code in ((b"first", ResponseCode.SUCCESS), (bytes(young_bytes), ResponseCode.QUERY_NOT_FOUND)):
            await client.send("orders", body)
            assert (await committed(client, GROUP, "orders")).code == code
        await client.close()


async def test_the_borders_of_a_time(client):
    """From a time on (lower), or up to it (upper)."""
    for _ in range(3):
        await client.send("orders", b"one")
    pulled = await client.pull("nobody", "orders", 0, 0, sysFlag=PullFlag.SUBSCRIPTION, subscription="*")
    stored = [message.store_ms for message in messages_in(pulled.body)]
    before, behind = stored[0] - 1_000, stored[-1] + 1_000
    assert [await at(client, time, "LOWER") for time in (before, stored[0], behind)] == [0, 0, 3]
    assert [await at(client, time, "UPPER") for time in (before, stored[-1], behind)] == [0, 2, 2]


async def at(client, time_ms, boundary):
    ext = {"topic": "orders", "queueId": 0, "timestamp": time_ms, "boundaryType": boundary}
    return int((await client.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, ext)).ext["offset"])
