"""Ordinary sends of a read: in Python and compiled they are the same, and whatever is odd is left to others."""

import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiled import built

from penstock.compiled import IN_USE
from penstock.wire.rocketmq.batch import run_of
from penstock.wire.rocketmq.frame import BINARY, JSON, pack
from penstock.wire.rocketmq.record import Record, java_hash, length_of
from penstock.wire.rocketmq.sends import ASKED, answers_in_python, front_in_python, records_in_python

_sends = built("penstock.wire.rocketmq._sends")
FRONTS = (front_in_python, _sends.front)
ADDED = b"CLUSTER\x01DefaultCluster\x02"
BODY_BYTES_MAX = 200
PARTS = (b'{"msgId":"', b'","queueId":"', b'","queueOffset":"', b'"},"opaque":', b',"version":409}')

ASCII = st.text(st.characters(min_codepoint=1, max_codepoint=126), max_size=40)
NAMES = st.text("abcXYZ%-_|0", min_size=1, max_size=20)
INT32 = st.integers(-(2**31), 2**31 - 1)
EXT = {"a": "producers", "b": "orders", "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": ""}


def send(opaque=1, body=b"x", flag=0, code=310, form=JSON, version=453, **ext):
    fields = {name: str(value) for name, value in {**EXT, **ext}.items() if value is not None}
    return pack(code, opaque, flag, version, form, "", fields, body)


def plain(properties: str) -> bool:
    return "DELAY\x01" not in properties and "TIME" not in properties


# Anything, and what looks like properties: names and values, some of them empty, none of them twice.
PROPERTIES = st.one_of(
    ASCII.filter(lambda text: plain(text) and "\x01" not in text),
    st.dictionaries(st.sampled_from(["", "UNIQ_KEY", "TAGS", "KEYS", "WAIT", "X"]), st.text('a"\\\n', max_size=3)).map(
        lambda pairs: "\x02".join(f"{name}\x01{value}" for name, value in pairs.items())
    ),
)


@st.composite
def some_sends(draw):
    """Of one topic and producer group."""
    topic, producer = draw(NAMES), draw(ASCII.filter(lambda text: text.isprintable() and not set(text) & set('"\\')))
    return [
        send(
            draw(st.integers(-(10**17), 10**17)),
            draw(st.binary(min_size=1, max_size=50)),
            draw(st.sampled_from([0, 2])),
            a=producer,
            b=topic,
            e=draw(st.integers(0, 2**31 - 1)),
            f=draw(st.sampled_from([0, 1, 2, 0x40])),
            g=draw(st.integers(-(10**17), 10**17)),
            h=draw(INT32),
            i=draw(PROPERTIES),
            j=draw(st.sampled_from([None, "0"])),
            k=draw(st.sampled_from([None, "false"])),
            **draw(st.sampled_from([{}, {"m": "false"}, {"m": "true", "code": 320}])),
            bname=draw(st.sampled_from([None, "broker-a"])),
        )
        for _ in range(draw(st.integers(1, 5)))
    ]


def found(front, data, end=None):
    """With plain bytes, to compare."""
    taken = front(memoryview(data), len(data) if end is None else end, ADDED, BODY_BYTES_MAX)
    return taken and (*taken[:2], bytes(taken[2]), *taken[3:])


def test_the_compiled_sends_are_in_use():
    assert IN_USE["penstock.wire.rocketmq._sends"] or os.environ.get("PENSTOCK_PURE")


@pytest.mark.parametrize("front", FRONTS)
def test_what_a_client_asks_is_what_is_found(front):
    properties = 'KEYS\x01k"1\\\x02TAGS\x01red\x02WAIT\x01true'
    data = send(7, b"first", e=3, g=99, h=-5, i=properties) + send(8, b"x", flag=2, f=1)
    topic, producer, asked, stored, used = found(front, data)
    assert (topic, producer, used) == ("orders", "producers", len(data))
    first, second = ASKED.iter_unpack(asked)
    assert first[:7] == (7, 0, 0, 3, -5, 0, 99)
    assert data[first[7] : first[7] + first[8]] == b"first"
    assert first[9] == java_hash("red")
    assert second[:7] == (8, 1, 0, 0, 0, 1, 1)
    assert stored == [properties.encode() + b"\x02" + ADDED, ADDED]


