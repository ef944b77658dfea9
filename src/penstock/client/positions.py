"""Where queues begin and end, which offset a time has, how far a group is: what both consumers and operators ask.

Each function asks once: the master of the queue, since a slave may not know yet where it ends. How far a group is can
be asked of a slave, and told to it, when there is no master: what it says may be a little old, so that messages come
again, but none is left out. Offsets are those of the next message to be read.
"""

import msgspec

from penstock.client.cluster import Cluster
from penstock.client.errors import NotFound, Refused
from penstock.client.routes import MessageQueue
from penstock.wire.rocketmq.codes import RequestCode
from penstock.wire.rocketmq.frame import Frame


class Bounds(msgspec.Struct, frozen=True):
    """The first offset that a queue still has, and the one that its next message will get."""

    min_offset: int
    max_offset: int

    def within(self, offset: int) -> int:
        """The nearest offset that is inside."""
        return min(max(offset, self.min_offset), self.max_offset)


class StartAt(msgspec.Struct, frozen=True):
    """Where a group begins in a queue that it has no offset for."""

    name: str  # as heartbeats say it
    time_ms: int = 0


FIRST, LAST = StartAt("CONSUME_FROM_FIRST_OFFSET"), StartAt("CONSUME_FROM_LAST_OFFSET")


def since(time_ms: int) -> StartAt:
    """Begin with the first message that was stored at or after a time."""
    return StartAt("CONSUME_FROM_TIMESTAMP", time_ms)


async def max_offset(cluster: Cluster, queue: MessageQueue) -> int:
    return _number(await cluster.of_queue(RequestCode.GET_MAX_OFFSET, queue), "offset")


async def min_offset(cluster: Cluster, queue: MessageQueue) -> int:
    """0 also for a queue that nothing was ever written to: brokers say -1 then."""
    return max(_number(await cluster.of_queue(RequestCode.GET_MIN_OFFSET, queue), "offset"), 0)


async def bounds(cluster: Cluster, queue: MessageQueue) -> Bounds:
    return Bounds(await min_offset(cluster, queue), await max_offset(cluster, queue))


async def offset_at(cluster: Cluster, queue: MessageQueue, time_ms: int) -> int:
    """The first message that was stored at or after a time. (RocketMQ 4 gives the nearest one to it, and the last one
    when all are older.)
    """
    answer = await cluster.of_queue(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, queue, timestamp=time_ms)
    return max(_number(answer, "offset"), 0)


async def committed(cluster: Cluster, group: str, queue: MessageQueue, young_is_zero: bool = True) -> int | None:
    """How far a group is in a queue; None when it has never said. With `young_is_zero` a queue that still has its first
    message counts as begun (a new group on a young topic misses nothing); RocketMQ 4 always has it so.
    """
    zero = "true" if young_is_zero else "false"
    try:
        address, code = cluster.address(queue.broker), RequestCode.QUERY_CONSUMER_OFFSET
        answer = await cluster.of_queue(code, queue, address, consumerGroup=group, setZeroIfNotFound=zero)
    except NotFound:
        return None
    return _number(answer, "offset")


async def commit(cluster: Cluster, group: str, queue: MessageQueue, offset: int) -> None:
    """Have the broker remember how far a group is, and wait for its word."""
    address, code = cluster.address(queue.broker), RequestCode.UPDATE_CONSUMER_OFFSET
    await cluster.of_queue(code, queue, address, consumerGroup=group, commitOffset=offset)


async def start_of(
    cluster: Cluster, group: str, queue: MessageQueue, start: StartAt, young_is_zero: bool = True
) -> int:
    """Where a group goes on in a queue, or begins."""
    offset = await committed(cluster, group, queue, young_is_zero)
    if offset is not None and offset >= 0:
        return offset
    if start == FIRST:
        return await min_offset(cluster, queue)
    if start == LAST:
        return await max_offset(cluster, queue)
    return await offset_at(cluster, queue, start.time_ms)


def _number(answer: Frame, name: str) -> int:
    try:
        return int(answer.ext[name])
    except (KeyError, ValueError):
        raise Refused(answer.code, f"its answer has no number {name!r}: {answer.ext}", "the broker") from None
