"""Groups, versions and pulls, frame by frame: the worked example and the races around it."""

import asyncio
import json

import pytest
from tests.gateway.rocketmq.conftest import Client

from penstock.core import events
from penstock.core.topics import TopicSettings
from penstock.gateway.rocketmq import members
from penstock.gateway.rocketmq.members import GROUPS_MAX
from penstock.testing.server import serving
from penstock.wire.rocketmq.codes import PullFlag, RequestCode, ResponseCode
from penstock.wire.rocketmq.record import messages_in

GROUP = "readers"


@pytest.fixture
async def orders(client):
    for queue in range(4):
        await client.send("orders", b"in queue %d" % queue, queue=queue)
    return "orders"


def of(kind, told):
    return [event for event in told if isinstance(event, kind)]


async def pulled(client, queue, version, offset=0):
    return (await client.pull(GROUP, "orders", queue, offset, version)).code


async def test_s01_the_newest_version_counts(client, orders, penstock):
    known = penstock.server.broker.groups
    for version, expected in ((5, 5), (3, 5), (5, 5), (9, 9)):
        await client.heartbeat(GROUP, "a", version, {"orders": "*"})
        assert known.find(GROUP).subscriptions["orders"].version == expected


async def test_s02_a_pull_newer_than_the_heartbeat_is_refused(client, orders):
    await client.heartbeat(GROUP, "a", 2, {"orders": "*"})
    refused = await client.pull(GROUP, "orders", 0, 0, version=3)
    assert (refused.code, refused.remark) == (25, "the consumer's subscription not latest")
    assert await pulled(client, 0, 2) == 0
    assert await pulled(client, 0, 1) == 0


async def test_s03_the_worked_example(connect, orders, told):
    """Four queues. A alone owns all; B comes, is refused until A has moved, and no message goes to both."""
    a, b = await connect(), await connect()
    await a.heartbeat(GROUP, "a", 1, {"orders": "*"})
    assert [await pulled(a, queue, 1) for queue in range(4)] == [0, 0, 0, 0]
    await b.heartbeat(GROUP, "b", 2, {"orders": "*"})
    assert [await pulled(b, queue, 3) for queue in (2, 3)] == [25, 25]  # rebalanced, and no heartbeat yet
    await a.heartbeat(GROUP, "a", 4, {"orders": "*"})  # A has rebalanced too
    await b.heartbeat(GROUP, "b", 3, {"orders": "*"})
    assert [await pulled(b, queue, 3) for queue in (2, 3)] == [0, 0]
    refused = of(events.PullRefused, told)
    assert [(event.client_id, event.pull_version, event.known_version) for event in refused] == [("b", 3, 2)] * 2


async def test_s04_one_consumer_alone_meets_it_too(client, orders):
    await client.heartbeat(GROUP, "a", 1, {"orders": "*"})
    assert await pulled(client, 0, 2) == 25
    await client.heartbeat(GROUP, "a", 2, {"orders": "*"})
    assert await pulled(client, 0, 2) == 0


async def test_s08_an_operator_sees_who_is_behind(client, orders, penstock):
    await client.heartbeat(GROUP, "a", 1, {"orders": "*"})
    for _ in range(3):
        assert await pulled(client, 0, 2) == 25
    (episode,) = penstock.server.broker.groups.find(GROUP).refusals.values()
    assert (episode.client_id, episode.count, episode.pull_version, episode.known_version) == ("a", 3, 2, 1)
    await client.heartbeat(GROUP, "a", 2, {"orders": "*"})
    assert await pulled(client, 0, 2) == 0
    assert not penstock.server.broker.groups.find(GROUP).refusals  # it healed by itself


async def test_s08_when_it_is_over_it_is_told_how_long_it_was(client, orders, told):
    await client.heartbeat(GROUP, "a", 1, {"orders": "*"})
    assert [await pulled(client, 0, 2) for _ in range(2)] == [25, 25]
    await client.heartbeat(GROUP, "a", 2, {"orders": "*"})
    assert [await pulled(client, 0, 2) for _ in range(2)] == [0, 0]
    (over,) = of(events.RefusalsOver, told)
    first = of(events.PullRefused, told)[0]
    assert (over.client_id, over.topic, over.refusals, over.since_ms) == ("a", "orders", 2, first.at_ms)


