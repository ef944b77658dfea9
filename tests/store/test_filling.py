"""The append loop in Python and the compiled one do the same, byte for byte."""

import itertools
import os
import struct
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiled import built

from penstock.clock import ManualClock
from penstock.compiled import IN_USE
from penstock.config import StoreConfig
from penstock.errors import QueueNotFound
from penstock.model import Durability, Entry
from penstock.store.filling import DIRECT_BYTES, fill_in_python, reveal_in_python
from penstock.store.layout import HEADER_BYTES, header_in
from penstock.store.store import Store
from penstock.testing.disk import FaultyDisk
from penstock.wire.plain import Plain, plain, plain_run
from penstock.wire.rocketmq.record import Record, length_of

_filling = built("penstock.store._filling")
BOTH = (fill_in_python, _filling.fill)
QUEUES = (1, 2, 3)
NUMBERS = ("next_row", "next_offset", "live_bytes", "tail_at", "tail_end", "turn", "encodings")
SECRET, BASE, SYNCED, NOW_MS, TURN = 0xFFFF_FFF0, 1 << 33, 77, 1_700_000_000_000, 5


def test_the_compiled_loop_is_in_use():
    assert IN_USE["penstock.store._filling"] or os.environ.get("PENSTOCK_PURE")


class Verbatim(Entry):
    encoding: ClassVar[int] = 6
    verbatim: ClassVar[bool] = True

    payload: memoryview | bytes = b""

    def write_into(self, buffer, at, queue_id, offset, store_ms):
        buffer[at : at + self.length] = self.payload


class Copied(Verbatim):
    verbatim: ClassVar[bool] = False


bodies = st.one_of(st.binary(max_size=300), st.integers(4_000, 4_300).map(bytes))


@st.composite
def entries(draw):
    queue, kind = draw(st.sampled_from(QUEUES)), draw(st.integers(0, 3))
    producer, sequence = draw(st.sampled_from([(0, -1), (7, 3), ((1 << 64) - 1, 0), (9, -1)]))
    if kind == 0:
        return plain(
            queue, draw(bodies), tags=draw(st.sampled_from(["", "a", "zzzzzz"])), producer=producer, sequence=sequence
        )
    if kind == 1:
        several = [plain(queue, body) for body in draw(st.lists(st.binary(max_size=20), min_size=1, max_size=4))]
        return plain_run(several, producer=producer, sequence=sequence)
    if kind == 2:
        size = draw(st.sampled_from([100, DIRECT_BYTES - 1, DIRECT_BYTES, DIRECT_BYTES + 999]))
        return Verbatim(queue=queue, length=size, count=draw(st.integers(1, 9)), payload=memoryview(bytes(size)))
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


@given(st.lists(entries(), max_size=12), st.one_of(st.integers(0, 20_000), st.integers(30_000, 200_000)), st.booleans())
def test_both_do_the_same(some, buffer_bytes, grouped):
    flags = [2] * len(some) if grouped else None
    slow, fast = (outcome(fill, some, buffer_bytes, flags) for fill in BOTH)
    assert slow == fast


@given(st.lists(entries(), min_size=1, max_size=5))
def test_what_the_compiled_loop_writes_is_sound(some):
    (count, used, payload_bytes, follows), data, *_ = outcome(_filling.fill, some, 200_000, None)
    direct = [entry for entry in some if entry.verbatim and entry.length >= DIRECT_BYTES]
    assert follows is (direct[0].payload if direct else None)
    some = some[:count]
    data += follows or b""
    used += len(follows or b"")
    at = 0
    for entry in some:
        header = header_in(memoryview(data), at, BASE + at, SECRET)
        assert header is not None
        assert (header.queue, header.length, header.encoding) == (entry.queue, entry.length, entry.encoding)
        at += HEADER_BYTES + header.length
    assert (used, payload_bytes) == (at, at - HEADER_BYTES * len(some))
    assert count == len(some) or direct


