"""Rows to messages: an Arrow batch becomes the bytes that a broker takes, by operations on whole columns.

Two encodings: `packed`, for staging on a Penstock, which leaves the columns as they are: bodies stand one behind the
other, and so do properties. And `batch`, RocketMQ's own form of many messages in one send: the parts of a message are
columns too, and Arrow joins them row by row into one buffer.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock.errors import PenstockError
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq import values as numbers
from penstock.wire.rocketmq.record import java_hash

Numbers = npt.NDArray[np.int64]
Column = npt.NDArray[np.integer]

DELAY = "TIMER_DELAY_MS"
# What has a column of its own, or is written by clients and brokers themselves: not copied from message to message.
RESERVED = (
    props.KEYS, props.TAGS, props.UNIQ_KEY, props.WAIT, props.DELAY, props.CLUSTER, DELAY, "MSG_REGION", "TRACE_ON",
    "REAL_TOPIC", "REAL_QID", "TIMER_OUT_MS", "TIMER_DELAY_SEC", "TIMER_DELIVER_MS", "__STARTDELIVERTIME", "TRAN_MSG",
    "PGROUP", "MIN_OFFSET", "MAX_OFFSET", "RETRY_TOPIC", "ORIGIN_MESSAGE_ID", "RECONSUME_TIME", "MAX_RECONSUME_TIMES",
)  # fmt: skip
HASHED_CHARS_MAX = 64  # of a key: a longer one is hashed by itself

_BATCHED = np.dtype([("length", ">u4"), ("magic", ">u4"), ("crc", ">u4"), ("flag", ">i4"), ("body_bytes", ">u4")])
_ENDS = props.NAME_END.encode() + props.VALUE_END.encode()


class BadRows(PenstockError):
    """Rows that cannot become messages."""


class Rows(msgspec.Struct, frozen=True):
    """Messages to be, of one topic. Columns that are not there are None; `queue` has been chosen."""

    topic: str
    queue: Numbers
    body: pa.BinaryArray
    key: pa.BinaryArray | None = None
    tags: pa.BinaryArray | None = None
    properties: pa.BinaryArray | None = None  # as on the wire
    delay_ms: Numbers | None = None

    def __len__(self) -> int:
        return len(self.queue)

    def take(self, places: Numbers) -> "Rows":
        at = pa.array(places)
        names = ("body", "key", "tags", "properties")
        there = {name: column.take(at) for name in names if (column := getattr(self, name)) is not None}
        delay_ms = None if self.delay_ms is None else self.delay_ms[places]
        return msgspec.structs.replace(self, queue=self.queue[places], delay_ms=delay_ms, **there)

    def by_queue(self) -> "Rows":
        """Sorted by queue; those of one queue keep their order."""
        if bool((self.queue[1:] >= self.queue[:-1]).all()):
            return self
        return self.take(np.argsort(self.queue.astype(np.uint16), kind="stable"))  # of so few bits: by counting


class Messages(NamedTuple):
    """Encoded messages, one behind the other, in the order of the rows."""

    data: memoryview
    lengths: Numbers
    queue: Numbers

    def cut(self, bytes_max: int) -> "Iterator[Messages]":
        """Neighbours of one queue that are no longer than so together, or one that is."""
        ends = np.cumsum(self.lengths)
        first = 0
        while first < len(ends):
            start = int(ends[first] - self.lengths[first])
            until = max(int(ends.searchsorted(start + bytes_max, side="right")), first + 1)
            until = min(until, int(self.queue.searchsorted(self.queue[first], side="right")))
            part = slice(first, until)
            yield Messages(self.data[start : int(ends[until - 1])], self.lengths[part], self.queue[part])
            first = until


class Packed(NamedTuple):
    """What messages do not have in common, each as a column: bodies one behind the other, and properties the same. A
    mark is the hash of a tag, or a delay.
    """

    columns: tuple[Column, ...]  # queues, bytes of bodies and of properties, checksums, marks
    bodies: memoryview
    properties: memoryview

    def __len__(self) -> int:
        return len(self.columns[0])

    def cut(self, bytes_max: int) -> "Iterator[Packed]":
        """Neighbours that are no longer than so together, or one that is."""
        ends = [np.concatenate(([0], np.cumsum(sizes))) for sizes in self.columns[1:3]]
        both = ends[0] + ends[1]
        first = 0
        while first < len(self):
            until = max(int(both.searchsorted(both[first] + bytes_max, side="right")) - 1, first + 1)
            columns = tuple(column[first:until] for column in self.columns)
            places = [slice(int(each[first]), int(each[until])) for each in ends]
            yield Packed(columns, self.bodies[places[0]], self.properties[places[1]])
            first = until


# --- columns ----------------------------------------------------------------------------------------------------------


def octets(column: pa.Array) -> pa.BinaryArray:
    """A column of texts or bytes as bytes."""
    return column if pa.types.is_binary(column.type) else column.cast(pa.binary())


def offsets_of(column: pa.BinaryArray) -> npt.NDArray[np.int32]:
    """Where each value begins in the buffer, and the end of the last."""
    return np.frombuffer(column.buffers()[1], dtype=np.int32)[column.offset : column.offset + len(column) + 1]


def data_of(column: pa.BinaryArray) -> memoryview:
    buffer = column.buffers()[2]
    return memoryview(b"" if buffer is None else buffer).cast("B")  # Arrow's own has signed bytes


def _joined_array(data: pa.Buffer, offsets: Numbers) -> pa.BinaryArray:
    return pa.BinaryArray.from_buffers(
        pa.binary(), len(offsets) - 1, [None, pa.py_buffer(offsets.astype(np.int32)), data]
    )


def packed_properties(column: pa.MapArray) -> pa.BinaryArray:
    """A map of texts as a message carries it, without what has a column of its own."""
    start, end = column.offsets[0].as_py(), column.offsets[-1].as_py()
    names, values = octets(column.keys)[start:end], octets(column.items)[start:end]
    names, values = pc.fill_null(names, b""), pc.fill_null(values, b"")
    check_text(names, "a property's name")
    check_text(values, "a property's value")
    wanted = pc.invert(pc.is_in(names, value_set=pa.array([name.encode() for name in RESERVED], pa.binary())))
    wanted = pc.and_(wanted, pc.and_(pc.greater(pc.binary_length(names), 0), pc.greater(pc.binary_length(values), 0)))
    ends = (props.NAME_END.encode(), props.VALUE_END.encode())
    pairs = pc.binary_join_element_wise(names, ends[0], values, ends[1], b"")
    pairs = pc.if_else(wanted, pairs, pa.scalar(b"", pa.binary()))
    borders = column.offsets.to_numpy(zero_copy_only=False).astype(np.int64) - start
    return _joined_array(pa.py_buffer(data_of(pairs)), offsets_of(pairs)[borders].astype(np.int64))


def check_text(column: pa.BinaryArray, what: str) -> None:
    """What goes into properties must not hold what separates them."""
    offsets = offsets_of(column)
    data = np.frombuffer(data_of(column), dtype=np.uint8)[offsets[0] : offsets[-1]]
    if bool(((data == _ENDS[0]) | (data == _ENDS[1])).any()):
        raise BadRows(f"{what} holds a character 1 or 2, which RocketMQ keeps for itself: take it out")


def java_hashes(column: pa.BinaryArray) -> Numbers:
    """Java's String.hashCode of each value; 0 for null. All at once, character by character, where they are ASCII."""
    column = pc.fill_null(column, b"")
    view, borders = data_of(column), offsets_of(column)
    octets = np.frombuffer(view, dtype=np.uint8)[borders[0] : borders[-1]]
    if int(np.diff(borders).max(initial=0)) > HASHED_CHARS_MAX or bool((octets >= 0x80).any()):
        found = [java_hash(value.decode()) for value in column.to_pylist()]
        return np.array(found, dtype=np.int64)
    return np.frombuffer(numbers.java_hashes(view, borders), np.int32).astype(np.int64)


