"""A queue in hand: where it is pulled from, what of it is being worked on, and up to where it is finished.

Messages finish in any order; what is committed is the lowest offset that has not. Two steps lead out of hand: `drop`
(nothing of it is given to a handler any more) and `settle` (what handlers under way come to does not count any more:
the offset is in other hands).
"""

import asyncio
from collections import deque
from collections.abc import Sequence

from penstock.client.consumer.figures import Figures
from penstock.client.consumer.settings import ConsumerSettings
from penstock.client.routes import MessageQueue
from penstock.wire.rocketmq.record import Message


class Assigned:
    def __init__(
        self, queue: MessageQueue, next_offset: int, settings: ConsumerSettings, orderly: bool, figures: Figures
    ) -> None:
        self.queue, self.next_offset, self.figures = queue, next_offset, figures
        self._limits, self._orderly = settings, orderly
        self._unfinished: deque[int] = deque()  # offsets, lowest first; those in `_finished` wait for a lower one
        self._finished: set[int] = set()
        self._last_offset = next_offset
        self.bytes = 0
        self.dropped = self.settled = False
        self.busy = 0  # handlers under way
        self._room, self._quiet, self._stirred = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._room.set()
        self._quiet.set()
        self.pulling: asyncio.Task[None] | None = None
        self.broker_number = 0  # where the broker says that it should be pulled from: 0 is the master
        self.pulled_ms = self.locked_ms = 0  # monotonic

    # --- messages -----------------------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        return len(self._unfinished) - len(self._finished)

    @property
    def commit_offset(self) -> int:
        """Everything below it is finished."""
        return self._unfinished[0] if self._unfinished else self.next_offset

    @property
    def span(self) -> int:
        return self._last_offset - self._unfinished[0] if self._unfinished else 0

    def put(self, messages: Sequence[Message], next_offset: int) -> None:
        """Messages have come, and the next pull goes on behind them."""
        for message in messages:
            self._unfinished.append(message.offset)
            self.bytes += len(message.body)
        if messages:
            self._last_offset = messages[-1].offset
        self.next_offset = next_offset
        if self.full:
            self._room.clear()

    def finish(self, message: Message) -> None:
        unfinished, finished = self._unfinished, self._finished
        self.bytes -= len(message.body)
        if unfinished[0] == message.offset:
            unfinished.popleft()
            while unfinished and unfinished[0] in finished:
                finished.remove(unfinished.popleft())
        else:
            finished.add(message.offset)
        if not self._room.is_set() and not self.full:
            self._room.set()

    # --- flow ---------------------------------------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """No more is pulled: too many messages, too many bytes, or too far from the first to the last. (An orderly
        queue has no gaps, so its span says nothing.)
        """
        limits = self._limits
        if self.count > limits.queue_messages_max or self.bytes > limits.queue_bytes_max:
            return True
        return not self._orderly and self.span > limits.queue_span_max

    async def room(self) -> None:
        await self._room.wait()

    # --- work under way -----------------------------------------------------------------------------------------------

    def work_begins(self) -> None:
        self.busy += 1
        self._quiet.clear()

    def work_ends(self) -> None:
        self.busy -= 1
        if not self.busy:
            self._quiet.set()

    async def quiet(self, timeout_ms: int) -> bool:
        """Wait until no handler has a message of it; False when that takes too long."""
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                await self._quiet.wait()
        except TimeoutError:
            return False
        return True

    def stir(self) -> None:
        """There is something to look at: messages, or that the queue was dropped."""
        self._stirred.set()

    async def stirred(self) -> None:
        self._stirred.clear()
        if not self.dropped:
            await self._stirred.wait()

    def drop(self) -> None:
        self.dropped = True
        self.stir()
        if self.pulling is not None:
            self.pulling.cancel()
            self.pulling = None

    def settle(self) -> None:
        self.drop()
        self.settled = True
