"""What an operator wants to know of the whole broker: the disk, the log, how old the oldest message is."""

import shutil

import msgspec

from penstock.clock import Clock
from penstock.core.fetch import Fetcher
from penstock.core.topics import Topics
from penstock.store.store import Store

_FRESH_MS = 10_000  # looking at every queue takes a while when there are many


class Vitals(msgspec.Struct, frozen=True):
    disk_bytes: int
    disk_used_bytes: int
    disk_free_bytes: int  # to this process: less than what is not used, where there are quotas
    log_end: int
    log_durable: int
    earliest_ms: int  # when the oldest message was stored; now when there is none
    queues: int

    @property
    def disk_share(self) -> float:
        """How full the disk is, 0 to 1."""
        usable_bytes = self.disk_used_bytes + self.disk_free_bytes
        return self.disk_used_bytes / usable_bytes if usable_bytes else 0.0


class Physician:
    """Takes them, at most every so often."""

    def __init__(self, folder: str, store: Store, topics: Topics, fetcher: Fetcher, clock: Clock) -> None:
        self._folder, self._store, self._topics, self._fetcher, self._clock = folder, store, topics, fetcher, clock
        self._last: Vitals | None = None
        self._last_ms = 0

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def vitals(self) -> Vitals:
        now_ms = self._clock.monotonic_ms()
        if self._last is None or now_ms - self._last_ms >= _FRESH_MS:
            self._last, self._last_ms = self._taken(), now_ms
        return self._last

    def _taken(self) -> Vitals:
        disk = shutil.disk_usage(self._folder)
        queues = [queue for topic in self._topics if not topic.system for queue in topic.queues]
        times_ms = [time_ms for queue in queues if (time_ms := self._fetcher.earliest_ms(queue)) >= 0]
        return Vitals(
            disk_bytes=disk.total,
            disk_used_bytes=disk.used,
            disk_free_bytes=disk.free,
            log_end=self._store.end_position,
            log_durable=self._store.durable_position,
            earliest_ms=min(times_ms, default=self._clock.now_ms()),
            queues=len(queues),
        )
