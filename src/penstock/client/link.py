"""One connection to a broker or a name server: requests go out, answers come back in any order, and the other side may
ask as well.

All requests of one turn of the loop leave with one write, and all frames of one read are decoded together. A timer per
request and a future, nothing else. A link that is lost stays lost: `Links` opens another.
"""

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Protocol

from penstock import logs
from penstock.client.errors import Closed, Lost, TimedOut, Unreachable
from penstock.wire.framing import FrameError, missing_bytes
from penstock.wire.rocketmq.codes import Flag
from penstock.wire.rocketmq.frame import JSON, Frame, frames_in, pack

log = logs.get(__name__)

VERSION = 409  # which Java client we claim to be as modern as
LANGUAGE = "PYTHON"
BUFFER_BYTES = 256 * 1024

Ext = Mapping[str, str]
Asked = Callable[[Frame, "Link"], None]  # what the other side asks; `Link.reply` answers it, now or later


class Dial(Protocol):
    """Opens a connection: `loop.create_connection`, or a network that a test made up."""

    async def __call__(
        self, make: Callable[[], asyncio.BaseProtocol], host: str, port: int
    ) -> tuple[asyncio.BaseTransport, asyncio.BaseProtocol]: ...


class Link(asyncio.BufferedProtocol):
    def __init__(self, address: str, asked: Asked, health: "Health") -> None:
        self.address = address
        self._asked, self._health = asked, health
        self._unheard = True
        self._loop = asyncio.get_running_loop()
        self._opaque = itertools.count(1)
        self._waiting: dict[int, tuple[asyncio.Future[Frame], asyncio.TimerHandle]] = {}
        self._out: list[bytes] = []
        self._view, self._end = memoryview(bytearray(BUFFER_BYTES)), 0
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: asyncio.Transport
        self.lost = False

    # --- what asyncio calls -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, size_hint: int) -> memoryview:
        return self._view[self._end :]

    def buffer_updated(self, count: int) -> None:
        self._end += count
        try:
            frames, used = frames_in(self._view, self._end)
        except FrameError as error:
            log.warning("a connection was closed: its frames cannot be read", address=self.address, error=str(error))
            self._transport.abort()
            return
        if self._unheard and frames:
            self._unheard = False
            self._health.answered(self.address)
        for frame in frames:
            frame.body = memoryview(bytes(frame.body))  # the buffer is used again
            self._take(frame)
        self._keep_rest(used)

    def _keep_rest(self, used: int) -> None:
        rest = self._end - used
        need = rest + missing_bytes(self._view[used : self._end], rest) if rest else 0
        if need > len(self._view) or (not rest and len(self._view) > BUFFER_BYTES):
            fresh = memoryview(bytearray(max(need, BUFFER_BYTES)))
            fresh[:rest] = self._view[used : self._end]
            self._view = fresh
        elif used and rest:
            self._view[:rest] = bytes(self._view[used : self._end])
        self._end = rest

    def _take(self, frame: Frame) -> None:
        if not frame.is_response:
            self._asked(frame, self)
            return
        future, timer = self._waiting.pop(frame.opaque, (None, None))
        if future is not None and timer is not None:
            timer.cancel()
            if not future.done():
                future.set_result(frame)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost = True
        self._writable.set()
        waiting, self._waiting = self._waiting, {}
        if waiting:  # one that nobody waits for may close: that is what brokers do with connections at rest
            self._health.failed(self.address, str(error or "the connection was closed"))
        for future, timer in waiting.values():
            timer.cancel()
            if not future.done():
                future.set_exception(Lost(self.address, str(error or "the connection was closed")))

    # --- asking -------------------------------------------------------------------------------------------------------

    async def ask(self, code: int, ext: Ext, body: bytes = b"", timeout_ms: int = 3_000) -> Frame:
        """The answer, whatever its code. TimedOut when there is none, Unreachable when the link is lost first."""
        if not self._writable.is_set():
            await self._writable.wait()
        if self.lost:
            raise Unreachable(self.address, "the connection was closed")
        opaque = next(self._opaque)
        future: asyncio.Future[Frame] = self._loop.create_future()
        self._waiting[opaque] = future, self._loop.call_later(timeout_ms / 1000, self._late, opaque, timeout_ms)
        self._send(pack(code, opaque, 0, VERSION, JSON, "", ext, body, LANGUAGE))
        try:
            return await future
        finally:
            late = self._waiting.pop(opaque, None)
            if late is not None:  # cancelled
                late[1].cancel()

    def _late(self, opaque: int, timeout_ms: int) -> None:
        future, _ = self._waiting.pop(opaque)
        if not future.done():
            future.set_exception(TimedOut(self.address, timeout_ms))

    async def tell(self, code: int, ext: Ext, body: bytes = b"") -> None:
        """A request that wants no answer."""
        if not self._writable.is_set():
            await self._writable.wait()
        if self.lost:
            raise Unreachable(self.address, "the connection was closed")
        self._send(pack(code, next(self._opaque), Flag.ONEWAY, VERSION, JSON, "", ext, body, LANGUAGE))

    def reply(self, frame: Frame, code: int, remark: str = "", ext: Ext | None = None, body: bytes = b"") -> None:
        """Answer what the other side asked."""
        if not frame.oneway and not self.lost:
            self._send(pack(code, frame.opaque, Flag.RESPONSE, VERSION, frame.form, remark, ext or {}, body, LANGUAGE))

    def _send(self, packed: bytes) -> None:
        if not self._out:
            self._loop.call_soon(self._flush)
        self._out.append(packed)

    def _flush(self) -> None:
        out, self._out = self._out, []
        if not self.lost:
            self._transport.write(out[0] if len(out) == 1 else b"".join(out))

    def close(self) -> None:
        """After what has been written."""
        if not self.lost:
            if self._out:
                self._flush()
            self._transport.close()