async def test_s10_a_rebalance_is_seen_by_the_version_that_a_member_takes_anew(connect, orders, told):
    a, b = await connect(), await connect()
    await a.heartbeat(GROUP, "a", 5, {"orders": "*"})
    await b.heartbeat(GROUP, "b", 9, {"orders": "*"})
    await a.heartbeat(GROUP, "a", 5, {"orders": "*"})
    assert not of(events.RebalanceSeen, told)  # nobody has changed its own version
    await a.heartbeat(GROUP, "a", 7, {"orders": "*"})  # older than the newest of the group
    await a.heartbeat(GROUP, "a", 11, {"orders": "red"})  # that asks for something else
    seen = of(events.RebalanceSeen, told)
    assert [(event.client_id, event.topic, event.version_before, event.version) for event in seen] == [
        ("a", "orders", 5, 7)
    ]


async def test_s17_a_member_is_seen_at_the_queues_it_pulls_and_those_it_commits(connect, orders, penstock):
    a, stranger = await connect(), await connect()
    await a.heartbeat(GROUP, "a", 1, {"orders": "*"})
    await pulled(a, 0, 1)
    commit = {"consumerGroup": GROUP, "topic": "orders", "queueId": 1, "commitOffset": 1}
    await a.ask(RequestCode.UPDATE_CONSUMER_OFFSET, commit)
    await stranger.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**commit, "queueId": 2})
    await a.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**commit, "queueId": 999})
    seen = penstock.server.broker.readers
    assert [queue for queue in range(1000) if seen.of(GROUP, "orders", queue).anybody] == [0, 1]


async def test_s09_another_subscription_is_not_a_newer_version(client, orders, told):
    await client.heartbeat(GROUP, "a", 1, {"orders": "red"})
    told.clear()
    await client.heartbeat(GROUP, "a", 2, {"orders": "red"})
    assert not of(events.SubscriptionChanged, told)
    await client.heartbeat(GROUP, "a", 3, {"orders": "blue"})
    (change,) = of(events.SubscriptionChanged, told)
    assert (change.topic, change.before, change.after) == ("orders", "red", "blue")


async def test_s15_two_connections_with_one_id_stand_in_the_list_twice(connect, orders, told):
    a, twin, other = await connect(), await connect(), await connect()
    for member, client_id in ((a, "same"), (twin, "same"), (other, "b")):
        await member.heartbeat(GROUP, client_id, 1, {"orders": "*"})
    answer = await other.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": GROUP})
    assert sorted(json.loads(bytes(answer.body))["consumerIdList"]) == ["b", "same", "same"]
    (doubled,) = of(events.MemberDoubled, told)
    assert (doubled.client_id, len(doubled.addresses)) == ("same", 2)


async def test_everybody_is_told_when_somebody_comes_or_goes(connect, orders):
    a, b = await connect(), await connect()
    await a.heartbeat(GROUP, "a", 1, {"orders": "*"})
    assert (await a.pushed.get()).code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    await b.heartbeat(GROUP, "b", 1, {"orders": "*"})
    for member in (a, b):
        notice = await member.pushed.get()
        assert (notice.code, notice.ext["consumerGroup"]) == (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, GROUP)
    await b.close()
    assert (await a.pushed.get()).code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    answer = await a.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": GROUP})
    assert json.loads(bytes(answer.body)) == {"consumerIdList": ["a"]}


async def test_who_unregisters_is_gone(connect, orders):
    a, b = await connect(), await connect()
    await a.heartbeat(GROUP, "a", 1, {"orders": "*"})
    await b.heartbeat(GROUP, "b", 1, {"orders": "*"})
    while not a.pushed.empty():
        a.pushed.get_nowait()
    await b.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "b", "consumerGroup": GROUP})
    notice = await asyncio.wait_for(a.pushed.get(), 5)
    assert (notice.code, notice.ext["consumerGroup"]) == (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, GROUP)
    answer = await a.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": GROUP})
    assert json.loads(bytes(answer.body)) == {"consumerIdList": ["a"]}


async def test_nobody_there_is_an_error_and_not_an_empty_list(client):
    answer = await client.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "ghosts"})
    assert answer.code == ResponseCode.SYSTEM_ERROR


async def test_a_pull_of_a_group_that_is_not_there_or_not_subscribed(client, orders):
    assert await pulled(client, 0, 0) == ResponseCode.SUBSCRIPTION_NOT_EXIST
    await client.heartbeat(GROUP, "a", 1, {"other": "*"})
    assert await pulled(client, 0, 0) == ResponseCode.SUBSCRIPTION_NOT_EXIST


