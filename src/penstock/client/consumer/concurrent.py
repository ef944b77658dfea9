"""Handling messages as they come, several at once and in no order.

A fixed number of workers take from one line, so there is no task per message. A message whose handler fails is given
back to the broker; when that cannot be done either it stays here, unfinished, and is tried again.
"""

import asyncio
from collections import deque
from collections.abc import Sequence

from penstock import logs
from penstock.client.consumer.assigned import Assigned
from penstock.client.consumer.handling import Handler, Later, outcome
from penstock.client.consumer.sendback import SendBack
from penstock.client.consumer.settings import ConsumerSettings
from penstock.clock import Clock
from penstock.wire.rocketmq.record import Message

log = logs.get(__name__)

_TURN = 32  # messages that one worker handles before others get their turn, however quick the handler
_LATE_LEVEL = 3  # what took too long comes again after 10 s


class Concurrent:
    def __init__(self, handler: Handler, settings: ConsumerSettings, clock: Clock, send_back: SendBack | None) -> None:
        """Without `send_back`, as in a broadcast group, what fails is not tried again."""
        self._handler, self._settings, self._clock, self._send_back = handler, settings, clock, send_back
        self._line: deque[tuple[Assigned, Message]] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._since_ms: dict[asyncio.Task[None], int] = {}  # workers with a message in hand
        self._late: set[asyncio.Task[None]] = set()
        self._tasks: list[asyncio.Task[None]] = []

    def begin(self, assigned: Assigned) -> None:
        if not self._tasks:
            workers = [asyncio.ensure_future(self._work()) for _ in range(self._settings.concurrency)]
            self._tasks = [*workers, asyncio.ensure_future(self._watch_late())]

    def add(self, assigned: Assigned, messages: Sequence[Message]) -> None:
        self._line.extend([(assigned, message) for message in messages])
        for _ in range(min(len(messages), len(self._idle))):
            idle = self._idle.pop()
            if not idle.done():
                idle.set_result(None)

    async def _work(self) -> None:
        task, turn = asyncio.current_task(), 0
        assert task is not None
        while True:
            while not self._line:
                idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._idle.append(idle)
                await idle
            assigned, message = self._line.popleft()
            if assigned.dropped:
                continue
            try:
                await self._take(task, assigned, message)
            except Exception:
                log.exception("a message was not dealt with, it is tried again", queue=str(assigned.queue))
                self._add_later(assigned, message)
            turn += 1
            if turn % _TURN == 0:
                await asyncio.sleep(0)

    async def _take(self, task: "asyncio.Task[None]", assigned: Assigned, message: Message) -> None:
        since_ms = self._since_ms[task] = self._clock.monotonic_ms()
        assigned.work_begins()
        try:
            await self._handle(assigned, message, since_ms)
        except asyncio.CancelledError:
            if not self._was_late(task):
                raise
            assigned.figures.handled(self._clock.monotonic_ms() - since_ms, well=False)
            await self._again(assigned, message, Later(_LATE_LEVEL))
        finally:
            self._was_late(task)  # a handler may have taken no notice of being cancelled
            del self._since_ms[task]
            assigned.work_ends()

    def _was_late(self, task: "asyncio.Task[None]") -> bool:
        if task not in self._late:
            return False
        self._late.discard(task)
        return task.uncancel() == 0  # not also because all is closed

    async def _handle(self, assigned: Assigned, message: Message, since_ms: int) -> None:
        later = await outcome(self._handler, message, assigned.queue)
        assigned.figures.handled(self._clock.monotonic_ms() - since_ms, later is None)
        if later is not None:
            await self._again(assigned, message, later)
        elif not assigned.settled:
            assigned.finish(message)

    async def _again(self, assigned: Assigned, message: Message, later: Later) -> None:
        if assigned.settled:  # whoever has the queue now has the message too
            return
        if self._send_back is None:
            queue = str(assigned.queue)
            log.warning("a broadcast message failed and is not tried again", queue=queue, offset=message.offset)
        elif not await self._send_back.back(message, assigned.queue, later.delay_level):
            message.reconsume_times += 1
            self._add_later(assigned, message)
            return
        if not assigned.settled:
            assigned.finish(message)

    def _add_later(self, assigned: Assigned, message: Message) -> None:
        wait_s = self._settings.reconsume_wait_ms / 1000
        asyncio.get_running_loop().call_later(wait_s, self.add, assigned, [message])

    # --- handlers that take too long ----------------------------------------------------------------------------------

    async def _watch_late(self) -> None:
        limit_ms = self._settings.handle_timeout_ms
        while True:
            await asyncio.sleep(limit_ms / 1000 / 4)
            now_ms = self._clock.monotonic_ms()
            for task, since_ms in list(self._since_ms.items()):
                if now_ms - since_ms > limit_ms and task not in self._late:
                    log.warning("a handler takes too long: it is cancelled, its message comes again", limit_ms=limit_ms)
                    self._late.add(task)
                    task.cancel()

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
