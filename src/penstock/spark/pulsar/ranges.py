"""Partitions and ranges of them, as planning knows queues and ranges. Values only, pickled on the way to executors.

How many messages there are between two places nobody knows: what counts is entries, where both are in one ledger.
"""

import itertools

import msgspec

from penstock.spark.places import Queue
from penstock.spark.pulsar.positions import Place
from penstock.spark.ranges import Range

BROKER = "pulsar"  # in the names of queues: partitions move from broker to broker
MANY = 1_000_000  # entries, as far as is known of a range over several ledgers


class PlaceRange(Range, frozen=True):
    """From one place of a partition up to, and without, another."""

    @property
    def messages(self) -> int:
        """A guess, to share work out: entries."""
        start, end = Place(self.start), Place(self.end)
        return MANY if start.ledger != end.ledger else end.entry - start.entry + 1

    def cut(self, pieces: int) -> list[Range]:
        """At entries, where all of it is in one ledger; else it stays whole."""
        start, end = Place(self.start), Place(self.end)
        if start.ledger != end.ledger:
            return [self]
        entries = end.entry - start.entry + 1
        inner = (Place.of(start.ledger, start.entry + entries * piece // pieces) for piece in range(1, pieces))
        edges = [start, *(edge for edge in inner if start < edge < end), end]
        return [
            msgspec.structs.replace(self, start=first, end=last)
            for first, last in itertools.pairwise(edges)
            if first < last
        ]

    def __str__(self) -> str:
        return f"{self.topic}/{self.queue} from {Place(self.start)} to {Place(self.end)}"


class Partition(Queue, frozen=True):
    """A partition as it is now. `address` is its whole name; where it begins is not asked for."""

    def between(self, start: int, end: int) -> Range:
        name = self.name
        return PlaceRange(name.topic, name.broker, self.address, name.queue, Place(start), Place(end))

    def count(self, start: int, end: int) -> int | None:
        return None