async def test_tags_are_filtered(client):
    for number, tag in enumerate(("red", "blue", "red", "green")):
        await client.send("paint", b"%d" % number, properties=f"TAGS\x01{tag}\x02")
    await client.heartbeat(GROUP, "a", 1, {"paint": "red || green"})
    answer = await client.pull(GROUP, "paint", 0, 0, 1)
    assert [message.body for message in messages_in(answer.body)] == [b"0", b"2", b"3"]
    assert answer.ext["nextBeginOffset"] == "4"


async def test_nothing_that_matches_moves_on_at_once(client):
    await client.send("paint", b"x", properties="TAGS\x01red\x02")
    await client.heartbeat(GROUP, "a", 1, {"paint": "blue"})
    answer = await client.pull(GROUP, "paint", 0, 0, 1, wait_ms=10_000)
    assert (answer.code, answer.ext["nextBeginOffset"]) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "1")


# --- offsets ----------------------------------------------------------------------------------------------------------


async def test_s26_an_offset_outside_the_queue_is_corrected(client, orders, told, penstock):
    await client.heartbeat(GROUP, "a", 1, {"orders": "*"})
    high = await client.pull(GROUP, "orders", 0, 999_999_999, 1)
    assert (high.code, high.ext["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "1")
    store, topics = penstock.server.broker.store, penstock.server.broker.topics
    store.trim(topics.get("orders").queue(0), 1)
    low = await client.pull(GROUP, "orders", 0, 0, 1)
    assert (low.code, low.ext["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "1")
    moved = of(events.OffsetMoved, told)
    assert [(event.asked_offset, event.corrected_offset) for event in moved] == [(999_999_999, 1), (0, 1)]


async def test_a_pull_at_the_end_waits_for_the_next_message(connect, orders):
    reader, writer = await connect(), await connect()
    await reader.heartbeat(GROUP, "a", 1, {"orders": "*"})
    waiting = reader.pull(GROUP, "orders", 0, 1, 1, wait_ms=30_000)
    await reader.ask(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": 0})  # the pull has arrived before this
    assert not waiting.done()
    await writer.send("orders", b"next", queue=0)
    answer = await waiting
    assert [message.body for message in messages_in(answer.body)] == [b"next"]


async def test_a_wait_ends_with_its_time(client, orders):
    await client.heartbeat(GROUP, "a", 1, {"orders": "*"})
    answer = await client.pull(GROUP, "orders", 0, 1, 1, wait_ms=20)
    assert (answer.code, answer.ext["nextBeginOffset"]) == (ResponseCode.PULL_NOT_FOUND, "1")


async def test_who_does_not_want_to_wait_is_answered_at_once(client, orders):
    await client.heartbeat(GROUP, "a", 1, {"orders": "*"})
    assert await pulled(client, 0, 1, offset=1) == ResponseCode.PULL_NOT_FOUND


async def test_a_wait_of_a_connection_that_is_gone_leaves_nothing(connect, orders, penstock):
    reader, other = await connect(), await connect()
    await reader.heartbeat(GROUP, "a", 1, {"orders": "*"})
    reader.pull(GROUP, "orders", 0, 1, 1, wait_ms=30_000)
    await reader.ask(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": 0})
    assert len(penstock.server.broker.waits) == 1
    await reader.close()
    while penstock.server.broker.groups.find(GROUP):
        await asyncio.sleep(0)
    assert len(penstock.server.broker.waits) == 0
    assert (await other.send("orders", b"next")).code == 0


async def test_offsets_are_kept(client, orders):
    asked = {"consumerGroup": GROUP, "topic": "orders", "queueId": 0}
    assert (await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, asked)).ext["offset"] == "0"  # a young topic
    await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**asked, "commitOffset": 7})
    await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, {**asked, "commitOffset": -1})  # some clients do
    assert (await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, asked)).ext["offset"] == "7"


async def test_no_offset_in_a_queue_that_has_lost_its_beginning(client, orders, penstock):
    penstock.server.broker.store.trim(penstock.server.broker.topics.get("orders").queue(0), 1)
    asked = {"consumerGroup": GROUP, "topic": "orders", "queueId": 0}
    answer = await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, asked)
    assert answer.code == ResponseCode.QUERY_NOT_FOUND