@given(some_sends())
def test_sends_are_the_same_compiled_and_in_python(frames):
    data = b"".join(frames)
    slow, fast = (found(front, data) for front in FRONTS)
    assert slow == fast
    assert fast is not None
    assert fast[-1] == len(data)


@given(some_sends(), st.integers(0, 200), st.binary(max_size=30))
def test_only_whole_frames_are_taken(frames, missing, behind):
    data = b"".join(frames)
    whole = [sum(map(len, frames[:count])) for count in range(len(frames) + 1)]
    end = max(0, len(data) - missing)
    expected = max(length for length in whole if length <= end)
    for front in FRONTS:
        taken = found(front, data + behind, end)
        assert (taken[-1] if taken else 0) == expected


@given(some_sends(), st.data())
def test_whatever_the_compiled_one_takes_is_taken_alike_in_python(frames, data):
    """It may take less: what is odd in form goes another way, and means the same there."""
    spoilt = bytearray(b"".join(frames))
    for _ in range(data.draw(st.integers(1, 4))):
        spoilt[data.draw(st.integers(0, len(spoilt) - 1))] = data.draw(st.integers(0, 255))
    slow, fast = (found(front, bytes(spoilt)) for front in FRONTS)
    if fast is not None and slow is not None:
        assert slow[:2] == fast[:2]
        assert slow[2].startswith(fast[2])
        assert slow[3][: len(fast[3])] == fast[3]


ODD = {
    "a batch by the code of one message": {"m": "true"},
    "one message by the code of a batch": {"code": 320},
    "a batch with a property twice": {"m": "true", "code": 320, "i": "a\x011\x02b\x012\x02a\x013\x02"},
    "a batch with very many properties": {"m": "true", "code": 320, "i": "".join(f"p{n}\x01v\x02" for n in range(33))},
    "half of a transaction": {"f": 4},
    "an address in the flags": {"f": 16},
    "a delay": {"i": "DELAY\x013\x02"},
    "a timer": {"i": "TIMER_DELAY_SEC\x013\x02"},
    "a retry": {"j": "1"},
    "any queue": {"e": "-1"},
    "a queue that is no number": {"e": "one"},
    "no topic": {"b": None},
    "an empty topic": {"b": ""},
    "a long topic": {"b": "t" * 128},
    "letters beyond ASCII": {"i": "KEYS\x01é\x02"},
    "a topic beyond ASCII": {"b": "é"},
    "long properties": {"i": "KEYS\x01" + "k" * 32_767},
    "flags beyond their width": {"h": 2**31},
    "a longer number than there is": {"g": "9" * 30},
    "an answer": {"flag": 1},
    "another request": {"code": 10},
    "the other form": {"form": BINARY},
    "an empty body": {"body": b""},
    "a body that is too large": {"body": bytes(BODY_BYTES_MAX + 1)},
    "a batch that is too large": {"body": bytes(BODY_BYTES_MAX + 1), "m": "true", "code": 320},
}


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
def test_what_is_not_ordinary_is_left_alone(front, odd):
    assert found(front, send(**odd)) is None
    before = send()
    assert found(front, before + send(**odd))[-1] == len(before)


@pytest.mark.parametrize("front", FRONTS)
def test_a_body_of_exactly_the_limit_is_ordinary(front):
    data = send(body=bytes(BODY_BYTES_MAX)) + send(body=bytes(BODY_BYTES_MAX), m="true", code=320)
    assert found(front, data)[-1] == len(data)


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("other", [{"b": "payments"}, {"a": "others"}])
def test_sends_about_several_things_are_left_to_be_stored_together(front, other):
    assert found(front, send() + send(**other)) is None


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: struct.pack(">I", 1 << 31) + data[4:],
        lambda data: data[:4] + struct.pack(">I", len(data)) + data[8:],
        lambda data: data[:4] + struct.pack(">I", 7 << 24) + data[8:],
        lambda data: data[:7],
        lambda data: b"",
        lambda data: data.replace(b'"version":453', b'"version":45\xff'),
        lambda data: data.replace(b'"language":"JAVA"', b'"language":"J\\x"'),
    ],
)
def test_frames_that_lie_are_left_alone(front, spoil):
    assert found(front, spoil(send())) is None


