"""Runs of staged messages: neighbours of one queue, from when they are staged until they are in the log.

A `PackedRun` keeps what the messages do not have in common, which is half of their records or less: what a record is
made of besides is written when the run is published, and offsets and time with it. A `StagedRun` keeps whole records,
as timers are made; they get their offsets and their time.

Both can be frozen, for a file, and thawed.
"""

import struct
from itertools import accumulate
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from penstock.compiled import compiled
from penstock.model import Entry, Spans
from penstock.wire.rocketmq.heads import HEAD_TYPES, windows
from penstock.wire.rocketmq.record import OFFSET_BITS, RECORD_RUN, V6

Numbers = npt.NDArray[np.int64]
Columns = npt.NDArray[np.int32]  # by row: bytes of the bodies, bytes of their properties, checksums, marks

COLUMNS = 4
_BODY_BYTES, _PROPERTIES_BYTES, _CHECKSUM, _MARK = range(COLUMNS)
_COMPILED = "penstock.wire.rocketmq._runs"


def _place(kind: np.dtype[np.void], name: str) -> int:
    """Where a field of a head begins."""
    assert kind.fields is not None
    return kind.fields[name][1]


_OFFSET_AT, _SYS_FLAG_AT = (_place(HEAD_TYPES[0], name) for name in ("offset", "sys_flag"))
_STORE_MS_AT = {flags: _place(kind, "store_ms") for flags, kind in HEAD_TYPES.items()}


def _v6_of(head: bytes | memoryview) -> int:
    return int.from_bytes(head[_SYS_FLAG_AT : _SYS_FLAG_AT + 4]) & V6


def write_packed_in_python(
    buffer: memoryview,
    at: int,
    head: bytes,
    prefix: bytes,
    added: bytes,
    columns: Columns,
    bodies: memoryview,
    properties: memoryview,
    queue_id: int,
    offset: int,
    store_ms: int,
) -> None:
    """Records from `at` on: the same head, topic and last properties, each with its own body and properties."""
    count, flags = columns.shape[1], _v6_of(head)
    heads = np.frombuffer(head * count, dtype=np.uint8).copy().view(HEAD_TYPES[flags])
    lengths = _lengths(columns, len(head) + len(prefix) + 2 + len(added))
    offsets = np.arange(offset, offset + count, dtype=np.int64)
    values = {"length": lengths, "crc": columns[_CHECKSUM], "offset": offsets, "body_bytes": columns[_BODY_BYTES]}
    for name, value in {**values, "physical": queue_id << OFFSET_BITS | offsets, "store_ms": store_ms}.items():
        heads[name] = value
    said = (columns[_PROPERTIES_BYTES] + len(added)).astype(">u2")
    cut_bodies, cut_properties = (
        _cut(data, columns[row]) for data, row in ((bodies, _BODY_BYTES), (properties, _PROPERTIES_BYTES))
    )
    packed = (_cut(memoryview(data.tobytes()), size) for data, size in ((heads, len(head)), (said, 2)))
    pieces = zip(*packed, cut_bodies, cut_properties, strict=True)
    written = b"".join([part for own, size, body, more in pieces for part in (own, body, prefix, size, more, added)])
    if len(written) > len(buffer) - at or len(written) != int(lengths.sum()):
        raise ValueError("the parts of a run do not fit")
    buffer[at : at + len(written)] = written


def _cut(data: memoryview, sizes: "npt.NDArray[np.int32] | int") -> list[memoryview]:
    """Things that stand one behind the other, of one size or each with its own."""
    borders = range(0, len(data) + 1, sizes) if isinstance(sizes, int) else [0, *accumulate(sizes.tolist())]
    if borders[-1] != len(data):
        raise ValueError("the parts of a run do not fit")
    return [data[borders[index] : borders[index + 1]] for index in range(len(borders) - 1)]


def _lengths(columns: Columns, fixed: int) -> Numbers:
    found: Numbers = columns[_BODY_BYTES].astype(np.int64) + columns[_PROPERTIES_BYTES] + fixed
    return found


write_packed = compiled(_COMPILED, write_packed_in_python)


class PackedRun(Entry, kw_only=True):
    """Messages of one queue. The head is that of a record, with all that they have in common; `prefix` is their topic
    with its length, `added` are properties that come behind each one's own. Bodies and properties stand one behind the
    other, in bytes of the run's own.
    """

    encoding: ClassVar[int] = RECORD_RUN
    run: ClassVar[bool] = True

    head: bytes
    prefix: bytes
    added: bytes
    columns: Columns
    bodies: memoryview
    properties: memoryview

    def write_into(self, buffer: memoryview, at: int, queue_id: int, offset: int, store_ms: int) -> None:
        write_packed(
            buffer, at, self.head, self.prefix, self.added, self.columns, self.bodies, self.properties,
            queue_id, offset, store_ms,
        )  # fmt: skip

    def spans(self) -> Spans:
        lengths = _lengths(self.columns, self.fixed_bytes)
        return Spans(np.cumsum(lengths) - lengths, lengths, self.columns[_MARK].astype(np.int64))

    @property
    def fixed_bytes(self) -> int:
        """Of each record: what is neither its body nor its own properties."""
        return len(self.head) + len(self.prefix) + 2 + len(self.added)

    def records(self) -> memoryview:
        """As they would be stored, with neither offset nor time."""
        buffer = memoryview(bytearray(self.length))
        self.write_into(buffer, 0, 0, 0, 0)
        return buffer


