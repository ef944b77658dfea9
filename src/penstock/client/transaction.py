"""Transactions: a message that is there for consumers if, and only if, some work of the application was done.

    async def work(message, transaction_id):        # the application's own transaction, in its own database
        ...
        return Outcome.COMMIT

    async def check(message):                       # asked by a broker that did not hear the outcome
        return Outcome.COMMIT if await orders.has(message.keys) else Outcome.ROLLBACK

    async with TransactionProducer("127.0.0.1:9876", "orders-service", check) as producer:
        await producer.send(Message("orders", b"..."), work)

The message is sent first, as a half message that nobody sees; then the work is done; then the broker is told the
outcome (code 37). If it does not hear it, because the work raised, said UNKNOWN or the process is gone, it asks a
producer of the same group (code 39), again and again, and `check` answers.

Invariants: an outcome is told only after the work has ended; work that raised is never told as a commit or a rollback,
since what it did is not known: `check` finds out.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from enum import IntEnum
from typing import Any, Self

import msgspec

from penstock import logs
from penstock.client.errors import ClientError
from penstock.client.link import Link
from penstock.client.message import Message, Received, Sent, received
from penstock.client.producer import Producer
from penstock.client.routes import MessageQueue
from penstock.errors import StoreError
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.codes import RequestCode, SysFlag
from penstock.wire.rocketmq.frame import Frame
from penstock.wire.rocketmq.record import message_in

log = logs.get(__name__)

PREPARED, PRODUCER_GROUP, IMMUNITY = "TRAN_MSG", "PGROUP", "CHECK_IMMUNITY_TIME_IN_SECONDS"
CHECKS_MAX = 2_000  # questions that are looked into at once: of more, the broker asks again


class Outcome(IntEnum):
    """Of a transaction; the numbers are the protocol's."""

    UNKNOWN = 0
    COMMIT = SysFlag.COMMITTED
    ROLLBACK = SysFlag.TRANSACTION_BITS


Work = Callable[[Message, str], Awaitable[Outcome]]
Check = Callable[[Received], Awaitable[Outcome]]


class Transacted(msgspec.Struct, frozen=True):
    """How a transaction went. `told` is False when the broker has not confirmed the outcome: it will ask."""

    sent: Sent
    outcome: Outcome
    told: bool


