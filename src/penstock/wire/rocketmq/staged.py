"""Staged messages: records that come ready-made, thousands in one request, and are published later, all at once.

The body of a STAGE_MESSAGES request:

    int32 count | count times int32 length | count times int32 mark | count records, one behind the other

A record looks as a pull hands it out (`record`). All of a request are of one topic, and sorted by queue. A mark is the
hash of the record's tag or, when the request says `delayed`, the milliseconds that it waits. What only the broker knows
is filled in by it, whatever stands there: hosts when it is staged; offsets and store time when it is published.

Nothing here is done message by message: columns are taken out of the bytes, looked at and put back as arrays. What the
sender made is checked before it is believed, since a record in the log that cannot be read would stop a recovery.
"""

import struct
from itertools import pairwise
from typing import ClassVar, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from penstock.model import Entry, Spans
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.heads import HEAD_TYPES, v6_flags, windows
from penstock.wire.rocketmq.record import MAGIC, OFFSET_BITS, RECORD_RUN, V6

VERSION = 1  # of this way of staging
BODY_AT, COUNT_BYTES = 4, 4
NAME_CHARS_MAX = 255  # of a stage, and of the key of a commit

Bytes = npt.NDArray[np.uint8]
Numbers = npt.NDArray[np.int64]


class StagedError(ValueError):
    """The body of a request to stage is not what it should be."""


class Stage(msgspec.Struct):
    """The ext fields of STAGE_MESSAGES. `part` numbers the requests of a stage from 0: a second one is known."""

    topic: str
    stage: str
    part: int
    delayed: bool = False
    queues: int = 8  # of a topic that is created by this


class Commit(msgspec.Struct):
    """The body of COMMIT_STAGES, as JSON: what to publish, in order, once under `key`. Stages whose names begin with
    `others` are dropped: attempts that do not count.
    """

    key: str
    stages: list[str]
    others: str = ""


class Drop(msgspec.Struct):
    """The ext fields of DROP_STAGES: stages whose names begin so."""

    stages: str


def _place(kind: np.dtype[np.void], name: str) -> tuple[int, int]:
    """Where a field of a head begins, and its bytes."""
    assert kind.fields is not None
    field = kind.fields[name]
    return field[1], field[0].itemsize


_OFFSET_AT, _SYS_FLAG_AT = (_place(HEAD_TYPES[0], name)[0] for name in ("offset", "sys_flag"))
_STORE_MS_AT = {flags: _place(kind, "store_ms")[0] for flags, kind in HEAD_TYPES.items()}


def columns_of(lengths: Numbers, marks: Numbers) -> bytes:
    """What comes before the records in the body of a request."""
    return b"".join((len(lengths).to_bytes(COUNT_BYTES, "big"), *(c.astype(">i4").tobytes() for c in (lengths, marks))))


# --- taking a request apart -------------------------------------------------------------------------------------------


class Expected(NamedTuple):
    """What the records of a request have in common, and what they may be."""

    topic: bytes
    queues: int
    born_host: bytes
    store_host: bytes
    record_bytes_max: int
    run_bytes_max: int  # of neighbours that are kept as one


class Part(NamedTuple):
    """Neighbours of one queue."""

    queue_index: int
    payload: memoryview
    lengths: Numbers
    marks: Numbers


def parts_in(body: memoryview, expected: Expected) -> list[Part]:
    """The records of a request by queue, in bytes of their own, with the hosts filled in. StagedError when something
    about them is wrong: then nothing of it can be used.
    """
    lengths, marks, at = _columns(body)
    data = np.frombuffer(bytearray(body[at:]), dtype=np.uint8)
    if int(lengths.sum()) != len(data):
        raise StagedError(f"{len(data)} bytes of records, but their lengths add up to {int(lengths.sum())}")
    starts = np.cumsum(lengths) - lengths
    kind = HEAD_TYPES[v6_flags(expected.born_host, expected.store_host)]
    _check_lengths(lengths, kind.itemsize, expected)
    heads = windows(data, kind.itemsize)[starts].view(kind)
    _check_heads(heads, lengths, expected)
    _check_tails(data, starts, lengths, heads, expected)
    for name, host in (("born_host", expected.born_host), ("store_host", expected.store_host)):
        place, size_bytes = _place(kind, name)
        windows(data, size_bytes)[starts + place] = np.void(host)
    places = _borders(heads["queue"], starts, expected.run_bytes_max)
    return [
        Part(
            int(heads["queue"][first]),
            data.data[int(starts[first]) : int(starts[until - 1] + lengths[until - 1])],
            lengths[first:until],
            marks[first:until],
        )
        for first, until in pairwise(places)
    ]


def _columns(body: memoryview) -> tuple[Numbers, Numbers, int]:
    count = int.from_bytes(body[:COUNT_BYTES], "big")
    at = BODY_AT + 2 * COUNT_BYTES * count
    if len(body) < BODY_AT or not count or at > len(body):
        raise StagedError(f"a body of {len(body)} bytes cannot hold {count} records: at least one has to be there")
    columns = np.frombuffer(body[BODY_AT:at], dtype=">i4").astype(np.int64)
    return columns[:count], columns[count:], at


