"""Where time comes from.

Everything that needs the time is handed a clock, so that a test can own it. Nothing in `store/` or `core/` asks the
operating system for the time by itself.
"""

import time
from typing import Protocol


class Clock(Protocol):
    """Wall time for what is stored, monotonic time for what is waited for; both in milliseconds."""

    def now_ms(self) -> int: ...

    def monotonic_ms(self) -> int: ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return time.monotonic_ns() // 1_000_000


class ManualClock:
    """A clock that moves only when told to: for tests and simulations."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self.time_ms = start_ms

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic_ms(self) -> int:
        return self.time_ms

    def advance(self, by_ms: int) -> None:
        self.time_ms += by_ms
