"""Staged messages: thousands in one request, that are published later, all at once.

The body of a STAGE_MESSAGES request:

    int32 count | int64 born ms | 5 columns of count int32 | bodies, one behind the other | their properties, the same

The columns: queue, bytes of the body, bytes of its properties, checksum of the body (CRC-32 without the sign), mark.
All messages of a request are of one topic, and sorted by queue. A mark is the hash of the message's tag or, when the
request says `delayed`, the milliseconds that it waits. Properties are as in a record; each ends with its VALUE_END.

What messages have in common, and what only the broker knows, does not travel: it is written when they are published.

Nothing here is done message by message: columns are looked at as arrays. What the sender made is checked before it is
believed, since a record in the log that cannot be read would stop a recovery.
"""

import struct
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt

from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.heads import HEAD_TYPES, v6_flags
from penstock.wire.rocketmq.record import MAGIC
from penstock.wire.rocketmq.runs import COLUMNS, Columns, PackedRun, packed_run

VERSION = 2  # of this way of staging
NAME_CHARS_MAX = 255  # of a stage, and of the key of a commit
_FRONT = struct.Struct(">iq")
_NUMBER_BYTES = 4

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


def columns_of(born_ms: int, columns: Sequence[npt.NDArray[np.integer]]) -> bytes:
    """What comes before the bodies in the body of a request: queues, bytes of bodies and of properties, checksums,
    marks.
    """
    return b"".join((_FRONT.pack(len(columns[0]), born_ms), *(column.astype(">i4").tobytes() for column in columns)))


class Expected(NamedTuple):
    """What the messages of a request have in common, and what they may be."""

    topic: bytes
    queues: int
    born_host: bytes
    store_host: bytes
    added: bytes  # properties that each gets
    record_bytes_max: int
    run_bytes_max: int  # of neighbours that are kept as one

    @property
    def fixed_bytes(self) -> int:
        """Of a record: what is neither its body nor its own properties."""
        kind = HEAD_TYPES[v6_flags(self.born_host, self.store_host)]
        return kind.itemsize + 1 + len(self.topic) + 2 + len(self.added)

    def head(self, queue: int, born_ms: int) -> bytes:
        """Of a record, as far as it is the same for all of a queue."""
        flags = v6_flags(self.born_host, self.store_host)
        head = np.zeros(1, dtype=HEAD_TYPES[flags])
        values = {"magic": MAGIC, "queue": queue, "sys_flag": flags, "born_ms": born_ms}
        hosts = {"born_host": np.void(self.born_host), "store_host": np.void(self.store_host)}
        for name, value in {**values, **hosts}.items():
            head[name] = value
        return head.tobytes()


def runs_in(body: memoryview, expected: Expected) -> list[PackedRun]:
    """The messages of a request by queue, in bytes of their own; the queue of a run is its place in the topic.
    StagedError when something about them is wrong: then nothing of it can be used.
    """
    born_ms, table, data_at = _table(body)
    queues, columns = table[0], table[1:]
    body_bytes, properties_bytes = (row.astype(np.int64) for row in columns[:2])
    lengths = body_bytes + properties_bytes + expected.fixed_bytes
    _check_sizes(body_bytes, properties_bytes, lengths, expected)
    body_ends, properties_ends = np.cumsum(body_bytes), np.cumsum(properties_bytes)
    middle = data_at + int(body_ends[-1])
    if middle + int(properties_ends[-1]) != len(body):
        told = int(body_ends[-1]) + int(properties_ends[-1])
        raise StagedError(f"{len(body) - data_at} bytes of messages, but their lengths add up to {told}")
    _check_queues(queues, expected)
    data = memoryview(bytes(body[data_at:]))
    bodies, properties = data[: middle - data_at], data[middle - data_at :]
    _check_properties(np.frombuffer(properties, dtype=np.uint8), properties_ends, properties_bytes)
    prefix = bytes((len(expected.topic),)) + expected.topic
    found = []
    for first, until in pairwise(_borders(queues, np.cumsum(lengths) - lengths, expected.run_bytes_max)):
        queue, own = int(queues[first]), np.ascontiguousarray(columns[:, first:until])
        parts = (_between(bodies, body_ends, first, until), _between(properties, properties_ends, first, until))
        found.append(packed_run(queue, expected.head(queue, born_ms), prefix, expected.added, own, *parts))
    return found


def _table(body: memoryview) -> tuple[int, Columns, int]:
    """When they were born, the columns, and where the bodies begin."""
    count, born_ms = _FRONT.unpack_from(body) if len(body) >= _FRONT.size else (0, 0)
    rows = 1 + COLUMNS
    at = _FRONT.size + rows * _NUMBER_BYTES * count
    if count <= 0 or at > len(body):
        raise StagedError(f"a body of {len(body)} bytes cannot hold {count} messages: at least one has to be there")
    return born_ms, np.frombuffer(body[_FRONT.size : at], dtype=">i4").astype(np.int32).reshape(rows, count), at


def _check_sizes(body_bytes: Numbers, properties_bytes: Numbers, lengths: Numbers, expected: Expected) -> None:
    if int(body_bytes.min()) < 0 or int(properties_bytes.min()) < 0:
        raise StagedError("the body or the properties of a message have less than 0 bytes")
    if not int(body_bytes.min()):
        raise StagedError("the body of a message is empty, and not every consumer can take that: send some byte")
    if int(properties_bytes.max()) + len(expected.added) > props.BYTES_MAX:
        raise StagedError(f"the properties of a message are above {props.BYTES_MAX} bytes")
    if int(lengths.max()) > expected.record_bytes_max:
        raise StagedError(
            f"a message of {int(lengths.max())} bytes is above the limit of {expected.record_bytes_max}: "
            "split it or raise broker.message_bytes_max"
        )


def _check_queues(queues: npt.NDArray[np.int32], expected: Expected) -> None:
    if int(queues.min()) < 0 or int(queues.max()) >= expected.queues:
        outside = int(queues.min()) if int(queues.min()) < 0 else int(queues.max())
        raise StagedError(f"topic {expected.topic.decode()!r} has queues 0 to {expected.queues - 1}, not {outside}")
    if bool((queues[1:] < queues[:-1]).any()):
        raise StagedError("the messages of a request have to be sorted by queue")


def _check_properties(data: Bytes, ends: Numbers, sizes: Numbers) -> None:
    """They are text, and what is added to them begins a property of its own. Text is nearly always ASCII: one look at
    all, and a closer one where that is not so.
    """
    some = np.flatnonzero(sizes)
    if bool((data[ends[some] - 1] != ord(props.VALUE_END)).any()):
        raise StagedError("the last property of a message has no end")
    if not len(data) or int(data.max()) < 0x80:
        return
    for at in some.tolist():
        try:
            data[ends[at] - sizes[at] : ends[at]].tobytes().decode()
        except UnicodeDecodeError as error:
            raise StagedError(f"the properties of message {at} are not UTF-8: {error}") from None


def _borders(queues: npt.NDArray[np.int32], starts: Numbers, run_bytes_max: int) -> list[int]:
    """Where a run begins: with every queue, and within one wherever it would become too long."""
    steps = (starts - starts[0]) // run_bytes_max
    fresh = (queues[1:] != queues[:-1]) | (steps[1:] != steps[:-1])
    return [0, *(np.flatnonzero(fresh) + 1).tolist(), len(queues)]


def _between(data: memoryview, ends: Numbers, first: int, until: int) -> memoryview:
    return data[int(ends[first - 1]) if first else 0 : int(ends[until - 1])]
