"""RocketMQ's frames and records: round trips, bytes in any portions, and input that is no such thing."""

import contextlib
import struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import StoreError
from penstock.wire.framing import FrameError, missing_bytes
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.batch import BatchError, run_of
from penstock.wire.rocketmq.codes import SysFlag
from penstock.wire.rocketmq.frame import (
    BINARY,
    FRAME_BYTES_MAX,
    JSON,
    Frame,
    frames_in,
    pack,
)
from penstock.wire.rocketmq.record import (
    BYTES_MIN,
    HEADS,
    Record,
    from_physical,
    length_of,
    message_in,
    messages_in,
    physical_offset,
    split,
)
from penstock.wire.rocketmq.requests import SendV2, fields_of, request_in, topic_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
NAMES = st.text("abcXYZ_09", min_size=1, max_size=10)
EXT = st.dictionaries(NAMES, TEXT.filter(bool), max_size=8)
FORMS = st.sampled_from([JSON, BINARY])


@given(st.integers(0, 32_000), st.integers(-(2**31), 2**31 - 1), st.integers(0, 3), TEXT, EXT, st.binary(), FORMS)
def test_a_frame_comes_back(code, opaque, flag, remark, ext, body, form):
    data = pack(code, opaque, flag, 409, form, remark, ext, body)
    (frame,), used = frames_in(memoryview(data), len(data))
    assert used == len(data)
    assert (frame.code, frame.opaque, frame.flag, frame.version, frame.form) == (code, opaque, flag, 409, form)
    assert (frame.remark, frame.ext, bytes(frame.body)) == (remark, ext, body)


@pytest.mark.parametrize("form", [JSON, BINARY])
def test_frames_in_any_portions(form):
    """Whole, byte by byte, and with bytes left over."""
    data = b"".join(pack(10 + n, n, 0, 409, form, "", {"n": str(n)}, b"x" * n) for n in range(5))
    for portion in (1, 2, 3, 7, 50, len(data)):
        buffer, codes = b"", []
        for at in range(0, len(data), portion):
            buffer += data[at : at + portion]
            frames, used = frames_in(memoryview(buffer), len(buffer))
            codes += [frame.code for frame in frames]
            buffer = buffer[used:]
            assert missing_bytes(memoryview(buffer), len(buffer)) >= 0
        assert codes == [10, 11, 12, 13, 14]
        assert buffer == b""


def test_numbers_and_booleans_of_one_client_become_text():
    header = b'{"code":310,"language":"JAVA","opaque":1,"extFields":{"e":3,"m":false,"k":true,"z":null,"f":1.5}}'
    data = struct.pack(">II", 4 + len(header), len(header)) + header
    (frame,), _ = frames_in(memoryview(data), len(data))
    assert frame.ext == {"e": "3", "m": "false", "k": "true", "f": "1.5"}


@pytest.mark.parametrize(
    "data",
    [
        struct.pack(">II", FRAME_BYTES_MAX + 1, 0),
        struct.pack(">II", 3, 0),
        struct.pack(">II", 10, 100),
        struct.pack(">II", 6, 2) + b"no",
        struct.pack(">II", 6, 2 << 24 | 2) + b"no",
        struct.pack(">II", 6, BINARY << 24 | 2) + b"no",
        struct.pack(">II", 29, BINARY << 24 | 25)
        + struct.pack(">HBHii", 1, 0, 1, 1, 0)
        + struct.pack(">iii", -5, 0, 0),
        struct.pack(">II", 29, BINARY << 24 | 25)
        + struct.pack(">HBHii", 1, 0, 1, 1, 0)
        + struct.pack(">iii", 0, 999, 0),
    ],
)
def test_what_is_no_frame_is_refused(data):
    with pytest.raises(FrameError):
        frames_in(memoryview(data), len(data))


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_waited_for(data):
    try:
        _, used = frames_in(memoryview(data), len(data))
    except FrameError:
        return
    assert 0 <= used <= len(data)


# --- records ----------------------------------------------------------------------------------------------------------

V4, V6 = bytes(range(8)), bytes(range(20))
PROPERTIES = st.dictionaries(NAMES, NAMES, max_size=5)


@st.composite
def records(draw, body_bytes_min=0):
    born, stored = draw(st.sampled_from([V4, V6])), draw(st.sampled_from([V4, V6]))
    flags = (SysFlag.BORN_HOST_V6 if born is V6 else 0) | (SysFlag.STORE_HOST_V6 if stored is V6 else 0)
    record = Record(
        queue=draw(st.integers(1, 1 << 17)),
        length=0,
        topic=draw(NAMES).encode(),
        queue_index=draw(st.integers(0, 1000)),
        body=draw(st.binary(min_size=body_bytes_min, max_size=300)),
        properties=props.build(draw(PROPERTIES)).encode(),
        flag=draw(st.integers(-(2**31), 2**31 - 1)),
        sys_flag=flags,
        born_ms=draw(st.integers(0, 2**40)),
        born_host=born,
        store_host=stored,
        reconsume_times=draw(st.integers(0, 20)),
        prepared_offset=draw(st.integers(0, 2**50)),
    )
    record.length = length_of(record)
    return record