async def test_a_pull_commits_along(client, orders):
    await client.heartbeat(GROUP, "a", 1, {"orders": "*"})
    await client.pull(GROUP, "orders", 1, 0, 1, sysFlag=PullFlag.COMMIT, commitOffset=1)
    asked = {"consumerGroup": GROUP, "topic": "orders", "queueId": 1}
    assert (await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, asked)).ext["offset"] == "1"


async def test_where_queues_begin_and_end(client, orders):
    at = {"topic": "orders", "queueId": 0}
    assert (await client.ask(RequestCode.GET_MAX_OFFSET, at)).ext["offset"] == "1"
    assert (await client.ask(RequestCode.GET_MIN_OFFSET, at)).ext["offset"] == "0"
    earliest = int((await client.ask(RequestCode.GET_EARLIEST_MSG_STORETIME, at)).ext["timestamp"])
    assert earliest > 0
    found = [
        (await client.ask(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, {**at, "timestamp": time})).ext["offset"]
        for time in (0, earliest, earliest + 1)
    ]
    assert found == ["0", "0", "1"]


# --- what a heartbeat brings into being -------------------------------------------------------------------------------


def logged(caplog):
    """Why requests were not done in full, as the log has it."""
    return [record.penstock_fields["why"] for record in caplog.records if "not done in full" in record.message]


def beat_of(groups, topic="orders", **more):
    consumers = [{"groupName": group, "subscriptionDataSet": [{"topic": topic}]} for group in groups]
    return json.dumps({"clientID": "a", "consumerDataSet": consumers, **more}).encode()


async def groups_after(penstock, client, *groups, **more):
    """Who is in which of these groups after one heartbeat with all of them, which has to be taken."""
    assert (await client.ask(RequestCode.HEART_BEAT, {}, beat_of(groups, **more))).code == ResponseCode.SUCCESS
    known = penstock.server.broker.groups
    return {group: known.find(group).client_ids for group in groups if known.find(group)}


@pytest.mark.parametrize("wrong", ["n" * 125, "", "a b", "grün", "a\tb", "%RETRY%" * 200], ids=range(6))
async def test_a_group_with_a_wrong_name_does_not_keep_those_behind_it_out(penstock, client, wrong, caplog):
    for _ in range(3):
        assert await groups_after(penstock, client, wrong, "good") == {"good": ["a"]}
    assert penstock.server.broker.topics.find("%RETRY%good")
    assert len(logged(caplog)) == 1  # heartbeats come for ever


async def test_a_group_whose_retry_topic_cannot_be_made_is_joined_all_the_same(caplog):
    async with serving(broker={"topics_max": 50}) as penstock:
        client = await Client.to(penstock.addresses["broker"])
        topics = penstock.server.broker.topics
        while len(topics) < 49:
            topics.create_now(f"topic{len(topics)}", TopicSettings(write_queues=1))
        groups = ("one", "two", "three")
        assert list(await groups_after(penstock, client, *groups)) == [*groups]
        assert [topics.find(f"%RETRY%{group}") is not None for group in groups] == [True, False, False]
        assert "broker.topics_max" in logged(caplog)[0]
        await topics.delete("topic48")
        await groups_after(penstock, client, *groups)
        assert topics.find("%RETRY%two")  # the next heartbeat tries again
        await client.close()


async def test_a_connection_can_be_in_so_many_groups_and_its_own_are_heard_on(connect, penstock, caplog):
    """Each brings a topic into being: one heartbeat cannot use them all up."""
    client, other = await connect(), await connect()
    before = len(penstock.server.broker.topics)
    names = [f"g{number}" for number in range(GROUPS_MAX + 1)]
    assert len(await groups_after(penstock, client, *names)) == GROUPS_MAX
    assert len(penstock.server.broker.topics) == before + GROUPS_MAX
    assert "use another one" in logged(caplog)[0]
    assert await groups_after(penstock, client, "g0", "another") == {"g0": ["a"]}
    assert await groups_after(penstock, other, "another") == {"another": ["a"]}
    await client.ask(RequestCode.UNREGISTER_CLIENT, {"clientID": "a", "consumerGroup": "g0"})
    assert names[-1] in await groups_after(penstock, client, names[-1])  # there is room again


