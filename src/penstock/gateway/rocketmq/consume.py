"""Pulls: codes 11 and 361, with long polling.

The checks come in the order that clients know: group (26, 16), topic (17, 16), queue, subscription (23, 24), its
version (25), its filter (27). An offset outside the queue is corrected and told (21); the end of the queue waits.

A SQL filter is asked for each message of a stretch of the queue. When it selects none of them, the client is told to go
on behind them: a pull never looks at more than that stretch. A pull that waits goes on waiting when what comes is not
for it.
"""

import asyncio
import struct
from collections.abc import Coroutine, Sequence

import msgspec
import numpy as np

from penstock.clock import Clock
from penstock.core.events import Bus, OffsetMoved
from penstock.core.fetch import Batch, Bounds, Fetcher, Later, Plan, Reading, Slices, narrowed
from penstock.core.groups import Groups
from penstock.core.offsets import Offsets
from penstock.core.readers import Readers
from penstock.core.resets import Resets
from penstock.core.topics import READ, Topic, Topics
from penstock.core.traffic import Traffic
from penstock.core.waits import Wait, Waits
from penstock.errors import PenstockError
from penstock.gateway.rocketmq.connection import VERSION, WAITING_BYTES, Connection, Seat, Standing
from penstock.gateway.rocketmq.filters import ALL, Wanted, wanted
from penstock.gateway.rocketmq.groups import GroupRules
from penstock.gateway.rocketmq.house import House
from penstock.gateway.rocketmq.records import MINE, Read, Records, Wish
from penstock.gateway.rocketmq.refusals import Refusals
from penstock.gateway.rocketmq.routes import Refused, Route, Routes, code_of, ext_as, refuse
from penstock.model import Action
from penstock.wire.rocketmq.codes import Flag, PullFlag, RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import JSON, Frame, pack_head
from penstock.wire.rocketmq.requests import Pull

BYTES_DEFAULT, BYTES_MAX, MESSAGES_MAX = 256 * 1024, 8 * 1024 * 1024, 100_000
SUSPEND_MS_MAX = 60_000
ITS_OWN = PullFlag.SUBSCRIPTION  # it says itself what it wants
EMPTY_BODIES_VERSION = 413  # 5.0: Java's older consumers break over an empty body, and stand still
STRETCH_BYTES = 1024 * 1024  # that a SQL filter looks at per pull, at most


FOUND = "FOUND"

# The head of an answer with messages, put together from parts: 2 us instead of 6.
_FOUND = (
    b'{"code":0,"extFields":{"maxOffset":"%d","minOffset":"%d","nextBeginOffset":"%d","suggestWhichBrokerId":"0"},'
    b'"flag":1,"language":"JAVA","opaque":%d,"remark":"FOUND","serializeTypeCurrentRPC":"JSON","version":'
    + b"%d}"
    % VERSION
)
_LENGTHS = struct.Struct(">II")  # of a frame, and of its header