class Health:
    """Which addresses fail: nobody connects, or the connection ends while somebody waits for an answer. One that fails
    is not tried again before its time: each failure in a row doubles the wait, and only the first of them is logged. It
    is over with the first answer.
    """

    def __init__(self) -> None:
        self._failures: dict[str, tuple[int, float]] = {}  # how many in a row, and when to try again (loop's time)
        self._over = False

    def failed(self, address: str, why: str) -> None:
        if self._over:
            return
        count, _ = self._failures.get(address, (0, 0.0))
        again = asyncio.get_running_loop().time() + min(0.1 * 2 ** min(count, 10), 30.0)
        self._failures[address] = count + 1, again
        if not count:
            log.warning("cannot be reached, it is tried again", address=address, error=why)

    def answered(self, address: str) -> None:
        if self._failures.pop(address, None):
            log.info("reached again", address=address)

    def wait_s(self, address: str) -> float:
        """How long it is not to be tried yet."""
        if address not in self._failures:
            return 0.0
        return max(self._failures[address][1] - asyncio.get_running_loop().time(), 0.0)

    def close(self) -> None:
        """Whatever ends from now on was ended by us."""
        self._over = True


class Links:
    """The links of a client, one for each address."""

    def __init__(self, asked: Asked, dial: Dial | None = None, connect_timeout_ms: int = 3_000) -> None:
        self._asked, self._dial, self._connect_timeout_ms = asked, dial, connect_timeout_ms
        self._links: dict[str, Link] = {}
        self._opening: dict[str, asyncio.Task[Link]] = {}
        self._health = Health()
        self._closed = False

    def ready(self, address: str) -> Link | None:
        """A link that works, if there is one."""
        link = self._links.get(address)
        return link if link is not None and not link.lost else None

    async def to(self, address: str) -> Link:
        """A link that works, opened if need be. Several who ask at once share the attempt."""
        link = self.ready(address)
        if link is not None:
            return link
        if self._closed:
            raise Closed("this client is closed")
        task = self._opening.get(address)
        if task is None:
            task = self._opening[address] = asyncio.ensure_future(self._open(address))
            task.add_done_callback(lambda done: self._opening.pop(address, None))
        return await asyncio.shield(task)

    async def _open(self, address: str) -> Link:
        loop = asyncio.get_running_loop()
        if wait_s := self._health.wait_s(address):
            await asyncio.sleep(wait_s)
        try:
            host, _, port = address.rpartition(":")
            dial = self._dial or loop.create_connection
            async with asyncio.timeout(self._connect_timeout_ms / 1000):
                _, link = await dial(lambda: Link(address, self._asked, self._health), host.strip("[]"), int(port))
        except (OSError, TimeoutError, ValueError) as error:
            why = str(error) or f"no connection within {self._connect_timeout_ms} ms"
            self._health.failed(address, why)
            raise Unreachable(address, why) from None
        assert isinstance(link, Link)
        self._links[address] = link
        return link

    def is_down(self, address: str) -> bool:
        """Whether it failed a moment ago and is not to be tried yet: who can go elsewhere should."""
        return self._health.wait_s(address) > 0

    def drop(self, address: str) -> None:
        """This address is not used any more."""
        link = self._links.pop(address, None)
        if link is not None:
            link.close()

    def close(self) -> None:
        self._closed = True
        self._health.close()
        for task in self._opening.values():
            task.cancel()
        for address in list(self._links):
            self.drop(address)
