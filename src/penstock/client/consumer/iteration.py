"""`async for message in consumer`: the loop's body is the handler. A message is done when the loop asks for the next
one, or when the consumer is closed in good order; not when the body raised.
"""

import asyncio
from typing import Self

from penstock.client.message import Received

_Handed = tuple[Received, "asyncio.Future[None]"]


class Iteration:
    """One loop. Several may share a consumer: each message goes to one of them."""

    def __init__(self, source: "Source") -> None:
        self._source = source
        self._current: asyncio.Future[None] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Received:
        self.done()
        message, self._current = await self._source.next()
        return message

    def done(self) -> None:
        """The message in hand is done."""
        if self._current is not None and not self._current.done():
            self._current.set_result(None)
        self._current = None

    def abandon(self) -> None:
        """It is not, and will not be."""
        if self._current is not None:
            self._current.cancel()


class Source:
    """Between the handlers of a consumer and the loops over it."""

    def __init__(self) -> None:
        self._handed: asyncio.Queue[_Handed | None] = asyncio.Queue()
        self._loops: list[Iteration] = []
        self._closed = False

    def loop(self) -> Iteration:
        self._loops.append(Iteration(self))
        return self._loops[-1]

    async def handle(self, message: Received) -> None:
        """The handler: done when a loop is."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._handed.put_nowait((message, future))
        await future

    async def next(self) -> _Handed:
        while not self._closed:
            handed = await self._handed.get()
            if handed is not None and not handed[1].done():
                return handed
        self._handed.put_nowait(None)  # for the next loop
        raise StopAsyncIteration

    def close(self, good: bool) -> None:
        """No more messages. `good`: those in hand are done."""
        self._closed = True
        for loop in self._loops:
            if good:
                loop.done()
            else:
                loop.abandon()
        while not self._handed.empty():  # nobody has seen these
            handed = self._handed.get_nowait()
            if handed is not None:
                handed[1].cancel()
        self._handed.put_nowait(None)
