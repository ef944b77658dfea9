"""Reading a queue: now, from wherever it takes, or when something comes.

`fetch_now` answers from memory or says that it cannot (None): a gateway calls it first and falls back to `fetch`, which
reads in a worker thread. Damage that a read comes upon is reported as an event; the messages around it are served.
"""

import asyncio
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from penstock.clock import Clock
from penstock.core.events import Bus, DamageFound
from penstock.core.waits import Waits
from penstock.store.later import Later
from penstock.store.plan import Batch, Damage, Plan
from penstock.store.reading import Ahead, Reading
from penstock.store.spans import Part, Slices, joined
from penstock.store.store import Bounds, Store

# what a gateway gets in its hands
__all__ = [
    "Ahead", "Batch", "Bounds", "Fetcher", "Later", "Part", "Plan", "Reading", "Slices", "Tags",
    "joined", "narrowed", "numbered",
]  # fmt: skip

Tags = frozenset[int]


def narrowed(batch: Batch, keep: Callable[[memoryview], bool], messages_max: int, bytes_max: int) -> Batch:
    """Of what a read brought, what `keep` selects: as many as both limits allow, but at least one. The next read begins
    behind the last one that was looked at.
    """
    chosen: list[int] = []
    size = 0
    for at, payload in enumerate(batch.payloads):
        if not keep(payload):
            continue
        size += len(payload)
        if chosen and (size > bytes_max or len(chosen) == messages_max):
            return _only(batch, chosen)._replace(next_offset=int(batch.rows["base"][at]))
        chosen.append(at)
    return _only(batch, chosen)


def _only(batch: Batch, chosen: list[int]) -> Batch:
    return batch._replace(payloads=[batch.payloads[at] for at in chosen], rows=batch.rows[chosen])


def numbered(plan: Plan, batch: Batch) -> list[int]:
    """Which rows of the queue a read has brought: some may not have been readable."""
    numbers: list[int] = plan.numbers.tolist()
    if len(batch.payloads) < len(numbers):
        bases = dict(zip(plan.rows["base"].tolist(), numbers, strict=True))
        numbers = [bases[base] for base in batch.rows["base"].tolist()]
    return numbers


