"""What handlers are, and what their results mean.

A handler is a coroutine that takes a message. It returns: the message is done. It raises, or returns or raises `Later`:
the message comes again. Nothing a handler raises stops a consumer.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from penstock import logs
from penstock.client.consumer.assigned import Assigned
from penstock.client.message import Received, received
from penstock.client.routes import MessageQueue
from penstock.wire.rocketmq.record import Message

log = logs.get(__name__)


class Later(Exception):
    """Not now: the message comes again. `delay_level` (1 to 18) says when, 0 leaves it to the broker, which waits
    longer each time, and -1 makes it a dead letter. An orderly queue stands still for `suspend_ms` instead.
    """

    def __init__(self, delay_level: int = 0, suspend_ms: int | None = None) -> None:
        super().__init__(delay_level, suspend_ms)
        self.delay_level, self.suspend_ms = delay_level, suspend_ms


Handler = Callable[[Received], Awaitable[object]]


class Work(Protocol):
    """Who gives messages to handlers: concurrently, or in order."""

    def begin(self, assigned: Assigned) -> None:
        """A queue is in hand."""
        ...

    def add(self, assigned: Assigned, messages: Sequence[Message]) -> None:
        """Messages of it are there."""
        ...

    async def close(self) -> None: ...


async def outcome(handler: Handler, message: Message, queue: MessageQueue) -> Later | None:
    """Have a message handled; whether, and when, it has to come again."""
    try:
        seen = received(message, queue)
    except ValueError as error:
        log.error("a message cannot be opened", queue=str(queue), offset=message.offset, error=str(error))
        return Later()
    try:
        result = await handler(seen)
    except Later as later:
        return later
    except Exception:
        log.exception("a handler failed, its message comes again", queue=str(queue), offset=message.offset)
        return Later()
    return result if isinstance(result, Later) else None