def _check_lengths(lengths: Numbers, head_bytes: int, expected: Expected) -> None:
    least = head_bytes + 1 + len(expected.topic) + 2
    if int(lengths.min()) < least:
        raise StagedError(f"a record of {int(lengths.min())} bytes: one of this topic has at least {least}")
    if int(lengths.max()) > expected.record_bytes_max:
        raise StagedError(
            f"a message of {int(lengths.max())} bytes is above the limit of {expected.record_bytes_max}: "
            "split it or raise broker.message_bytes_max"
        )


def _check_heads(heads: npt.NDArray[np.void], lengths: Numbers, expected: Expected) -> None:
    sys_flag = v6_flags(expected.born_host, expected.store_host)
    wanted = {"length": lengths, "magic": MAGIC, "sys_flag": sys_flag, "reconsume_times": 0, "prepared": 0}
    for name, value in wanted.items():
        wrong = np.flatnonzero(heads[name] != value)
        if len(wrong):
            found = int(heads[name][wrong[0]])
            raise StagedError(f"record {int(wrong[0])} of {len(heads)} has {found} for its {name.replace('_', ' ')}")
    queues = heads["queue"]
    if int(queues.min()) < 0 or int(queues.max()) >= expected.queues:
        outside = int(queues.min()) if int(queues.min()) < 0 else int(queues.max())
        raise StagedError(f"topic {expected.topic.decode()!r} has queues 0 to {expected.queues - 1}, not {outside}")
    if bool((queues[1:] < queues[:-1]).any()):
        raise StagedError("the records of a request have to be sorted by queue")


def _check_tails(
    data: Bytes, starts: Numbers, lengths: Numbers, heads: npt.NDArray[np.void], expected: Expected
) -> None:
    """Behind the body: the topic, and properties that end where the record does and are text."""
    name = bytes((len(expected.topic),)) + expected.topic
    topics = heads.dtype.itemsize + heads["body_bytes"].astype(np.int64)
    properties = topics + len(name)
    rest = lengths - properties - 2
    if int(rest.min()) < 0:
        raise StagedError(f"the body of record {int(rest.argmin())} of {len(heads)} does not fit into it")
    if bool((windows(data, len(name))[starts + topics] != np.void(name)).any()):
        raise StagedError(f"a record names another topic than its request, {expected.topic.decode()!r}")
    said = windows(data, 2)[starts + properties].view(">u2")
    if bool((said != rest).any()) or int(rest.max()) > props.BYTES_MAX:
        raise StagedError(f"the properties of a record do not end where it does, or are above {props.BYTES_MAX} bytes")
    _check_text(data, starts + properties + 2, rest)


def _check_text(data: Bytes, starts: Numbers, lengths: Numbers) -> None:
    """Text is nearly always ASCII: one look at all, and a closer one at those that have something else."""
    some = np.flatnonzero(lengths)
    if not len(some):
        return
    borders = np.empty(2 * len(some), dtype=np.int64)
    borders[::2], borders[1::2] = starts[some], starts[some] + lengths[some]
    within = borders[:-1] if borders[-1] == len(data) else borders
    seen = np.bitwise_or.reduceat(data, within)[::2]
    for at in some[seen >= 0x80].tolist():
        try:
            data[starts[at] : starts[at] + lengths[at]].tobytes().decode()
        except UnicodeDecodeError as error:
            raise StagedError(f"the properties of record {at} are not UTF-8: {error}") from None


def _borders(queues: npt.NDArray[np.int32], starts: Numbers, run_bytes_max: int) -> list[int]:
    """Where a run begins: with every queue, and within one wherever it would become too long."""
    steps = (starts - starts[0]) // run_bytes_max
    fresh = (queues[1:] != queues[:-1]) | (steps[1:] != steps[:-1])
    return [0, *(np.flatnonzero(fresh) + 1).tolist(), len(queues)]


# --- publishing -------------------------------------------------------------------------------------------------------


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
        (sys_flag,) = data[_SYS_FLAG_AT : _SYS_FLAG_AT + 4].view(">i4").tolist()  # all of a run have the same
        store_at = _STORE_MS_AT[sys_flag & V6]
        windows(data, 8)[starts + store_at] = np.void(store_ms.to_bytes(8, "big"))

    def spans(self) -> Spans:
        return Spans(np.cumsum(self.lengths) - self.lengths, self.lengths, self.marks)


def run_of(queue: int, payload: memoryview, lengths: Numbers, marks: Numbers) -> StagedRun:
    return StagedRun(
        queue=queue, length=len(payload), count=len(lengths), payload=payload, lengths=lengths, marks=marks
    )


# --- on the disk ------------------------------------------------------------------------------------------------------

_FROZEN = struct.Struct("<QI")  # queue, messages; then their lengths, their marks, and the records


def freeze(entry: Entry) -> tuple[bytes, memoryview] | None:
    """A run as bytes to be kept, in two parts; None for entries of other kinds."""
    if not isinstance(entry, StagedRun):
        return None
    columns = np.concatenate((entry.lengths, entry.marks)).astype("<i4")
    return _FROZEN.pack(entry.queue, entry.count) + columns.tobytes(), entry.payload


def thaw(data: bytes) -> Entry:
    queue, count = _FROZEN.unpack_from(data)
    columns = np.frombuffer(data, "<i4", 2 * count, _FROZEN.size).astype(np.int64)
    payload = memoryview(data)[_FROZEN.size + COUNT_BYTES * len(columns) :]
    return run_of(queue, payload, columns[:count], columns[count:])
