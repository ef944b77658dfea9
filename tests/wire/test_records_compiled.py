"""Records and batches of RocketMQ: in Python and compiled they are the same, byte for byte."""

import os
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiled import built
from tests.wire.test_rocketmq import batch_of, records

from penstock.compiled import IN_USE
from penstock.wire.rocketmq import batch, values
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.batch import BatchError, measured_in_python, run_of, write_run_in_python
from penstock.wire.rocketmq.record import Record, java_hash, length_of, write_record_in_python

_records = built("penstock.wire.rocketmq._records")
MEASURES = (measured_in_python, _records.measured)


def bytes_written(write, record, length):
    buffer = memoryview(bytearray(length + 10))
    write(record, buffer, 5, record.queue, 1 << 35, 99)
    return bytes(buffer)


def test_the_compiled_records_are_in_use():
    assert IN_USE["penstock.wire.rocketmq._records"] or os.environ.get("PENSTOCK_PURE")


@given(records())
def test_a_record_is_the_same_compiled_and_in_python(record):
    writers = (write_record_in_python, _records.write_record)
    slow, fast = (bytes_written(write, record, record.length) for write in writers)
    assert slow == fast


@given(st.binary(max_size=70).map(lambda body: body * 37))
def test_bodies_of_every_length_have_the_right_checksum(body):
    record = Record(queue=1, length=0, topic=b"t", body=memoryview(body))
    record.length = length_of(record)
    assert bytes_written(_records.write_record, record, record.length) == bytes_written(
        write_record_in_python, record, record.length
    )


@pytest.mark.parametrize(
    "changed", [{"body": bytes(99)}, {"born_host": bytes(20)}, {"topic": bytes(300)}, {"flag": 1 << 31}]
)
def test_a_record_never_writes_outside_its_buffer(changed):
    record = Record(queue=1, length=0, topic=b"t")
    room = length_of(record)
    for name, value in changed.items():
        setattr(record, name, value)
    with pytest.raises(ValueError, match="fit"):
        _records.write_record(record, memoryview(bytearray(room)), 0, 1, 0, 0)


def test_what_is_no_record_leaves_records_as_they_were():
    """Where a class keeps its fields is learned whole or not at all."""
    record = Record(queue=1, length=0, topic=b"t", body=b"body")
    record.length = length_of(record)
    before = bytes_written(_records.write_record, record, record.length)
    with pytest.raises(AttributeError):
        _records.write_record(object(), memoryview(bytearray(200)), 0, 1, 0, 0)
    assert bytes_written(_records.write_record, record, record.length) == before


def test_fields_that_belong_to_another_class_are_refused():
    imitation = type("Imitation", (), {name: getattr(Record, name) for name in Record.__struct_fields__})
    with pytest.raises(TypeError, match="is not a slot"):
        _records.write_record(imitation(), memoryview(bytearray(200)), 0, 1, 0, 0)


@pytest.mark.parametrize("write", [write_record_in_python, _records.write_record])
def test_a_queue_that_a_physical_offset_has_no_room_for_is_refused(write):
    record = Record(queue=1, length=0, topic=b"t")
    write(record, memoryview(bytearray(200)), 0, (1 << 27) - 1, 0, 0)
    with pytest.raises((ValueError, struct.error)):
        write(record, memoryview(bytearray(200)), 0, 1 << 27, 0, 0)


def run_both_ways(model, data, shared):
    fixed = length_of(model)
    slow, fast = (measure(memoryview(data), fixed, len(shared), props.BYTES_MAX) for measure in MEASURES)
    assert slow == fast
    run = run_of(model, memoryview(data), shared)
    buffers = []
    for write in (write_run_in_python, _records.write_run):
        buffer = memoryview(bytearray(run.length))
        write(buffer, 0, bytes(88), b"\x01t", run.body, run.parts, shared, 3, 1 << 36 | 3)
        buffers.append(bytes(buffer))
    assert buffers[0] == buffers[1]