def packed_run(
    queue: int, head: bytes, prefix: bytes, added: bytes, columns: Columns, bodies: memoryview, properties: memoryview
) -> PackedRun:
    """`columns` is contiguous."""
    count = columns.shape[1]
    length = count * (len(head) + len(prefix) + 2 + len(added)) + len(bodies) + len(properties)
    return PackedRun(
        queue=queue, length=length, count=count, head=head, prefix=prefix, added=added, columns=columns, bodies=bodies,
        properties=properties,
    )  # fmt: skip


class StagedRun(Entry, kw_only=True):
    """Records of one queue, complete but for their offsets and their time. The bytes are its own."""

    encoding: ClassVar[int] = RECORD_RUN
    run: ClassVar[bool] = True

    payload: memoryview
    lengths: Numbers
    marks: Numbers

    def write_into(self, buffer: memoryview, at: int, queue_id: int, offset: int, store_ms: int) -> None:
        buffer[at : at + self.length] = self.payload
        data = np.frombuffer(buffer, dtype=np.uint8, count=self.length, offset=at)
        starts, offsets = self.spans().starts, np.arange(offset, offset + self.count, dtype=np.int64)
        both = np.empty((self.count, 2), dtype=">i8")
        both[:, 0], both[:, 1] = offsets, queue_id << OFFSET_BITS | offsets
        windows(data, 16)[starts + _OFFSET_AT] = both.view("V16")[:, 0]
        store_at = _STORE_MS_AT[_v6_of(self.payload)]  # all of a run have the same
        windows(data, 8)[starts + store_at] = np.void(store_ms.to_bytes(8, "big"))

    def spans(self) -> Spans:
        return Spans(np.cumsum(self.lengths) - self.lengths, self.lengths, self.marks)


def run_of(queue: int, payload: memoryview, lengths: Numbers, marks: Numbers) -> StagedRun:
    return StagedRun(
        queue=queue, length=len(payload), count=len(lengths), payload=payload, lengths=lengths, marks=marks
    )


# --- on the disk ------------------------------------------------------------------------------------------------------

_FROZEN = struct.Struct("<QI")  # queue, messages; then their lengths, their marks, and the records
_PACKED = 1 << 63  # in place of that, a queue has only 32 bits: then come the sizes of what is the same for all
_SAME = struct.Struct("<HHH")  # of the head, the prefix and what is added; then these, the columns, bodies, properties
_NUMBER_BYTES = 4


def freeze(entry: Entry) -> "tuple[bytes | memoryview, ...] | None":
    """A run as bytes to be kept, in parts; None for entries of other kinds."""
    if isinstance(entry, PackedRun):
        same = (entry.head, entry.prefix, entry.added)
        front = (_FROZEN.pack(entry.queue | _PACKED, entry.count), _SAME.pack(*map(len, same)), *same)
        return b"".join((*front, entry.columns.astype("<i4").tobytes())), entry.bodies, entry.properties
    if isinstance(entry, StagedRun):
        columns = np.concatenate((entry.lengths, entry.marks)).astype("<i4")
        return _FROZEN.pack(entry.queue, entry.count) + columns.tobytes(), entry.payload
    return None


def thaw(data: bytes) -> Entry:
    queue, count = _FROZEN.unpack_from(data)
    if queue & _PACKED:
        return _thawed(queue ^ _PACKED, count, memoryview(data)[_FROZEN.size :])
    columns = np.frombuffer(data, "<i4", 2 * count, _FROZEN.size).astype(np.int64)
    payload = memoryview(data)[_FROZEN.size + _NUMBER_BYTES * len(columns) :]
    return run_of(queue, payload, columns[:count], columns[count:])


def _thawed(queue: int, count: int, rest: memoryview) -> PackedRun:
    same, at = [], _SAME.size
    for size_bytes in _SAME.unpack_from(rest):
        same.append(bytes(rest[at : at + size_bytes]))
        at += size_bytes
    columns = np.frombuffer(rest, "<i4", COLUMNS * count, at).astype(np.int32, copy=False).reshape(COLUMNS, count)
    at += _NUMBER_BYTES * COLUMNS * count
    middle = at + int(columns[_BODY_BYTES].sum(dtype=np.int64))
    head, prefix, added = same
    return packed_run(queue, head, prefix, added, columns, rest[at:middle], rest[middle:])
