"""Resets: what they would do, what they do, and who has confirmed."""

import pytest

from penstock.admin import model
from penstock.admin.errors import NotPossible, NotThere
from penstock.admin.place import Place
from penstock.admin.reset import AT_ONCE, BY_COMMIT, BY_QUEUE, instances_of, target_of, way_of
from penstock.client.positions import Bounds
from penstock.client.routes import MessageQueue
from penstock.client.tables import ClientOffsets
from penstock.wire.rocketmq.codes import RequestCode

EARLIEST, LATEST = Place("earliest"), Place("latest")
LATER_MS = 4_000_000_000_000


@pytest.mark.parametrize(
    ("to", "target"),
    [
        (EARLIEST, 3),
        (LATEST, 9),
        (Place("offset", 5), 5),
        (Place("offset", 1), 3),
        (Place("offset", 99), 9),
        (Place("time", 1), 6),
    ],
)
def test_a_target_is_inside_of_its_queue(to, target):
    assert target_of(to, Bounds(3, 9), at_ms=6) == target


@pytest.mark.parametrize(
    ("situation", "way"),
    [
        ({"ours": True, "exact": False}, AT_ONCE),
        ({"ours": True, "exact": True, "broadcast": True}, BY_QUEUE),
        ({"server_side": True}, BY_QUEUE),
        ({"online": False, "exact": True}, BY_COMMIT),
        ({"online": True}, AT_ONCE),
    ],
)
def test_the_way_of_a_broker(situation, way):
    general = {"ours": False, "server_side": False, "broadcast": False, "online": True, "exact": False}
    assert way_of(**general | situation) == way


@pytest.mark.parametrize(
    ("situation", "told"),
    [
        ({"server_side": True, "broadcast": True, "exact": False}, "useServerSideResetOffset"),
        ({"server_side": False, "broadcast": False, "exact": True}, "stop its members"),
    ],
)
def test_what_a_broker_cannot_do_is_said_before_anything_is_done(situation, told):
    with pytest.raises(NotPossible, match=told):
        way_of(ours=False, online=True, **situation)


async def test_a_plan_changes_nothing(engine, orders, commit):
    await commit(orders, 4)
    plan = await engine.plan_reset("readers", "orders", LATEST, None)
    assert [(row.queue, row.now, row.target, row.moves) for row in plan.rows] == [(0, 4, 10, 6), (1, None, 10, None)]
    assert (plan.model, plan.members, plan.to) == ("cluster", 0, "latest")
    assert {line.queue: line.committed for line in await engine.lag("readers")} == {0: 4, 1: 0}


async def test_s23_the_backlog_is_skipped_and_read_back(engine, orders, commit):
    await commit(orders, 4)
    result = await engine.reset(await engine.plan_reset("readers", "orders", LATEST, None))
    assert [(one.queue, one.target, one.set_to, one.reads) for one in result.queues] == [
        (0, 10, 10, 10),
        (1, 10, 10, 10),
    ]
    assert all(one.as_planned for one in result.queues)
    assert {line.lag for line in await engine.lag("readers")} == {0}


@pytest.mark.parametrize(
    ("to", "queue", "after"),
    [
        (EARLIEST, None, {0: 0, 1: 0}),
        (Place("offset", 7), None, {0: 7, 1: 7}),
        (Place("offset", 7), 1, {0: 4, 1: 7}),
        (LATEST, 0, {0: 10, 1: 5}),
        (Place("time", 0), None, {0: 0, 1: 0}),
        (Place("time", LATER_MS), None, {0: 10, 1: 10}),
    ],
)
async def test_s18_anywhere(engine, orders, commit, to, queue, after):
    other = MessageQueue("orders", orders.broker, 1)
    await commit(orders, 4)
    await commit(other, 5)
    await engine.reset(await engine.plan_reset("readers", "orders", to, queue))
    assert {line.queue: line.committed for line in await engine.lag("readers")} == after


async def test_s22_an_instance_that_is_online_goes_on_at_the_new_offset(engine, orders, commit, join):
    await commit(orders, 4)
    member = await join()
    plan = await engine.plan_reset("readers", "orders", EARLIEST, None)
    assert plan.members == 1
    await engine.reset(plan)
    assert await member.pull(orders, 5) == 0


async def test_s19_a_group_without_an_offset_is_refused(engine, orders):
    with pytest.raises(NotThere, match="has no offset on topic 'orders'"):
        await engine.plan_reset("readers", "orders", LATEST, None)


async def test_a_queue_that_is_not_there(engine, orders):
    with pytest.raises(NotThere, match="no queue 5"):
        await engine.plan_reset("readers", "orders", LATEST, 5)


async def test_s25_every_instance_of_a_broadcast_group_is_listed_and_confirms_for_itself(engine, orders, join):
    other = MessageQueue("orders", orders.broker, 1)
    first = await join(broadcast=True, offsets={orders: 4, other: 3})
    second = await join(broadcast=True, offsets={orders: 6})
    plan = await engine.plan_reset("readers", "orders", LATEST, None)
    assert (plan.model, [row.now for row in plan.rows]) == ("broadcast", [4, 3])
    result = await engine.reset(plan)
    assert {one.client_id: one.queues_confirmed for one in result.instances} == {
        first.instance.client_id: 0,
        second.instance.client_id: 0,
    }
    for member in (first, second):
        assert member.told.count(RequestCode.RESET_CONSUMER_CLIENT_OFFSET) == 1
    for queue in (orders, other):
        assert await first.pull(queue, 4) == 10  # told to go there
        await first.pull(queue, 10)
    result = await engine.reset_state(plan, result)
    assert {one.client_id: one.confirmed for one in result.instances} == {
        first.instance.client_id: True,
        second.instance.client_id: False,
    }


async def test_s25_a_broadcast_group_that_is_away_is_reset_and_who_is_away_is_named(engine, orders, join, penstock):
    member = await join(broadcast=True, offsets={orders: 4})
    await member.instance.leave(member, consumerGroup=member.group)
    plan = await engine.plan_reset("readers", "orders", LATEST, None)
    assert (plan.model, plan.members, [row.target for row in plan.rows]) == ("broadcast", 0, [10, 10])
    result = await engine.reset_state(plan, await engine.reset(plan))
    assert (result.instances, result.away) == ([], [member.instance.client_id])
    assert not result.as_planned  # nobody was told


def test_where_the_broker_keeps_no_account_instances_are_asked_where_they_are():
    queue = MessageQueue("orders", "b", 0)
    row = model.ResetRow("b", 0, 0, 10, 4, 10)
    plan = model.ResetPlan("readers", "orders", "latest", "broadcast", 2, [row], AT_ONCE)
    found = instances_of(plan, ClientOffsets({"a": {queue: 10}, "b": {queue: 4}, "c": {}}))
    assert [(one.client_id, one.confirmed) for one in found] == [("a", True), ("b", False), ("c", False)]