def test_an_end_behind_the_buffer_is_refused():
    with pytest.raises(ValueError, match="behind"):
        _sends.front(memoryview(b""), 1, ADDED, BODY_BYTES_MAX)


MODEL = Record(queue=0, length=0, topic=b"orders", sys_flag=0x10, born_host=bytes(20), store_host=bytes(8))


def batch_body(count, size):
    properties = b"UNIQ_KEY\x01id\x02TAGS\x01red"
    lengths = struct.pack(">iiiii", 20 + size + 2 + len(properties), 0, 0, 3, size)
    return count * (lengths + bytes(size) + struct.pack(">h", len(properties)) + properties)


def stored_by(records, data, queue_count=3):
    view = memoryview(data)
    _, _, asked, properties, _ = _sends.front(view, len(data), ADDED, BODY_BYTES_MAX)
    return asked, records(asked, properties, view, MODEL, length_of(MODEL), [11, 12, 13], queue_count, run_of)


@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.binary(min_size=1, max_size=99), PROPERTIES, st.integers(0, 3)),
        min_size=1,
        max_size=9,
    )
)
def test_records_and_answers_are_the_same_compiled_and_in_python(sends):
    data = b"".join(
        send(number, batch_body(batched, 9) if batched else body, 2 * (number % 3 == 1), 320 if batched else 310,
             e=queue, f=number % 2, h=-number, i=properties, m=str(batched > 0).lower())
        for number, (queue, body, properties, batched) in enumerate(sends)
    )  # fmt: skip
    (asked, slow), (_, fast) = (stored_by(records, data) for records in (records_in_python, _sends.records))
    assert slow == fast
    entries, messages, total_bytes = fast
    assert messages == sum(batched or 1 for *_, batched in sends)
    assert total_bytes == sum(entry.length for entry in entries)
    for number, (entry, (_, body, _, batched)) in enumerate(zip(entries, sends, strict=True)):
        assert entry.count == (batched or 1)
        if not batched:
            assert entry.length == length_of(entry)
            assert bytes(entry.body) == body
        entry.offset = (1 << 36) - 9 - number
    prefix = b"7F0000010000002A"
    assert _sends.answers(asked, entries, prefix, PARTS) == answers_in_python(asked, entries, prefix, PARTS)
    assert (MODEL.queue, MODEL.length, MODEL.sys_flag, MODEL.body) == (0, 0, 0x10, b"")


@pytest.mark.parametrize("records", [records_in_python, _sends.records])
@pytest.mark.parametrize("body", [b"what is this", batch_body(3, 9)[:-1], batch_body(1, 9) + batch_body(1, 0)])
def test_a_batch_that_cannot_be_read_is_left_to_be_refused(records, body):
    assert stored_by(records, send() + send(body=body, code=320, m="true"))[1] is None


@pytest.mark.parametrize("records", [records_in_python, _sends.records])
@pytest.mark.parametrize(("index", "queue_count"), [(2, 2), (3, 9)])
def test_a_queue_that_is_not_there_is_left_to_be_refused(records, index, queue_count):
    assert stored_by(records, send(e=0) + send(e=index), queue_count)[1] is None


def test_rows_that_do_not_belong_to_a_list_are_refused():
    asked, (records, _, _) = stored_by(_sends.records, send())
    with pytest.raises(ValueError, match="belong"):
        _sends.records(asked, [], memoryview(b""), MODEL, 0, [1], 1, run_of)
    with pytest.raises(TypeError, match="bytes"):
        _sends.records(asked, ["text"], memoryview(b""), MODEL, 0, [1], 1, run_of)
    with pytest.raises(ValueError, match="belong"):
        _sends.answers(asked, records * 2, b"", PARTS)
    with pytest.raises(TypeError, match="parts"):
        _sends.answers(asked, records, b"", PARTS[:4])
