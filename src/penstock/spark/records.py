"""A pull's answer as arrays: where each record begins and what its head says, for all records at once.

Nearly all answers are plain: hosts of four bytes, nothing compressed, the first version of the layout. Those are read
by a step per record, compiled (`_columns.c`), into `Plain`; all others, and all where that was not built, into
`Records`, by operations on arrays, which are the definition.

Once it is known where they begin (`hop.py`), heads are gathered with one copy each and read as columns. Nothing is
looked at before it is known to lie within its record: the bytes come from the network.

Layout: see `wire/rocketmq/record.py`. RocketMQ 5 also has a second version of it, whose topic's length takes two bytes.
"""

import functools

import numpy as np
import numpy.typing as npt

from penstock.client.errors import ClientError
from penstock.compiled import compiled
from penstock.spark.hop import COMPILED, Buffer, Ints, borders_in
from penstock.wire.rocketmq.heads import HEAD_TYPES, windows
from penstock.wire.rocketmq.record import BYTES_MIN, LENGTHS_BYTES, MAGIC, V6

MAGIC_V2 = 0xDAA320AB
BUFFER_BYTES_MAX = 1 << 30  # Arrow counts the bytes of a column with 31 bits
LENGTH_BYTES = 2  # of the length that stands before the properties of a message
BORN_MS, STORE_MS = "born_ms", "store_ms"
_MS_MAX = (2**63 - 1) // 1000

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

    def times_us(self, name: str) -> Ints:
        """A time that no clock has is cut to what fits, rather than turned into another one."""
        return np.clip(self.heads[name].astype(np.int64), -_MS_MAX, _MS_MAX) * 1000

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
        _check(at + LENGTH_BYTES <= self.ends, "a topic is longer than its record")
        ends = at + LENGTH_BYTES + self._uint16(at)
        _check(ends <= self.ends, "properties are longer than their record")
        return at, ends

    def _uint16(self, at: Ints) -> Ints:
        return self.octets[at].astype(np.int64) << 8 | self.octets[at + 1]


class Plain:
    """The records of a buffer with offsets from `first` up to `until`, as `Records` has them, where all are plain."""

    def __init__(self, data: Buffer, numbers: tuple[bytes, ...]) -> None:
        self._data, self.octets = data, np.frombuffer(data, np.uint8)
        self.offsets, self._born_us, self._store_us, *places = (np.frombuffer(row, np.int64) for row in numbers)
        self._bodies, self._body_ends, self._properties, self._property_ends = places

    def __len__(self) -> int:
        return len(self.offsets)

    @functools.cached_property
    def heads(self) -> npt.NDArray[np.void]:
        """Seldom asked for: what has a column is known without them."""
        every = records_in(self._data)
        first = int(np.searchsorted(every.offsets, self.offsets[0])) if len(self) else 0
        return every.heads[first : first + len(self)]

    def times_us(self, name: str) -> Ints:
        return self._born_us if name == BORN_MS else self._store_us

    def bodies(self) -> tuple[Ints, Ints]:
        return self._bodies, self._body_ends

    def properties(self) -> tuple[Ints, Ints]:
        return self._properties - LENGTH_BYTES, self._property_ends


def plain_in_python(data: Buffer, first: int, until: int) -> tuple[bytes, ...] | None:
    """Of the records with these offsets, seven rows of numbers: offsets, both times, and where bodies and properties
    begin and end. None unless all records of the buffer are plain, sound and in order; so always, here.
    """
    return None


plain = compiled(COMPILED, plain_in_python)


def plain_in(data: Buffer, first: int, until: int) -> Plain | None:
    """The records with these offsets, unless they have to be read by arrays, be it to say what is wrong with them."""
    numbers = plain(data, first, until) if len(data) <= BUFFER_BYTES_MAX else None
    return None if numbers is None else Plain(data, numbers)


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
