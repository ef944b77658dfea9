"""One Pulsar connection: all frames of one read are decoded together, neighbours of one kind go to one handler call,
and all answers of one turn of the loop leave with one write.

A client introduces itself first; whatever else comes before that closes the connection. Both sides ask each other for a
sign of life; who gives none is gone. The receive buffer is used again at once, also by others (`gateway/inbox`): a
payload is a view into it and valid until the handler returns. Bounds: the frame's size, the sends under way, what the
client does not take, and its silence.

Producers are numbered by the client, per connection; they are kept here, and `producers.py` knows what they are.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Protocol

from google.protobuf.message import Message

from penstock import logs
from penstock.config import PulsarConfig
from penstock.gateway.guests import Guests
from penstock.gateway.inbox import Inbox, Reception
from penstock.turn import Turn
from penstock.wire.framing import FrameError
from penstock.wire.pulsar.commands_pb2 import BaseCommand, CommandPing
from penstock.wire.pulsar.frame import SLACK_BYTES, Frame, command, frames_in, pack

if TYPE_CHECKING:
    from penstock.core.subscriptions.registry import Attached
    from penstock.gateway.pulsar.consumer import Consumer
    from penstock.gateway.pulsar.produce import Receipts
    from penstock.gateway.pulsar.producers import Producer
    from penstock.gateway.pulsar.watch import Watcher

log = logs.get(__name__)

UNDER_WAY_MAX = 4_000  # sends that are not answered: then no more is read
WAITING_BYTES_MAX = 128 * 1024 * 1024  # of what the client does not take: then it is closed

_PING = pack(command(BaseCommand.PING, CommandPing()))


class Dispatcher(Protocol):
    def dispatch(self, frames: list[Frame], connection: "Connection") -> None: ...

    def lost(self, connection: "Connection") -> None: ...


class Connection(asyncio.BufferedProtocol):
    """`version` is the protocol's, 0 until the client has introduced itself. `under_way` counts unanswered sends."""

    def __init__(
        self, dispatcher: Dispatcher, guests: Guests, reception: Reception, turn: Turn, config: PulsarConfig
    ) -> None:
        self._dispatcher, self._guests, self._turn = dispatcher, guests, turn
        self._loop = asyncio.get_running_loop()
        self._inbox = Inbox(reception)
        self._frame_bytes_max = config.message_bytes_max + SLACK_BYTES
        self._keep_alive_s = config.keep_alive_ms / 1000
        self._out: list[bytes | memoryview] = []
        self._out_bytes = 0
        self._flushing = self._parting = self.write_blocked = self._read_paused = False
        self._asked = False  # for a sign of life, which has not come
        self._heard: set[asyncio.Future[None]] = set()  # who waits for one
        self._tick: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._transport: asyncio.Transport
        self.introduced = False
        self.version, self.client = 0, ""
        self.who = "anonymous"
        self.host = self.address = self.local_host = ""
        self.under_way = 0
        self.producers: dict[int, Producer] = {}
        self.sent_away: dict[int, float] = {}  # producers that the broker closed, and when
        self.receipts: Receipts | None = None
        self.watchers: dict[int, Watcher] = {}
        self.consumers: dict[int, Consumer] = {}
        self.sought: dict[str, Attached] = {}  # subscriptions that a seek has emptied, and that are not durable

    # --- what asyncio calls -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        host, port = transport.get_extra_info("peername")[:2]
        self.local_host = transport.get_extra_info("sockname")[0]
        self.host, self.address = host, f"{host}:{port}"
        if not self._guests.enter(self):
            log.warning("a connection too many was closed", address=self.address)
            transport.abort()
            return
        self._tick = self._loop.call_later(self._keep_alive_s, self._keep_alive)

    def _keep_alive(self) -> None:
        """Close it when it has not introduced itself by now, or has not answered the last time; else ask."""
        if not self.introduced or self._asked:
            log.info("a silent connection was closed", address=self.address)
            self._transport.abort()
            return
        self._ask()
        self._tick = self._loop.call_later(self._keep_alive_s, self._keep_alive)

    def _ask(self) -> None:
        self._asked = True
        self.write(_PING)

    def get_buffer(self, size_hint: int) -> memoryview:
        return self._inbox.buffer()

    def buffer_updated(self, count: int) -> None:
        view, end = self._inbox.filled(count)
        self._turn.begin()
        try:
            frames, used = frames_in(view, end, self._frame_bytes_max)
            if frames and not self._parting:
                self._sign_of_life()
                self._flushing = True  # what is answered at once leaves at the end of these lines
                self._dispatcher.dispatch(frames, self)
                self.flush()
                self.balance()
            self._inbox.keep(view, used, end)
        except FrameError as error:
            log.warning("a connection was closed: its frames cannot be read", address=self.address, error=str(error))
            self._transport.abort()
        finally:
            self._turn.end()

    def _sign_of_life(self) -> None:
        self._asked = False
        if self._heard:
            for future in self._heard:
                if not future.done():
                    future.set_result(None)
            self._heard.clear()

    def eof_received(self) -> bool:
        return False

    def pause_writing(self) -> None:
        self._block_writing(True)

    def resume_writing(self) -> None:
        self._block_writing(False)

    def _block_writing(self, blocked: bool) -> None:
        self.write_blocked = blocked
        for consumer in self.consumers.values():
            consumer.set_open(not blocked)
        self.balance()

    def balance(self) -> None:
        """Read on only while the client takes its answers and does not send too much at once."""
        limit = UNDER_WAY_MAX // 2 if self._read_paused else UNDER_WAY_MAX
        pause = self.write_blocked or self.under_way > limit
        if pause != self._read_paused and not self._transport.is_closing():
            self._read_paused = pause
            (self._transport.pause_reading if pause else self._transport.resume_reading)()

    def connection_lost(self, error: Exception | None) -> None:
        self._parting = True
        self._guests.leave(self)
        self._inbox.let_go()
        if self._tick is not None:
            self._tick.cancel()
        for future in self._heard:
            future.cancel()
        for task in self._tasks:
            task.cancel()
        self._dispatcher.lost(self)

    # --- what the server calls ----------------------------------------------------------------------------------------

    def finish(self) -> None:
        self._parting = True
        self.flush()
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    @property
    def gone(self) -> bool:
        return self._transport.is_closing()

    # --- what handlers call -------------------------------------------------------------------------------------------

    def send(self, kind: int, body: Message) -> None:
        """Tell the client something; a handler's answer is that too."""
        self.write(pack(command(kind, body)))

    def write(self, packed: bytes) -> None:
        """A frame in its final form. Leaves at the end of this turn of the loop, with all others."""
        self._count_out(len(packed))
        self._out.append(packed)
        self._flush_soon()

    def write_all(self, packed: Sequence[bytes | memoryview]) -> None:
        """As `write`, for many."""
        self._count_out(sum(map(len, packed)))
        self._out.extend(packed)
        self._flush_soon()

    def violate(self, what: str) -> None:
        """The client has done what no client does: it is closed."""
        log.warning("a connection was closed", why=what, address=self.address)
        self._transport.abort()

    def close_after(self, kind: int, body: Message) -> None:
        """Tell the client why, and close."""
        self.send(kind, body)
        self.finish()

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        """Do something that takes its time; it is given up when the connection is lost."""
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def is_alive(self, timeout_ms: int) -> bool:
        """Whether the client gives a sign of life in time."""
        if self.gone:
            return False
        heard: asyncio.Future[None] = self._loop.create_future()
        self._heard.add(heard)
        self._ask()
        try:
            await asyncio.wait_for(asyncio.shield(heard), timeout_ms / 1000)
        except TimeoutError:
            return False
        except asyncio.CancelledError:
            if heard.cancelled():  # the connection was lost
                return False
            raise
        finally:
            self._heard.discard(heard)
        return True

    def _count_out(self, size_bytes: int) -> None:
        """Whoever takes none of its answers is closed before they fill the memory."""
        self._out_bytes += size_bytes
        if self._transport.is_closing():
            self._out.clear()
        elif self._out_bytes + self._transport.get_write_buffer_size() > WAITING_BYTES_MAX:
            log.warning("a connection was closed: it does not take its answers", address=self.address)
            self._transport.abort()
            self._out.clear()

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            if not self._turn.joined(self):
                self._loop.call_soon(self.flush)

    def flush(self) -> None:
        """Send what is there."""
        self._flushing = False
        out, self._out, self._out_bytes = self._out, [], 0
        if out and not self._transport.is_closing():
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))