def written(entry, offset=7, store_ms=99):
    buffer = memoryview(bytearray(entry.length + 10))
    entry.write_into(buffer, 5, entry.queue, offset, store_ms)
    assert bytes(buffer[:5]) == bytes(5)
    assert bytes(buffer[5 + entry.length :]) == bytes(5)
    return buffer[5 : 5 + entry.length]


@given(records())
def test_a_record_comes_back(record):
    found = message_in(written(record))
    assert (found.body, found.topic.encode(), found.queue_index) == (record.body, record.topic, record.queue_index)
    assert (found.offset, found.store_ms, found.born_ms) == (7, 99, record.born_ms)
    assert (found.born_host, found.store_host, found.flag) == (record.born_host, record.store_host, record.flag)
    assert from_physical(found.physical_offset) == (record.queue, 7)
    assert props.build(found.properties).encode() == record.properties
    assert found.sound


def in_version_2(record: bytes, topic: bytes) -> bytes:
    """A record as RocketMQ 5 writes it for a topic that is longer than a byte can say."""
    at = HEADS[int.from_bytes(record[36:40], "big") & (SysFlag.BORN_HOST_V6 | SysFlag.STORE_HOST_V6)].size
    at += int.from_bytes(record[at - 4 : at], "big")
    behind = at + 1 + record[at]
    rest = record[8:at] + len(topic).to_bytes(2, "big") + topic + record[behind:]
    return struct.pack(">II", len(rest) + 8, 0xDAA320AB) + rest


@given(st.lists(records(), min_size=1, max_size=4), st.integers(0, 400))
def test_records_of_version_2_are_read(several, topic_bytes):
    first, topic = bytes(written(several[0])), b"t" * topic_bytes
    wide = [in_version_2(bytes(written(record)), topic) for record in several]
    found = messages_in(memoryview(b"".join([first, *wide])))
    assert (found[0].topic, found[0].body) == (several[0].topic.decode(), several[0].body)
    for message, record, packed in zip(found[1:], several, wide, strict=True):
        assert (message.topic, message.body, message.length) == ("t" * topic_bytes, record.body, len(packed))
        assert props.build(message.properties).encode() == record.properties
        assert message.sound


