"""Transactions: a prepared message waits as a half message until its producer ends it (code 37), or is asked (code 39).

A half message stands in RMQ_SYS_TRANS_HALF_TOPIC and remembers where it belongs; nobody can read that topic.
Committed, it becomes a message of its own topic, in one group with the note that ends it; rolled back, only the note is
written. A producer that says nothing is asked after a while, and again and again; after too many questions the message
goes to TRANS_CHECK_MAX_TIME_TOPIC, where an operator finds it.

Unlike in RocketMQ, a half message keeps its offset when its producer is asked: a late answer to an early question ends
the same half message, and the second answer is refused.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from penstock import logs
from penstock.clock import Clock
from penstock.core.events import Bus, HalfGivenUp
from penstock.core.halves import FIRST_ASK_MS_MAX, Halves
from penstock.core.topics import Topic, Topics, TopicSettings
from penstock.errors import HalfNotOpen, PenstockError
from penstock.gateway.rocketmq.connection import Connection
from penstock.gateway.rocketmq.delay import REAL_QUEUE, REAL_TOPIC, Placer, moved, record_of
from penstock.gateway.rocketmq.routes import Refused, Route, Routes, ext_as, refuse
from penstock.model import Action, Entry
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode, SysFlag
from penstock.wire.rocketmq.frame import Frame
from penstock.wire.rocketmq.record import Message, Record, length_of, message_id, message_in, physical_offset

log = logs.get(__name__)

HALF_TOPIC, NOTES_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC"
GIVEN_UP_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
PREPARED, PRODUCER_GROUP = "TRAN_MSG", "PGROUP"
IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS"
ROLLED_BACK = SysFlag.TRANSACTION_BITS
TICK_MS = 500
_ASK_AT_ONCE = 256

ProducerOf = Callable[[str], Connection | None]  # somebody of a producer group who is connected


def hidden_topic(topics: Topics, name: str) -> Topic:
    """A topic of the broker's own that nobody may read, and whose messages do not go by age."""
    settings = TopicSettings(write_queues=1, permissions=0, retention_ms=0)
    return topics.find(name) or topics.create_now(name, settings, system=True)


def given_up_topic(topics: Topics) -> Topic:
    return topics.find(GIVEN_UP_TOPIC) or topics.create_now(GIVEN_UP_TOPIC, TopicSettings(write_queues=1), system=True)


def half_of(record: Record, topic: Topic, timeout_ms: int) -> Record:
    """A prepared message as it is held: it remembers where it belongs, and its tag when to ask first."""
    properties = str(record.properties, "utf-8")
    if not props.find(properties, PRODUCER_GROUP):
        raise Refused(
            ResponseCode.MESSAGE_ILLEGAL, f"a transactional message names its producer group in {PRODUCER_GROUP}"
        )
    half = moved(record, topic, 0)
    half.sys_flag &= ~SysFlag.TRANSACTION_BITS
    half.tag = first_ask_ms(props.find(properties, IMMUNITY), timeout_ms)
    return half


def first_ask_ms(immunity_s: str, timeout_ms: int) -> int:
    """How long after a message its producer is asked: as the message says, or as the broker is set."""
    if not immunity_s.isdecimal():
        return timeout_ms
    return min(int(immunity_s[:10]) * 1_000, FIRST_ASK_MS_MAX)


class _End(msgspec.Struct):
    producerGroup: str  # noqa: N815  # the wire's names
    tranStateTableOffset: int  # noqa: N815
    commitLogOffset: int  # noqa: N815
    commitOrRollback: int = 0  # noqa: N815


class _Ending(NamedTuple):
    """A request to end a half message, as far as it has been looked at."""

    frame: Frame
    asked: _End
    becomes: Entry | None
    timers: list[Record]  # what becomes of it, if that is kept back once more