@given(st.lists(records(body_bytes_min=1), max_size=6), st.sampled_from([b"", b"A\x01b\x02"]))
def test_a_batch_is_the_same_compiled_and_in_python(several, shared):
    run_both_ways(Record(queue=1, length=0, topic=b"t"), batch_of(several), shared)


@given(st.lists(records(), min_size=1, max_size=3), st.data())
def test_both_refuse_a_damaged_batch_in_the_same_words(several, data):
    damaged = bytearray(batch_of(several))
    for _ in range(data.draw(st.integers(1, 3))):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= data.draw(st.integers(1, 255))
    damaged = bytes(damaged[: data.draw(st.integers(0, len(damaged)))])
    told = []
    for measure in MEASURES:
        try:
            told.append(measure(memoryview(damaged), 91, 0, props.BYTES_MAX))
        except BatchError as error:
            told.append(str(error))
    assert told[0] == told[1]


@given(st.text(max_size=20))
def test_tags_have_the_same_hash_compiled_and_in_python(tags):
    several = [Record(queue=1, length=0, body=b"x", properties=f"A\x01b\x02TAGS\x01{tags}".encode())]
    slow, fast = (measure(memoryview(batch_of(several)), 91, 0, props.BYTES_MAX) for measure in MEASURES)
    assert slow == fast


def test_parts_that_lie_never_reach_outside():
    data, model = memoryview(batch_of([Record(queue=1, length=0, body=b"x")])), Record(queue=1, length=0, topic=b"t")
    run = run_of(model, data, b"")
    part = list(batch.PART.unpack(run.parts))
    for index in range(1, 7):
        for value in (-1, 1 << 40, 1 << 62):
            lying = batch.PART.pack(*part[:index], value, *part[index + 1 :])
            if index == 2:  # the flag may be anything
                continue
            with pytest.raises(ValueError, match="fit"):
                _records.write_run(memoryview(bytearray(run.length)), 0, bytes(88), b"\x01t", data, lying, b"", 0, 0)


@pytest.mark.parametrize("write", [write_run_in_python, _records.write_run])
def test_properties_that_their_length_has_no_room_for_are_refused(write):
    data, shared = memoryview(batch_of([Record(queue=1, length=0, body=b"x")])), bytes(65_536)
    parts, length = _records.measured(data, 88 + 2 + 2, len(shared), 1 << 20)
    with pytest.raises((ValueError, struct.error)):
        write(memoryview(bytearray(length)), 0, bytes(88), b"\x01t", data, parts, shared, 0, 0)


VALUES = st.lists(st.text(st.characters(codec="ascii"), max_size=90).map(str.encode), max_size=12)


def values_of(several: list[bytes], before: bytes = b"") -> tuple[memoryview, np.ndarray]:
    borders = np.cumsum([len(before), *map(len, several)]).astype(np.int32)
    return memoryview(before + b"".join(several)), borders


@given(VALUES, st.binary(max_size=3))
def test_checksums_and_hashes_are_the_same_compiled_and_in_python(several, before):
    data, borders = values_of(several, before)
    assert _records.checksums(data, borders) == values.checksums_in_python(data, borders)
    found = _records.java_hashes(data, borders)
    assert found == values.java_hashes_in_python(data, borders)
    assert np.frombuffer(found, np.int32).tolist() == [java_hash(value.decode()) for value in several]


@pytest.mark.parametrize("borders", [[], [-1, 2], [0, 4], [2, 1], [0, 3, 1, 3], [0, 2**31 - 1], [0, 9, 3]])
@pytest.mark.parametrize("name", ["checksums", "java_hashes"])
def test_borders_that_lie_never_reach_outside(name, borders):
    with pytest.raises(ValueError, match="do not fit"):
        getattr(_records, name)(b"abc", np.array(borders, dtype=np.int32))
