"""Whether a backlog grows: two looks, a moment apart. For every engine.

A queue is called unread only when nobody had it at either look: during a rebalance, between two owners, a queue has
none for a moment.
"""

import asyncio
from collections.abc import Sequence

from penstock.admin import model
from penstock.admin.engine import Engine


def unread_in(lines: Sequence[model.Lag], members: Sequence[model.Member]) -> list[model.Unread]:
    """The queues that no member has. None are named while nobody is online, or a member does not say what it reads."""
    if not members or any(member.queues is None for member in members):
        return []
    return [model.Unread(one.topic, one.broker, one.queue, one.lag) for one in lines if not one.owners]


def twins_in(members: Sequence[model.Member]) -> list[model.Twins]:
    """ClientIDs that stand in the list of members more than once: these instances take the same queues."""
    by_id: dict[str, list[model.Member]] = {}
    for member in members:
        by_id.setdefault(member.client_id, []).append(member)
    return [
        model.Twins(client_id, [one.address for one in same], same[0].queues or [])
        for client_id, same in by_id.items()
        if len(same) > 1
    ]


def grown(before: Sequence[model.Lag], now: Sequence[model.Lag]) -> list[model.Lag]:
    """What is now, with how much it has grown; what was not there before has no growth."""
    lags = {_key(one): one.lag for one in before}
    for one in now:
        one.growth = one.lag - lags[_key(one)] if _key(one) in lags else None
    return list(now)


def _key(one: model.Lag) -> tuple[object, ...]:
    return one.topic, one.broker, one.queue, tuple(one.owners) if one.broadcast else ()


async def lag(engine: Engine, group: str, topic: str, over_s: float) -> list[model.Lag]:
    """How far a group is behind, and by how much that grows meanwhile."""
    before = await engine.lag(group, topic)
    await asyncio.sleep(over_s)
    return grown(before, await engine.lag(group, topic))


async def group(engine: Engine, name: str, over_s: float) -> model.GroupDetail:
    """A group in detail. One with queues that nobody reads is looked at again, for whether they fill up."""
    first = await engine.group(name)
    if not first.unread:
        return first
    await asyncio.sleep(over_s)
    found = await engine.group(name)
    lags = {(one.topic, one.broker, one.queue): one.lag for one in first.unread}
    still = [one for one in found.unread if (one.topic, one.broker, one.queue) in lags]
    for one in still:
        one.growth = one.lag - lags[one.topic, one.broker, one.queue]
    found.unread, found.looked_s = still, over_s
    return found
