"""Several consumers, each entry to one of them: shared.

Consumers take turns within the smallest priority number that has somebody available; others are served only when nobody
there is. A turn is a handful of entries, so that a write is worth it. The parts of a chunked message go where its first
part went.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from penstock.core.subscriptions.seats import Offer, Seat

TURN_ENTRIES_MAX = 20
CHUNKED_MAX = 10_000  # messages in chunks whose consumer is remembered: some never end


class Dealt(NamedTuple):
    """Who gets what, and what nobody can take now."""

    given: list[tuple[Seat, Offer]]
    left: list[Offer]


class Turns:
    """Whose turn it is, and whose the chunked messages under way are."""

    def __init__(self) -> None:
        self._last: dict[int, int] = {}  # by priority: the number of the seat that was served last
        self._chunks: dict[str, int] = {}

    def forget(self, seat: Seat) -> None:
        """It has left."""
        self._chunks = {chunk: number for chunk, number in self._chunks.items() if number != seat.number}

    def clear(self) -> None:
        self._last.clear()
        self._chunks.clear()

    def deal(self, offers: Sequence[Offer], seats: Sequence[Seat]) -> Dealt:
        given: list[tuple[Seat, Offer]] = []
        left: list[Offer] = []
        by_number = {seat.number: seat for seat in seats}
        at = 0
        while at < len(offers):
            seat, entries_max = self._next(seats, len(offers) - at)
            if seat is None:
                left += offers[at:]
                break
            served = 0
            while at < len(offers) and served < entries_max and seat.available:
                offer = offers[at]
                at += 1
                taker = self._owner(offer, seat, by_number) if offer.chunk else seat
                if taker is None or not taker.available:
                    left.append(offer)
                    continue
                taker.take(offer.messages)
                given.append((taker, offer))
                served += 1
        return Dealt(given, left)

    def _next(self, seats: Sequence[Seat], waiting: int) -> tuple[Seat | None, int]:
        """Whose turn it is, and how many entries a turn has: all get something when there is little."""
        for priority, level in groupby(sorted(seats, key=_order), key=lambda seat: seat.priority):
            free = [seat for seat in level if seat.available]
            if free:
                last = self._last.get(priority, -1)
                seat = next((seat for seat in free if seat.number > last), free[0])
                self._last[priority] = seat.number
                return seat, min(TURN_ENTRIES_MAX, -(-waiting // len(free)))
        return None, 0

    def _owner(self, offer: Offer, seat: Seat, by_number: dict[int, Seat]) -> Seat | None:
        """Who gets this part of a chunked message. Parts come in order, so one without an owner is the first."""
        owner = by_number.get(self._chunks.get(offer.chunk, seat.number))
        if owner is not None and owner.available:
            if offer.chunk not in self._chunks and len(self._chunks) >= CHUNKED_MAX:
                del self._chunks[next(iter(self._chunks))]  # the oldest
            self._chunks[offer.chunk] = owner.number
            if offer.is_last_chunk:
                del self._chunks[offer.chunk]
        return owner


def _order(seat: Seat) -> tuple[int, int]:
    return seat.priority, seat.number
