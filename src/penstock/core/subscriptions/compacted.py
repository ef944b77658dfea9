"""Where a subscription is in the compacted view of its queue.

Entries are found by the row that they have in the source: the view's own rows are searched by halving, once, and then
read on from there.
"""

from typing import NamedTuple

from penstock.core.compaction import Compaction
from penstock.core.fetch import Fetcher
from penstock.core.subscriptions.seats import Offer
from penstock.core.views import View, found_in

READ_BYTES_MAX = 5 << 20


class Stretch(NamedTuple):
    """What the view has from a row on: these entries, and nothing else below `until`."""

    offers: list[Offer]
    until: int


class CompactedReader:
    def __init__(self, queue: int, compaction: Compaction, fetcher: Fetcher) -> None:
        self._queue, self._compaction, self._fetcher = queue, compaction, fetcher
        self._view_queue, self._source_row, self._view_row = -1, -1, -1  # where it goes on

    def view(self, row: int) -> View | None:
        """The view, if it knows a row."""
        view = self._compaction.view(self._queue)
        return view if view is not None and row < view.horizon else None

    async def read(self, view: View, row: int, messages_max: int) -> Stretch:
        """From a row of the source on."""
        at = await self._at(view, row)
        behind = self._fetcher.rows(view.queue)[1]
        if at >= behind:
            return Stretch([], view.horizon)
        batch = await self._fetcher.fetch_rows(view.queue, at, messages_max, READ_BYTES_MAX)
        several = [
            found_in(payload, count)
            for payload, count in zip(batch.payloads, batch.rows["count"].tolist(), strict=True)
        ]
        until = view.horizon if batch.next_row >= behind else several[-1].row + 1 if several else row
        self._view_queue, self._source_row, self._view_row = view.queue, until, batch.next_row
        offers = [Offer(found.row, found.messages, found.payload, living=found.living) for found in several]
        return Stretch(offers, until)

    async def _at(self, view: View, row: int) -> int:
        """The first row of the view whose entry has that row in the source, or a later one."""
        if (self._view_queue, self._source_row) == (view.queue, row):
            return self._view_row
        low, high = self._fetcher.rows(view.queue)
        while low < high:
            middle = (low + high) // 2
            batch = await self._fetcher.fetch_rows(view.queue, middle, 1, 1)
            if batch.payloads and found_in(batch.payloads[0], 1).row >= row:
                high = middle
            else:
                low = middle + 1
        return low