@pytest.mark.parametrize("group", [False, True])
def test_a_long_payload_is_written_from_where_it_lies_and_the_log_is_the_same(group, monkeypatch):
    monkeypatch.setattr("penstock.store.format.secrets.randbits", lambda bits: SECRET)
    logs = []
    for kind in (Verbatim, Copied):
        disk, writes = FaultyDisk(), []
        store = Store.open(disk, StoreConfig(segment_bytes=1 << 21), ManualClock())
        store.create_queue(1, Durability.ASYNC)
        disk.watch = lambda call, writes=writes: writes.append(call.kind)
        payloads = [b"%d" % size * (size // len(b"%d" % size)) for size in (10, 40_000, 50_000, 20, 30, 100_000)]
        store.append([kind(queue=1, length=len(payload), payload=payload) for payload in payloads], group)
        assert writes.count("write") == (6 if kind is Verbatim else 1)
        store.close()
        logs.append({name: disk.content(name) for name in disk.files()})
    assert b"100000" * (100_000 // 6) in logs[0][max(logs[0], key=lambda name: logs[0][name].count(b"100000"))]
    assert logs[0] == logs[1]


@pytest.mark.parametrize("fill", BOTH)
def test_a_payload_of_another_length_than_it_says_is_refused(fill):
    with pytest.raises(ValueError, match="a payload of 40000 bytes is said to have 40001"):
        outcome(fill, [Verbatim(queue=1, length=40_001, payload=bytes(40_000))], 100_000, None)


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


# --- what is wrong ----------------------------------------------------------------------------------------------------


def filled(fill, some, tables, touched=None, flags=None, buffer_bytes=10_000):
    view, marks = memoryview(bytearray(buffer_bytes)), [] if touched is None else touched
    result = fill(some, 0, view, buffer_bytes, BASE, SECRET, SYNCED, NOW_MS, TURN, tables, marks, [], flags)
    return result, header_in(view, 0, BASE, SECRET)


@pytest.mark.parametrize("fill", BOTH)
def test_what_an_append_that_fails_has_changed_can_be_taken_back(fill):
    tables, touched = fresh_tables(), []
    filled(fill, [plain(queue, b"before") for queue in QUEUES], tables, [])
    before = [
        [getattr(table, name) for name in ("next_row", "next_offset", "live_bytes", "slots")]
        for table in tables.values()
    ]
    for table in tables.values():
        table.turn = 0
    some = [plain(1 + number % 2, b"x") for number in range(1_000)] + [
        plain_run([plain(1, b"y")] * 1_000),
        plain(99, b""),
    ]
    with pytest.raises(QueueNotFound):
        filled(fill, some, tables, touched, buffer_bytes=1 << 20)
    assert [table.queue for table, *_ in touched] == [1, 2]
    for table, row, offset, live_bytes in touched:
        table.rollback(row, offset, live_bytes)
    assert [
        [getattr(table, name) for name in ("next_row", "next_offset", "live_bytes", "slots")]
        for table in tables.values()
    ] == before
    filled(fill, [plain(1, b"after")], tables, [])
    assert tables[1].rows(0, 2)["base"].tolist() == [0, 1]


class HalfATable:
    __slots__ = ("turn",)


def test_a_table_that_is_none_leaves_the_others_as_they_were():
    """Where a class keeps its fields is learned whole or not at all."""
    filled(_filling.fill, [plain(1, b"x")], fresh_tables())
    with pytest.raises(AttributeError):
        filled(_filling.fill, [plain(1, b"x")], {1: HalfATable()})
    result, header = filled(_filling.fill, [plain(1, b"x")], fresh_tables())
    assert result[0] == 1
    assert header.queue == 1


def test_fields_that_belong_to_another_class_are_refused():
    fields = [*Plain.__struct_fields__, "run", "verbatim", "encoding", "write_into"]
    imitation = type("Imitation", (), {name: getattr(Plain, name) for name in fields})
    with pytest.raises(TypeError, match="is not a slot"):
        filled(_filling.fill, [imitation()], fresh_tables())


@pytest.mark.parametrize("lacks", ["run", "verbatim", "encoding", "write_into", "queue", "payload"])
def test_a_class_that_lacks_something_is_refused(lacks):
    fields = {"run": False, "verbatim": True, "encoding": 1, "write_into": print}
    present = {name: value for name, value in fields.items() if name != lacks}
    slots = [name for name in (*Entry.__struct_fields__, "payload") if name != lacks]
    poor = type("Poor", (), {**present, "__slots__": slots})
    with pytest.raises(AttributeError, match=lacks):
        filled(_filling.fill, [poor()], fresh_tables())


class Other(Plain):
    encoding: ClassVar[int] = 41


class Nesting(Plain):
    """Appends elsewhere while it is written, as other threads do."""

    encoding: ClassVar[int] = 40
    others: list = []

    def write_into(self, buffer, at, queue_id, offset, store_ms):
        for other in self.others:
            filled(_filling.fill, [other], fresh_tables())


def test_a_class_may_be_forgotten_while_its_entry_is_written():
    """No more classes are remembered than there are in use."""
    many = [type(f"Many{number}", (Plain,), {"__module__": __name__}) for number in range(16)]
    for kind in many:
        filled(_filling.fill, [kind(queue=1, length=32)], fresh_tables())
    entry = Nesting(queue=1, length=32, others=[Other(queue=1, length=32)])
    _, header = filled(_filling.fill, [entry], fresh_tables())
    assert header.encoding == 40


@pytest.mark.parametrize("length", [1 << 31, 1 << 40])
@pytest.mark.parametrize("fill", BOTH)
def test_what_is_too_long_for_a_row_does_not_fit_either(fill, length):
    """So that it is refused like everything that is too large."""
    entry = plain(1, b"x")
    entry.length = length
    assert filled(fill, [entry], fresh_tables())[0] == (0, 0, 0, None)


@pytest.mark.parametrize("flags", [-1, 1 << 16])
@pytest.mark.parametrize("fill", BOTH)
def test_flags_that_do_not_fit_are_refused(fill, flags):
    with pytest.raises((ValueError, struct.error)):
        filled(fill, [plain(1, b"x")], fresh_tables(), flags=[flags])
