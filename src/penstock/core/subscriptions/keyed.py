"""Several consumers, each key to one of them: key_shared.

A key's hash falls into one of 65,536 slots, and a slot belongs to a consumer: by a ring of hashes that changes little
when somebody comes or goes, or by ranges that consumers bring along.

The order of a key's messages is kept: when a slot has moved to another consumer while the one before has unacknowledged
messages of it, the newcomer waits for them; and nothing of a slot overtakes what was held back before it. Consumers
that allow any order are spared both.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Sequence
from itertools import pairwise
from typing import Protocol

from penstock.core.subscriptions.hashing import key_hash
from penstock.core.subscriptions.replay import Replay
from penstock.core.subscriptions.seats import Offer, Seat
from penstock.core.subscriptions.shared import Dealt
from penstock.errors import RangesOverlap

SLOTS = 65_536
POINTS = 100

Range = tuple[int, int]  # of slots, both ends in it


def slot_of(key: bytes) -> int:
    return key_hash(key) % SLOTS


class Selector(Protocol):
    """Whose a slot is."""

    def add(self, seat: Seat, ranges: Sequence[Range]) -> None: ...

    def remove(self, seat: Seat) -> None: ...

    def select(self, slot: int) -> int | None:
        """The number of a seat."""


class Ring:
    """Each consumer has points on a ring of slots; a slot belongs to the next point."""

    def __init__(self) -> None:
        self._points: list[tuple[int, int, int]] = []  # slot, seat, which of its points

    def add(self, seat: Seat, ranges: Sequence[Range] = ()) -> None:
        for point in range(POINTS):
            insort(self._points, (slot_of(f"{seat.name}\0{seat.number}\0{point}".encode()), seat.number, point))

    def remove(self, seat: Seat) -> None:
        self._points = [point for point in self._points if point[1] != seat.number]

    def select(self, slot: int) -> int | None:
        if not self._points:
            return None
        at = bisect_left(self._points, (slot, -1, -1))
        return self._points[at % len(self._points)][1]


class Ranges:
    """Each consumer has brought its own. A slot that nobody has brought waits."""

    def __init__(self) -> None:
        self._ranges: list[tuple[int, int, int]] = []  # first, last, seat

    def add(self, seat: Seat, ranges: Sequence[Range]) -> None:
        wanted = sorted(ranges)
        if not wanted or any(not 0 <= first <= last < SLOTS for first, last in wanted):
            raise RangesOverlap("key ranges are pairs within 0 to 65535, at least one")
        together = sorted([*self._ranges, *((first, last, seat.number) for first, last in wanted)])
        for (_, last, _), (first, _, _) in pairwise(together):
            if first <= last:
                raise RangesOverlap(f"slot {first} would belong to two consumers")
        self._ranges = together

    def remove(self, seat: Seat) -> None:
        self._ranges = [taken for taken in self._ranges if taken[2] != seat.number]

    def select(self, slot: int) -> int | None:
        at = bisect_right(self._ranges, (slot, SLOTS, 0)) - 1
        return self._ranges[at][2] if at >= 0 and slot <= self._ranges[at][1] else None


class Holdings:
    """Which seat has how many entries of a slot in hand."""

    def __init__(self) -> None:
        self._of: dict[int, dict[int, int]] = {}

    def take(self, slot: int, number: int) -> None:
        seats = self._of.setdefault(slot, {})
        seats[number] = seats.get(number, 0) + 1

    def settle(self, slot: int, number: int) -> bool:
        """Whether that was the last one that the seat had of this slot."""
        seats = self._of[slot]
        seats[number] -= 1
        if seats[number]:
            return False
        del seats[number]
        if not seats:
            del self._of[slot]
        return True

    def are_elsewhere(self, slot: int, number: int) -> bool:
        """Whether anybody else has some of this slot."""
        return any(holder != number for holder in self._of.get(slot, ()))

    def clear(self) -> None:
        self._of.clear()


def may_have(slot: int, selector: Selector, holdings: Holdings, seats: dict[int, Seat], ordered: bool) -> Seat | None:
    """Who can take something of this slot now."""
    number = selector.select(slot)
    seat = None if number is None else seats.get(number)
    if seat is None or not seat.available or (ordered and holdings.are_elsewhere(slot, seat.number)):
        return None
    return seat


def deal(
    offers: Sequence[Offer],
    selector: Selector,
    holdings: Holdings,
    seats: dict[int, Seat],
    replay: Replay,
    ordered: bool,
) -> Dealt:
    """Nothing overtakes what waits in the replay. Who cannot take a message cannot take the next one of its slot."""
    dealt = Dealt([], [])
    for offer in offers:
        overtakes = ordered and replay.holds_earlier(offer.slot, offer.row)
        seat = None if overtakes else may_have(offer.slot, selector, holdings, seats, ordered)
        if seat is None:
            dealt.left.append(offer)
        else:
            replay.remove(offer.row)
            seat.take(offer.messages)
            holdings.take(offer.slot, seat.number)
            dealt.given.append((seat, offer))
    return dealt