class Fetcher:
    def __init__(self, store: Store, waits: Waits, clock: Clock, bus: Bus) -> None:
        self._store, self._waits, self._clock, self._bus = store, waits, clock, bus
        self._reported: set[int] = set()

    def holds_others(self, queue: int, encodings: int) -> bool:
        """Whether something in the queue may be in another encoding than these (a bit for each). Asked once per read,
        also on the hottest ones: what is in no queue costs nothing per message.
        """
        return self._store.table(queue).encodings & ~encodings != 0

    def bounds(self, queue: int) -> Bounds:
        """From where to where the queue holds something, as consumers see it."""
        return self._store.bounds(queue)

    def offset_at_time(self, queue: int, store_ms: int) -> int:
        """The first offset stored at or after a time; the end of the queue when there is none."""
        return self._store.offset_at_time(queue, store_ms)

    def log_bytes_since(self, queue: int, offset: int) -> int:
        """How far the log, of all queues, has grown since a message was written; 0 when it is not there."""
        table = self._store.table(queue)
        if not table.min_offset <= offset < table.visible_offset:
            return 0
        row = table.row_at_offset(offset)
        return self._store.end_position - int(table.rows(row, row + 1)["position"][0])

    def earliest_ms(self, queue: int) -> int:
        """When the first message that is still there was stored; -1 when there is none."""
        return self.time_ms_of(queue, self._store.bounds(queue).min_offset)

    def latest_ms(self, queue: int) -> int:
        """When the last message was stored; 0 when there is none."""
        bounds = self._store.bounds(queue)
        return max(self.time_ms_of(queue, bounds.max_offset - 1), 0)

    def time_ms_of(self, queue: int, offset: int) -> int:
        """When the message at an offset was stored; -1 when it is not there."""
        table = self._store.table(queue)
        if not table.min_offset <= offset < table.visible_offset:
            return -1
        row = table.row_at_offset(offset)
        return int(table.rows(row, row + 1)["time"][0])

    def offsets_tagged(self, queue: int, first: int, until: int, tag: int) -> npt.NDArray[np.int64]:
        """The offsets of messages whose tag has a hash, of those that are there between two offsets."""
        table = self._store.table(queue)
        rows = table.rows(table.row_at_offset(first), table.row_at_offset(until))
        found: npt.NDArray[np.int64] = rows["base"][rows["tag"] == tag]
        return found

    def slices_now(self, queue: int, offset: int, messages_max: int, bytes_max: int, encodings: int) -> Slices | None:
        """What is in memory, from an offset on, for who hands it on as it is; None when that takes a plan, or when
        something in the queue may be in another encoding than these.
        """
        return self._store.slices_now(queue, offset, messages_max, bytes_max, encodings)

    def reading(self, queue: int, encodings: int) -> Reading:
        """A place at a queue, for who asks again and again for what comes next; as `slices_now`."""
        return self._store.reading(queue, encodings)

    def slices_later(self, queue: int, offset: int, messages_max: int, bytes_max: int, encodings: int) -> Later | None:
        """The same for what is not in memory; None where that takes a plan, too."""
        return self._store.slices_later(queue, offset, messages_max, bytes_max, encodings)

    def plan(self, queue: int, offset: int, messages_max: int, bytes_max: int, tags: Tags = frozenset()) -> Plan:
        """Which messages a read would bring: with `tags` (their hashes) only those."""
        plan = self._store.plan(queue, offset, messages_max, bytes_max)
        if tags:
            plan.only(np.isin(plan.rows["tag"], list(tags)))
        return plan

    def row_at_offset(self, queue: int, offset: int) -> int:
        """The row that holds an offset, or the first behind it."""
        return self._store.table(queue).row_at_offset(offset)

    def rows(self, queue: int) -> tuple[int, int]:
        """The first row that is there, and the one behind the last that consumers see."""
        table = self._store.table(queue)
        return table.min_row, table.visible_row

    def messages_in(self, queue: int, row: int) -> int:
        """How many messages an entry has; 0 when it is not there."""
        table = self._store.table(queue)
        return int(table.rows(row, row + 1)["count"][0]) if table.min_row <= row < table.visible_row else 0

    def time_ms_of_row(self, queue: int, row: int) -> int:
        """When an entry was stored; -1 when it is not there."""
        table = self._store.table(queue)
        return int(table.rows(row, row + 1)["time"][0]) if table.min_row <= row < table.visible_row else -1

    def size_bytes(self, queue: int) -> int:
        """What the queue's entries take in the log."""
        return self._store.table(queue).live_bytes

    def row_at_time(self, queue: int, store_ms: int) -> int:
        """The first row stored at or after a time; behind the last when there is none."""
        table = self._store.table(queue)
        return min(table.row_at_time(store_ms), table.visible_row)

    def plan_rows(self, queue: int, numbers: Sequence[int], messages_max: int, bytes_max: int) -> Plan:
        """Rows here and there, in order."""
        return self._store.plan_rows(queue, numbers, messages_max, bytes_max)

    def plan_from(self, queue: int, row: int, messages_max: int, bytes_max: int) -> Plan:
        """From a row on."""
        return self._store.plan_row(queue, row, messages_max, bytes_max)

    def fetch_now(self, queue: int, offset: int, messages_max: int, bytes_max: int) -> Batch | None:
        """From an offset, if it is in memory."""
        return self.load_now(self._store.plan(queue, offset, messages_max, bytes_max))

    def load_now(self, plan: Plan) -> Batch | None:
        return self._reported_on(plan.load(wait=False))

    async def fetch(self, queue: int, offset: int, messages_max: int, bytes_max: int) -> Batch:
        """From an offset."""
        return await self.load(self._store.plan(queue, offset, messages_max, bytes_max))

    async def fetch_rows(self, queue: int, row: int, messages_max: int, bytes_max: int) -> Batch:
        """From an entry number."""
        return await self.load(self._store.plan_row(queue, row, messages_max, bytes_max))

    async def load(self, plan: Plan, tried: bool = False) -> Batch:
        """Wherever it is; what was tried, with `load_now`, is not in memory."""
        batch = None if tried else plan.load(wait=False)
        if batch is None:
            batch = await asyncio.to_thread(plan.load, True)
        if batch is None:
            raise RuntimeError("a read that may wait came back with nothing")
        self._reported_on(batch)
        return batch._replace(rows=batch.rows.copy())  # the table's own, which may change before they are looked at

    def _reported_on(self, batch: Batch | None) -> Batch | None:
        for damage in batch.damage if batch else ():
            self._report(damage)
        return batch

    def _report(self, damage: Damage) -> None:
        if damage.position in self._reported:
            return
        self._reported.add(damage.position)
        self._store.damage.append(damage)
        now_ms = self._clock.now_ms()
        self._bus.emit(DamageFound(at_ms=now_ms, position=damage.position, length_bytes=damage.length, why=damage.why))

    async def wait(self, queue: int, offset: int, timeout_ms: int) -> bool:
        """Until the queue holds something at `offset` or behind it; False when the time is up first."""
        if self._store.bounds(queue).max_offset > offset:
            return True
        done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        wait = self._waits.park(queue, timeout_ms, lambda there: None if done.done() else done.set_result(there))
        try:
            return await done
        finally:
            wait.cancel()
