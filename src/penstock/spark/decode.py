"""From the bytes of pulls to Arrow record batches: each column by operations on whole arrays, only those asked for.

A body that its producer compressed is opened, one by one: they are few or large. One that cannot be opened is handed on
as it came, as the client does it. Opened bodies can be far larger than what came: then one answer becomes several
batches.
"""

import functools
from collections.abc import Callable, Iterator
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from penstock import logs
from penstock.spark.columns import PROPERTIES
from penstock.spark.gather import array_of, gathered, spans, woven
from penstock.spark.hop import Buffer, Ints
from penstock.spark.properties import Properties
from penstock.spark.ranges import Range
from penstock.spark.records import BORN_MS, STORE_MS, BadRecords, Plain, Records, plain_in, records_in
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.codes import SysFlag
from penstock.wire.rocketmq.compression import opened
from penstock.wire.rocketmq.record import HOST_V4_BYTES, HOST_V6_BYTES

log = logs.get(__name__)

OPENED_BYTES_MAX = 64 << 20  # of bodies in one batch, before the last of them
_HEX = np.frombuffer(b"".join(b"%02X" % octet for octet in range(256)), np.uint16)
_TIMESTAMP = pa.timestamp("us", tz="UTC")
_KEPT_BYTES = 31 << 20  # of the memory that arrays have let go, see below


class Values(Protocol):
    """What makes columns of bodies: see `values.py`."""

    def columns(self, bodies: pa.Array) -> dict[str, pa.Array]: ...


class Decoder:
    """Makes batches with the columns of a schema: those of messages, and with `values` those of bodies. With `tags`
    messages with other tags are left out: brokers choose by a hash of the tags, which others may share. `left_out` are
    properties that the column `properties` does not hold.
    """

    def __init__(
        self,
        schema: pa.Schema,
        tags: frozenset[str] = frozenset(),
        values: Values | None = None,
        left_out: tuple[str, ...] = (),
    ) -> None:
        self._schema, self._values, self._left_out = schema, values, left_out
        self._tags = pa.array(sorted(tags), pa.string()) if tags else None
        self._with_bodies = values is not None or "body" in schema.names
        self._same: dict[str, tuple[str | int, pa.Array]] = {}  # the longest so far of each column of one value
        # An array this large, let go, teaches the C library to keep what smaller ones let go, rather than give it back
        # to the system and get it back zeroed, page by page: that would take half of the time. It is never written to.
        np.empty(_KEPT_BYTES, dtype=np.uint8)

    @property
    def filters(self) -> bool:
        """Whether rows may be left out."""
        return self._tags is not None

    def batches(self, data: Buffer, source: Range) -> Iterator[pa.RecordBatch]:
        """The messages of an answer to a pull that belong to a range."""
        for rows in rows_in(data, source, self._with_bodies):
            batch = self._batch(rows)
            if batch.num_rows:
                yield batch

    def _batch(self, rows: "Rows") -> pa.RecordBatch:
        parsed = self._values.columns(_body(rows)) if self._values else {}
        arrays = [parsed[name] if name in parsed else self._made(name, rows) for name in self._schema.names]
        typed = [array.cast(kind) if array.type != kind else array for array, kind in self._typed(arrays)]
        batch = pa.RecordBatch.from_arrays(typed, schema=self._schema)
        if self._tags is None:
            return batch
        kept = pc.is_in(MAKERS["tags"](rows), value_set=self._tags)
        return batch if pc.all(kept).as_py() else batch.filter(kept)

    def _made(self, name: str, rows: "Rows") -> pa.Array:
        if name in SAME:
            return self._same_for_all(name, rows)
        return rows.properties.maps(self._left_out) if name == PROPERTIES else MAKERS[name](rows)

    def _same_for_all(self, name: str, rows: "Rows") -> pa.Array:
        """A column of one value: as much as is needed of the one that was made before."""
        value, make = getattr(rows.source, name), SAME[name]
        before, column = self._same.get(name, (None, pa.nulls(0)))
        if before != value or len(column) < len(rows):
            column = make(value, len(rows))
            self._same[name] = value, column
        return column.slice(0, len(rows))

    def _typed(self, arrays: list[pa.Array]) -> Iterator[tuple[pa.Array, pa.DataType]]:
        return zip(arrays, self._schema.types, strict=True)


class Rows:
    """Messages of one queue, on their way to columns. What several columns need is made once."""

    def __init__(self, records: Records | Plain, source: Range, opened_bodies: dict[int, bytes]) -> None:
        self.records, self.source, self.opened_bodies = records, source, opened_bodies

    def __len__(self) -> int:
        return len(self.records)

    @functools.cached_property
    def properties(self) -> Properties:
        return Properties(self.records)


