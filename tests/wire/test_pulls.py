"""Ordinary pulls of a read: in Python and compiled they are the same, and whatever is odd is left to others."""

import os
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.compiled import built

from penstock.compiled import IN_USE
from penstock.wire.rocketmq.frame import BINARY, JSON, pack
from penstock.wire.rocketmq.pulls import front_in_python

_pulls = built("penstock.wire.rocketmq._pulls")
FRONTS = (front_in_python, _pulls.front)

NAMES = st.text("abcXYZ%-_|0", min_size=1, max_size=20)
NUMBERS = st.integers(-(10**17), 10**17)
EXT = {
    "queueId": 3,
    "maxMsgBytes": 262_144,
    "maxMsgNums": 32,
    "sysFlag": 3,
    "suspendTimeoutMillis": 15_000,
    "commitOffset": 64,
    "bname": "penstock",
    "topic": "orders",
    "queueOffset": 96,
    "expressionType": "TAG",
    "subVersion": 1_794_970_642_680,
    "consumerGroup": "readers",
}


def pull(opaque=1, body=b"", flag=0, code=11, form=JSON, version=513, **ext):
    fields = {name: str(value) for name, value in {**EXT, **ext}.items() if value is not None}
    return pack(code, opaque, flag, version, form, "", fields, body)


@st.composite
def some_pulls(draw):
    return [
        pull(
            draw(NUMBERS),
            version=draw(st.integers(0, 600)),
            queueId=draw(NUMBERS),
            maxMsgBytes=draw(st.sampled_from([None, 0, 262_144])),
            maxMsgNums=draw(st.sampled_from([None, -1, 32, 100_000])),
            sysFlag=draw(st.sampled_from([None, 0, 1, 2, 3])),
            suspendTimeoutMillis=draw(st.sampled_from([None, 0, 15_000])),
            commitOffset=draw(st.sampled_from([None, -1, 7])),
            topic=draw(NAMES),
            queueOffset=draw(NUMBERS),
            subVersion=draw(st.sampled_from([None, 0, 1_794_970_642_680])),
            consumerGroup=draw(NAMES),
            bname=draw(st.sampled_from([None, "broker-a"])),
        )
        for _ in range(draw(st.integers(1, 5)))
    ]


def found(front, data, at=0, end=None):
    return front(memoryview(data), at, len(data) if end is None else end)


def test_the_compiled_pulls_are_in_use():
    assert IN_USE["penstock.wire.rocketmq._pulls"] or os.environ.get("PENSTOCK_PURE")


@pytest.mark.parametrize("front", FRONTS)
def test_what_a_client_asks_is_what_is_found(front):
    first, second = pull(7), pull(8, queueId=0, maxMsgNums=None, maxMsgBytes=None, sysFlag=None, subVersion=None)
    before = b"something"
    one, other = found(front, before + first + second, len(before))
    end = len(before) + len(first)
    assert one == (end, 7, 513, "readers", "orders", 3, 96, 32, 262_144, 3, 64, 15_000, 1_794_970_642_680)
    assert other == (end + len(second), 8, 513, "readers", "orders", 0, 96, 32, 0, 0, 64, 15_000, 0)


@given(some_pulls())
def test_pulls_are_the_same_compiled_and_in_python(frames):
    data = b"".join(frames)
    slow, fast = (found(front, data) for front in FRONTS)
    assert slow == fast
    assert len(fast) == len(frames)
    assert fast[-1][0] == len(data)


@given(some_pulls(), st.integers(0, 400), st.binary(max_size=30))
def test_only_whole_frames_are_taken(frames, missing, behind):
    data = b"".join(frames)
    end = max(0, len(data) - missing)
    whole = [count for count in range(len(frames) + 1) if len(b"".join(frames[:count])) <= end]
    for front in FRONTS:
        assert len(found(front, data + behind, 0, end)) == whole[-1]


@given(some_pulls(), st.data())
def test_whatever_the_compiled_one_takes_is_taken_alike_in_python(frames, data):
    """It may take less: what is odd in form goes another way, and means the same there."""
    spoilt = bytearray(b"".join(frames))
    for _ in range(data.draw(st.integers(1, 4))):
        spoilt[data.draw(st.integers(0, len(spoilt) - 1))] = data.draw(st.integers(0, 255))
    slow, fast = (found(front, bytes(spoilt)) for front in FRONTS)
    assert slow[: len(fast)] == fast


ODD = {
    "an expression of its own": {"sysFlag": 7},
    "flags that are not known": {"sysFlag": 16},
    "what is not due yet, too": {"asStored": "true"},
    "no group": {"consumerGroup": None},
    "an empty group": {"consumerGroup": ""},
    "a long group": {"consumerGroup": "g" * 256},
    "no topic": {"topic": None},
    "an empty topic": {"topic": ""},
    "a long topic": {"topic": "t" * 128},
    "a topic beyond ASCII": {"topic": "é"},
    "no queue": {"queueId": None},
    "a queue that is no number": {"queueId": "one"},
    "no offset": {"queueOffset": None},
    "a longer number than there is": {"queueOffset": "9" * 30},
    "a body": {"body": b"x"},
    "an answer": {"flag": 1},
    "no answer wanted": {"flag": 2},
    "another request": {"code": 361},
    "the other form": {"form": BINARY},
}


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize("odd", ODD.values(), ids=ODD.keys())
def test_what_is_not_ordinary_is_left_alone(front, odd):
    assert found(front, pull(**odd)) == []
    assert len(found(front, pull() + pull(**odd) + pull())) == 1


@pytest.mark.parametrize("front", FRONTS)
@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: struct.pack(">I", 1 << 31) + data[4:],
        lambda data: data[:4] + struct.pack(">I", len(data)) + data[8:],
        lambda data: data[:4] + struct.pack(">I", 7 << 24) + data[8:],
        lambda data: data[:7],
        lambda data: b"",
        lambda data: data.replace(b'"version":513', b'"version":51\xff'),
        lambda data: data.replace(b'"language":"JAVA"', b'"language":"J\\x"'),
    ],
)
def test_frames_that_lie_are_left_alone(front, spoil):
    assert found(front, spoil(pull())) == []


@pytest.mark.parametrize(("at", "end"), [(0, 1), (-1, 0)])
def test_what_is_not_in_the_buffer_is_refused(at, end):
    with pytest.raises(ValueError, match="within"):
        _pulls.front(memoryview(b""), at, end)
