"""Reads what a subscription wants, and hands it out: one per subscription.

Woken by permits, acknowledgements, new entries, and by the time when something is due. A wake-up costs a callback, not
a task; what is in memory is handed out in the loop, in turns that leave room for others, and what is on the disk is
read in a worker thread, one read at a time.
"""

import asyncio
from collections.abc import Callable, Container
from typing import NamedTuple

from penstock import logs
from penstock.clock import Clock
from penstock.core.fetch import Batch, Fetcher, Plan, numbered
from penstock.core.subscriptions.compacted import CompactedReader
from penstock.core.subscriptions.seats import Offer
from penstock.core.subscriptions.subscription import Subscription, Want
from penstock.core.views import View
from penstock.core.waits import Wait, Waits
from penstock.errors import PenstockError

log = logs.get(__name__)

READ_BYTES_MAX = 5 << 20
WINDOW_ROWS_MAX = 4_096  # rows of one read lie this close together
TURNS_MAX = 8  # before others get theirs
RETRY_MS = 1_000
WAIT_MS = 3_600_000

Translate = Callable[[list[memoryview]], list[memoryview]]  # fewer when it was enough for one turn, but one at least
# Sets what a protocol knows of an entry: its chunk, its time, and the slot of its key if that is asked for.
Inspect = Callable[[Offer, bool], None]


class Insight(NamedTuple):
    """What a gateway knows of its entries. `encodings` are its own, a bit each; `translate` makes others into them."""

    inspect: Inspect = lambda offer, keyed: None
    encodings: int = -1
    translate: Translate = lambda payloads: payloads


