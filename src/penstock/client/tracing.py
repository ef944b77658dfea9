"""Traces: what a client has sent and consumed, written to a topic, as RocketMQ's Java client writes it when told to.

`mqadmin queryMsgTraceById` and the pipeline `audit` read it. A trace is a text: fields with \\x01 between them, one
record behind the other with \\x02 behind each; the message that carries it has the ids of all messages in it as keys.

Traces never hold anything up: records wait in a buffer with an end, are sent once a second, and when they cannot be
sent the oldest are let go, which is said. They are sent under a group of their own and are not traced themselves.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from penstock import logs
from penstock.client.errors import ClientError
from penstock.client.instance import Instance
from penstock.client.message import Message, Received, Sent
from penstock.client.sending import Outgoing
from penstock.wire.rocketmq import properties as props

log = logs.get(__name__)

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
TRACE_GROUP = "_INNER_TRACE_PRODUCER"
REGION = "DefaultRegion"
NORMAL, HALF, DELAYED = 0, 1, 3  # kinds of messages, as Java counts them
GOOD, FAILED = 0, 4  # how consuming went, as Java counts it
RECORDS_MAX, RECORDS_AT_ONCE = 2_048, 100
INTERVAL_MS = 1_000
_DELAYS = (props.DELAY, "TIMER_DELIVER_MS", "TIMER_DELAY_MS", "TIMER_DELAY_SEC")


class _Record(NamedTuple):
    text: str
    ids: str
    keys: str


class Sends(Protocol):
    """What traces are sent with."""

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def send(self, message: Message) -> object: ...


class Tracer:
    def __init__(self, instance: Instance, group: str, sends: Sends) -> None:
        self._instance, self._group, self._sends = instance, group, sends
        self._records: deque[_Record] = deque()
        self._lost, self._failing = 0, False
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        await self._sends.start()
        self._task = self._instance.repeat(self.flush, INTERVAL_MS, "traces")

    async def close(self) -> None:
        """What waits is sent, if that can be done now."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None
            await self.flush()
            await self._sends.close()

    # --- what is traced -----------------------------------------------------------------------------------------------

    def sent(self, outgoing: Outgoing, sent: Sent, ids: str, took_ms: int) -> None:
        """A message, or a batch under the ids of its messages, has been stored."""
        message, about = outgoing.message, props.parse(outgoing.ext["i"])
        self._add(
            ids, message.keys,
            "Pub", self.now_ms() - took_ms, REGION, self._group, message.topic, ids, message.tags, message.keys,
            self._host(sent), len(outgoing.body), took_ms, kind_of(about), sent.offset_id, sent.code == 0,
        )  # fmt: skip

    def ended(self, topic: str, sent_id: str, transaction_id: str, state: str, asked: bool) -> None:
        """The broker was told how a transaction ended."""
        self._add(
            sent_id, "",
            "EndTransaction", self.now_ms(), REGION, self._group, topic, sent_id, "", "", "", HALF, transaction_id,
            state, asked,
        )  # fmt: skip

    def handling(self, handler: Callable[[Received], Awaitable[object]], failed: type) -> "Handling":
        """A handler whose messages are traced. It fails when it raises, or returns something of the type."""
        return Handling(self, handler, failed)

    def given(self, message: Received) -> str:
        """A group is given a message; under this name it is told how that went."""
        request = self._instance.next_key()
        self._add(
            message.message_id, message.keys,
            "SubBefore", self.now_ms(), REGION, self._group, request, message.message_id, message.reconsume_times,
            message.keys,
        )  # fmt: skip
        return request

    def done(self, request: str, message: Received, took_ms: int, good: bool) -> None:
        self._add(
            message.message_id, message.keys,
            "SubAfter", request, message.message_id, took_ms, good, message.keys, GOOD if good else FAILED,
            self.now_ms(), self._group,
        )  # fmt: skip

    def now_ms(self) -> int:
        return self._instance.clock.now_ms()

    def _host(self, sent: Sent) -> str:
        try:
            return self._instance.cluster.master(sent.queue.broker)
        except ClientError:  # it has just gone
            return ""

    def _add(self, ids: str, keys: str, *fields: object) -> None:
        if len(self._records) >= RECORDS_MAX:
            self._records.popleft()
            self._lost += 1
        self._records.append(_Record("\x01".join(map(_written, fields)) + "\x02", ids, keys))

    # --- sending ------------------------------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Send what waits. What cannot be sent goes on waiting."""
        while self._records:
            some = [self._records.popleft() for _ in range(min(RECORDS_AT_ONCE, len(self._records)))]
            try:
                await self._sends.send(_message(some))
            except ClientError as error:
                self._records.extendleft(reversed(some))
                self._say(error)
                return
            self._failing = False
        if self._lost:
            log.warning("traces could not be sent in time, the oldest are lost", count=self._lost)
            self._lost = 0

    def _say(self, error: ClientError) -> None:
        if not self._failing:
            log.warning("traces cannot be sent, they wait", group=self._group, error=str(error))
        self._failing = True


class Handling:
    """A handler that is traced."""

    def __init__(self, tracer: Tracer, handler: Callable[[Received], Awaitable[object]], failed: type) -> None:
        self._tracer, self._handler, self._failed = tracer, handler, failed

    async def __call__(self, message: Received) -> object:
        request, began_ms, good = self._tracer.given(message), self._tracer.now_ms(), False
        try:
            result = await self._handler(message)
            good = not isinstance(result, self._failed)
            return result
        finally:
            self._tracer.done(request, message, self._tracer.now_ms() - began_ms, good)


def kind_of(properties: dict[str, str]) -> int:
    if properties.get("TRAN_MSG"):
        return HALF
    return DELAYED if any(name in properties for name in _DELAYS) else NORMAL


def _written(field: object) -> str:
    """As Java writes it: what is not there is null, and no field is empty, since Java's readers drop those at the
    end. The separators cannot be in a key; a topic or id from a broker is not trusted.
    """
    if isinstance(field, bool):
        return str(field).lower()
    return str(field).replace("\x01", "").replace("\x02", "") or "null"


def _message(records: list[_Record]) -> Message:
    names = (name for one in records for name in (*one.ids.split(","), *one.keys.split()) if name)
    return Message(TRACE_TOPIC, "".join(one.text for one in records).encode(), keys=" ".join(dict.fromkeys(names)))
