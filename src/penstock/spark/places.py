"""What the driver asks a service: which queues there are, where they begin and end, which offset a time has. It waits.

One loop and its connections are kept from call to call: a stream asks every time it is triggered. A question that a
broken connection has cost its answer is asked again; all of them may be asked twice.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Self, TypeVar

import msgspec

from penstock import logs
from penstock.client import positions
from penstock.client.cluster import Cluster
from penstock.client.consumer.subscription import ALL
from penstock.client.errors import ClientError, GroupNotFound, NoRoute, TimedOut, Unreachable
from penstock.client.operator import Operator
from penstock.client.routes import MessageQueue
from penstock.spark.ranges import Range
from penstock.wire.rocketmq.codes import PullFlag, RequestCode

log = logs.get(__name__)

ASKED_AT_ONCE = 64
PATIENCE_MS = 1_000  # for a broker that does not answer

T = TypeVar("T")
Q = TypeVar("Q")


class Queue(msgspec.Struct, frozen=True):
    """A queue as it is now: `max_offset` is the one that its next message will get."""

    name: MessageQueue
    address: str  # of the broker that has it
    min_offset: int
    max_offset: int

    def between(self, start: int, end: int) -> Range:
        return Range(self.name.topic, self.name.broker, self.address, self.name.queue, start, end)

    def count(self, start: int, end: int) -> int | None:
        """How many messages are between two offsets; None where nobody knows."""
        return max(end - start, 0)


class Places:
    def __init__(self, service: str) -> None:
        self._service = service
        self._runner = asyncio.Runner()
        self._operator: Operator | None = None
        self.patience_ms = PATIENCE_MS

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        if self._operator is not None:
            self._runner.run(self._operator.instance.close())
            self._operator = None
        self._runner.close()

    # --- what is asked ------------------------------------------------------------------------------------------------

    def topics(self, names: Sequence[str], pattern: str) -> list[str]:
        """Those that are named, whether they exist or not; or all that match. System topics, retries and dead letters
        match no pattern.
        """
        return list(names) if names else self._asked(lambda operator: _matching(operator, re.compile(pattern)))

    def queues(self, topics: Iterable[str]) -> list[Queue]:
        """All that can be read, of all brokers. NoRoute when a topic does not exist."""
        return self._asked(lambda operator: _queues(operator.cluster, topics))

    def existing(self, topics: Iterable[str]) -> list[Queue]:
        """As `queues`, without the topics that do not exist (any more)."""
        return self._asked(lambda operator: _queues(operator.cluster, topics, must_exist=False))

    def offsets_at(self, times_ms: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """The first message of each queue that was stored then or later; the queue's end when there is none."""

        async def ask(operator: Operator) -> dict[MessageQueue, int]:
            async def one(queue: MessageQueue) -> int:
                await operator.cluster.route(queue.topic)
                return await positions.offset_at(operator.cluster, queue, times_ms[queue])

            return dict(zip(times_ms, await _all(one, times_ms), strict=True))

        return self._asked(ask) if times_ms else {}

    def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> None:
        """Have the brokers remember how far a group is. One after the other: of the first two that a group commits at
        once, RocketMQ may forget one.
        """

        async def tell(operator: Operator) -> None:
            for queue, offset in offsets.items():
                await operator.cluster.route(queue.topic)
                await _commit(operator.cluster, group, queue, offset)

        self._asked(tell)

    # --- asking -------------------------------------------------------------------------------------------------------

    def _asked(self, question: Callable[[Operator], Awaitable[T]]) -> T:
        return self._runner.run(self._answered(question))

    async def _answered(self, question: Callable[[Operator], Awaitable[T]]) -> T:
        if self._operator is None:
            self._operator = Operator(self._service)
        clock = asyncio.get_running_loop().time
        until = clock() + self.patience_ms / 1000
        while True:
            try:
                return await question(self._operator)
            except (Unreachable, TimedOut) as error:
                if clock() >= until:
                    raise
                log.info("a question is asked again", error=str(error))


async def _commit(cluster: Cluster, group: str, queue: MessageQueue, offset: int) -> None:
    """RocketMQ 5 takes no offsets of a group that it has never seen, and sees one when it pulls."""
    try:
        await positions.commit(cluster, group, queue, offset)
    except GroupNotFound:
        asked = _one_message(group, queue, offset)
        await cluster.ask(cluster.address(queue.broker), RequestCode.PULL_MESSAGE, asked)
        await positions.commit(cluster, group, queue, offset)


def _one_message(group: str, queue: MessageQueue, offset: int) -> dict[str, str]:
    """A pull that does not wait at the end of the queue."""
    return {
        "consumerGroup": group,
        "topic": queue.topic,
        "queueId": str(queue.queue),
        "queueOffset": str(offset),
        "maxMsgNums": "1",
        "sysFlag": str(PullFlag.SUBSCRIPTION),
        "commitOffset": "0",
        "suspendTimeoutMillis": "0",
        "subscription": ALL,
        "subVersion": "0",
        "expressionType": "TAG",
        "bname": queue.broker,
    }


async def _matching(operator: Operator, pattern: re.Pattern[str]) -> list[str]:
    from penstock.admin.model import NORMAL  # most read topics that are named
    from penstock.admin.rocketmq import kind_of

    names, info = await operator.topic_names(), await operator.brokers()
    own = {*info.cluster_addr_table, *info.broker_addr_table}
    return [name for name in names if pattern.fullmatch(name) and kind_of(name, own) == NORMAL]


async def _queues(cluster: Cluster, topics: Iterable[str], must_exist: bool = True) -> list[Queue]:
    async def of_topic(topic: str) -> list[MessageQueue]:
        try:
            return (await cluster.fetch(topic)).to_read(topic)
        except NoRoute:
            if must_exist:
                raise
            return []

    async def now(queue: MessageQueue) -> Queue:
        bounds = await positions.bounds(cluster, queue)
        return Queue(queue, cluster.address(queue.broker), bounds.min_offset, bounds.max_offset)

    found = await _all(of_topic, topics)
    return await _all(now, [queue for queues in found for queue in queues])


async def _all(ask: Callable[[Q], Awaitable[T]], about: Iterable[Q]) -> list[T]:
    """The answers, in order; the first failure ends the others."""
    gate = asyncio.Semaphore(ASKED_AT_ONCE)

    async def one(item: Q) -> T:
        async with gate:
            return await ask(item)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(item)) for item in about]
    except BaseExceptionGroup as several:
        raise _first(several) from None
    return [task.result() for task in tasks]


def _first(several: BaseExceptionGroup[BaseException]) -> BaseException:
    """The one that says most: an error of the service before a mere loss of its connection."""
    errors = list(several.exceptions)
    said = [error for error in errors if isinstance(error, ClientError) and not isinstance(error, Unreachable)]
    return (said or errors)[0]
