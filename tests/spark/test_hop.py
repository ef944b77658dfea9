"""Where records begin: many at once is the same as one by one, whatever the bodies hold."""

import random
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.spark import hop
from penstock.spark.hop import borders_in
from penstock.wire.rocketmq.record import BYTES_MIN, MAGIC, Record, length_of

MARK = MAGIC.to_bytes(4)


def record(body: bytes) -> bytes:
    made = Record(queue=1, length=0, topic=b"t", body=body)
    made.length = length_of(made)
    buffer = memoryview(bytearray(made.length))
    made.write_into(buffer, 0, 1, 5, 0)
    return bytes(buffer)


def expected(bodies: list[bytes]) -> list[int]:
    return [0, *np.cumsum([len(record(body)) for body in bodies]).tolist()]


def taken_by_lanes(data: bytes) -> bool:
    return hop._by_lanes(memoryview(data)) is not None


BODIES = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([MARK, b"\0\0\0\x60" + MARK, b"\0\0\0\0" + MARK, b"\xff\xff\xff\xff" + MARK, record(b"inner") * 3]),
)


@settings(deadline=None, max_examples=200)
@given(st.lists(BODIES, min_size=1, max_size=20), st.integers(1, 30), st.randoms(use_true_random=False))
def test_lanes_find_what_steps_find(kinds: list[bytes], times: int, order: random.Random):
    bodies = kinds * times
    order.shuffle(bodies)
    data = b"".join(map(record, bodies))
    found = hop._by_lanes(memoryview(data))
    assert found is None or found.tolist() == expected(bodies)


def test_ordinary_records_are_taken_by_lanes():
    """Also when their sizes differ."""
    bodies = [b"x" * (at * 37 % 200) for at in range(5_000)]
    data = b"".join(map(record, bodies))
    assert len(data) > hop.LANES_FROM_BYTES
    assert taken_by_lanes(data)
    assert borders_in(data).tolist() == expected(bodies)
    assert borders_in(memoryview(bytearray(data))).tolist() == expected(bodies)


def test_bodies_that_look_like_records_are_no_records():
    bodies = [record(b"inner") * (at % 7) for at in range(2_000)]
    data = b"".join(map(record, bodies))
    assert borders_in(data).tolist() == expected(bodies)


def test_small_records_before_large_ones():
    bodies = [b"x"] * 400 + [b"y" * 30_000] * 10 + [b"z"] * 400
    assert borders_in(b"".join(map(record, bodies))).tolist() == expected(bodies)


@pytest.mark.parametrize("length", [0, 1, BYTES_MIN, 2**31, 2**32 - 1])
@pytest.mark.parametrize("which", [0, 1, 700, 1_999])
def test_a_length_that_lies_is_noticed(length: int, which: int):
    data = bytearray(b"".join(map(record, [b"x" * 50] * 2_000)))
    struct.pack_into(">I", data, which * len(record(b"x" * 50)), length)
    assert borders_in(bytes(data)) is None


def test_what_is_cut_off_is_noticed():
    data = b"".join(map(record, [b"x" * 50] * 2_000))
    assert borders_in(data[:-1]) is None
    assert borders_in(data + b"\0" * 100) is None
    assert borders_in(bytes(200_000)) is None
