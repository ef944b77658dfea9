"""One connection to a broker that waits: several requests may be under way, their answers are taken by their numbers.

An executor's task has a thread of its own and nothing else to do, so nothing here is asynchronous. Answers are received
into one buffer that is used again: the body of an answer is valid until the next one is taken.
"""

import itertools
import socket
from collections.abc import Mapping
from typing import Self

from penstock.client.errors import Lost, TimedOut, Unreachable
from penstock.client.link import LANGUAGE, VERSION
from penstock.wire.framing import FrameError
from penstock.wire.rocketmq.frame import FRAME_BYTES_MAX, JSON, Frame, frames_in, pack_head

CONNECT_TIMEOUT_MS = 5_000
ANSWER_TIMEOUT_MS = 30_000
_READ_BYTES = 64 * 1024  # at once, as long as it is not known that more belongs together


class Link:
    def __init__(
        self, address: str, connect_timeout_ms: int = CONNECT_TIMEOUT_MS, timeout_ms: int = ANSWER_TIMEOUT_MS
    ) -> None:
        """Unreachable when nobody is there."""
        self.address, self._timeout_ms = address, timeout_ms
        host, _, port = address.rpartition(":")
        try:
            self._socket = socket.create_connection((host.strip("[]"), int(port)), connect_timeout_ms / 1000)
        except (OSError, ValueError) as error:
            raise Unreachable(address, str(error) or f"no connection within {connect_timeout_ms} ms") from None
        self._socket.settimeout(timeout_ms / 1000)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._opaque = itertools.count(1)
        self._waiting: set[int] = set()
        self._early: dict[int, Frame] = {}  # answers that came before those that were asked for first
        self._view, self._at, self._end = memoryview(bytearray(_READ_BYTES)), 0, 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def send(self, code: int, ext: Mapping[str, str], *body: bytes | memoryview) -> int:
        """Ask, with a body in parts; the number is for `answer`."""
        opaque = next(self._opaque)
        head = pack_head(code, opaque, 0, VERSION, JSON, "", ext, sum(map(len, body)), LANGUAGE)
        try:
            self._send_all([head, *body])
        except TimeoutError:
            raise TimedOut(self.address, self._timeout_ms) from None
        except OSError as error:
            raise Lost(self.address, str(error)) from None
        self._waiting.add(opaque)
        return opaque

    def answer(self, opaque: int) -> Frame:
        """The answer to a request, whatever its code. Its body is valid until the next call."""
        while opaque not in self._early:
            frame = self._next()
            if frame.is_response and frame.opaque == opaque:
                self._waiting.discard(opaque)
                return frame
            if frame.is_response and frame.opaque in self._waiting:
                frame.body = memoryview(bytes(frame.body))  # the buffer is used again
                self._early[frame.opaque] = frame
        self._waiting.discard(opaque)
        return self._early.pop(opaque)

    def forget(self, opaque: int) -> None:
        """Nobody wants this answer any more."""
        self._waiting.discard(opaque)
        self._early.pop(opaque, None)

    def ask(self, code: int, ext: Mapping[str, str], *body: bytes | memoryview) -> Frame:
        return self.answer(self.send(code, ext, *body))

    def _send_all(self, parts: list[bytes | memoryview]) -> None:
        """In as few calls as the system takes, and without joining them first."""
        left = [memoryview(part) for part in parts if len(part)]
        while left:
            sent = self._socket.sendmsg(left)
            while left and sent >= len(left[0]):
                sent -= len(left.pop(0))
            if sent:
                left[0] = left[0][sent:]

    # --- receiving ----------------------------------------------------------------------------------------------------

    def _next(self) -> Frame:
        """The next frame, of anything."""
        try:
            while (missing := self._missing()) > 0:
                self._room(missing)
                self._receive(missing)
            return self._cut()
        except FrameError as error:
            raise Lost(self.address, f"its frames cannot be read: {error}") from None

    def _missing(self) -> int:
        """How many bytes the next frame still needs, as far as is known. What it says is checked before there is any
        room made for it.
        """
        rest = self._end - self._at
        if rest < 4:
            return 4 - rest
        length = int.from_bytes(self._view[self._at : self._at + 4])
        if not 4 <= length <= FRAME_BYTES_MAX:
            raise FrameError(f"a frame of {length} bytes: it has from 4 to {FRAME_BYTES_MAX}")
        return 4 + length - rest

    def _cut(self) -> Frame:
        behind = self._at + 4 + int.from_bytes(self._view[self._at : self._at + 4])
        frames, _ = frames_in(self._view[self._at : behind], behind - self._at)
        self._at = behind
        return frames[0]

    def _room(self, missing: int) -> None:
        """What has not been taken moves to the front of a buffer that holds the rest of its frame."""
        rest = self._end - self._at
        if rest + missing > len(self._view):
            fresh = memoryview(bytearray(rest + missing + _READ_BYTES))
            fresh[:rest] = self._view[self._at : self._end]
            self._view = fresh
        elif self._at:
            self._view[:rest] = bytes(self._view[self._at : self._end])
        self._at, self._end = 0, rest

    def _receive(self, missing: int) -> None:
        """As much as the frame needs; a large one is received whole, and nothing of the next with it."""
        until = min(self._end + max(missing, _READ_BYTES), len(self._view))
        try:
            count = self._socket.recv_into(self._view[self._end : until])
        except TimeoutError:
            raise TimedOut(self.address, self._timeout_ms) from None
        except OSError as error:
            raise Lost(self.address, str(error)) from None
        if not count:
            raise Lost(self.address, "the connection was closed")
        self._end += count


class Links:
    """The connections of one task, by address. Its ranges are read one after the other, and share them."""

    def __init__(self) -> None:
        self._links: dict[str, Link] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        for address in list(self._links):
            self.drop(address)

    def to(self, address: str) -> Link:
        """Unreachable when nobody is there."""
        link = self._links.get(address)
        if link is None:
            link = self._links[address] = Link(address)
        return link

    def drop(self, address: str) -> None:
        """Close it; who asks for it next gets another."""
        link = self._links.pop(address, None)
        if link is not None:
            link.close()
