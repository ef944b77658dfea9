"""What an operator sets for a group is obeyed, kept and shown. (Retries and dead letters: test_delay_and_retry.)"""

import json

import pytest
from tests.gateway.rocketmq.conftest import Client

from penstock.testing.server import serving
from penstock.wire.rocketmq.codes import PullFlag, RequestCode, ResponseCode

GROUP = "readers"


async def set_group(client: Client, group: str = GROUP, **settings: object):
    body = json.dumps({"groupName": group, **settings}).encode()
    return await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, {}, body)


async def shown(client: Client, group: str = GROUP) -> dict[str, object]:
    return json.loads(bytes((await client.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": group})).body))


async def all_shown(client: Client) -> dict[str, object]:
    answer = await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    return json.loads(bytes(answer.body))["subscriptionGroupTable"]


@pytest.fixture
async def reader(client: Client) -> Client:
    """In the group, with a message to read."""
    await client.send("orders", b"x")
    await client.heartbeat(GROUP, "a@1", 1, {"orders": "*"})
    return client


# --- kept and shown ---------------------------------------------------------------------------------------------------


async def test_a_group_that_nobody_has_set_has_the_defaults(client):
    assert await shown(client) == {
        "groupName": GROUP,
        "consumeEnable": True,
        "consumeFromMinEnable": True,
        "consumeBroadcastEnable": True,
        "notifyConsumerIdsChangedEnable": True,
        "retryQueueNums": 1,
        "retryMaxTimes": 16,
        "brokerId": 0,
        "whichBrokerWhenConsumeSlowly": 1,
    }


async def test_what_has_no_meaning_here_is_shown_as_it_was_said(client):
    said = {"brokerId": 7, "whichBrokerWhenConsumeSlowly": 3, "consumeFromMinEnable": False, "attributes": {"a": "b"}}
    assert (await set_group(client, retryMaxTimes=3, **said)).code == 0
    found = await shown(client)
    assert found["retryMaxTimes"] == 3
    assert {key: found[key] for key in said} == said


async def test_all_groups_are_listed_whether_set_or_not(reader):
    await set_group(reader, "set-only", retryMaxTimes=2)
    asked = {"consumerGroup": "gone", "topic": "orders", "queueId": 0, "commitOffset": 1}
    await reader.ask(RequestCode.UPDATE_CONSUMER_OFFSET, asked)
    found = await all_shown(reader)
    assert sorted(found) == ["gone", GROUP, "set-only"]
    assert found["set-only"]["retryMaxTimes"] == 2


async def test_many_at_once(client):
    parts = [{"groupName": f"g{number}", "retryMaxTimes": number} for number in range(3)]
    body = json.dumps({"groupConfigList": parts}).encode()
    answer = await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, {}, body)
    assert answer.code == 0
    assert {name: group["retryMaxTimes"] for name, group in (await all_shown(client)).items()} == {
        "g0": 0,
        "g1": 1,
        "g2": 2,
    }


async def test_settings_survive_a_restart(tmp_path):
    config = {"server": {"data": str(tmp_path)}}
    async with serving(**config) as penstock:
        client = await Client.to(penstock.addresses["broker"])
        await set_group(client, retryMaxTimes=3)
        await set_group(client, "gone", retryMaxTimes=4)
        await client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "gone"})
        facts = dict(penstock.server.broker.store.catalog.items("group/"))
        await client.close()
    assert list(facts) == [f"group/{GROUP}"]
    async with serving(**config) as penstock:
        client = await Client.to(penstock.addresses["broker"])
        assert (await shown(client))["retryMaxTimes"] == 3
        assert (await shown(client, "gone"))["retryMaxTimes"] == 16
        await client.close()


@pytest.mark.parametrize("field", ["cleanOffset", "removeOffset"])
async def test_a_deleted_group_keeps_its_offsets_unless_they_are_to_go(client, field):
    await client.send("orders", b"x")
    place = {"consumerGroup": GROUP, "topic": "orders", "queueId": 0}
    await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**place, "commitOffset": 1})
    await set_group(client, consumeEnable=False)
    await client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": GROUP})
    assert (await shown(client))["consumeEnable"] is True
    assert (await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, place)).ext["offset"] == "1"
    await client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": GROUP, field: "true"})
    answer = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, {**place, "setZeroIfNotFound": "false"})
    assert answer.code == ResponseCode.QUERY_NOT_FOUND