def tag_marks(column: pa.BinaryArray | None, count: int) -> Numbers:
    """The hash of each tag. There are few different ones."""
    if column is None:
        return np.zeros(count, dtype=np.int64)
    encoded = pc.fill_null(column, b"").dictionary_encode()
    hashes = np.array([java_hash(value.decode()) for value in encoded.dictionary.to_pylist()], dtype=np.int64)
    found: Numbers = hashes[encoded.indices.to_numpy()]
    return found


def keyed_queues(key: pa.BinaryArray | None, count: int, queues: int, turn: int) -> Numbers:
    """The queue of each row: by the hash of its key, as Java's selector by hash and our client have it. Rows without a
    key are spread evenly: neighbours stay together, which costs no sorting.
    """
    even = (turn + np.arange(count, dtype=np.int64) * queues // max(count, 1)) % queues
    if key is None:
        return np.sort(even)
    by_key = np.abs(java_hashes(key)) % queues
    return by_key if not key.null_count else np.where(pc.is_null(key).to_numpy(zero_copy_only=False), even, by_key)


# --- encoding ---------------------------------------------------------------------------------------------------------


def packed(rows: Rows) -> Packed:
    """For staging: what the broker does not know."""
    parts, properties_bytes = _properties(rows)
    properties = pc.binary_join_element_wise(*parts, b"") if parts else None
    marks = tag_marks(rows.tags, len(rows)) if rows.delay_ms is None else rows.delay_ms
    checksums = np.frombuffer(numbers.checksums(data_of(rows.body), offsets_of(rows.body)), np.uint32)
    columns = (rows.queue, _body_bytes(rows), properties_bytes, checksums, marks)
    return Packed(columns, _used(rows.body), memoryview(b"") if properties is None else _used(properties))


def _body_bytes(rows: Rows) -> Numbers:
    lengths: Numbers = np.diff(offsets_of(rows.body))
    if len(lengths) and not lengths.min():
        raise BadRows("a row has an empty body, which RocketMQ refuses: filter such rows out, or fill them in")
    return lengths


def _used(column: pa.BinaryArray) -> memoryview:
    """The bytes of its values alone: a slice shares its buffer with others."""
    offsets = offsets_of(column)
    return data_of(column)[int(offsets[0]) : int(offsets[-1])]


def batch(rows: Rows) -> Messages:
    """As a send of several messages carries them."""
    parts, properties_bytes = _properties(rows)
    heads = np.zeros(len(rows), dtype=_BATCHED)
    heads["body_bytes"] = _body_bytes(rows)
    heads["length"] = _BATCHED.itemsize + heads["body_bytes"] + 2 + properties_bytes
    tail = _fixed(properties_bytes.astype(">u2"))
    whole = pc.binary_join_element_wise(_fixed(heads), rows.body, tail, *parts, b"")
    return Messages(data_of(whole), np.diff(offsets_of(whole)).astype(np.int64), rows.queue)


def _fixed(items: npt.NDArray[np.generic]) -> pa.BinaryArray:
    """Things of one size as bytes."""
    borders = np.arange(len(items) + 1, dtype=np.int64) * items.dtype.itemsize
    return _joined_array(pa.py_buffer(items.tobytes()), borders)


def _properties(rows: Rows) -> tuple[list[pa.Array], Numbers]:
    """The properties of the rows as parts to be joined, and how many bytes they have together."""
    parts: list[pa.Array] = []
    for name, column in ((props.KEYS, rows.key), (props.TAGS, rows.tags)):
        if column is not None:
            check_text(pc.fill_null(column, b""), f"the column {'key' if name == props.KEYS else 'tags'}")
            parts += _property(f"{name}{props.NAME_END}".encode(), column)
    if rows.properties is not None:
        parts.append(rows.properties)
    lengths = np.zeros(len(rows), dtype=np.int64)
    for part in parts:
        lengths += pc.binary_length(part).to_numpy() if isinstance(part, pa.Array) else len(part.as_py())
    longest = int(lengths.max(initial=0))
    if longest > props.BYTES_MAX:
        raise BadRows(f"a row's key, tags and properties take {longest} bytes: RocketMQ has room for {props.BYTES_MAX}")
    return parts, lengths


def _property(name: bytes, column: pa.BinaryArray) -> list[pa.Array]:
    """A property of each row; nothing where it is null."""
    parts = [pa.scalar(name, pa.binary()), column, pa.scalar(props.VALUE_END.encode(), pa.binary())]
    if not column.null_count:
        return parts
    return [pc.fill_null(pc.binary_join_element_wise(*parts, b""), b"")]
