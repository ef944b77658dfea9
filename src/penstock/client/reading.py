"""Reading a queue: one pull, and a reader that pulls ahead of its application into a bounded buffer.

Pulls carry their own filter (bit 4 of the flags), so they need no group that is online. What the broker selects by tag
hashes is looked at again here, by the tags themselves.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

import msgspec

from penstock import logs
from penstock.client import pulling
from penstock.client.cluster import Cluster
from penstock.client.consumer.subscription import ALL, tags_in
from penstock.client.episodes import Troubles
from penstock.client.errors import ClientError, Refused, TopicNotFound, Unreachable, refusal
from penstock.client.message import Received, received
from penstock.client.routes import MASTER, MessageQueue
from penstock.errors import StoreError
from penstock.wire.rocketmq.codes import PullFlag, ResponseCode, SysFlag
from penstock.wire.rocketmq.frame import Frame
from penstock.wire.rocketmq.record import Message, messages_in

log = logs.get(__name__)

RETRY_MS = 1_000
ANSWER_MS = 15_000  # a broker may look after those who wait every five seconds only
_ANSWERS = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


class Wanted(msgspec.Struct, frozen=True):
    """Which messages of a topic: all, those with certain tags (`a || b`), or what a SQL expression selects."""

    expression: str = ALL
    sql: bool = False

    @property
    def tags(self) -> frozenset[str]:
        """Empty for all. ValueError when the expression names none."""
        return frozenset() if self.sql else tags_in(self.expression)


class Pulled(msgspec.Struct):
    """What a pull has brought."""

    code: int
    messages: list[Received]
    next_offset: int
    broker_number: int  # who should be asked the next time: the master, or one of its slaves


class Steps(msgspec.Struct, frozen=True):
    """How much is asked for at once, and how far ahead."""

    messages_max: int = 256  # RocketMQ gives 32 at most
    bytes_max: int = 1 << 20
    wait_ms: int = 15_000  # at the end of a queue
    buffer_messages_max: int = 1_000  # per queue, and what one pull brings on top
    buffer_bytes_max: int = 16 << 20


class Source(msgspec.Struct):
    """Where queues are read from, for whom."""

    cluster: Cluster
    group: str
    steps: Steps

    async def pull(self, queue: MessageQueue, offset: int, wanted: Wanted, broker_number: int = MASTER) -> Pulled:
        """One pull, which waits at the end of the queue. Refused for any other answer than those of a pull."""
        asked, timeout_ms = self._asked(queue, offset, wanted), self.steps.wait_ms + ANSWER_MS
        address, answer = await pulling.pull(self.cluster, queue, broker_number, lambda is_master: asked, timeout_ms)
        if answer.code not in _ANSWERS:
            raise refusal(answer, address)
        return _pulled(answer, queue, wanted, address)

    def _asked(self, queue: MessageQueue, offset: int, wanted: Wanted) -> dict[str, str]:
        return {
            "consumerGroup": self.group,
            "topic": queue.topic,
            "queueId": str(queue.queue),
            "queueOffset": str(offset),
            "maxMsgNums": str(self.steps.messages_max),
            "maxMsgBytes": str(self.steps.bytes_max),
            "sysFlag": str(PullFlag.SUBSCRIPTION | PullFlag.SUSPEND),
            "commitOffset": "0",
            "suspendTimeoutMillis": str(self.steps.wait_ms),
            "subscription": wanted.expression,
            "subVersion": "0",
            "expressionType": "SQL92" if wanted.sql else "TAG",
            "bname": queue.broker,
        }


def _pulled(answer: Frame, queue: MessageQueue, wanted: Wanted, address: str) -> Pulled:
    try:
        next_offset = int(answer.ext["nextBeginOffset"])
        number = pulling.broker_number(answer)
        found = messages_in(answer.body) if answer.code == ResponseCode.SUCCESS else []
    except (KeyError, ValueError, StoreError) as error:
        raise Refused(answer.code, f"its answer to a pull of {queue} cannot be read: {error}", address) from None
    tags = wanted.tags
    messages = [_opened(message, queue) for message in found]
    if tags:
        messages = [message for message in messages if message.tags in tags]
    return Pulled(answer.code, messages, next_offset, number)


def _opened(found: Message, queue: MessageQueue) -> Received:
    """A body that cannot be opened is handed on as it came, rather than the message left out; its flag tells."""
    try:
        return received(found, queue)
    except ValueError as error:
        log.warning("a body is handed on compressed", queue=str(queue), offset=found.offset, error=str(error))
        closed = received(msgspec.structs.replace(found, sys_flag=found.sys_flag & ~SysFlag.COMPRESSED), queue)
        closed.sys_flag = found.sys_flag
        return closed


class Reader:
    """A queue in hand. `position` is the offset of the next message that `take` gives; `done` is how far the
    application is with them.
    """

    def __init__(
        self, source: Source, queue: MessageQueue, offset: int, wanted: Wanted, ready: Callable[[], None]
    ) -> None:
        self.queue, self.position, self.done = queue, offset, offset
        self._source, self._wanted, self._ready = source, wanted, ready
        self._next, self._broker_number = offset, MASTER
        self._buffer: deque[Received] = deque()
        self._bytes, self._paused, self._troubles = 0, False, Troubles(log)
        self._may_pull = asyncio.Event()
        self._may_pull.set()
        self._task = asyncio.ensure_future(self._run())

    # --- the application's side ---------------------------------------------------------------------------------------

    def take(self, count: int) -> list[Received]:
        """The next messages, as many as are here."""
        if self._paused:
            return []
        taken = [self._buffer.popleft() for _ in range(min(count, len(self._buffer)))]
        self._bytes -= sum(len(message.body) for message in taken)
        if taken:
            self.position = taken[-1].offset + 1
            self._admit()
        if not self._buffer:
            self.position = max(self.position, self._next)  # what the filter left out is behind us too
        return taken

    @property
    def waiting(self) -> int:
        """How many messages can be taken."""
        return 0 if self._paused else len(self._buffer)

    def seek(self, offset: int) -> None:
        """Go on there. What was pulled ahead is forgotten, and so is a pull under way."""
        self._task.cancel()
        self._move(offset)
        self._task = asyncio.ensure_future(self._run())

    def _move(self, offset: int) -> None:
        self._buffer.clear()
        self._bytes = 0
        self._next = self.position = self.done = offset
        self._admit()

    def pause(self) -> None:
        self._paused = True
        self._admit()

    def resume(self) -> None:
        self._paused = False
        self._admit()
        if self._buffer:
            self._ready()

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    # --- pulling ------------------------------------------------------------------------------------------------------

    def _admit(self) -> None:
        """Whether the next pull may be sent."""
        steps = self._source.steps
        room = len(self._buffer) < steps.buffer_messages_max and self._bytes < steps.buffer_bytes_max
        if room and not self._paused:
            self._may_pull.set()
        else:
            self._may_pull.clear()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._may_pull.wait()
            asked_offset, began_s = self._next, loop.time()
            try:
                pulled = await self._source.pull(self.queue, asked_offset, self._wanted, self._broker_number)
            except ClientError as error:
                await self._wait_out(error)
                continue
            self._take_in(pulled)
            took_ms = int((loop.time() - began_s) * 1000)
            if not pulled.messages and pulling.spins(asked_offset, pulled.next_offset, took_ms):
                await asyncio.sleep(pulling.SPIN_WAIT_MS / 1000)

    async def _wait_out(self, error: ClientError) -> None:
        """Said once, until a pull succeeds again."""
        self._troubles.met(self, "a queue cannot be read, it is tried again", error, queue=str(self.queue))
        if isinstance(error, TopicNotFound):
            self._source.cluster.forget(self.queue.topic)
        if isinstance(error, Unreachable):
            with suppress(ClientError):
                await self._source.cluster.fetch(self.queue.topic)  # somebody else may have it now
        self._broker_number = MASTER
        await asyncio.sleep(RETRY_MS / 1000)

    def _take_in(self, pulled: Pulled) -> None:
        self._troubles.over(self, "a queue can be read again", queue=str(self.queue))
        if pulled.code == ResponseCode.PULL_OFFSET_MOVED:
            log.warning("an offset was corrected", queue=str(self.queue), asked=self._next, to=pulled.next_offset)
            self._move(pulled.next_offset)
        self._next, self._broker_number = pulled.next_offset, pulled.broker_number
        self._buffer.extend(pulled.messages)
        self._bytes += sum(len(message.body) for message in pulled.messages)
        self._admit()
        self._ready()
