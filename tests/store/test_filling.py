"""The append loop in Python and the compiled one do the same, byte for byte."""

import itertools
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiled import built

from penstock.clock import ManualClock
from penstock.compiled import IN_USE
from penstock.config import StoreConfig
from penstock.errors import QueueNotFound
from penstock.model import Durability
from penstock.store.filling import fill_in_python, reveal_in_python
from penstock.store.layout import HEADER_BYTES, header_in
from penstock.store.store import Store
from penstock.testing.disk import FaultyDisk
from penstock.wire.plain import plain, plain_run
from penstock.wire.rocketmq.record import Record, length_of

_filling = built("penstock.store._filling")
BOTH = (fill_in_python, _filling.fill)
QUEUES = (1, 2, 3)
NUMBERS = ("next_row", "next_offset", "live_bytes", "tail_at", "tail_end", "turn", "encodings")
SECRET, BASE, SYNCED, NOW_MS, TURN = 0xFFFF_FFF0, 1 << 33, 77, 1_700_000_000_000, 5


def test_the_compiled_loop_is_in_use():
    assert IN_USE["penstock.store._filling"] or os.environ.get("PENSTOCK_PURE")


bodies = st.one_of(st.binary(max_size=300), st.integers(4_000, 4_300).map(bytes))


@st.composite
def entries(draw):
    queue, kind = draw(st.sampled_from(QUEUES)), draw(st.integers(0, 2))
    producer, sequence = draw(st.sampled_from([(0, -1), (7, 3), ((1 << 64) - 1, 0), (9, -1)]))
    if kind == 0:
        return plain(
            queue, draw(bodies), tags=draw(st.sampled_from(["", "a", "zzzzzz"])), producer=producer, sequence=sequence
        )
    if kind == 1:
        several = [plain(queue, body) for body in draw(st.lists(st.binary(max_size=20), min_size=1, max_size=4))]
        return plain_run(several, producer=producer, sequence=sequence)
    record = Record(queue=queue, length=0, topic=b"t", body=draw(bodies), tag=draw(st.integers(-(2**31), 2**31 - 1)))
    record.length = length_of(record)
    return record


def fresh_tables():
    store = Store.open(FaultyDisk(), StoreConfig(segment_bytes=1 << 20, chunk_pieces=16), ManualClock())
    for queue in QUEUES:
        store.create_queue(queue, Durability.ASYNC)
    return {queue: store.table(queue) for queue in QUEUES}


def outcome(fill, some, buffer_bytes, flags):
    """All that a call leaves behind, so that two can be compared."""
    tables, view = fresh_tables(), memoryview(bytearray(buffer_bytes))
    touched, numbered = [], []
    result = fill(some, 0, view, buffer_bytes, BASE, SECRET, SYNCED, NOW_MS, TURN, tables, touched, numbered, flags)
    return (
        result,
        bytes(view[: result[1]]),
        [(table.queue, *numbers) for table, *numbers in touched],
        [some.index(entry) for entry in numbered],
        [(entry.offset, entry.row) for entry in some[: result[0]]],
        [[getattr(table, name) for name in NUMBERS] for table in tables.values()],
        [table.rows(table.min_row, table.next_row).tobytes() for table in tables.values()],
    )


@given(st.lists(entries(), max_size=12), st.integers(0, 20_000), st.booleans())
def test_both_do_the_same(some, buffer_bytes, grouped):
    flags = [2] * len(some) if grouped else None
    slow, fast = (outcome(fill, some, buffer_bytes, flags) for fill in BOTH)
    assert slow == fast


@given(st.lists(entries(), min_size=1, max_size=5))
def test_what_the_compiled_loop_writes_is_sound(some):
    (count, used, payload_bytes), data, *_ = outcome(_filling.fill, some, 100_000, None)
    at = 0
    for entry in some:
        header = header_in(memoryview(data), at, BASE + at, SECRET)
        assert header is not None
        assert (header.queue, header.length, header.encoding) == (entry.queue, entry.length, entry.encoding)
        at += HEADER_BYTES + header.length
    assert (count, used, payload_bytes) == (len(some), at, at - HEADER_BYTES * len(some))


@pytest.mark.parametrize("fill", BOTH)
def test_a_table_that_is_full_is_extended_in_the_middle(fill):
    some = [plain(1, b"x") for _ in range(2_000)]
    *_, tables, rows = outcome(fill, some, 1 << 20, None)
    assert tables[0][0] == 2_000
    assert np.frombuffer(rows[0], dtype="<i8").reshape(-1, 6)[:, 1].tolist() == list(range(2_000))


@pytest.mark.parametrize("fill", BOTH)
def test_an_unknown_queue_is_told(fill):
    with pytest.raises(QueueNotFound, match="queue 99 does not exist"):
        outcome(fill, [plain(1, b"x"), plain(99, b"x")], 10_000, None)


@pytest.mark.parametrize("fill", BOTH)
def test_what_an_entry_raises_comes_through(fill):
    broken = plain(1, b"body")
    broken.extra = 5
    with pytest.raises(TypeError):
        outcome(fill, [broken], 10_000, None)


@pytest.mark.parametrize(("field", "value"), [("length", -1), ("count", 1 << 40), ("tag", 1 << 31), ("producer", -1)])
@pytest.mark.parametrize("fill", BOTH)
def test_numbers_that_do_not_fit_are_refused(fill, field, value):
    entry = plain(1, b"body")
    setattr(entry, field, value)
    with pytest.raises(Exception, match=r".") as refusal:
        outcome(fill, [entry], 10_000, None)
    assert not isinstance(refusal.value, AssertionError)


@pytest.mark.parametrize("reveal", [reveal_in_python, _filling.reveal])
def test_what_is_not_durable_stays_hidden(reveal):
    tables = list(fresh_tables().values())
    tables[1].durability = Durability.SYNC
    for table in tables:
        table.add(0, 10, 0, 1, 5, 0, 0)
    hidden = reveal([(table, 0, 0, 0) for table in tables], 6, Durability.SYNC)
    assert hidden == [(tables[1], 1, 1)]
    assert [(table.visible_row, table.visible_offset, table.last_ms) for table in tables] == [
        (1, 1, 6),
        (0, 0, 6),
        (1, 1, 6),
    ]


def test_every_length_has_the_checksum_of_the_library():
    """The compiled loop has a CRC32C of its own for what is short."""
    some = [plain(1, bytes(itertools.islice(itertools.cycle(range(251)), size))) for size in range(0, 5_000, 37)]
    slow, fast = (outcome(fill, some, 1 << 20, None) for fill in BOTH)
    assert slow[1] == fast[1]
