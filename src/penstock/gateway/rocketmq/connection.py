"""One RocketMQ connection: all frames of one read are decoded together, neighbours of one kind go to one handler call,
and all answers of one turn leave with one write. That is the largest single win on the produce path.

The receive buffer is used again at once, also by others (`inbox`): a body is a view into it and valid until the handler
returns. Bounds: the frame's size (`wire`), the requests under way, what the client does not take, and its silence.
"""

import asyncio
import itertools
import socket
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from penstock import logs
from penstock.core.fetch import Reading
from penstock.core.group_settings import GroupSettings
from penstock.core.groups import Group, Subscription
from penstock.core.topics import Topic
from penstock.core.waits import Wait
from penstock.gateway.guests import Guests
from penstock.gateway.inbox import Inbox, Reception
from penstock.turn import Turn
from penstock.wire.framing import FrameError
from penstock.wire.rocketmq.codes import Flag, RequestCode
from penstock.wire.rocketmq.frame import JSON, Frame, frames_in, pack
from penstock.wire.rocketmq.record import Record
from penstock.wire.rocketmq.requests import request_in

log = logs.get(__name__)

VERSION = (
    409  # what heartbeats are answered with: clients take it for the broker's version, SQL filters need 232 or more
)
LARGE_BYTES = 128 * 1024  # messages leave before the read is done with: the client is at work on them meanwhile
UNDER_WAY_MAX = 10_000
READS_MIN = 8  # that brought nothing but pulls that could be answered, before a consumer is lent (`backlog`)
SEATS_MAX = 1_024  # queues that a connection reads quickly; far more than consumers have
WAITING_BYTES = 32 * 1024 * 1024  # of answers that the client has not taken: then pulls are put off
WAITING_BYTES_MAX = 128 * 1024 * 1024  # then it is closed


class Model(NamedTuple):
    """What messages of a connection to one topic have in common: a record, its length, and how their ids begin."""

    topic: str
    record: Record
    fixed_bytes: int
    id_prefix: bytes


class Standing(NamedTuple):
    """What the pulls of a group from a topic were checked against. As long as each of these is still what is there, so
    is what came of the check.
    """

    topic: Topic
    group: Group
    subscription: Subscription
    settings: GroupSettings | None

    def same(self, other: "Standing") -> bool:
        return all(mine is theirs for mine, theirs in zip(self, other, strict=True))


class Seat(NamedTuple):
    """From where a consumer reads a queue. Its seats at a topic have one standing, until that changes."""

    standing: Standing
    queue: int  # its number in the log
    reading: Reading


class Pace:
    """How smoothly it goes with a consumer: reads in a row that brought nothing but pulls that could be answered, and
    how many of these it takes until it is lent.
    """

    __slots__ = ("needed", "reads")

    def __init__(self) -> None:
        self.reads, self.needed = 0, READS_MIN


class Lender(Protocol):
    def take_back(self, number: int) -> None: ...


class Dispatcher(Protocol):
    def take(self, view: memoryview, end: int, connection: "Connection") -> int:
        """Serve the ordinary requests at the front of a read; how many bytes they were."""

    def dispatch(self, frames: list[Frame], connection: "Connection") -> None: ...

    def lost(self, connection: "Connection") -> None: ...


