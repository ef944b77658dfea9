"""Places in a partition, as numbers that have an order. Pure.

Pulsar knows a message by its ledger, its entry in there, and its place in the entry's batch. A `Place` is all three in
one number, as large as it takes: comparing, and the least and the largest of some, is all that planning needs. Places
are not dense: how many messages are between two of them nobody knows, and the number behind a message's is a place too.

In checkpoints and options a place is a text, `ledger:entry:index`. The column `offset` is a long, so there the three
have to share 63 bits. A Penstock has one ledger for each partition, with a low number and many entries; a large Pulsar
has ledgers with high numbers and few entries each. So there are two ways to share, and the highest bit says which; both
together keep the order.
"""

import re
from typing import Self

import msgspec

from penstock.spark.errors import SparkSourceError
from penstock.spark.filters import Kept

EARLIEST = 0
INDEX_BITS, ENTRY_BITS = 32, 64
COLUMN_INDEX_BITS = 12
LOW, HIGH = (17, 33), (29, 21)  # bits of ledgers and entries in the column
_WIDE = 1 << 62
_TEXT = re.compile(r"(\d{1,19}):(\d{1,19})(?::(\d{1,9}))?", re.ASCII)


class Place(int):
    """Shown as its text."""

    @classmethod
    def of(cls, ledger: int, entry: int, index: int = 0) -> Self:
        return cls((ledger << ENTRY_BITS | entry) << INDEX_BITS | index)

    @classmethod
    def parsed(cls, text: str) -> Self:
        """What `str` has written; the index may be left out. ValueError for anything else."""
        found = _TEXT.fullmatch(text)
        if not found:
            raise ValueError(f"{text[:50]!r} is no place: it has to be ledger:entry or ledger:entry:index")
        ledger, entry, index = found.groups()
        return cls.of(int(ledger), int(entry), int(index or 0))

    @property
    def ledger(self) -> int:
        return self >> (ENTRY_BITS + INDEX_BITS)

    @property
    def entry(self) -> int:
        return self >> INDEX_BITS & ((1 << ENTRY_BITS) - 1)

    @property
    def index(self) -> int:
        return self & ((1 << INDEX_BITS) - 1)

    @property
    def next(self) -> "Place":
        """The one behind it."""
        return Place(self + 1)

    def __str__(self) -> str:
        return f"{self.ledger}:{self.entry}:{self.index}"


def packed(place: Place) -> int:
    """As the column `offset` has it."""
    ledger, entry, index = place.ledger, place.entry, place.index
    wide = ledger >> LOW[0] != 0
    ledger_bits, entry_bits = HIGH if wide else LOW
    if ledger >> ledger_bits or entry >> entry_bits or index >> COLUMN_INDEX_BITS:
        raise SparkSourceError(
            f"message {place} does not fit into the column offset, which has {ledger_bits} bits for the ledger, "
            f"{entry_bits} for the entry and {COLUMN_INDEX_BITS} for the place in its batch: leave the column out, "
            "with .schema(...); message_id has all of it"
        )
    return (_WIDE if wide else 0) | (ledger << entry_bits | entry) << COLUMN_INDEX_BITS | index


def unpacked(offset: int) -> Place:
    """The place that a value of the column `offset` stands for."""
    wide = offset >= _WIDE
    _, entry_bits = HIGH if wide else LOW
    index = offset & ((1 << COLUMN_INDEX_BITS) - 1)
    rest = (offset - _WIDE if wide else offset) >> COLUMN_INDEX_BITS
    return Place.of(rest >> entry_bits, rest & ((1 << entry_bits) - 1), index)


def in_places(kept: Kept) -> Kept:
    """A `where` on the column `offset`, as one on places."""
    return Kept(
        tuple(
            msgspec.structs.replace(test, value=unpacked(test.value))
            if test.column == "offset" and isinstance(test.value, int) and test.value >= 0
            else test
            for test in kept.tests
        )
    )
