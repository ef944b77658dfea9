"""Who waits for new entries, by queue.

A gateway parks a call here instead of a task: a callback that runs once, when something becomes visible in the queue or
when its time is up. Ten thousand idle consumers cost ten thousand small objects and no work. Who waits for about as
long shares a timer: with one for each, a consumer that gets message by message would spend more on timers it never
needs than on parking.
"""

import asyncio
from collections.abc import Callable, Iterable

from penstock import logs
from penstock.errors import TooManyWaiting

log = logs.get(__name__)

Woken = Callable[[bool], None]  # True: something is there; False: the time is up


class Wait:
    """One parked call. `cancel` takes it back."""

    __slots__ = ("_waits", "due", "queue", "woken")

    def __init__(self, waits: "Waits", queue: int, due: "_Due", woken: Woken) -> None:
        self._waits, self.queue, self.due, self.woken = waits, queue, due, woken

    def cancel(self) -> None:
        self._waits.forget(self)

    def end(self) -> None:
        """Call it as if its time were up."""
        self._waits.end(self)


_Due = dict[Wait, None]  # those whose time is up together


class Waits:
    def __init__(self, waiters_max: int) -> None:
        self._waiters_max = waiters_max
        self._by_queue: dict[int, dict[Wait, None]] = {}
        self._by_time: dict[int, _Due] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def park(self, queue: int, timeout_ms: int, woken: Woken, exact: bool = False) -> Wait:
        """Call `woken` once: when an entry becomes visible in the queue, or after the timeout; up to a 64th later,
        unless it has to be exact.
        """
        if self._count >= self._waiters_max:
            raise TooManyWaiting(self._waiters_max)
        due = self._due_in(timeout_ms, 1 if exact else 1 << max(timeout_ms.bit_length() - 7, 0))
        wait = Wait(self, queue, due, woken)
        due[wait] = None
        self._by_queue.setdefault(queue, {})[wait] = None
        self._count += 1
        return wait

    def wake(self, queues: Iterable[int]) -> None:
        """Call everybody who is parked on these queues now. One that fails does not keep the others asleep."""
        for wait in [wait for queue in queues for wait in self._by_queue.get(queue, ())]:
            if self.forget(wait):  # else one that was woken before it has taken it back
                self._call(wait, True)

    def end(self, wait: Wait) -> None:
        if self.forget(wait):
            self._call(wait, False)

    def forget(self, wait: Wait) -> bool:
        parked = self._by_queue.get(wait.queue)
        if parked is None or wait not in parked:
            return False
        del parked[wait], wait.due[wait]
        self._count -= 1
        if not parked:
            del self._by_queue[wait.queue]
        return True

    def _due_in(self, timeout_ms: int, step: int) -> _Due:
        loop = asyncio.get_running_loop()
        at_ms = (int(loop.time() * 1000) + timeout_ms) // step * step + step
        due = self._by_time.get(at_ms)
        if due is None:
            due = self._by_time[at_ms] = {}
            loop.call_at(at_ms / 1000, self._time_up, at_ms)
        return due

    def _time_up(self, at_ms: int) -> None:
        for wait in list(self._by_time.pop(at_ms)):
            if self.forget(wait):  # else one that was called before it has taken it back
                self._call(wait, False)

    def _call(self, wait: Wait, there: bool) -> None:
        try:
            wait.woken(there)
        except Exception:
            log.exception("a waiting call failed when it was woken", queue=wait.queue)
