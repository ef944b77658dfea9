"""Which queue the next message goes to: round robin, away from the broker that just failed and from those that cannot
be reached, and, when asked for, away from brokers that have been slow or failing (RocketMQ calls it latency fault
tolerance). Pure but for the clock.
"""

import random
from bisect import bisect_right
from collections.abc import Callable, Sequence

from penstock.client.routes import MessageQueue
from penstock.clock import Clock

# A send that took so long (ms) keeps its broker out for so long (ms).
_LATENCY_MS = (50, 100, 550, 1_800, 3_000, 5_000, 15_000)
_OUT_MS = (0, 0, 2_000, 5_000, 6_000, 10_000, 30_000)
FAILED_LATENCY_MS = 10_000  # what a failure counts as

IsDown = Callable[[str], bool]  # a broker, by name


def _nobody(_: str) -> bool:
    return False


class Choice:
    def __init__(self, clock: Clock, avoid_slow: bool) -> None:
        self._clock, self._avoid_slow = clock, avoid_slow
        self._turn = random.randrange(1 << 16)
        self._out_until_ms: dict[str, int] = {}

    def next(self, queues: Sequence[MessageQueue], failed: str = "", is_down: IsDown = _nobody) -> MessageQueue:
        """The next in turn that is on no broker to be avoided; when all are, the least of these evils."""
        self._turn += 1
        slow = None
        for step in range(len(queues)):
            queue = queues[(self._turn + step) % len(queues)]
            if queue.broker == failed or is_down(queue.broker):
                continue
            if not self._is_out(queue.broker):
                return queue
            slow = slow or queue
        return slow or queues[self._turn % len(queues)]

    def _is_out(self, broker: str) -> bool:
        return self._avoid_slow and self._out_until_ms.get(broker, 0) > self._clock.monotonic_ms()

    def took(self, broker: str, latency_ms: int) -> None:
        """A send to a broker took so long."""
        if self._avoid_slow:
            step = bisect_right(_LATENCY_MS, latency_ms) - 1
            if step >= 0 and _OUT_MS[step]:
                self._out_until_ms[broker] = self._clock.monotonic_ms() + _OUT_MS[step]

    def failed(self, broker: str) -> None:
        self.took(broker, FAILED_LATENCY_MS)
