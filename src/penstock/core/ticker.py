"""A task that does the same thing over and over: what is due at the time, and then waits a little.

What fails is logged and tried again with the next tick.
"""

import asyncio
from collections.abc import Awaitable, Callable

from penstock import logs
from penstock.errors import PenstockError

log = logs.get(__name__)


class Ticker:
    """`start` and `stop` belong to one event loop. `what` is said in the log when a tick fails."""

    def __init__(self, what: str, tick: Callable[[], Awaitable[None]], interval_ms: int) -> None:
        self._what, self._tick, self._interval_s = what, tick, interval_ms / 1000
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name=f"penstock-{self._what.replace(' ', '-')}")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(self._interval_s)
            try:
                await self._tick()
            except PenstockError as error:
                log.error("what was due could not be done, it is tried again", what=self._what, error=str(error))
            except Exception:
                log.exception("what was due could not be done, it is tried again", what=self._what)
