"""Resetting a group on rocketmq://: what it would do, doing it, and what became of it.

A queue's target is the place that was asked for, inside of what the queue has. How a broker is told depends on what it
can do and on who is online (`way_of`):

    penstock               all queues at once to a time, or queue by queue to an offset; it tells the instances itself
    rocketmq, server side  queue by queue (the default since 5.1): the next pull is sent to the offset
    rocketmq, older        online: all queues to a time, and the instances do it; offline: the offsets are committed
"""

import asyncio

from penstock.admin import model
from penstock.admin.errors import NotPossible, NotThere
from penstock.admin.place import EARLIEST, LATEST, OFFSET, TIME, Place
from penstock.client import positions, tables
from penstock.client.operator import Operator
from penstock.client.positions import Bounds
from penstock.client.routes import MessageQueue

AT_ONCE, BY_QUEUE, BY_COMMIT = "at once", "queue by queue", "by commit"
_BEGINNING_MS, _END_MS = 0, -1


async def plan(operator: Operator, group: str, topic: str, to: Place, queue: int | None) -> model.ResetPlan:
    queues = [one for one in (await operator.cluster.fetch(topic)).to_read(topic) if queue in (None, one.queue)]
    if not queues:
        raise NotThere(f"topic {topic!r} has no queue {queue}")
    there = await operator.connections(group)
    told = await _told(operator, group, topic, there)
    broadcast = told is not None
    rows = list(await asyncio.gather(*(_row(operator, group, one, to, told) for one in queues)))
    if not broadcast and all(row.now is None for row in rows):
        raise NotThere(f"group {group!r} has no offset on topic {topic!r}: it has never consumed it")
    return model.ResetPlan(
        group=group,
        topic=topic,
        to=str(to),
        model=model.BROADCAST if broadcast else model.CLUSTER,
        members=len(there.connection_set) if there else 0,
        rows=rows,
        way=await _way(operator, topic, to, queue, broadcast, online=there is not None),
        time_ms={EARLIEST: _BEGINNING_MS, TIME: to.value}.get(to.kind, _END_MS),
    )


async def _told(
    operator: Operator, group: str, topic: str, there: tables.Connections | None
) -> tables.ClientOffsets | None:
    """Of a broadcast group what its instances say; None of any other. Penstock knows them while they are away, too."""
    if there is not None and there.message_model != "BROADCASTING":
        return None
    told = await operator.client_offsets(group, topic)
    return told if there is not None or told.broadcast else None


async def _row(
    operator: Operator, group: str, queue: MessageQueue, to: Place, told: tables.ClientOffsets | None
) -> model.ResetRow:
    cluster = operator.cluster
    there = await positions.bounds(cluster, queue)
    at_ms = await positions.offset_at(cluster, queue, to.value) if to.kind == TIME else 0
    if told is None:
        now = await positions.committed(cluster, group, queue, young_is_zero=False)
    else:
        now = min((offsets[queue] for offsets in told.offsets.values() if queue in offsets), default=None)
    return model.ResetRow(
        queue.broker, queue.queue, there.min_offset, there.max_offset, now, target_of(to, there, at_ms)
    )


def target_of(to: Place, there: Bounds, at_ms: int) -> int:
    """Where a queue is to be reset; `at_ms` is the offset of the time, if it is one."""
    wanted = {EARLIEST: there.min_offset, LATEST: there.max_offset, OFFSET: to.value, TIME: at_ms}
    return there.within(wanted[to.kind])


async def _way(operator: Operator, topic: str, to: Place, queue: int | None, broadcast: bool, online: bool) -> str:
    """The one way that all brokers of the topic have."""
    found = set()
    for address in (await operator.masters_of(topic)).values():
        ours = (await operator.runtime(address)).get("brokerVersionDesc", "").startswith("penstock")
        server_side = not ours and (await operator.settings(address)).get("useServerSideResetOffset") == "true"
        found.add(way_of(ours, server_side, broadcast, online, to.kind == OFFSET or queue is not None))
    if len(found) != 1:
        raise NotPossible("the brokers of this topic reset in different ways: give them one version and setting first")
    return found.pop()


