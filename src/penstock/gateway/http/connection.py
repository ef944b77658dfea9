"""One HTTP connection: h11 on an asyncio protocol, with a bound on everything a client controls.

- one request at a time: while it is answered, and while the client does not take the answer, nothing more is read, so
  what a client sends ahead waits in the kernel's buffers and not in ours;
- a request has `idle_timeout_ms` from the last answer until it has arrived whole: sending slowly does not prolong that;
- headers, body and the number of connections are bounded, each with its own status.

A refusal that leaves part of a request unread half-closes and goes on reading for a moment: closing at once would reset
the connection and could take the answer back out of the client's hands.

Not here: what the paths mean (`routes.py`).
"""

import asyncio
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from http import HTTPStatus
from urllib.parse import unquote, urlsplit

import h11

from penstock.config import HttpConfig
from penstock.gateway.guests import Guests
from penstock.gateway.http.messages import Reply, Request, refusal

LINGER_MS = 1_000

Answer = Callable[[Request], Awaitable[Reply]]


class HttpConnection(asyncio.Protocol):
    """`_task` is the request being answered; `_parting` holds once nothing more will be answered."""

    def __init__(self, answer: Answer, config: HttpConfig, guests: Guests) -> None:
        self._answer, self._config, self._guests = answer, config, guests
        self._loop = asyncio.get_running_loop()
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=config.header_bytes_max)
        self._transport: asyncio.Transport
        self._request: h11.Request | None = None
        self._body = bytearray()
        self._task: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._write_blocked = self._last = self._parting = False

    # --- what asyncio calls -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self._guests.enter(self):
            self._wait(self._config.idle_timeout_ms, self._idled)
        else:
            self._refuse(503, "this broker has as many HTTP connections as it may have: try again later")

    def data_received(self, data: bytes) -> None:
        if not self._parting:
            self._http.receive_data(data)
            self._advance()

    def eof_received(self) -> bool:
        """The client sends no more. What it has asked is still answered: True keeps our direction open."""
        if self._parting:
            return False
        self._http.receive_data(b"")
        self._advance()
        return not self._parting

    def pause_writing(self) -> None:
        self._write_blocked = True

    def resume_writing(self) -> None:
        self._write_blocked = False
        self._advance()

    def connection_lost(self, error: Exception | None) -> None:
        self._parting = True
        self._guests.leave(self)
        self._wait(None)
        if self._task:
            self._task.cancel()

    # --- what the server asks -----------------------------------------------------------------------------------------

    def finish(self) -> None:
        self._last = True
        if not self._task:
            self._close()

    def abort(self) -> None:
        self._transport.abort()

    # --- reading ------------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        """Take from h11 what is whole, until it needs more or there is something to answer."""
        while not (self._task or self._write_blocked or self._parting):
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as error:
                self._refuse(error.error_status_hint, f"this is not HTTP as it should be: {error}")
                return
            if event is h11.NEED_DATA:
                self._ask_for_more()
                return
            self._taken(event)
        if not self._parting:
            self._transport.pause_reading()

    def _taken(self, event: object) -> None:
        match event:
            case h11.Request():
                self._request = event
                self._body.clear()
                self._check_body(_length_told(event))
            case h11.Data():
                self._body += event.data
                self._check_body(len(self._body))
            case h11.EndOfMessage():
                assert self._request
                self._begin(self._request)
            case _:  # the connection is closed, or paused behind one that is
                self._close()

    def _ask_for_more(self) -> None:
        if self._http.they_are_waiting_for_100_continue:
            self._write(h11.InformationalResponse(status_code=100, headers=[]))
        self._transport.resume_reading()

    def _check_body(self, length: int) -> None:
        if length > self._config.body_bytes_max:
            self._refuse(413, f"a body has at most {self._config.body_bytes_max} bytes")

    # --- answering ----------------------------------------------------------------------------------------------------

    def _begin(self, request: h11.Request) -> None:
        self._wait(None)
        try:
            whole = _whole(request, bytes(self._body), _local_host(self._transport))
        except ValueError as error:
            self._refuse(400, f"this is not a path: {error}")
        else:
            self._task = self._loop.create_task(self._respond(whole))

    async def _respond(self, request: Request) -> None:
        reply = await self._answer(request)
        self._task = None
        self._send(reply, close=self._last)
        if self._http.our_state is h11.MUST_CLOSE:
            self._close()
        else:
            self._http.start_next_cycle()
            self._request = None
            self._wait(self._config.idle_timeout_ms, self._idled)
            self._advance()

    def _refuse(self, status: int, reason: str) -> None:
        """Say why, then part."""
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._send(refusal(status, reason), close=True)
        self._parting = True
        if self._transport.can_write_eof():
            self._transport.write_eof()
        self._transport.resume_reading()
        self._wait(LINGER_MS, self._close)

    def _send(self, reply: Reply, close: bool) -> None:
        headers = [
            ("Date", formatdate(usegmt=True)),
            *([] if reply.status == 204 else [("Content-Type", reply.content_type), _length(reply)]),
            *reply.headers,
            *([("Connection", "close")] if close else []),
        ]
        reason = HTTPStatus(reply.status).phrase
        self._write(h11.Response(status_code=reply.status, headers=headers, reason=reason))
        if not self._request or self._request.method != b"HEAD":
            self._write(h11.Data(data=reply.body))
        self._write(h11.EndOfMessage())

    def _write(self, event: h11.InformationalResponse | h11.Response | h11.Data | h11.EndOfMessage) -> None:
        self._transport.write(self._http.send(event) or b"")

    # --- parting ------------------------------------------------------------------------------------------------------

    def _idled(self) -> None:
        """Time is up: silently when there was no request, in words when there was part of one."""
        if self._write_blocked:
            self.abort()
        elif self._http.their_state is h11.IDLE and not self._http.trailing_data[0]:
            self._close()
        else:
            self._refuse(408, f"the request was not whole after {self._config.idle_timeout_ms} ms")

    def _close(self) -> None:
        """Close once what was written has been taken, for which there is a time as well."""
        self._parting = True
        self._transport.close()
        self._wait(self._config.idle_timeout_ms, self.abort)

    def _wait(self, timeout_ms: int | None, then: Callable[[], None] | None = None) -> None:
        """Replace the one timer there is."""
        if self._timer:
            self._timer.cancel()
        self._timer = self._loop.call_later(timeout_ms / 1000, then) if timeout_ms is not None and then else None


def _length(reply: Reply) -> tuple[str, str]:
    return "Content-Length", str(len(reply.body))


def _length_told(request: h11.Request) -> int:
    return next((int(value) for name, value in request.headers if name == b"content-length"), 0)


def _local_host(transport: asyncio.Transport) -> str:
    """Empty where a transport has no such thing."""
    address = transport.get_extra_info("sockname")
    return str(address[0]) if isinstance(address, tuple) else ""


def _whole(request: h11.Request, body: bytes, local_host: str) -> Request:
    target = urlsplit(request.target.decode("ascii"))
    method, headers = request.method.decode("ascii"), list(request.headers)
    return Request(method, unquote(target.path), target.query, headers, body, target.path, local_host)
