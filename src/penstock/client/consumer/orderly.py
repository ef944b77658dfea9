"""Handling messages in order: one at a time of each queue, and the next one only when it is done.

A handler that fails holds its queue up: the message is tried again in place, for ever, or until it has been tried
`reconsume_max` times and is sent to the retry topic, where the broker makes it a dead letter. In a cluster group the
queue is locked at its broker; with a lock that is too old nothing is begun.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

from penstock import logs
from penstock.client.consumer.assigned import Assigned
from penstock.client.consumer.handling import Handler, outcome
from penstock.client.consumer.sendback import SendBack
from penstock.client.consumer.settings import ConsumerSettings
from penstock.clock import Clock
from penstock.wire.rocketmq.record import Message

log = logs.get(__name__)

_TURN = 32  # messages of one queue before others get their turn


_Line = deque[Message]  # what waits of one queue


class Orderly:
    def __init__(self, handler: Handler, settings: ConsumerSettings, clock: Clock, send_back: SendBack | None) -> None:
        """Without `send_back`, as in a broadcast group, there are no locks and no dead letters."""
        self._handler, self._settings, self._clock, self._send_back = handler, settings, clock, send_back
        self._lines: dict[Assigned, _Line] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def begin(self, assigned: Assigned) -> None:
        self._lines[assigned] = line = _Line()
        task = asyncio.ensure_future(self._run(assigned, line))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda done: self._lines.pop(assigned, None))

    def add(self, assigned: Assigned, messages: Sequence[Message]) -> None:
        line = self._lines.get(assigned)
        if line is not None:
            line.extend(messages)
            assigned.stir()

    async def _run(self, assigned: Assigned, line: _Line) -> None:
        turn = 0
        while not assigned.dropped:
            if not line:
                await assigned.stirred()
            elif not self._may_begin(assigned):
                await asyncio.sleep(self._settings.suspend_ms / 1000)
            else:
                await self._try(assigned, line)
                turn += 1
                if turn % _TURN == 0:
                    await asyncio.sleep(0)

    def _may_begin(self, assigned: Assigned) -> bool:
        if self._send_back is None:
            return True
        return self._clock.monotonic_ms() - assigned.locked_ms <= self._settings.lock_valid_ms

    async def _try(self, assigned: Assigned, line: _Line) -> None:
        try:
            await self._finish(assigned, line[0], line)
        except Exception:
            log.exception("a message was not dealt with, it is tried again", queue=str(assigned.queue))
            await asyncio.sleep(self._settings.suspend_ms / 1000)

    async def _finish(self, assigned: Assigned, message: Message, line: _Line) -> None:
        """Handle the first message; it is out of the line when it is done."""
        assigned.work_begins()
        since_ms = self._clock.monotonic_ms()
        try:
            later = await outcome(self._handler, message, assigned.queue)
            assigned.figures.handled(self._clock.monotonic_ms() - since_ms, later is None)
            done = later is None or await self._given_up(assigned, message)
            if done and not assigned.settled:
                line.popleft()
                assigned.finish(message)
        finally:
            assigned.work_ends()
        if later is not None and not done:
            message.reconsume_times += 1
            suspend_ms = self._settings.suspend_ms if later.suspend_ms is None else later.suspend_ms
            await asyncio.sleep(suspend_ms / 1000)

    async def _given_up(self, assigned: Assigned, message: Message) -> bool:
        """Whether a message that failed has failed too often, and is the retry topic's now."""
        limit = self._settings.reconsume_max
        if assigned.settled or self._send_back is None or limit < 0 or message.reconsume_times < limit:
            return False
        return await self._send_back.send(message, assigned.queue, message.reconsume_times)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