class Connection(asyncio.BufferedProtocol):
    """`under_way` counts requests that were taken and not answered yet."""

    def __init__(
        self, dispatcher: Dispatcher, guests: Guests, reception: Reception, turn: Turn, idle_timeout_ms: int
    ) -> None:
        self._dispatcher, self._guests, self._turn = dispatcher, guests, turn
        self._loop = asyncio.get_running_loop()
        self._inbox = Inbox(reception)
        self._idle_timeout_s = idle_timeout_ms / 1000
        self._heard = self._loop.time()
        self._out_bytes = 0  # of large answers that are in `_out`
        self.reading_bytes = 0  # of answers that are being read from the disk, at most
        self._out: list[bytes | memoryview] = []
        self._flushing = self._parting = self._write_blocked = self._read_paused = False
        self._opaque = itertools.count(1)
        self.parked: set[Wait] = set()  # long polls of this client
        self._asked: dict[int, asyncio.Future[Frame]] = {}
        self.under_way = 0
        self.who = "anonymous"
        self.form = JSON  # of the last request: what this client understands
        self.address = self.local_host = ""
        self.born_host = bytes(8)
        self.store_host = b""  # what this client's messages carry: see `House`
        self.model: Model | None = None  # of its last ordinary send
        self.seats: dict[tuple[str, str, int], Seat] = {}  # by group, topic and queue
        self._standings: dict[tuple[str, str], Standing] = {}  # of the last seat at each topic
        self.pace = Pace()
        self._lent: tuple[Lender, int] | None = None  # to whom, and the number of the loan
        self._transport: asyncio.Transport
        self._idle: asyncio.TimerHandle | None = None

    # --- what asyncio calls -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        host, port = transport.get_extra_info("peername")[:2]
        self.local_host = transport.get_extra_info("sockname")[0]
        self.address, self.born_host = f"{host}:{port}", packed_host(host, port)
        if not self._guests.enter(self):
            log.warning("a connection too many was closed", address=self.address)
            transport.abort()
            return
        self._idle = self._loop.call_later(self._idle_timeout_s, self._check_idle)

    def _check_idle(self) -> None:
        """Close it when nothing has come for long, as clients are used to: what is alive sends heartbeats."""
        left_s = self._heard + self._idle_timeout_s - self._loop.time()
        if left_s > 0:
            self._idle = self._loop.call_later(left_s, self._check_idle)
        else:
            log.info("a silent connection was closed", address=self.address)
            self._transport.abort()

    def get_buffer(self, size_hint: int) -> memoryview:
        return self._inbox.buffer()

    def buffer_updated(self, count: int) -> None:
        view, end = self._inbox.filled(count)
        self._heard = self._loop.time()
        self._turn.begin()
        try:
            self._flushing = True  # what is answered at once leaves at the end of these lines
            used = 0 if self._parting else self._dispatcher.take(view, end, self)
            if used < end:
                frames, used = frames_in(view, end, request_in, used)
                if frames and not self._parting:
                    self._take(frames)
            self.flush()
            self._inbox.keep(view, used, end)
        except FrameError as error:
            log.warning("a connection was closed: its frames cannot be read", address=self.address, error=str(error))
            self._transport.abort()
        finally:
            self._turn.end()

    def _take(self, frames: list[Frame]) -> None:
        flags = [frame.flag for frame in frames]
        if any(flags):  # answers, or requests that want none
            for frame in frames:
                if frame.is_response:
                    self._answered(frame)
            frames = [frame for frame in frames if not frame.is_response]
            self.under_way -= sum(frame.oneway for frame in frames)
        if frames:
            self.under_way += len(frames)
            self.form = frames[-1].form
            self._dispatcher.dispatch(frames, self)
        self._balance()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._write_blocked = True
        self._balance()

    def resume_writing(self) -> None:
        self._write_blocked = False
        self._balance()

    def _balance(self) -> None:
        """Read on only while the client takes its answers and does not ask too much at once."""
        pause = self._write_blocked or self._lent is not None or self.under_way > UNDER_WAY_MAX
        if pause != self._read_paused and not self._transport.is_closing():
            self._read_paused = pause
            (self._transport.pause_reading if pause else self._transport.resume_reading)()

    def connection_lost(self, error: Exception | None) -> None:
        try:
            self._take_back()
        finally:
            self._lost()

    def _lost(self) -> None:
        self._parting = True
        self._guests.leave(self)
        self._inbox.let_go()
        if self._idle is not None:
            self._idle.cancel()
        for future in self._asked.values():
            if not future.done():
                future.set_exception(ConnectionError(f"{self.address} is gone"))
        for wait in self.parked:
            wait.cancel()
        self._dispatcher.lost(self)

    # --- what the server calls ----------------------------------------------------------------------------------------

    def finish(self) -> None:
        self._take_back()
        self._parting = True
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    @property
    def gone(self) -> bool:
        return self._transport.is_closing()

    # --- lending it: see backlog.py -----------------------------------------------------------------------------------

    @property
    def can_be_lent(self) -> bool:
        """Whether nothing is in its way out, and nobody wants it closed."""
        held_up = self._out or self._parting or self._read_paused
        return not (held_up or self.waiting_bytes or self._transport.is_closing())

    @property
    def descriptor(self) -> int:
        """The socket's."""
        return int(self._transport.get_extra_info("socket").fileno())

    def lend(self, lender: Lender, number: int) -> None:
        """From now on somebody else reads from it and writes to it."""
        self._lent = lender, number
        self._balance()

    def _take_back(self) -> None:
        if self._lent is not None:
            lender, number = self._lent
            lender.take_back(number)

    def regain(self, unsent: bytes, heard: bool) -> None:
        """It is back, with what has to be sent before all else."""
        self._lent = None
        if heard:
            self._heard = self._loop.time()
        if unsent and not self._transport.is_closing():
            self._transport.write(unsent)
        self._balance()

    # --- answering ----------------------------------------------------------------------------------------------------

    def reply(
        self, frame: Frame, code: int, remark: str = "", ext: Mapping[str, str] | None = None, body: bytes = b""
    ) -> None:
        """Answer a request, unless it does not want one."""
        if frame.oneway:
            return
        self._count_out(len(body))
        self.answer(pack(code, frame.opaque, Flag.RESPONSE, VERSION, frame.form, remark, ext, body))

    def reply_with(self, frame: Frame, parts: Sequence[bytes | memoryview], size_bytes: int) -> None:
        """As `reply`, in its final form, which need not be put together; its body has so many bytes."""
        if frame.oneway:
            return
        self._count_out(size_bytes)
        self._out.extend(parts)
        self.under_way -= 1
        if self._out_bytes >= LARGE_BYTES:
            self._write_out()
        else:
            self._flush_soon()

    def hand_out_now(self, packed: bytes, size_bytes: int) -> None:
        """Messages, for pulls that nobody has counted; so many bytes of them. They leave at once."""
        self.form = JSON
        self._count_out(size_bytes)
        self._out.append(packed)
        self._write_out()

    @property
    def waiting_bytes(self) -> int:
        """Answers that the client has not taken yet."""
        return self._out_bytes + self.reading_bytes + self._transport.get_write_buffer_size()

    def _count_out(self, size_bytes: int) -> None:
        """Whoever takes none of its answers is closed before they fill the memory."""
        self._out_bytes += size_bytes
        if self.waiting_bytes > WAITING_BYTES_MAX and not self._transport.is_closing():
            log.warning("a connection was closed: it does not take its answers", address=self.address)
            self._transport.abort()
        if self._transport.is_closing():
            self._out.clear()

    def answer(self, packed: bytes) -> None:
        """An answer in its final form. Leaves at the end of this turn of the loop, with all others."""
        self.under_way -= 1
        self._send(packed)

    def answer_all(self, packed: list[bytes]) -> None:
        """As `answer`, for many."""
        self.under_way -= len(packed)
        self._out.extend(packed)
        self._flush_soon()

    def seat(self, standing: Standing, index: int, reading: Reading) -> None:
        """The next pulls from a queue of the topic are checked against this."""
        if len(self.seats) >= SEATS_MAX:
            self.seats.clear()
            self._standings.clear()
        group, topic = standing.group.name, standing.topic
        known = self._standings.setdefault((group, topic.name), standing)
        if not known.same(standing):
            known = self._standings[group, topic.name] = standing
        self.seats[group, topic.name, index] = Seat(known, topic.queues[index], reading)

    def took(self, count: int) -> None:
        """So many requests came that want an answer, and not as frames."""
        self.under_way += count
        self.form = JSON
        if self.under_way > UNDER_WAY_MAX:
            self._balance()

    def answer_together(self, packed: bytes, count: int) -> None:
        """So many answers, one behind the other."""
        self.under_way -= count
        self._send(packed)

    def _send(self, packed: bytes) -> None:
        self._out.append(packed)
        self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            if not self._turn.joined(self):
                self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send what is there."""
        self._flushing = False
        if self._out:
            self._write_out()

    def _write_out(self) -> None:
        self._take_back()
        out, self._out, self._out_bytes = self._out, [], 0
        if out and not self._transport.is_closing():
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))
            if self._read_paused:
                self._balance()

    # --- asking the client --------------------------------------------------------------------------------------------

    def push(self, code: int, ext: Mapping[str, str], body: bytes = b"") -> None:
        """Tell the client something; it does not answer."""
        self._count_out(len(body))
        self._send(pack(code, next(self._opaque), Flag.ONEWAY, VERSION, self.form, "", ext, body))

    async def ask(self, code: int, ext: Mapping[str, str], body: bytes = b"", timeout_ms: int = 5_000) -> Frame:
        """Ask the client something; TimeoutError when it does not answer, ConnectionError when it is gone."""
        if self.gone:
            raise ConnectionError(f"{self.address} is gone")
        opaque = next(self._opaque)
        future: asyncio.Future[Frame] = self._loop.create_future()
        self._asked[opaque] = future
        self._send(pack(code, opaque, 0, VERSION, self.form, "", ext, body))
        try:
            return await asyncio.wait_for(future, timeout_ms / 1000)
        finally:
            del self._asked[opaque]

    def _answered(self, frame: Frame) -> None:
        future = self._asked.get(frame.opaque)
        if future is not None and not future.done():
            frame.body = memoryview(bytes(frame.body))  # the buffer is used again
            future.set_result(frame)

    def end_waits(self, queues: set[int]) -> None:
        """Answer the pulls that wait at these queues, so that the client asks anew."""
        for wait in [wait for wait in self.parked if wait.queue in queues]:
            wait.end()

    def notify_members_changed(self, group: str) -> None:
        self.push(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, {"consumerGroup": group})


def packed_host(host: str, port: int) -> bytes:
    """An address as records carry it: 4 or 16 bytes, and the port."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.inet_pton(family, host.partition("%")[0]) + port.to_bytes(4, "big")
