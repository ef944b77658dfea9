"""How a consumer is doing, per topic: what operators see of it in its running info (307), as Java counts it.

Counting is some additions per pull and per message; every ten seconds a pull sets a mark. Rates are those since the
oldest mark of the last minute: they are true over whatever time lies between.
"""

from collections import deque
from typing import NamedTuple

STEP_MS, STEPS = 10_000, 6
LONG_STEP_MS, LONG_STEPS = 300_000, 12


class _Totals(NamedTuple):
    at_ms: int
    pulls: int = 0
    pull_ms: int = 0
    pulled: int = 0
    done: int = 0
    failed: int = 0
    handle_ms: int = 0


class Figures:
    """Of one topic; times are monotonic."""

    def __init__(self, now_ms: int) -> None:
        self.pulls = self.pull_ms = self.pulled = 0
        self.done = self.failed = self.handle_ms = 0
        self._minute = deque([_Totals(now_ms)], STEPS + 1)
        self._hour = deque([_Totals(now_ms)], LONG_STEPS + 1)

    def found(self, began_ms: int, now_ms: int, count: int) -> None:
        """A pull has brought messages."""
        self.pulls += 1
        self.pull_ms += now_ms - began_ms
        self.pulled += count
        if now_ms - self._minute[-1].at_ms >= STEP_MS:
            self._mark(now_ms)

    def handled(self, took_ms: int, well: bool) -> None:
        """A handler has ended."""
        self.handle_ms += took_ms
        if well:
            self.done += 1
        else:
            self.failed += 1

    def _mark(self, now_ms: int) -> None:
        now = self._now(now_ms)
        self._minute.append(now)
        if now_ms - self._hour[-1].at_ms >= LONG_STEP_MS:
            self._hour.append(now)

    def _now(self, now_ms: int) -> _Totals:
        return _Totals(now_ms, self.pulls, self.pull_ms, self.pulled, self.done, self.failed, self.handle_ms)

    def status(self, now_ms: int) -> dict[str, object]:
        """As running infos tell it: times in ms, rates per second."""
        since, now = _oldest(self._minute, now_ms - STEP_MS * STEPS), self._now(now_ms)
        seconds = max(now_ms - since.at_ms, 1) / 1000
        handled = now.done + now.failed - since.done - since.failed
        hour = _oldest(self._hour, now_ms - LONG_STEP_MS * LONG_STEPS)
        return {
            "consumeFailedMsgs": now.failed - hour.failed,
            "consumeFailedTPS": (now.failed - since.failed) / seconds,
            "consumeOKTPS": (now.done - since.done) / seconds,
            "consumeRT": (now.handle_ms - since.handle_ms) / max(handled, 1),
            "pullRT": (now.pull_ms - since.pull_ms) / max(now.pulls - since.pulls, 1),
            "pullTPS": (now.pulled - since.pulled) / seconds,
        }


def _oldest(marks: deque[_Totals], since_ms: int) -> _Totals:
    """The oldest mark that is not too old; the newest when all are."""
    return next((mark for mark in marks if mark.at_ms >= since_ms), marks[-1])