class Feeder:
    def __init__(
        self,
        subscription: Subscription,
        queue: int,
        fetcher: Fetcher,
        waits: Waits,
        clock: Clock,
        insight: Insight,
        ended: Container[int] = (),
        compacted: CompactedReader | None = None,
    ) -> None:
        self._ended, self._compacted = ended, compacted
        self.subscription, self.queue = subscription, queue
        self._fetcher, self._waits, self._clock, self._insight = fetcher, waits, clock, insight
        self._soon: asyncio.Handle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._wait: Wait | None = None
        self._reading: asyncio.Task[None] | None = None
        self._stopped = False

    def wake(self) -> None:
        """Something has changed: look, once, when the loop has time."""
        if self._soon is None and self._reading is None and not self._stopped:
            self._soon = asyncio.get_running_loop().call_soon(self._look)

    def stop(self) -> None:
        self._stopped = True
        self._rest_no_more()
        for pending in (self._soon, self._reading):
            if pending is not None:
                pending.cancel()

    def _look(self) -> None:
        self._soon = None
        self._rest_no_more()
        try:
            self._hand_out()
        except PenstockError as error:
            log.error("reading for a subscription failed, it is tried again", **self._who, error=str(error))
            self._wake_at(self._clock.now_ms() + RETRY_MS)

    def _hand_out(self) -> None:
        for _ in range(TURNS_MAX):
            now_ms = self._clock.now_ms()
            view = self._view()
            if view is not None:
                self._begin_compacted(view, now_ms)
                return
            want = self.subscription.wanted(*self._rows(), now_ms)
            if want is None:
                self._rest(now_ms)
                return
            plan = self._fetcher.plan_rows(self.queue, _near(want.rows), want.messages_max, READ_BYTES_MAX)
            batch = None if self._is_mixed() else self._fetcher.load_now(plan)
            if batch is None:
                self._reading = asyncio.ensure_future(self._read(want, plan))
                return
            self._deal(want, plan, batch)
        self.wake()

    def _is_mixed(self) -> bool:
        return self._fetcher.holds_others(self.queue, self._insight.encodings)

    def _rows(self) -> tuple[int, int]:
        """Who reads compacted has not missed what retention has taken."""
        first, behind = self._fetcher.rows(self.queue)
        active = self.subscription.active
        return (0 if active is not None and active.seat.compacted else first), behind

    # --- compacted ----------------------------------------------------------------------------------------------------

    def _view(self) -> View | None:
        """What the active consumer reads from instead of the queue."""
        active = self.subscription.active
        if self._compacted is None or active is None or not active.seat.compacted:
            return None
        return self._compacted.view(self.subscription.cursor.next_unacked(self.subscription.read_row))

    def _begin_compacted(self, view: View, now_ms: int) -> None:
        want = self.subscription.wanted_compacted(now_ms)
        if want is None:
            self._rest(now_ms)
        else:
            self._reading = asyncio.ensure_future(self._read_compacted(want, view))

    async def _read_compacted(self, want: Want, view: View) -> None:
        assert self._compacted is not None
        try:
            stretch = await self._compacted.read(view, want.rows[0], want.messages_max)
        except PenstockError as error:  # it may have been replaced meanwhile
            log.warning("reading a compacted queue failed, it is tried again", **self._who, error=str(error))
            self._wake_at(self._clock.now_ms() + RETRY_MS)
            return
        finally:
            self._reading = None
        for consumer, deliveries in self.subscription.deal_compacted(want, stretch.offers, stretch.until):
            consumer.deliver(deliveries)
        self.wake()

    # --- the whole queue ----------------------------------------------------------------------------------------------

    async def _read(self, want: Want, plan: Plan) -> None:
        """From the disk, or what has to be translated."""
        plan.keep()
        try:
            batch = await self._fetcher.load(plan)
            if self._is_mixed():
                batch = await self._translated(batch)
        except PenstockError as error:
            log.error("reading for a subscription failed, it is tried again", **self._who, error=str(error))
            self._wake_at(self._clock.now_ms() + RETRY_MS)
            return
        finally:
            self._reading = None
        self._deal(want, plan, batch)
        self.wake()

    async def _translated(self, batch: Batch) -> Batch:
        """In our encoding: as much as can be had in one turn."""
        payloads = await asyncio.to_thread(self._insight.translate, batch.payloads)
        done = len(payloads)
        if done == len(batch.payloads):
            return batch._replace(payloads=payloads)
        left = self._fetcher.row_at_offset(self.queue, int(batch.rows["base"][done]))
        return batch._replace(payloads=payloads, rows=batch.rows[:done], next_row=left)

    def _deal(self, want: Want, plan: Plan, batch: Batch) -> None:
        numbers, until = numbered(plan, batch), batch.next_row
        counts, part = batch.rows["count"].tolist(), self.subscription.cursor.part
        offers = [
            Offer(row, count if (left := part(row)) is None else left.bit_count(), payload)
            for row, count, payload in zip(numbers, counts, batch.payloads, strict=True)
        ]
        keyed = self.subscription.reads_keys
        if keyed or not self.subscription.is_single:
            inspect = self._insight.inspect
            for offer in offers:
                inspect(offer, keyed)
        for consumer, deliveries in self.subscription.deal(want, offers, until, self._clock.now_ms()):
            consumer.deliver(deliveries)

    # --- waiting ------------------------------------------------------------------------------------------------------

    def _rest(self, now_ms: int) -> None:
        """Until something comes, or is due."""
        if self.queue in self._ended and not self.subscription.backlog(self._fetcher.rows(self.queue)[1]):
            for consumer in self.subscription.consumers.values():
                consumer.finish()
        next_ms = self.subscription.next_ms(now_ms)
        if next_ms is not None:
            self._wake_at(next_ms)
        if any(seat.available for seat in self.subscription.seats):
            self._wait = self._waits.park(self.queue, WAIT_MS, lambda there: self.wake())

    def _wake_at(self, time_ms: int) -> None:
        delay_ms = max(0, time_ms - self._clock.now_ms())
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1000, self.wake)

    def _rest_no_more(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._wait is not None:
            self._wait.cancel()
        self._timer = self._wait = None

    @property
    def _who(self) -> dict[str, str]:
        return {"subscription": self.subscription.name, "topic": self.subscription.topic}


def _near(rows: list[int]) -> list[int]:
    """The first rows, as far as they lie close together."""
    if rows[-1] - rows[0] < WINDOW_ROWS_MAX:
        return rows
    return [row for row in rows if row - rows[0] < WINDOW_ROWS_MAX]