class Consume:
    def __init__(
        self,
        topics: Topics,
        fetcher: Fetcher,
        waits: Waits,
        groups: Groups,
        offsets: Offsets,
        resets: Resets,
        clock: Clock,
        bus: Bus,
        rules: GroupRules,
        traffic: Traffic,
        readers: Readers,
        records: Records,
        house: House,
    ) -> None:
        self._topics, self._fetcher, self._waits = topics, fetcher, waits
        self._groups, self._offsets, self._resets, self._clock, self._bus = groups, offsets, resets, clock, bus
        self._rules, self._traffic, self._readers = rules, traffic, readers
        self._records, self._house = records, house
        self._refusals = Refusals(groups, clock, bus)
        self._reading: set[asyncio.Task[None]] = set()
        self._filtering = asyncio.Lock()

    def routes(self) -> Routes:
        route = Route(self.pull, Action.CONSUME, "topic")
        return {RequestCode.PULL_MESSAGE: route, RequestCode.LITE_PULL_MESSAGE: route}

    def pull(self, frame: Frame, connection: Connection) -> None:
        """Answer with messages, with a corrected offset, or later."""
        asked = ext_as(Pull, frame)
        try:
            self._serve(asked, frame, connection)
        except PenstockError as error:
            self._refusals.tell(asked, connection, code_of(error))
            raise

    def _serve(self, asked: Pull, frame: Frame, connection: Connection) -> None:
        self._rules.check_consume(asked.consumerGroup)
        topic = self._topics.get(asked.topic)
        if not topic.permissions & READ:
            raise Refused(ResponseCode.NO_PERMISSION, f"topic {topic.name!r} is not readable")
        if not 0 <= asked.queueId < topic.read_queues:
            why = f"topic {topic.name!r} has queues 0 to {topic.read_queues - 1} to read, not {asked.queueId}"
            raise Refused(ResponseCode.SYSTEM_ERROR, why)
        group, name, queue = asked.consumerGroup, asked.topic, asked.queueId
        self._readers.at(group, name, queue, connection, asked.queueOffset)
        filtered = self._wanted(asked, connection)
        if asked.sysFlag & PullFlag.COMMIT and self._resets.counts(group, name, queue, asked.commitOffset):
            self._offsets.commit(group, name, queue, asked.commitOffset)
        target = self._resets.pulled(connection, group, name, queue, asked.queueOffset)
        if target is not None:
            ext = _ext(target, self._fetcher.bounds(topic.queue(queue)))
            connection.reply(frame, ResponseCode.PULL_OFFSET_MOVED, "OFFSET_RESET", ext)
            return
        if filtered is ALL:
            self._seat(connection, topic, asked)
        frame.body = memoryview(b"")  # it may be answered later, and the receive buffer is used again
        call = _Call(frame, connection, asked, _limits_of(asked), topic.queues[queue], filtered)
        self._read(call, may_wait=bool(asked.sysFlag & PullFlag.SUSPEND))

    def _seat(self, connection: Connection, topic: Topic, asked: Pull) -> None:
        """The next pull there is an ordinary one, unless something has changed by then (`ordinary_pulls`)."""
        group, settings = self._groups.find(asked.consumerGroup), self._rules.standing(asked.consumerGroup)
        known = group.subscriptions.get(topic.name) if group and not group.broadcast else None
        if group is not None and known is not None and settings is not False and not asked.sysFlag & ITS_OWN:
            reading = self._fetcher.reading(topic.queues[asked.queueId], MINE)
            connection.seat(Standing(topic, group, known, settings), asked.queueId, reading)

    def _wanted(self, asked: Pull, connection: Connection) -> Wanted:
        if asked.sysFlag & ITS_OWN:
            return wanted(asked.expressionType, asked.subscription)
        known = self._groups.subscription_for(asked.consumerGroup, asked.topic, asked.subVersion, connection)
        return wanted(known.kind, known.expression, ResponseCode.FILTER_DATA_NOT_EXIST)

    def wait(self, frame: Frame, asked: Pull, seat: Seat, connection: Connection) -> None:
        """For the next message of a queue, from its end on: a pull that was checked already, and wants all there is."""
        call = _Call(frame, connection, asked, _limits_of(asked), seat.queue, ALL, seat.reading)
        try:
            self._wait(call)
        except PenstockError as error:  # too many wait already
            refuse(connection, frame, error)

    # --- reading ------------------------------------------------------------------------------------------------------

    def _read(self, call: "_Call", may_wait: bool) -> None:
        queue, offset = call.queue, call.asked.queueOffset
        flooded = call.connection.waiting_bytes > WAITING_BYTES
        found = None
        if call.wanted is ALL and not flooded:
            if call.reading is not None:
                found = call.reading.now(offset, *call.limits)
            else:
                found = self._fetcher.slices_now(queue, offset, *call.limits, MINE)
        if found is not None:
            self._hand_out(call, [found.behind(_head_of(call.frame, found))], found.messages, found.size_bytes)
            return
        bounds = self._fetcher.bounds(queue)
        if not bounds.min_offset <= offset <= bounds.max_offset:
            self._moved(call, bounds)
        elif offset == bounds.max_offset:
            self._at_the_end(call, bounds, may_wait)
        elif flooded:
            why = "this connection has not taken its last answers yet: take them, then pull again"
            call.connection.reply(call.frame, ResponseCode.FLOW_CONTROL, why)
        elif self._fetcher.holds_others(queue, MINE):
            self._later(call, self._read_mixed(call, bounds, may_wait))
        elif call.wanted.sql is not None:
            self._aside(call, self._read_filtered(call))
        elif call.wanted is not ALL or not self._read_all(call):
            self._read_some(call, bounds)

    def _read_all(self, call: "_Call") -> bool:
        """All there is, from the disk if need be; False where it takes a closer look."""
        found = self._fetcher.slices_later(call.queue, call.asked.queueOffset, *call.limits, MINE)
        if found is None:
            return False
        answer = found.behind(_head_of(call.frame, found), wait=False)
        if answer is not None:
            self._hand_out(call, [answer], found.messages, found.size_bytes)
        else:
            self._later(call, self._read_slices(call, found))
        return True

    def _read_some(self, call: "_Call", bounds: Bounds) -> None:
        """What is wanted of the messages there, wherever they are."""
        count, size = call.limits
        if call.wanted.sql is not None:
            count, size = call.wanted.stretch, STRETCH_BYTES
        plan = self._fetcher.plan(call.queue, call.asked.queueOffset, count, size, call.wanted.tags)
        plan.together = call.wanted.sql is None
        batch = self._fetcher.load_now(plan)
        if batch is not None:
            self._found(call, bounds, batch)
        else:
            self._later(call, self._read_cold(call, bounds, plan))

    def _later(self, call: "_Call", work: Coroutine[None, None, None]) -> None:
        """What is not in memory as it goes out is got on the side."""
        connection, size_bytes = call.connection, call.bytes_max

        def done(_: asyncio.Task[None]) -> None:
            connection.reading_bytes -= size_bytes

        connection.reading_bytes += size_bytes
        self._aside(call, work).add_done_callback(done)

    def _aside(self, call: "_Call", work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        async def done() -> None:
            try:
                await work
            except (PenstockError, OSError) as error:
                refuse(call.connection, call.frame, error)

        task = asyncio.ensure_future(done())
        self._reading.add(task)
        task.add_done_callback(self._reading.discard)
        return task

    async def _read_filtered(self, call: "_Call") -> None:
        """With a SQL filter: one pull after the other, each in a turn of the loop of its own. Many may come in one
        read, and each takes milliseconds, for which others would wait.
        """
        async with self._filtering:
            await asyncio.sleep(0)
            bounds = self._fetcher.bounds(call.queue)
            if call.asked.queueOffset < bounds.min_offset:  # meanwhile
                self._moved(call, bounds)
            else:
                self._read_some(call, bounds)

    async def _read_slices(self, call: "_Call", found: Later) -> None:
        answer = await asyncio.to_thread(found.behind, b"", True)
        if answer is None:
            raise RuntimeError("a read that may wait came back with nothing")
        self._hand_out(call, [answer], found.messages, found.size_bytes)

    async def _read_cold(self, call: "_Call", bounds: Bounds, plan: Plan) -> None:
        self._found(call, bounds, await self._fetcher.load(plan, tried=True))

    async def _read_mixed(self, call: "_Call", bounds: Bounds, may_wait: bool) -> None:
        """From a queue that others write to as well."""
        wish = Wish(call.messages_max, call.bytes_max, call.wanted.keep)
        if call.asked.asStored:  # who asks for this counts offsets
            wish = wish._replace(until=call.asked.queueOffset + call.messages_max)
        else:
            wish = wish._replace(due_only=True, fills=call.frame.version < EMPTY_BODIES_VERSION)
        host = self._house.store_host_for(call.connection)
        read = await self._records.read(call.queue, call.asked.queueOffset, wish, host)
        if read.payloads:
            size_bytes = sum(map(len, read.payloads))
            ext = _ext(read.next_offset, bounds, read.empty)
            head = _head(call.frame, ext, size_bytes)
            self._hand_out(call, [head, *read.payloads], len(read.payloads), size_bytes)
        elif read.next_offset > call.asked.queueOffset:
            self._nothing(call, bounds, read.next_offset, read.empty)
        else:
            self._hold(call, bounds, read, may_wait)

    def _found(self, call: "_Call", bounds: Bounds, batch: Batch) -> None:
        if call.wanted.sql is not None:
            batch = narrowed(batch, call.wanted.keeps, call.messages_max, call.bytes_max)
        if batch.payloads:
            messages, size_bytes = count_of(batch)
            head = _head(call.frame, _ext(batch.next_offset, bounds), size_bytes)
            self._hand_out(call, [head, *batch.payloads], messages, size_bytes)
        else:
            self._nothing(call, bounds, batch.next_offset)

    def _hand_out(self, call: "_Call", parts: Sequence[bytes | memoryview], messages: int, size_bytes: int) -> None:
        self._traffic.got(call.asked.consumerGroup, call.asked.topic, messages, size_bytes)
        call.connection.reply_with(call.frame, parts, size_bytes)

    def _nothing(self, call: "_Call", bounds: Bounds, next_offset: int, empty: int = 0) -> None:
        """None of what was looked at is for this client."""
        if not self._waits_on(call, next_offset):
            ext = _ext(next_offset, bounds, empty)
            call.connection.reply(call.frame, ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE", ext)

    def _moved(self, call: "_Call", bounds: Bounds) -> None:
        asked, low = call.asked, call.asked.queueOffset < bounds.min_offset
        corrected = bounds.min_offset if low else bounds.max_offset
        group = self._groups.find(asked.consumerGroup)
        member = group.members.get(call.connection) if group else None
        self._bus.emit(
            OffsetMoved(
                at_ms=self._clock.now_ms(),
                group=asked.consumerGroup,
                client_id=member.client_id if member else "",
                topic=asked.topic,
                queue=asked.queueId,
                asked_offset=asked.queueOffset,
                corrected_offset=corrected,
            )
        )
        remark = "OFFSET_TOO_SMALL" if low else "OFFSET_OVERFLOW_BADLY"
        call.connection.reply(call.frame, ResponseCode.PULL_OFFSET_MOVED, remark, _ext(corrected, bounds))

    def _at_the_end(self, call: "_Call", bounds: Bounds, may_wait: bool) -> None:
        if may_wait and not call.frame.oneway:
            self._wait(call)
            return
        remark = "OFFSET_OVERFLOW_ONE" if bounds.max_offset else "NO_MESSAGE_IN_QUEUE"
        call.connection.reply(call.frame, ResponseCode.PULL_NOT_FOUND, remark, _ext(bounds.max_offset, bounds))

    def _wait(self, call: "_Call") -> None:
        timeout_ms = min(max(call.asked.suspendTimeoutMillis, 0), SUSPEND_MS_MAX)
        call.until_ms = self._clock.monotonic_ms() + timeout_ms
        self._park(call, timeout_ms)

    def _hold(self, call: "_Call", bounds: Bounds, read: Read, may_wait: bool) -> None:
        """The next message is not due yet: wait for it, as far as the client does."""
        now_ms = self._clock.monotonic_ms()
        if may_wait and not call.frame.oneway:
            call.until_ms = now_ms + min(max(call.asked.suspendTimeoutMillis, 0), SUSPEND_MS_MAX)
        left_ms = min(call.until_ms - now_ms, read.due_ms - self._clock.now_ms())
        if left_ms > 0 and not call.connection.gone:
            self._park(call, left_ms, exact=True)
            return
        ext = _ext(read.next_offset, bounds)
        call.connection.reply(call.frame, ResponseCode.PULL_NOT_FOUND, "NOT_DUE", ext)

    def _park(self, call: "_Call", timeout_ms: int, exact: bool = False) -> None:
        call.wait = self._waits.park(call.queue, timeout_ms, lambda there: self._woken(call, there), exact)
        call.connection.parked.add(call.wait)

    def _waits_on(self, call: "_Call", next_offset: int) -> bool:
        """Whether a pull that was woken by what it does not want waits for the rest of its time."""
        left_ms = call.until_ms - self._clock.monotonic_ms()
        if not call.woken or left_ms <= 0 or next_offset != self._fetcher.bounds(call.queue).max_offset:
            return False
        call.asked.queueOffset = next_offset
        self._park(call, left_ms)
        return True

    def _woken(self, call: "_Call", there: bool) -> None:
        call.woken = there and not call.connection.gone
        if call.wait is not None:
            call.connection.parked.discard(call.wait)
        try:
            self._read(call, may_wait=False)
        except PenstockError as error:  # the topic may be gone by now
            refuse(call.connection, call.frame, error)


class _Call(msgspec.Struct):
    """A pull under way."""

    frame: Frame
    connection: Connection
    asked: Pull
    limits: tuple[int, int]  # messages and bytes, at most
    queue: int  # its number in the log
    wanted: Wanted
    reading: Reading | None = None  # of who has a seat
    wait: Wait | None = None
    until_ms: int = 0  # while it waits
    woken: bool = False  # by something that came

    @property
    def messages_max(self) -> int:
        return self.limits[0]

    @property
    def bytes_max(self) -> int:
        return self.limits[1]


def count_of(batch: Batch) -> tuple[int, int]:
    """Messages and bytes."""
    return len(batch.rows), int(batch.rows["length"].sum(dtype=np.int64))


def limits(messages_max: int, bytes_max: int) -> tuple[int, int]:
    """What a pull gets at most, of what it asks for."""
    return min(max(messages_max, 1), MESSAGES_MAX), min(max(bytes_max, BYTES_DEFAULT), BYTES_MAX)


def _limits_of(asked: Pull) -> tuple[int, int]:
    return limits(asked.maxMsgNums, asked.maxMsgBytes)


def found_head(opaque: int, next_offset: int, min_offset: int, max_offset: int, body_bytes: int) -> bytes:
    """An answer with messages, up to where they begin, in JSON."""
    header = _FOUND % (max_offset, min_offset, next_offset, opaque)
    return _LENGTHS.pack(4 + len(header) + body_bytes, len(header)) + header


def _head_of(frame: Frame, found: Slices | Later) -> bytes:
    if frame.form == JSON:
        return found_head(frame.opaque, found.next_offset, found.min_offset, found.max_offset, found.size_bytes)
    return _head(frame, _ext(found.next_offset, Bounds(found.min_offset, found.max_offset, 0, 0)), found.size_bytes)


def _head(frame: Frame, ext: dict[str, str], body_bytes: int) -> bytes:
    return pack_head(ResponseCode.SUCCESS, frame.opaque, Flag.RESPONSE, VERSION, frame.form, FOUND, ext, body_bytes)


def _ext(next_offset: int, bounds: Bounds, empty: int = 0) -> dict[str, str]:
    ext = {
        "nextBeginOffset": str(next_offset),
        "minOffset": str(bounds.min_offset),
        "maxOffset": str(bounds.max_offset),
        "suggestWhichBrokerId": "0",
    }
    if empty:  # Penstock's own: so many of the offsets that were passed have no message
        ext["emptyOffsets"] = str(empty)
    return ext