async def test_a_heartbeat_brings_so_many_producer_groups(client, penstock):
    producers = [{"groupName": f"p{number}"} for number in range(GROUPS_MAX + 1)]
    await groups_after(penstock, client, producerDataSet=producers)
    answers = [
        await client.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": group})
        for group in (f"p{GROUPS_MAX - 1}", f"p{GROUPS_MAX}")
    ]
    assert [answer.code for answer in answers] == [ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR]


# --- queue locks ------------------------------------------------------------------------------------------------------


def queues_body(client_id, queues=range(2), group=GROUP, topic="orders", broker="penstock"):
    found = [{"topic": topic, "queueId": number, "brokerName": broker} for number in queues]
    return json.dumps({"consumerGroup": group, "clientId": client_id, "mqSet": found}).encode()


async def locked(client, *args, **more):
    """The queues that are granted."""
    answer = await client.ask(RequestCode.LOCK_BATCH_MQ, {}, queues_body(*args, **more))
    assert answer.code == ResponseCode.SUCCESS
    return [queue["queueId"] for queue in json.loads(bytes(answer.body))["lockOKMQSet"]]


async def unlock(client, *args, **more):
    return (await client.ask(RequestCode.UNLOCK_BATCH_MQ, {}, queues_body(*args, **more))).code


async def test_locks_are_held_by_one_client(client, orders):
    assert [await locked(client, name) for name in ("a", "b", "a")] == [[0, 1], [], [0, 1]]
    await unlock(client, "b")
    assert await locked(client, "b") == []
    await unlock(client, "a")
    assert await locked(client, "b") == [0, 1]


async def test_a_lock_ends_after_a_minute_unless_it_is_taken_again(world):
    await world.client.send("orders", b"x")
    assert await locked(world.client, "a", [0, 1]) == [0, 1]
    world.clock.advance(30_000)
    assert await locked(world.client, "a", [0]) == [0]
    world.clock.advance(30_000)
    assert await locked(world.client, "b") == []  # a minute to the millisecond
    world.clock.advance(1)
    assert await locked(world.client, "b") == [1]
    world.clock.advance(30_000)
    assert await locked(world.client, "b") == [0, 1]
    assert await locked(world.client, "a") == []


async def test_each_group_has_locks_of_its_own(client, orders):
    assert [await locked(client, "a", group=group) for group in ("one", "two")] == [[0, 1], [0, 1]]


@pytest.mark.parametrize("client_id", ["", "a"])
async def test_unlocking_what_nobody_holds_changes_nothing(client, orders, client_id):
    assert await unlock(client, client_id) == ResponseCode.SUCCESS
    assert await locked(client, "b") == [0, 1]
    assert await unlock(client, client_id) == ResponseCode.SUCCESS
    assert await locked(client, "c") == []


async def test_who_has_no_client_id_holds_its_locks_like_others(client, orders):
    assert [await locked(client, name) for name in ("", "b", "")] == [[0, 1], [], [0, 1]]


async def test_only_queues_that_exist_can_be_locked(client, orders):
    assert await locked(client, "a", [-1, *range(1_000)]) == [0, 1, 2, 3]
    assert await locked(client, "a", topic="nowhere") == []
    assert await locked(client, "b", broker="elsewhere") == []  # there is one broker


async def test_so_many_queues_are_locked_at_once_and_those_can_be_taken_again(client, orders, monkeypatch, caplog):
    monkeypatch.setattr(members, "LOCKS_MAX", 3)
    assert await locked(client, "a", range(4)) == [0, 1, 2]
    assert await locked(client, "b", range(4), group="other") == []
    assert "queues are locked already" in logged(caplog)[0]
    assert await locked(client, "a", range(3)) == [0, 1, 2]
    await unlock(client, "a", [1])
    assert await locked(client, "b", [0], group="other") == [0]


# --- what else is refused, and told of --------------------------------------------------------------------------------


def heard(world):
    events_heard = []
    world.server.broker.bus.listen(events_heard.append)
    return events_heard


async def test_pulls_of_who_is_not_there_or_asks_for_something_else_are_told_of_with_their_code(world):
    told, (a, b) = heard(world), [await world.connected() for _ in range(2)]
    await a.send("orders", b"one")
    assert await pulled(a, 0, 1) == 24  # nobody of the group is there
    await a.heartbeat(GROUP, "a", 7, {"invoices": "*"})
    assert await pulled(a, 0, 9) == 24  # it does not subscribe to that: told of already in this second
    await b.heartbeat(GROUP, "b", 8, {"invoices": "*"})
    assert await pulled(b, 0, 9) == 24
    world.clock.advance(1_000)
    assert await pulled(a, 0, 9) == 24
    refused = of(events.PullRefused, told)
    assert [(one.code, one.client_id, one.topic, one.pull_version) for one in refused] == [
        (24, "", "orders", 1), (24, "b", "orders", 9), (24, "a", "orders", 9),
    ]  # fmt: skip
    await a.close()
    await b.close()