@pytest.mark.parametrize(
    "settings",
    [
        {"retryQueueNums": -1},
        {"retryQueueNums": 1_000_000},
        {"retryQueueNums": "many"},
        {"group": "no spaces"},
        {"group": "x" * 128},
        {"attributes": {"a": "x" * 20_000}},
        {"attributes": [[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]},
    ],
    ids=str,
)
async def test_settings_that_cannot_be_are_refused(client, settings):
    answer = await set_group(client, **settings)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark
    assert await all_shown(client) == {}


async def test_there_is_a_limit(tmp_path):
    async with serving(broker={"groups_max": 2}) as penstock:
        client = await Client.to(penstock.addresses["broker"])
        codes = [(await set_group(client, f"g{number}")).code for number in range(3)]
        assert codes == [0, 0, ResponseCode.SYSTEM_ERROR]
        assert (await set_group(client, "g0", retryMaxTimes=2)).code == 0
        await client.close()


# --- obeyed -----------------------------------------------------------------------------------------------------------


async def test_a_group_that_may_not_consume_is_refused_before_its_topic_is_looked_at(reader):
    await set_group(reader, consumeEnable=False)
    for topic in ("orders", "no-such-topic"):
        answer = await reader.pull(GROUP, topic, 0, 0)
        assert answer.code == ResponseCode.NO_PERMISSION
        assert "set it to consume again" in answer.remark
    await set_group(reader, consumeEnable=True)
    assert (await reader.pull(GROUP, "orders", 0, 0)).code == ResponseCode.SUCCESS


async def test_a_group_that_may_not_broadcast(client):
    await client.send("orders", b"x")
    await set_group(client, consumeBroadcastEnable=False)
    offline = await client.pull(GROUP, "orders", 0, 0)
    assert offline.code == ResponseCode.SUBSCRIPTION_NOT_EXIST  # that nobody is there comes first
    await client.heartbeat(GROUP, "a@1", 1, {"orders": "*"}, messageModel="BROADCASTING")
    for topic in ("orders", f"%RETRY%{GROUP}"):  # and this before what it subscribes to
        assert (await client.pull(GROUP, topic, 0, 0)).code == ResponseCode.NO_PERMISSION
    own = {"sysFlag": PullFlag.SUBSCRIPTION, "subscription": "*"}
    assert (await client.pull(GROUP, "orders", 0, 0, **own)).code == ResponseCode.SUCCESS  # as RocketMQ has it
    await client.heartbeat(GROUP, "a@1", 2, {"orders": "*"}, messageModel="CLUSTERING")
    assert (await client.pull(GROUP, "orders", 0, 0)).code == ResponseCode.SUCCESS


async def test_members_are_not_told_of_others_when_the_group_is_set_so(connect):
    first, second = await connect(), await connect()
    await set_group(first, notifyConsumerIdsChangedEnable=False)
    await first.heartbeat(GROUP, "a@1", 1, {"orders": "*"})
    await second.heartbeat(GROUP, "b@1", 1, {"orders": "*"})
    await first.heartbeat("others", "a@1", 1, {"orders": "*"})
    told = await first.pushed.get()
    assert told.ext["consumerGroup"] == "others"
    assert first.pushed.empty()


# --- groups that have to be made --------------------------------------------------------------------------------------


@pytest.fixture
async def strict():
    async with serving(rocketmq={"auto_create_groups": False}) as penstock:
        client = await Client.to(penstock.addresses["broker"])
        await client.send("orders", b"x")
        yield client
        await client.close()


async def test_a_group_that_was_not_made_is_refused(strict):
    assert (await strict.heartbeat(GROUP, "a@1", 1, {"orders": "*"})).code == 0
    pull = await strict.pull(GROUP, "orders", 0, 0)
    back = await strict.ask(RequestCode.CONSUMER_SEND_MSG_BACK, {"offset": 0, "group": GROUP, "delayLevel": 0})
    retry = await strict.send(f"%RETRY%{GROUP}", b"x", j=1)
    for answer in (pull, back, retry):
        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert "updateSubGroup" in answer.remark
    listed = await strict.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": GROUP})
    assert listed.code == ResponseCode.SYSTEM_ERROR


async def test_a_group_that_was_made_is_served(strict):
    await set_group(strict)
    await strict.heartbeat(GROUP, "a@1", 1, {"orders": "*"})
    assert (await strict.pull(GROUP, "orders", 0, 0)).code == ResponseCode.SUCCESS


async def test_the_tools_own_group_needs_no_making(strict):
    own = {"sysFlag": PullFlag.SUBSCRIPTION, "subscription": "*"}
    assert (await strict.pull("TOOLS_CONSUMER", "orders", 0, 0, **own)).code == ResponseCode.SUCCESS


async def test_settings_are_told_as_events(client, told):
    await set_group(client, consumeEnable=False)
    await client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": GROUP})
    kinds = [(type(event).__name__, getattr(event, "changes", None)) for event in told]
    assert kinds == [("GroupSet", {"consume": "False"}), ("GroupDeleted", None)]