class TransactionProducer:
    """Takes what `Producer` takes. `topics` are those it may have left something open in: with them it is asked from
    its start on, and not only from its first message.
    """

    def __init__(self, servers: str, group: str, check: Check, *, topics: Iterable[str] = (), **options: Any) -> None:
        self.producer = Producer(servers, group, **options)
        self.group, self._check, self._topics = group, check, tuple(topics)
        self._checks: set[asyncio.Task[None]] = set()
        self.producer.answer(RequestCode.CHECK_TRANSACTION_STATE, self._asked)

    async def start(self) -> None:
        await self.producer.start()
        for topic in self._topics:
            await self.producer.queues(topic)

    async def close(self) -> None:
        """Answers that are being looked into are not waited for: another producer of the group is asked."""
        for task in list(self._checks):
            task.cancel()
        await asyncio.gather(*self._checks, return_exceptions=True)
        await self.producer.close()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    # --- sending ------------------------------------------------------------------------------------------------------

    async def send(self, message: Message, work: Work, first_check_s: int = 0) -> Transacted:
        """Send a message that becomes real with the work. What the work raises is passed on, and the broker is left to
        ask. `first_check_s`: how long it waits before it asks, if not as long as it is set to.
        """
        if message.delay_level or message.delay_ms or message.deliver_at_ms:
            raise ValueError("a message of a transaction cannot be delayed")
        marks = {PREPARED: "true", PRODUCER_GROUP: self.group}
        if first_check_s:
            marks[IMMUNITY] = str(first_check_s)
        sent = await self.producer.stored(self.producer.packed(message, marks, SysFlag.PREPARED), None)
        if sent.code:  # it is not stored safely, so nothing may be built on it
            return Transacted(sent, Outcome.ROLLBACK, await self._told(sent, Outcome.ROLLBACK))
        outcome = await work(message, sent.transaction_id)
        return Transacted(sent, outcome, await self._told(sent, outcome))

    async def _told(self, sent: Sent, outcome: Outcome) -> bool:
        """Tell the broker. If that fails it asks, so it is not an error."""
        if outcome is Outcome.UNKNOWN:
            return False
        cluster = self.producer.instance.cluster
        ext = self._ending(sent.queue.topic, sent.transaction_id, sent.message_id, outcome) | {
            "tranStateTableOffset": str(sent.offset),
            "commitLogOffset": str(_physical_offset(sent.offset_id)),
            "bname": sent.queue.broker,
        }
        try:
            address = cluster.master(sent.queue.broker)
            await cluster.get(address, RequestCode.END_TRANSACTION, ext, b"", self.producer.timeout_ms)
        except ClientError as error:
            log.warning("an outcome was not taken, the broker will ask", id=sent.message_id, error=str(error))
            return False
        self._trace(ext, outcome)
        return True

    def _trace(self, ext: Mapping[str, str], outcome: Outcome) -> None:
        if self.producer.tracer:
            asked = ext.get("fromTransactionCheck") == "true"
            state = f"{outcome.name}_MESSAGE"
            self.producer.tracer.ended(ext["topic"], ext["msgId"], ext["transactionId"], state, asked)

    def _ending(self, topic: str, transaction_id: str, message_id: str, outcome: Outcome) -> dict[str, str]:
        return {
            "producerGroup": self.group,
            "topic": topic,
            "commitOrRollback": str(int(outcome)),
            "msgId": message_id,
            "transactionId": transaction_id,
        }

    # --- being asked --------------------------------------------------------------------------------------------------

    def _asked(self, frame: Frame, link: Link) -> bool:
        """A broker asks about a half message; False when it is of another group."""
        try:
            found = message_in(frame.body)
            half = received(found, MessageQueue(found.topic, frame.ext.get("bname", ""), found.queue_index))
        except (StoreError, ValueError) as error:
            log.warning("a broker asks about a message that cannot be read", address=link.address, error=str(error))
            return False
        if half.properties.get(PRODUCER_GROUP) != self.group:
            return False
        if len(self._checks) >= CHECKS_MAX:
            log.warning("too many questions of brokers at once, this one has to come again", id=half.message_id)
        else:
            task = asyncio.ensure_future(self._looked_into(half, dict(frame.ext), link))
            self._checks.add(task)
            task.add_done_callback(self._checks.discard)
        return True

    async def _looked_into(self, half: Received, asked: Mapping[str, str], link: Link) -> None:
        half.broker_address = link.address
        try:
            outcome = await self._check(half)
        except Exception:
            log.exception("a transaction could not be checked, the broker will ask again", id=half.message_id)
            outcome = Outcome.UNKNOWN
        key = half.properties.get(props.UNIQ_KEY) or half.message_id
        same = ("tranStateTableOffset", "commitLogOffset", "bname")
        ext = self._ending(half.topic, asked.get("transactionId", key), key, outcome)
        ext |= {name: asked[name] for name in same if name in asked} | {"fromTransactionCheck": "true"}
        try:
            await self._answer(link, ext, outcome)
        except ClientError as error:
            log.warning("an answer was not taken, the broker will ask again", id=half.message_id, error=str(error))

    async def _answer(self, link: Link, ext: dict[str, str], outcome: Outcome) -> None:
        if outcome is Outcome.UNKNOWN:  # to this RocketMQ gives no answer
            await link.tell(RequestCode.END_TRANSACTION, ext)
            return
        answer = await link.ask(RequestCode.END_TRANSACTION, ext, b"", self.producer.timeout_ms)
        if answer.code:
            log.warning("an outcome was refused", address=link.address, code=answer.code, why=answer.remark)
        else:
            self._trace(ext, outcome)


def _physical_offset(offset_id: str) -> int:
    """Where a half message is: the end of the id that the broker gave it."""
    return int(offset_id[-16:], 16)
