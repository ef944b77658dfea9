"""One consumer gets everything, in order: exclusive and failover.

The active one among several: the smallest priority number counts, then the name. Partitions are dealt out in turn;
elsewhere a ring of hashes chooses, so that the choice differs from topic to topic and changes little when somebody
comes or goes.
"""

from bisect import bisect_left
from collections.abc import Sequence

from penstock.core.subscriptions.hashing import key_hash
from penstock.core.subscriptions.seats import Offer, Seat

POINTS = 100  # on the ring, per consumer


def active_of(seats: Sequence[Seat], topic: str, partition: int) -> Seat | None:
    """`partition` is negative for a topic that is none."""
    if not seats:
        return None
    first = min(seat.priority for seat in seats)
    candidates = sorted((seat for seat in seats if seat.priority == first), key=lambda seat: (seat.name, seat.number))
    if partition >= 0:
        return candidates[partition % len(candidates)]
    if len(candidates) == 1:
        return candidates[0]
    ring = {key_hash(f"{seat.name}{point}".encode()): seat for seat in candidates for point in range(POINTS)}
    points = sorted(ring)
    at = bisect_left(points, key_hash(topic.encode()))
    return ring[points[at % len(points)]]


def deal(offers: Sequence[Offer], seat: Seat) -> int:
    """How many of the first offers go out. What is in hand is not counted: it lies between the cursor's mark and where
    it reads.
    """
    for at, offer in enumerate(offers):
        if not seat.available:
            return at
        seat.permits -= offer.messages
    return len(offers)