async def test_a_pull_of_a_group_that_has_to_be_set_first_is_told_of(open_world):
    world = await open_world(auto_create_groups=False)
    told = heard(world)
    assert await pulled(world.client, 0, 1) == 26
    assert [(one.code, one.group) for one in of(events.PullRefused, told)] == [(26, GROUP)]


async def test_a_flood_of_refused_pulls_is_no_flood_of_events(world):
    told = heard(world)
    await world.client.send("orders", b"one")
    codes = {(await world.client.pull(f"nobody-{n}", "orders", 0, 0)).code for n in range(300)}
    assert (codes, len(of(events.PullRefused, told))) == ({24}, 100)


# --- on a clock that only moves when it is told to --------------------------------------------------------------------


async def test_s03_the_worked_example_on_a_clock_of_its_own_and_what_each_of_them_gets(world):
    """Messages come all the while. What B may not have yet is A's, and nothing goes to both, and nothing is lost."""
    a, b = [await world.connected() for _ in range(2)]
    got, offsets = {"a": [], "b": []}, dict.fromkeys(range(4), 0)

    async def publish(number):
        for queue in range(4):
            await world.client.send("orders", b"%d in %d" % (number, queue), queue=queue)

    async def consume(name, client, queues, version):
        """Pull each queue once; the codes."""
        codes = []
        for queue in queues:
            answer = await client.pull(GROUP, "orders", queue, offsets[queue], version)
            codes.append(answer.code)
            if answer.code == 0:
                got[name] += [bytes(message.body) for message in messages_in(answer.body)]
                offsets[queue] = int(answer.ext["nextBeginOffset"])
        return codes

    await publish(0)
    await a.heartbeat(GROUP, "a", 1, {"orders": "*"})
    assert await consume("a", a, range(4), 1) == [0, 0, 0, 0]
    world.clock.advance(5_000)
    await b.heartbeat(GROUP, "b", 2, {"orders": "*"})
    await publish(1)
    for number in range(2, 8):  # B has rebalanced, and comes again every three seconds; A does not know of it yet
        assert await consume("b", b, (2, 3), 3) == [25, 25]
        assert await consume("a", a, range(4), 1) == [0, 0, 0, 0]
        world.clock.advance(3_000)
        await publish(number)
    await a.heartbeat(GROUP, "a", 4, {"orders": "*"})  # A has rebalanced, too, and has let go of queues 2 and 3
    await b.heartbeat(GROUP, "b", 3, {"orders": "*"})
    assert await consume("b", b, (2, 3), 3) == [0, 0]
    assert await consume("a", a, (0, 1), 4) == [0, 0]
    expected = sorted(b"%d in %d" % (number, queue) for number in range(8) for queue in range(4))
    assert sorted(got["a"] + got["b"]) == expected, "each once"
    assert sorted(got["b"]) == [b"7 in 2", b"7 in 3"]
    await a.close()
    await b.close()


async def test_a_member_that_is_silent_for_two_minutes_is_out_and_the_others_are_told_to_share_anew(world):
    silent, there = [await world.connected() for _ in range(2)]
    await silent.heartbeat(GROUP, "silent", 1, {"orders": "*"})
    await there.heartbeat(GROUP, "there", 1, {"orders": "*"})
    pushed = [await asyncio.wait_for(there.pushed.get(), 5)]  # of its own coming
    world.clock.advance(119_000)
    await there.heartbeat(GROUP, "there", 1, {"orders": "*"})
    world.server.broker.groups.expire()
    assert there.pushed.empty()
    world.clock.advance(1_001)
    world.server.broker.groups.expire()
    pushed.append(await asyncio.wait_for(there.pushed.get(), 5))
    assert [(frame.code, frame.ext["consumerGroup"]) for frame in pushed] == [
        (RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, GROUP)
    ] * 2
    await asyncio.wait_for(silent.closed.wait(), 5)
    assert world.server.broker.groups.find(GROUP).client_ids == ["there"]
    await silent.close()
    await there.close()
