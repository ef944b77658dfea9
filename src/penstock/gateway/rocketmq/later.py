"""Answers that come later: a handler starts the work and returns, the answer goes out when the work is done."""

import asyncio
from collections.abc import Coroutine, Mapping

from penstock.errors import PenstockError
from penstock.gateway.rocketmq.connection import Connection
from penstock.gateway.rocketmq.routes import refuse
from penstock.wire.rocketmq.codes import ResponseCode
from penstock.wire.rocketmq.frame import Frame


class Later:
    """Keeps the tasks alive until they are done."""

    def __init__(self) -> None:
        self._busy: set[asyncio.Task[None]] = set()

    def __call__(
        self,
        frame: Frame,
        connection: Connection,
        work: Coroutine[None, None, bytes],
        ext: Mapping[str, str] | None = None,
    ) -> None:
        """Answer with the body that the work brings, and `ext`; or with what went wrong."""
        self._start(frame, _answered(frame, connection, work, ext))

    def relay(self, frame: Frame, connection: Connection, work: Coroutine[None, None, Frame]) -> None:
        """Answer as somebody else did, or with what went wrong."""
        self._start(frame, _relayed(frame, connection, work))

    def _start(self, frame: Frame, work: Coroutine[None, None, None]) -> None:
        frame.body = memoryview(b"")  # the receive buffer is used again
        task = asyncio.ensure_future(work)
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)


async def _answered(
    frame: Frame, connection: Connection, work: Coroutine[None, None, bytes], ext: Mapping[str, str] | None
) -> None:
    try:
        body = await work
    except PenstockError as error:
        refuse(connection, frame, error)
    else:
        connection.reply(frame, ResponseCode.SUCCESS, ext=ext, body=body)


async def _relayed(frame: Frame, connection: Connection, work: Coroutine[None, None, Frame]) -> None:
    try:
        answer = await work
    except PenstockError as error:
        refuse(connection, frame, error)
    else:
        connection.reply(frame, answer.code, answer.remark, body=bytes(answer.body))