def rows_in(data: Buffer, source: Range, with_bodies: bool) -> Iterator[Rows]:
    """The messages of an answer that belong to a range."""
    plain = plain_in(data, source.start, source.end)
    if plain is not None:
        if len(plain):
            yield Rows(plain, source, {})
        return
    records = _of_range(records_in(data), source)
    if not len(records):
        return
    compressed = np.flatnonzero(records.heads["sys_flag"] & SysFlag.COMPRESSED)
    if not with_bodies or not len(compressed):
        yield Rows(records, source, {})
        return
    starts, ends = (place.tolist() for place in records.bodies())
    first = size_bytes = 0
    bodies: dict[int, bytes] = {}
    for row in compressed.tolist():
        body = _opened(records, row, starts[row], ends[row])
        size_bytes += len(body)
        bodies[row - first] = body
        if size_bytes >= OPENED_BYTES_MAX:
            yield Rows(records[first : row + 1], source, bodies)
            first, size_bytes, bodies = row + 1, 0, {}
    if first < len(records):
        yield Rows(records[first:], source, bodies)


def _of_range(records: Records, source: Range) -> Records:
    """Pulls bring what stands behind the end as well, and what was there before when they overlap."""
    offsets = records.offsets
    if not (np.diff(offsets) > 0).all():
        raise BadRecords(f"{source.address} sent messages of {source} out of order")
    first, until = np.searchsorted(offsets, [source.start, source.end]).tolist()
    return records if until - first == len(records) else records[first:until]


def _opened(records: Records, row: int, start: int, end: int) -> bytes:
    body = records.octets[start:end].tobytes()
    try:
        return opened(body, int(records.heads["sys_flag"][row]))
    except ValueError as error:
        log.warning("a body is handed on compressed", offset=int(records.heads["offset"][row]), error=str(error))
        return body


# --- columns ----------------------------------------------------------------------------------------------------------


def _repeated(value: str, count: int) -> pa.Array:
    text = value.encode()
    ends = np.arange(0, (count + 1) * len(text), len(text) or 1, dtype=np.int32)[: count + 1]
    if not text:
        ends = np.zeros(count + 1, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(ends), pa.py_buffer(text * count)])


def _body(rows: Rows) -> pa.Array:
    plain = array_of(gathered(rows.records.octets, *rows.records.bodies()))
    if not rows.opened_bodies:
        return plain
    chosen = np.arange(len(rows))
    chosen[list(rows.opened_bodies)] = len(rows) + np.arange(len(rows.opened_bodies))
    both = pa.concat_arrays([plain, pa.array(rows.opened_bodies.values(), pa.binary())])
    return both.take(pa.array(chosen))


def _time(us: Ints) -> pa.Array:
    return pa.Array.from_buffers(_TIMESTAMP, len(us), [None, pa.py_buffer(us)])


def _message_id(rows: Rows) -> pa.Array:
    """The unique key that the client gave it; where the message is, when it gave none."""
    given = rows.properties.column(props.UNIQ_KEY)
    if not given.null_count:
        return given
    missing = pc.is_null(given)
    return pc.replace_with_mask(given, missing, _places(rows.records, np.flatnonzero(missing)))


def _places(records: Records | Plain, rows: Ints) -> pa.Array:
    """Ids that say where messages are: address, port and physical offset, in hexadecimal digits."""
    heads = records.heads[rows]
    short = (heads["sys_flag"] & SysFlag.STORE_HOST_V6) == 0
    octets = np.zeros((len(rows), HOST_V6_BYTES + 8), dtype=np.uint8)
    hosts = _octets(heads["store_host"])
    octets[:, : hosts.shape[1]] = hosts
    physical = _octets(heads["physical"])
    octets[short, HOST_V4_BYTES : HOST_V4_BYTES + 8] = physical[short]
    octets[~short, HOST_V6_BYTES:] = physical[~short]
    digits = _HEX[octets].view(np.uint8)
    starts = np.arange(len(rows)) * digits.shape[1]
    sizes = np.where(short, HOST_V4_BYTES + 8, HOST_V6_BYTES + 8) * 2
    return spans(digits.reshape(-1), woven(starts, starts + sizes), 2, 0, pa.string())


def _octets(field: npt.NDArray[np.generic]) -> npt.NDArray[np.uint8]:
    return np.ascontiguousarray(field).view(np.uint8).reshape(len(field), field.dtype.itemsize)


MAKERS: dict[str, Callable[[Rows], pa.Array]] = {
    "offset": lambda rows: pa.array(rows.records.offsets),
    "key": lambda rows: rows.properties.column(props.KEYS),
    "tags": lambda rows: rows.properties.column(props.TAGS),
    "body": _body,
    "born_time": lambda rows: _time(rows.records.times_us(BORN_MS)),
    "store_time": lambda rows: _time(rows.records.times_us(STORE_MS)),
    "message_id": _message_id,
}

SAME: dict[str, Callable[[Any, int], pa.Array]] = {  # what all messages of a range have in common, by its name there
    "topic": _repeated,
    "queue": lambda queue, count: pa.array(np.full(count, queue, dtype=np.int32)),
    "broker": _repeated,
}
