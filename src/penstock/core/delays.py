"""Delay lines: queues whose messages are due a fixed time after they were stored.

Since the delay of a line is fixed, its messages fall due in the order in which they stand, and how far a line is
delivered is one number. That number is a fact of the catalog, written in one group with the messages that were
delivered: whatever happens, each message is delivered once. What has been delivered is trimmed from the line.

What a delivered message looks like is not known here: `revive` makes the entry for its real queue, or None when there
is nowhere to deliver it to any more.
"""

import asyncio
from collections.abc import Callable

from penstock.clock import Clock
from penstock.core.fetch import Fetcher
from penstock.core.publish import Publisher
from penstock.model import Entry
from penstock.store.store import Store

PREFIX = "delay/"
TICK_MS = 100
_MESSAGES_MAX, _BYTES_MAX = 256, 1 << 20
_TRIM_EVERY = 1_000  # messages: a trim is a fact too

Revive = Callable[[memoryview], Entry | None]


class Delays:
    """`lines` are queues and how many ms they hold a message back."""

    def __init__(
        self, store: Store, fetcher: Fetcher, publisher: Publisher, clock: Clock, lines: dict[int, int], revive: Revive
    ) -> None:
        self._store, self._fetcher, self._publisher, self._clock = store, fetcher, publisher, clock
        self._lines, self._revive = lines, revive
        self._delivered = {queue: int(store.catalog.get(f"{PREFIX}{queue}") or b"0") for queue in lines}

    async def tick(self) -> None:
        """Deliver what is due."""
        for queue, delay_ms in self._lines.items():
            while await self._deliver_some(queue, delay_ms):
                await asyncio.sleep(0)  # what is in memory is read without waiting: others want their turn

    async def _deliver_some(self, queue: int, delay_ms: int) -> bool:
        """A batch of a line; False when nothing (more) is due."""
        offset = max(self._delivered[queue], self._store.bounds(queue).min_offset)
        due = self._store.offset_at_time(queue, self._clock.now_ms() - delay_ms + 1)
        if offset >= due:
            return False
        batch = await self._fetcher.fetch(queue, offset, min(_MESSAGES_MAX, due - offset), _BYTES_MAX)
        entries = [entry for payload in batch.payloads if (entry := self._revive(payload)) is not None]
        facts = {f"{PREFIX}{queue}": b"%d" % batch.next_offset}
        self._publisher.publish_group(entries, facts, lambda error: None)
        self._delivered[queue] = batch.next_offset
        if batch.next_offset - self._store.bounds(queue).min_offset >= _TRIM_EVERY:
            self._store.trim(queue, batch.next_offset)
        return True