@given(records(), st.data())
def test_a_record_of_version_2_with_a_wrong_byte_never_reads_outside(record, data):
    payload = bytearray(in_version_2(bytes(written(record)), b"t" * 130))
    payload[data.draw(st.integers(0, len(payload) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with contextlib.suppress(StoreError):
        message_in(memoryview(bytes(payload)))


def test_a_topic_longer_than_its_record_is_refused():
    payload = bytearray(in_version_2(bytes(written(Record(queue=1, length=BYTES_MIN))), b"t"))
    payload[-5:-3] = b"\xff\xff"
    with pytest.raises(StoreError):
        message_in(memoryview(bytes(payload)))


def test_properties_are_fitted_by_leaving_out_what_brokers_have_added():
    own = {"KEYS": "k", "é": "v"}
    added = {"RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "id", "CLUSTER": "c", "REAL_QID": "0"}
    text = props.build({**own, **added})
    size_bytes = len(text.encode())
    assert props.fitted(text, size_bytes) == text
    left = {**own, "RETRY_TOPIC": "orders", "ORIGIN_MESSAGE_ID": "id", "CLUSTER": "c"}
    assert props.parse(props.fitted(text, size_bytes - 1)) == left
    assert props.parse(props.fitted(text, len(props.build(own).encode()))) == own
    assert props.parse(props.fitted(text, 1)) == own


def batch_of(several: list[Record]) -> bytes:
    """What a client sends."""
    packed = []
    for record in several:
        length = 20 + len(record.body) + 2 + len(record.properties)
        head = struct.pack(">IiiiI", length, 0, 0, record.flag, len(record.body))
        packed.append(b"".join((head, record.body, struct.pack(">H", len(record.properties)), record.properties)))
    return b"".join(packed)


@given(records(), st.lists(records(body_bytes_min=1), min_size=1, max_size=8))
def test_a_batch_becomes_records_that_can_be_split_again(model, several):
    run = run_of(model, memoryview(batch_of(several)), b"CLUSTER\x01c\x02")
    payload = written(run)
    spans, found = split(payload), messages_in(payload)
    assert [message.offset for message in found] == list(range(7, 7 + len(several)))
    assert [(message.body, message.flag) for message in found] == [(record.body, record.flag) for record in several]
    for message, record in zip(found, several, strict=True):
        own = props.parse(record.properties.decode())
        assert message.properties == {**own, "CLUSTER": "c"}
        assert (message.topic.encode(), message.born_host) == (model.topic, model.born_host)
        assert message.sound
    assert spans.starts.tolist() == run.spans().starts.tolist()
    assert spans.lengths.tolist() == run.spans().lengths.tolist() == [message.length for message in found]
    assert spans.tags.tolist() == run.spans().tags.tolist()


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        (lambda data: data[:-1], "does not fit"),
        (lambda data: data + b"\0", "cut off"),
        (lambda data: struct.pack(">I", 5) + data[4:], "does not fit"),
        (lambda data: data[:-3] + b"\x00\x09\xff", "do not fit"),
        (lambda data: data[:-1] + b"\xff", "not UTF-8"),
        (lambda data: data + batch_of([Record(queue=1, length=0, properties=b"y")]), "at byte 24 of a batch is empty"),
    ],
)
def test_a_batch_that_lies_is_refused_in_plain_words(damage, told):
    data = batch_of([Record(queue=1, length=0, body=b"x", properties=b"y")])
    with pytest.raises(BatchError, match=told):
        run_of(Record(queue=1, length=0, topic=b"t"), memoryview(damage(data)), b"")


@given(records(), st.data())
def test_a_record_with_a_wrong_byte_never_reads_outside(record, data):
    payload = bytearray(written(record))
    payload[data.draw(st.integers(0, len(payload) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    with contextlib.suppress(StoreError):
        message_in(memoryview(bytes(payload)))


@given(st.binary(max_size=300))
def test_garbage_is_no_record_and_no_batch(data):
    with pytest.raises(StoreError):
        message_in(memoryview(data))
    with contextlib.suppress(BatchError):
        run_of(Record(queue=1, length=0, topic=b"topic"), memoryview(data), b"")


def test_a_physical_offset_fits_into_a_double():
    assert physical_offset((1 << 17) - 1, (1 << 36) - 1) < 1 << 53


# --- properties -------------------------------------------------------------------------------------------------------


@given(PROPERTIES)
def test_properties_come_back(properties):
    text = props.build(properties)
    assert props.parse(text) == props.parse(text.rstrip("\x02")) == properties
    for name, value in properties.items():
        assert props.find(text, name) == props.find(text.rstrip("\x02"), name) == value


def test_a_name_within_another_is_not_found():
    assert props.find("XTAGS\x01no\x02TAGS\x01yes\x02", "TAGS") == "yes"
    assert props.find("XTAGS\x01no\x02", "TAGS") == ""


@given(st.text(max_size=50))
def test_any_text_can_be_parsed(text):
    assert all(name and value for name, value in props.parse(text).items())


# --- requests with typed fields ---------------------------------------------------------------------------------------


def _request(code: int, ext: dict[str, object]) -> Frame:
    header = msgspec.json.encode({"code": code, "opaque": 7, "flag": 2, "extFields": ext})
    return request_in(memoryview(header), memoryview(b"body"), JSON)


def test_a_send_is_read_in_one_go():
    frame = _request(310, {"b": "orders", "e": "3", "g": "1780000000000", "i": "TAGS\x01a\x02", "m": "true", "z": "?"})
    assert (frame.code, frame.opaque, frame.oneway, frame.ext, bytes(frame.body)) == (310, 7, True, {}, b"body")
    asked = fields_of(SendV2, frame)
    assert (asked.topic, asked.queueId, asked.bornTimestamp, asked.batch) == ("orders", 3, 1780000000000, True)
    assert topic_of(frame, "b") == "orders"


@pytest.mark.parametrize("ext", [{"e": 3, "b": "orders", "i": None}, {"b": "orders", "e": "3", "d": None}])
def test_a_send_with_odd_fields_is_read_all_the_same(ext: dict[str, object]):
    frame = _request(310, ext)
    assert frame.typed is None
    assert fields_of(SendV2, frame).queueId == 3
    assert topic_of(frame, "b") == "orders"


def test_a_send_without_a_topic_is_a_frame_whose_fields_are_wrong():
    frame = _request(310, {"e": "3"})
    with pytest.raises(msgspec.ValidationError, match="missing required field `b`"):
        fields_of(SendV2, frame)


def test_other_requests_come_with_a_dict():
    frame = _request(105, {"topic": "orders", "n": 1})
    assert (frame.typed, frame.ext, topic_of(frame, "topic")) == (None, {"topic": "orders", "n": "1"}, "orders")


@given(st.binary(max_size=80))
def test_a_header_that_makes_no_sense_is_a_frame_error_and_nothing_else(header: bytes):
    with contextlib.suppress(FrameError):
        request_in(memoryview(header), memoryview(b""), JSON)
