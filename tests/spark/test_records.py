"""Plain answers, read by the compiled loop: they are what arrays make of them. What is not plain is left to those."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiled import built
from tests.spark.test_decode import records, second_version, simple, written

from penstock.spark.hop import COMPILED
from penstock.spark.records import BORN_MS, STORE_MS, BadRecords, Plain, Records, records_in
from penstock.wire.rocketmq.record import HEADS, Record

_columns = built(COMPILED)


def plain(data: bytes, first: int = 0, until: int = 2**40) -> Plain | None:
    numbers = _columns.plain(data, first, until)
    return None if numbers is None else Plain(data, numbers)


def told(found: Plain | Records) -> list[list[int]]:
    """All that columns are made of."""
    times = found.times_us(BORN_MS), found.times_us(STORE_MS)
    return [row.tolist() for row in (found.offsets, *times, *found.bodies(), *found.properties())]


def is_plain(record: Record) -> bool:
    return record.sys_flag == 0


@settings(max_examples=300, deadline=None)
@given(st.lists(records(), max_size=8), st.integers(0, 9), st.integers(0, 9))
def test_records_are_the_same_compiled_and_by_arrays(some: list[Record], first: int, until: int):
    data = written(some)
    found, defined = plain(data, first, until), records_in(data)
    if not all(map(is_plain, some)):
        assert found is None
        return
    assert found is not None
    kept = defined[min(first, len(some)) : max(min(until, len(some)), first)]
    assert len(found) == len(kept)
    assert told(found) == told(kept)
    assert found.heads.tolist() == kept.heads.tolist()


@settings(max_examples=500, deadline=None)
@given(st.integers(1, 3), st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), min_size=1, max_size=3))
def test_what_lies_is_refused_or_read_as_arrays_read_it(count: int, changes: list[tuple[int, int]]):
    """Nothing outside of the data is looked at, and nothing is taken that arrays refuse."""
    data = bytearray(written([simple(properties="KEYS\x01k\x02")] * count))
    for at, octet in changes:
        data[at % len(data)] = octet
    found = plain(bytes(data), -(2**63), 2**63 - 1)
    if found is not None:
        assert told(found) == told(records_in(bytes(data)))


@pytest.mark.parametrize("size_bytes", [1, 90, 91, 101])
def test_half_a_record_is_left_to_arrays(size_bytes: int):
    data = written([simple()]) + written([simple()], 1)[:size_bytes]
    assert plain(data) is None
    with pytest.raises(BadRecords):
        records_in(data)


def test_no_records_are_plain():
    found = plain(b"")
    assert found is not None
    assert len(found) == 0
    assert len(found.heads) == 0


@pytest.mark.parametrize(
    "data",
    [
        second_version(written([simple()])),
        written([simple(sys_flag=1)]),
        written([simple(sys_flag=0x10, born_host=bytes(20))]),
        written([simple(born_ms=2**62)]),  # a time that does not fit
        written([simple()], 5) + written([simple()], 5),  # one offset twice
        written([simple()], 5) + written([simple()], 4),
    ],
)
def test_what_is_not_plain_is_left_to_arrays(data: bytes):
    assert plain(data) is None


def test_numbers_are_of_the_kind_that_arrays_give():
    found = plain(written([simple()]))
    assert found is not None
    assert {row.dtype for row in (found.offsets, *found.bodies(), *found.properties())} == {np.dtype(np.int64)}
    assert found.bodies()[0].tolist() == [HEADS[0].size]