class Transactions:
    def __init__(
        self, topics: Topics, halves: Halves, placer: Placer, producer_of: ProducerOf, clock: Clock, bus: Bus
    ) -> None:
        self._topics, self._halves, self._placer = topics, halves, placer
        self._producer_of, self._clock, self._bus = producer_of, clock, bus
        self._busy: set[asyncio.Task[None]] = set()

    def routes(self) -> Routes:
        return {RequestCode.END_TRANSACTION: Route(None, Action.PRODUCE, "topic", self.end)}

    # --- ending -------------------------------------------------------------------------------------------------------

    def end(self, frames: list[Frame], connection: Connection) -> None:
        """Commit or roll back what these requests say; each is answered when it is durable, if it wants an answer."""
        for frame in frames:
            frame.body = memoryview(b"")  # the receive buffer is used again
        task = asyncio.ensure_future(self._end(list(frames), connection))
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)

    async def _end(self, frames: list[Frame], connection: Connection) -> None:
        endings: dict[int, _Ending] = {}
        for frame in frames:
            try:
                ending = await self._ending(frame)
                if ending is None:
                    connection.reply(frame, ResponseCode.SUCCESS, "left open: the producer will be asked")
                elif endings.setdefault(ending.asked.tranStateTableOffset, ending) is not ending:
                    raise HalfNotOpen(ending.asked.tranStateTableOffset)
            except PenstockError as error:
                refuse(connection, frame, error)
        open_still = [ending for ending in endings.values() if self._still_open(ending, connection)]
        self._publish(open_still, connection)

    def _still_open(self, ending: _Ending, connection: Connection) -> bool:
        """Another connection may have ended it while this one read it."""
        offset = ending.asked.tranStateTableOffset
        if offset in self._halves:
            return True
        refuse(connection, ending.frame, HalfNotOpen(offset))
        return False

    def _publish(self, endings: Sequence[_Ending], connection: Connection) -> None:
        def done(error: Exception | None) -> None:
            for ending in endings:
                if error is None:
                    connection.reply(ending.frame, ResponseCode.SUCCESS)
                else:
                    refuse(connection, ending.frame, error)

        if not endings:
            return
        offsets = [ending.asked.tranStateTableOffset for ending in endings]
        becomes = [ending.becomes for ending in endings if ending.becomes is not None]
        try:
            self._halves.end(offsets, becomes, done)
        except PenstockError as error:
            done(error)
        else:
            self._placer.appended(timer for ending in endings for timer in ending.timers)

    async def _ending(self, frame: Frame) -> _Ending | None:
        """What becomes of a half message; None when its producer does not know yet."""
        asked = ext_as(_End, frame)
        how, offset = asked.commitOrRollback & SysFlag.TRANSACTION_BITS, asked.tranStateTableOffset
        if how not in (SysFlag.COMMITTED, ROLLED_BACK):
            return None
        if asked.commitLogOffset != physical_offset(self._halves.queue, offset):
            raise Refused(ResponseCode.SYSTEM_ERROR, "the commit log offset is not that of the half message")
        if offset not in self._halves:
            raise HalfNotOpen(offset)
        payload = await self._halves.read(offset)
        if payload is None:
            raise HalfNotOpen(offset)
        message = message_in(payload)
        if message.properties.get(PRODUCER_GROUP) != asked.producerGroup:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"the half message is not one of group {asked.producerGroup!r}")
        timers: list[Record] = []
        return _Ending(frame, asked, self._committed(message, timers) if how == SysFlag.COMMITTED else None, timers)

    def _committed(self, message: Message, timers: list[Record]) -> Entry:
        """The message that a half message becomes. If its topic is gone, it is kept with those given up."""
        topic = self._topics.find(message.properties.get(REAL_TOPIC, ""))
        if topic is None:
            return self._given_up(message)
        index = int(message.properties.get(REAL_QUEUE, "0")) % topic.queue_count
        left_out = (REAL_TOPIC, REAL_QUEUE, PREPARED)
        kept = {name: value for name, value in message.properties.items() if name not in left_out}
        record = record_of(message, topic, index, kept)
        record.sys_flag |= SysFlag.COMMITTED
        record.prepared_offset = message.physical_offset
        return self._placer.placed(record, str(record.properties, "utf-8"), timers)

    def _given_up(self, message: Message) -> Entry:
        return record_of(message, given_up_topic(self._topics), 0, message.properties)

    # --- asking producers ---------------------------------------------------------------------------------------------

    async def tick(self) -> None:
        """Ask about what is due; give up what was asked about too often."""
        while due := self._halves.due(_ASK_AT_ONCE):
            read = [(offset, await self._halves.read(offset)) for offset in due]
            asked: list[int] = []
            hopeless: list[tuple[int, memoryview | None]] = []
            for offset, payload in read:
                if offset not in self._halves:
                    continue  # ended in the meantime
                if payload is None or self._halves.is_hopeless(offset):
                    hopeless.append((offset, payload))
                else:
                    asked.append(offset)
                    self._ask(message_in(payload), self._halves.asks(offset) + 1)
            self._halves.asked(asked)
            self._give_up(hopeless)
            await asyncio.sleep(0)  # others want their turn

    def _ask(self, message: Message, times: int) -> None:
        """Ask somebody of the producer's group, if there is one; it answers with a request of its own."""
        connection = self._producer_of(message.properties.get(PRODUCER_GROUP, ""))
        if connection is None:
            return
        key = message.properties.get(props.UNIQ_KEY, "")
        ext = {
            "tranStateTableOffset": str(message.offset),
            "commitLogOffset": str(message.physical_offset),
            "msgId": key,
            "transactionId": key,
            "offsetMsgId": message_id(message.store_host, message.physical_offset),
            "topic": message.properties.get(REAL_TOPIC, ""),
        }
        connection.push(RequestCode.CHECK_TRANSACTION_STATE, ext, self._shown(message, times))

    def _shown(self, message: Message, times: int) -> bytes:
        """A half message as its producer knows it: on its own topic and queue."""
        half = hidden_topic(self._topics, HALF_TOPIC)
        record = record_of(message, half, 0, {**message.properties, props.CHECK_TIMES: str(times)})
        record.topic = message.properties.get(REAL_TOPIC, "").encode()
        record.queue_index = int(message.properties.get(REAL_QUEUE, "0"))
        record.length = length_of(record)
        packed = bytearray(record.length)
        record.write_into(memoryview(packed), 0, self._halves.queue, message.offset, message.store_ms)
        return bytes(packed)

    def _give_up(self, hopeless: Sequence[tuple[int, memoryview | None]]) -> None:
        """Nobody said what becomes of these."""
        if not hopeless:
            return
        messages = [message_in(payload) for _, payload in hopeless if payload is not None]
        told = [self._told(message) for message in messages]
        ended = [offset for offset, _ in hopeless]
        self._halves.end(ended, [self._given_up(message) for message in messages], lambda error: None)
        log.warning("half messages given up", messages=len(messages), unreadable=len(hopeless) - len(messages))
        for event in told:
            self._bus.emit(event)

    def _told(self, message: Message) -> HalfGivenUp:
        return HalfGivenUp(
            at_ms=self._clock.now_ms(),
            topic=message.properties.get(REAL_TOPIC, ""),
            producer_group=message.properties.get(PRODUCER_GROUP, ""),
            message_id=message.message_id,
            asks=self._halves.asks(message.offset),
        )
