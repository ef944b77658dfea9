"""Work beside the loop, in a process of its own: what would keep the processor for long must not hold up anybody.

The process has one object, whose methods are called one after the other: `await aside.call("look", ...)`. What goes
over the pipes is a length and msgpack. The process ends with `stop`, or when the broker is gone: its input ends then.
It asks to be served after others (`nice`).
"""

import asyncio
import importlib
import os
import struct
import subprocess
import sys
from typing import IO, Any

import msgspec

from penstock.errors import PenstockError

FRAME_BYTES_MAX = 256 << 20
NICENESS = 10
_LENGTH = struct.Struct("<I")


class AsideFailed(PenstockError):
    """The work could not be done there."""


class Aside:
    """Made with the object's class, as MODULE:CLASS, and what it is made with."""

    def __init__(self, what: str, *arguments: int) -> None:
        command = [sys.executable, "-m", __name__, what, *map(str, arguments)]
        self._process = subprocess.Popen(  # in a session of its own: a signal for the broker is not for it
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )

    async def call(self, method: str, *arguments: Any) -> Any:
        """One at a time."""
        return await asyncio.to_thread(self._call, msgspec.msgpack.encode([method, *arguments]))

    def _call(self, request: bytes) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            _send(self._process.stdin, request)
            data = _receive(self._process.stdout)
        except OSError as error:
            raise AsideFailed(f"the process beside the broker is gone: {error}") from error
        if data is None:
            raise AsideFailed("the process beside the broker is gone")
        failed, answer = msgspec.msgpack.decode(data)
        if failed:
            raise AsideFailed(str(failed))
        return answer

    async def stop(self) -> None:
        await asyncio.to_thread(self.kill)

    def kill(self) -> None:
        """It has nothing to lose."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None and not pipe.closed:
                try:
                    pipe.close()
                except OSError:  # what it did not take any more
                    continue


def _send(pipe: IO[bytes], data: bytes) -> None:
    pipe.write(_LENGTH.pack(len(data)))
    pipe.write(data)
    pipe.flush()


def _receive(pipe: IO[bytes]) -> bytes | None:
    """None when the other side is gone."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > FRAME_BYTES_MAX:
        raise AsideFailed(f"{length} bytes at once: at most {FRAME_BYTES_MAX} are taken")
    data = pipe.read(length)
    return data if len(data) == length else None


# --- the other process ------------------------------------------------------------------------------------------------


def _serve(what: str, arguments: list[int]) -> None:
    module, _, name = what.partition(":")
    worker = getattr(importlib.import_module(module), name)(*arguments)
    while (request := _receive(sys.stdin.buffer)) is not None:
        method, *given = msgspec.msgpack.decode(request)
        answer: tuple[str | None, Any]
        try:
            answer = (None, getattr(worker, method)(*given))
        except Exception as error:  # noqa: BLE001  # it is told to who asked
            answer = (f"{type(error).__name__}: {error}", None)
        _send(sys.stdout.buffer, msgspec.msgpack.encode(answer))


if __name__ == "__main__":
    os.nice(NICENESS)
    _serve(sys.argv[1], [int(argument) for argument in sys.argv[2:]])
