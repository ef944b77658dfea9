"""Who waits for new entries, by queue.

A gateway parks a call here instead of a task: a callback that runs once, when something becomes visible in the queue or
when its time is up. Ten thousand idle consumers cost ten thousand small objects and no work.
"""

import asyncio
from collections.abc import Callable, Iterable

from penstock import logs
from penstock.errors import TooManyWaiting

log = logs.get(__name__)

Woken = Callable[[bool], None]  # True: something is there; False: the time is up


class Wait:
    """One parked call. `cancel` takes it back."""

    __slots__ = ("_waits", "queue", "timer", "woken")

    def __init__(self, waits: "Waits", queue: int, woken: Woken) -> None:
        self._waits, self.queue, self.woken = waits, queue, woken
        self.timer: asyncio.TimerHandle

    def cancel(self) -> None:
        self.timer.cancel()
        self._waits.forget(self)


class Waits:
    def __init__(self, waiters_max: int) -> None:
        self._waiters_max = waiters_max
        self._by_queue: dict[int, dict[Wait, None]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def park(self, queue: int, timeout_ms: int, woken: Woken) -> Wait:
        """Call `woken` once: when an entry becomes visible in the queue, or after the timeout."""
        if self._count >= self._waiters_max:
            raise TooManyWaiting(self._waiters_max)
        loop = asyncio.get_running_loop()
        wait = Wait(self, queue, woken)
        wait.timer = loop.call_later(timeout_ms / 1000, self._time_up, wait)
        self._by_queue.setdefault(queue, {})[wait] = None
        self._count += 1
        return wait

    def wake(self, queues: Iterable[int]) -> None:
        """Call everybody who is parked on these queues now. One that fails does not keep the others asleep."""
        for wait in [wait for queue in queues for wait in self._by_queue.get(queue, ())]:
            if self.forget(wait):  # else one that was woken before it has taken it back
                self._call(wait, True)

    def forget(self, wait: Wait) -> bool:
        parked = self._by_queue.get(wait.queue)
        if parked is None or wait not in parked:
            return False
        del parked[wait]
        self._count -= 1
        if not parked:
            del self._by_queue[wait.queue]
        return True

    def _time_up(self, wait: Wait) -> None:
        if self.forget(wait):
            self._call(wait, False)

    def _call(self, wait: Wait, there: bool) -> None:
        wait.timer.cancel()
        try:
            wait.woken(there)
        except Exception:
            log.exception("a waiting call failed when it was woken", queue=wait.queue)