def way_of(ours: bool, server_side: bool, broadcast: bool, online: bool, exact: bool) -> str:
    """How a broker is told; `exact` when offsets are given, or one queue alone."""
    if ours:
        return BY_QUEUE if exact else AT_ONCE
    if server_side and broadcast:
        raise NotPossible(
            "this RocketMQ resets a broadcast group only at the instance that pulls first "
            "(useServerSideResetOffset=true): set it to false, then try again"
        )
    if server_side:
        return BY_QUEUE
    if not online:
        return BY_COMMIT
    if exact:
        raise NotPossible(
            "this RocketMQ can reset a group that is online only to a time, and all queues: stop its members first"
        )
    return AT_ONCE


async def carry_out(operator: Operator, planned: model.ResetPlan) -> model.ResetResult:
    was_set = await _CARRIERS[planned.way](operator, planned)
    done = [
        model.ResetDone(row.broker, row.queue, row.target, was_set.get(_queue(planned, row)), None)
        for row in planned.rows
    ]
    return await state(operator, planned, model.ResetResult(done, []))


async def _at_once(operator: Operator, planned: model.ResetPlan) -> dict[MessageQueue, int]:
    found: dict[MessageQueue, int] = {}
    for address in (await operator.masters_of(planned.topic)).values():
        found |= await operator.reset(address, planned.group, planned.topic, planned.time_ms, by=planned.by)
    return found


async def _by_queue(operator: Operator, planned: model.ResetPlan) -> dict[MessageQueue, int]:
    masters = await operator.masters_of(planned.topic)
    found: dict[MessageQueue, int] = {}
    for row in planned.rows:
        found |= await operator.reset(
            masters[row.broker], planned.group, planned.topic, queue=row.queue, offset=row.target, by=planned.by
        )
    return found


async def _by_commit(operator: Operator, planned: model.ResetPlan) -> dict[MessageQueue, int]:
    found = {}
    for row in planned.rows:
        queue = _queue(planned, row)
        await positions.commit(operator.cluster, planned.group, queue, row.target)
        found[queue] = row.target
    return found


_CARRIERS = {AT_ONCE: _at_once, BY_QUEUE: _by_queue, BY_COMMIT: _by_commit}


async def state(operator: Operator, planned: model.ResetPlan, result: model.ResetResult) -> model.ResetResult:
    """Read back: the offsets of a cluster group, the instances of a broadcast group."""
    if planned.model == model.BROADCAST:
        told = await operator.client_offsets(planned.group, planned.topic)
        return model.ResetResult(result.queues, instances_of(planned, told), told.reset.away if told.reset else [])
    for done in result.queues:
        queue = MessageQueue(planned.topic, done.broker, done.queue)
        done.reads = await positions.committed(operator.cluster, planned.group, queue, young_is_zero=False)
    return result


def instances_of(planned: model.ResetPlan, told: tables.ClientOffsets) -> list[model.ResetInstance]:
    """Who was told and has confirmed. Penstock knows; where the broker does not, an instance has confirmed a queue when
    it says that it is at the target.
    """
    targets = {_queue(planned, row): row for row in planned.rows}
    if told.reset is not None:
        queues = {row.queue for row in planned.rows}
        return [
            model.ResetInstance(one.client_id, one.address, len(queues.intersection(one.confirmed)), len(queues))
            for one in told.reset.instances
        ]
    return [
        model.ResetInstance(
            client, "", sum(queue in offsets and offsets[queue] == row.target for queue, row in targets.items()),
            len(targets),
        )
        for client, offsets in sorted(told.offsets.items())
    ]  # fmt: skip


def _queue(planned: model.ResetPlan, row: model.ResetRow) -> MessageQueue:
    return MessageQueue(planned.topic, row.broker, row.queue)
