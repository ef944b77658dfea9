"""Where records begin, in Python and compiled, whatever the bodies hold."""

import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compiled import built

from penstock.spark.hop import borders_in, borders_in_python
from penstock.wire.rocketmq.record import BYTES_MIN, MAGIC, Record, length_of

_columns = built("penstock.spark._columns")
MARK = MAGIC.to_bytes(4)


def record(body: bytes) -> bytes:
    made = Record(queue=1, length=0, topic=b"t", body=body)
    made.length = length_of(made)
    buffer = memoryview(bytearray(made.length))
    made.write_into(buffer, 0, 1, 5, 0)
    return bytes(buffer)


def expected(bodies: list[bytes]) -> list[int]:
    return [0, *np.cumsum([len(record(body)) for body in bodies]).tolist()]


def found_both_ways(data: bytes) -> list[int] | None:
    slow, fast = borders_in_python(data), _columns.borders(data)
    assert slow == fast
    return None if slow is None else np.frombuffer(slow, np.int64).tolist()


BODIES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([MARK, b"\0\0\0\x60" + MARK, b"\0\0\0\0" + MARK, b"\xff\xff\xff\xff" + MARK, record(b"inner") * 3]),
)


@given(st.lists(BODIES, max_size=20))
def test_records_begin_where_they_were_written(bodies: list[bytes]):
    data = b"".join(map(record, bodies))
    assert found_both_ways(data) == expected(bodies)
    assert borders_in(memoryview(bytearray(data))).tolist() == expected(bodies)


@settings(max_examples=300)
@given(st.lists(BODIES, min_size=1, max_size=5), st.data())
def test_both_say_the_same_of_bytes_that_lie(bodies: list[bytes], data: st.DataObject):
    spoilt = bytearray(b"".join(map(record, bodies)))
    for at in data.draw(st.lists(st.integers(0, len(spoilt) - 1), max_size=4)):
        spoilt[at] = data.draw(st.sampled_from([0, 1, 90, 91, 92, 0x7F, 0x80, 0xFF]))
    del spoilt[data.draw(st.integers(0, len(spoilt))) :]
    found_both_ways(bytes(spoilt))


def test_small_records_before_large_ones():
    bodies = [b"x"] * 400 + [b"y" * 30_000] * 10 + [b"z"] * 400
    assert found_both_ways(b"".join(map(record, bodies))) == expected(bodies)


@pytest.mark.parametrize("length", [0, 1, BYTES_MIN - 1, BYTES_MIN, 2**31, 2**32 - 1])
@pytest.mark.parametrize("which", [0, 1, 700, 1_999])
def test_a_length_that_lies_is_noticed(length: int, which: int):
    data = bytearray(b"".join(map(record, [b"x" * 50] * 2_000)))
    struct.pack_into(">I", data, which * len(record(b"x" * 50)), length)
    assert found_both_ways(bytes(data)) is None


def test_what_is_cut_off_is_noticed():
    data = b"".join(map(record, [b"x" * 50] * 2_000))
    assert found_both_ways(data[:-1]) is None
    assert found_both_ways(data + b"\0" * 100) is None
    assert found_both_ways(bytes(200_000)) is None
