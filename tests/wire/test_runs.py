"""Runs of staged messages: in Python and compiled they are the same, byte for byte, and so they are out of a file."""

import os
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiled import built

from penstock.compiled import IN_USE
from penstock.wire.rocketmq.heads import v6_flags
from penstock.wire.rocketmq.record import Record, length_of, messages_in
from penstock.wire.rocketmq.runs import freeze, packed_run, run_of, thaw, write_packed_in_python
from penstock.wire.rocketmq.staged import Expected

_runs = built("penstock.wire.rocketmq._runs")
WRITERS = (write_packed_in_python, _runs.write_packed)
HOSTS = (b"\x7f\0\0\1\0\0\0\1", bytes(range(20)))


def expected(born: bytes = HOSTS[0], store: bytes = HOSTS[0], added: bytes = b"A\x01b\x02") -> Expected:
    return Expected(b"orders", 8, born, store, added, 1 << 20, 1 << 20)


def run(messages, common: Expected):
    """Of (body, properties, checksum, mark)."""
    bodies, properties, checksums, marks = zip(*messages, strict=True)
    sizes = ([len(each) for each in column] for column in (bodies, properties))
    columns = np.array([*sizes, checksums, marks], dtype=np.int32)
    data = memoryview(b"".join(bodies)), memoryview(b"".join(properties))
    return packed_run(5, common.head(3, 1_700), b"\x06orders", common.added, columns, *data)


def written(write, found, room: int = 0) -> bytes:
    buffer = memoryview(bytearray(found.length + 10 + room))
    parts = (found.head, found.prefix, found.added, found.columns, found.bodies, found.properties)
    write(buffer, 5, *parts, 5, 1 << 35, 99)
    return bytes(buffer)


numbers = st.integers(-(1 << 31), (1 << 31) - 1)
messages = st.lists(st.tuples(st.binary(max_size=40), st.binary(max_size=40), numbers, numbers), min_size=1, max_size=9)


def test_the_compiled_runs_are_in_use():
    assert IN_USE["penstock.wire.rocketmq._runs"] or os.environ.get("PENSTOCK_PURE")


@given(messages, st.sampled_from(HOSTS), st.sampled_from(HOSTS), st.binary(max_size=20))
def test_a_run_is_the_same_compiled_and_in_python_and_out_of_a_file(messages, born, store, added):
    found = run(messages, expected(born, store, added))
    slow, fast = (written(write, found) for write in WRITERS)
    assert slow == fast
    frozen = freeze(found)
    assert frozen is not None
    again = thaw(b"".join(frozen))
    assert (again.queue, again.length, again.count) == (found.queue, found.length, found.count)
    assert written(_runs.write_packed, again) == fast
    assert all((one == other).all() for one, other in zip(again.spans(), found.spans(), strict=True))


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize(("born", "store"), [(one, other) for one in HOSTS for other in HOSTS])
def test_what_is_written_are_records(write, born, store):
    """As a record that is written by itself."""
    found = run([(b"one", b"KEYS\x01k\x02", 7, 8), (b"", b"", -1, 0)], expected(born, store))
    data = written(write, found)[5:-5]
    record = Record(
        queue=5, length=0, topic=b"orders", queue_index=3, body=b"one", properties=b"KEYS\x01k\x02A\x01b\x02",
        sys_flag=v6_flags(born, store), born_ms=1_700, born_host=born, store_host=store,
    )  # fmt: skip
    record.length = length_of(record)
    alone = memoryview(bytearray(record.length))
    record.write_into(alone, 0, 5, 1 << 35, 99)
    alone[8:12] = struct.pack(">i", 7)
    first, second = found.spans().lengths.tolist()
    assert (data[:first], len(data)) == (bytes(alone), first + second)
    assert [(message.body, message.offset) for message in messages_in(memoryview(data))] == [
        (b"one", 1 << 35),
        (b"", (1 << 35) + 1),
    ]


@pytest.mark.parametrize("write", WRITERS)
def test_nothing_is_written_outside_the_buffer_or_read_outside_the_parts(write):
    found = run([(b"one", b"KEYS\x01k\x02", 7, 8), (b"two", b"", 1, 0)], expected())
    with pytest.raises(ValueError, match="fit"):
        written(write, found, room=-6)
    for row, value in ((0, 4), (1, 9), (0, 2), (1, 6), (0, -1), (1, -1), (0, (1 << 31) - 1), (1, 1 << 16)):
        columns = found.columns.copy()
        columns[row, 0] = value
        with pytest.raises(ValueError, match="fit"):
            write(
                memoryview(bytearray(1 << 18)), 0, found.head, found.prefix, found.added, columns, found.bodies,
                found.properties, 5, 0, 0,
            )  # fmt: skip


@pytest.mark.parametrize("head", [b"", bytes(87), bytes(113)])
def test_what_is_no_head_is_refused(head):
    found = run([(b"one", b"", 7, 8)], expected())
    parts = (head, found.prefix, found.added, found.columns, found.bodies, found.properties)
    with pytest.raises(ValueError, match="fit"):
        _runs.write_packed(memoryview(bytearray(1_000)), 0, *parts, 5, 0, 0)


def test_whole_records_come_out_of_a_file_as_they_were():
    """Timers, and what a release before this one has left behind of a commit that it had decided."""
    payload, lengths = memoryview(bytes(range(200))), np.array([90, 110])
    frozen = freeze(run_of(9, payload, lengths, np.array([-1, 5])))
    assert frozen is not None
    assert b"".join(frozen) == struct.pack("<QIiiii", 9, 2, 90, 110, -1, 5) + payload
    again = thaw(b"".join(frozen))
    assert (again.queue, bytes(again.payload), again.spans().lengths.tolist()) == (9, bytes(payload), [90, 110])
    assert again.spans().tags.tolist() == [-1, 5]
