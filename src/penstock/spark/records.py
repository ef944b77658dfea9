"""A pull's answer as arrays: where each record begins and what its head says, for all records at once.

Once it is known where they begin (`hop.py`), heads are gathered with one copy each and read as columns. Nothing is
looked at before it is known to lie within its record: the bytes come from the network.

Layout: see `wire/rocketmq/record.py`. RocketMQ 5 also has a second version of it, whose topic's length takes two bytes.
"""

import numpy as np
import numpy.typing as npt

from penstock.client.errors import ClientError
from penstock.spark.hop import Buffer, Ints, borders_in
from penstock.wire.rocketmq.heads import HEAD_TYPES, windows
from penstock.wire.rocketmq.record import BYTES_MIN, LENGTHS_BYTES, MAGIC, V6

MAGIC_V2 = 0xDAA320AB
BUFFER_BYTES_MAX = 1 << 30  # Arrow counts the bytes of a column with 31 bits

Octets = npt.NDArray[np.uint8]


class BadRecords(ClientError):
    """What a broker answered a pull with is not a row of records."""


_LONGEST = HEAD_TYPES[V6]  # every other one can be copied into it


class Records:
    """The records of a buffer, or some neighbours among them. `heads` has a row for each; hosts of four bytes are
    followed by zeros where others have sixteen.
    """

    def __init__(self, octets: Octets, starts: Ints, ends: Ints, heads: npt.NDArray[np.void], sizes: Ints) -> None:
        self.octets, self.starts, self.ends, self.heads, self._head_bytes = octets, starts, ends, heads, sizes

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, rows: slice) -> "Records":
        return Records(self.octets, self.starts[rows], self.ends[rows], self.heads[rows], self._head_bytes[rows])

    @property
    def offsets(self) -> Ints:
        return self.heads["offset"].astype(np.int64)

    def bodies(self) -> tuple[Ints, Ints]:
        """Where each body begins and ends."""
        starts = self.starts + self._head_bytes
        ends = starts + self.heads["body_bytes"]
        _check(ends + LENGTHS_BYTES <= self.ends, "a body is longer than its record")
        return starts, ends

    def properties(self) -> tuple[Ints, Ints]:
        """Where the length of the properties stands, two bytes, and where the properties behind it end."""
        _, at = self.bodies()
        second = self.heads["magic"] == MAGIC_V2
        if second.any():
            topic_bytes = np.where(second, self._uint16(at), self.octets[at])
            at = at + np.where(second, 2, 1) + topic_bytes
        else:
            at = at + 1 + self.octets[at]
        _check(at + 2 <= self.ends, "a topic is longer than its record")
        ends = at + 2 + self._uint16(at)
        _check(ends <= self.ends, "properties are longer than their record")
        return at, ends

    def _uint16(self, at: Ints) -> Ints:
        return self.octets[at].astype(np.int64) << 8 | self.octets[at + 1]


def records_in(data: Buffer) -> Records:
    """All records of a buffer. BadRecords when they do not fill it from its beginning to its end."""
    if len(data) > BUFFER_BYTES_MAX:
        raise BadRecords(f"{len(data)} bytes of records at once: at most {BUFFER_BYTES_MAX} are taken")
    octets = np.frombuffer(data, np.uint8)
    borders = borders_in(data)
    if borders is None:
        raise BadRecords(f"what a broker sent cannot be read: its records do not fill the {len(data)} bytes that came")
    starts, ends = borders[:-1], borders[1:]
    _check(ends - starts >= BYTES_MIN, "a record is too short for its head")
    heads, sizes = _heads(octets, starts, ends)
    _check((heads["magic"] == MAGIC) | (heads["magic"] == MAGIC_V2), "a record does not begin as records do")
    return Records(octets, starts, ends, heads, sizes)


def _heads(octets: Octets, starts: Ints, ends: Ints) -> tuple[npt.NDArray[np.void], Ints]:
    """Heads, and how many bytes they take: nearly always those with the short hosts."""
    heads = _gathered(octets, starts, HEAD_TYPES[0])
    kinds = heads["sys_flag"] & V6
    sizes = np.full(len(starts), HEAD_TYPES[0].itemsize, dtype=np.int64)
    if not kinds.any():
        return heads, sizes
    mixed = np.zeros(len(starts), dtype=_LONGEST)
    for kind, layout in HEAD_TYPES.items():
        rows = np.flatnonzero(kinds == kind)
        sizes[rows] = layout.itemsize
        _check(starts[rows] + layout.itemsize + LENGTHS_BYTES <= ends[rows], "a record is too short for its head")
        some = _gathered(octets, starts[rows], layout)
        for name in _LONGEST.names or ():
            mixed[name][rows] = some[name].astype(_LONGEST[name])
    return mixed, sizes


def _gathered(octets: Octets, starts: Ints, layout: np.dtype[np.void]) -> npt.NDArray[np.void]:
    """The heads at these places."""
    if not len(starts):
        return np.empty(0, dtype=layout)
    return windows(octets, layout.itemsize)[starts].view(layout)


def _check(sound: npt.NDArray[np.bool_], what: str) -> None:
    if not sound.all():
        raise BadRecords(f"what a broker sent cannot be read: {what} (record {int(np.argmin(sound))} of an answer)")
