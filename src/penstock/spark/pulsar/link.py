"""One connection to a Pulsar broker that waits for its answers: one question at a time.

What comes without having been asked for is a ping, which is answered, or a consumer that the broker has closed, which
is told (`closed`). Messages never come: nobody gives permits.
"""

import itertools
import socket
from typing import Any, Self

from google.protobuf.message import Message

from penstock.client.errors import Lost, Refused, TimedOut, Unreachable
from penstock.wire.framing import FrameError
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.commands_pb2 import BaseCommand
from penstock.wire.pulsar.frame import COMMAND_BYTES_MAX, Frame, command, frames_in, pack

CONNECT_TIMEOUT_MS = 5_000
ANSWER_TIMEOUT_MS = 30_000
VERSION = "Pulsar-Penstock-Spark"
PROTOCOL = 19
_FRAME_BYTES_MAX = 4 * COMMAND_BYTES_MAX
_READ_BYTES = 64 * 1024


class Link:
    def __init__(self, address: str, proxied_to: str = "") -> None:
        """Unreachable when nobody is there. Through a proxy, or what acts as one, the broker is named as well."""
        self.address, self.closed = address, set[int]()
        host, _, port = address.rpartition(":")
        try:
            self._socket = socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_MS / 1000)
        except (OSError, ValueError) as error:
            raise Unreachable(address, str(error) or f"no connection within {CONNECT_TIMEOUT_MS} ms") from None
        self._socket.settimeout(ANSWER_TIMEOUT_MS / 1000)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._requests, self._received = itertools.count(1), bytearray()
        self._connect(proxied_to)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._socket.close()

    def ask(self, kind: int, asked: Any, answers: int) -> Any:
        """The answer of a kind to a question, which gets its number here; Refused when it is an error."""
        asked.request_id = next(self._requests)  # every question has one
        self._send(kind, asked)
        return self._answer(answers, asked.request_id)

    def _connect(self, proxied_to: str) -> None:
        asked = pb.CommandConnect(client_version=VERSION, auth_method_name="none", protocol_version=PROTOCOL)
        if proxied_to:
            asked.proxy_to_broker_url = proxied_to
        try:
            self._send(BaseCommand.CONNECT, asked)
            self._answer(BaseCommand.CONNECTED)
        except BaseException:
            self.close()
            raise

    def _send(self, kind: int, body: Message) -> None:
        try:
            self._socket.sendall(pack(command(kind, body)))
        except TimeoutError:
            raise TimedOut(self.address, ANSWER_TIMEOUT_MS) from None
        except OSError as error:
            raise Lost(self.address, str(error)) from None

    def _answer(self, kind: int, request: int | None = None) -> Any:
        while True:
            for frame in self._frames():
                if frame.type == BaseCommand.ERROR:
                    raise Refused(frame.body.error, frame.body.message, self.address)
                if frame.type == kind and (request is None or frame.body.request_id == request):
                    return frame.body
                self._aside(frame)

    def _aside(self, frame: Frame) -> None:
        if frame.type == BaseCommand.PING:
            self._send(BaseCommand.PONG, pb.CommandPong())
        elif frame.type == BaseCommand.CLOSE_CONSUMER:
            self.closed.add(frame.body.consumer_id)

    def _frames(self) -> list[Frame]:
        """All that one read brings, which may be none."""
        try:
            some = self._socket.recv(_READ_BYTES)
        except TimeoutError:
            raise TimedOut(self.address, ANSWER_TIMEOUT_MS) from None
        except OSError as error:
            raise Lost(self.address, str(error)) from None
        if not some:
            raise Lost(self.address, "the connection was closed")
        data = bytes(self._received + some)
        try:
            frames, taken = frames_in(memoryview(data), len(data), _FRAME_BYTES_MAX)
        except FrameError as error:
            raise Lost(self.address, f"its frames cannot be read: {error}") from None
        self._received = bytearray(data[taken:])
        return frames
