"""JSON as Java writes it."""

import contextlib

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.rocketmq.bodies import QueueName, with_table
from penstock.wire.rocketmq.fastjson import FastjsonError, loads, table

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 40), 1 << 40) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_plain_json_is_read_as_such(value):
    assert loads(msgspec.json.encode(value)) == value


def test_bare_numbers_are_keys():
    assert loads(b'{"brokerAddrs":{0:"127.0.0.1:10911",1:"x"}}') == {"brokerAddrs": {"0": "127.0.0.1:10911", "1": "x"}}


@given(st.lists(st.tuples(st.text(max_size=8), st.integers(0, 9), st.text(max_size=8), st.integers()), max_size=5))
def test_objects_are_keys(rows):
    pairs = {QueueName(broker, queue, topic): value % 1_000 for broker, queue, topic, value in rows}
    found = table(loads(with_table("offsetTable", pairs.items())), "offsetTable")
    assert {msgspec.json.decode(key, type=QueueName): value for key, value in found.items()} == pairs


def test_what_java_prints_prettily_is_read_too():
    text = b'{\n\t"offsetTable":{{\n\t\t\t"brokerName":"b",\n\t\t\t"queueId":1,\n\t\t\t"topic":"t"\n\t\t}:6\n\t}\n}'
    [(key, value)] = table(loads(text), "offsetTable").items()
    assert (msgspec.json.decode(key), value) == ({"brokerName": "b", "queueId": 1, "topic": "t"}, 6)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"{{}",
        b"{1}",
        b'{"a":}',
        b"[1,",
        b"{:1}",
        b"\xff",
        b'{"a":"\xff"}',
        b"{1:" + b"[" * 500 + b"]" * 500 + b"}",
        b"[" * 99_999,
    ],
)
def test_what_is_no_json_at_all_is_refused(text):
    with pytest.raises(FastjsonError):
        loads(text)


@given(st.text('{}[],:"\\ab01 \n', max_size=40))
def test_garbage_is_refused_and_nothing_else(text):
    with contextlib.suppress(FastjsonError):
        loads(text.encode())
