"""Rows to messages without Spark: bytes, queues, properties, and what is refused."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as spark

from penstock.errors import ConfigError
from penstock.spark.rows import RESERVED, BadRows, batch, java_hashes, packed
from penstock.spark.sink_options import COLUMNS, WRITE_OPTIONS, SinkOptions, check_columns, sink_options
from penstock.spark.splitting import rows_in
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.batch import run_of
from penstock.wire.rocketmq.record import Record, java_hash, messages_in
from penstock.wire.rocketmq.staged import Expected, columns_of, runs_in

BORN, STORE = b"\x7f\0\0\1\0\0\0\1", b"\x7f\0\0\1\0\0\0\2"
ORDERS = SinkOptions(service="localhost:9876", topic="orders")
MAP = pa.map_(pa.string(), pa.string())
QUEUES = 4
EXPECTED = Expected(b"orders", QUEUES, BORN, STORE, b"TRACE_ON\x01true\x02", 1 << 20, 1 << 20)


def table(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def rows_of(batch: pa.RecordBatch, options: SinkOptions = ORDERS, turn: int = 0):
    return list(rows_in(batch, options, lambda topic: QUEUES, turn))


def messages_of(batch: pa.RecordBatch, options: SinkOptions = ORDERS):
    """As the broker publishes what was made for it, decoded by the client's code."""
    (rows,) = rows_of(batch, options)
    return [message for run in taken(packed(rows)) for message in messages_in(run.records())]


def taken(made, expected: Expected = EXPECTED):
    """By the broker, which trusts nobody."""
    return runs_in(memoryview(columns_of(17, made.columns) + bytes(made.bodies) + bytes(made.properties)), expected)


# --- bytes ------------------------------------------------------------------------------------------------------------

text = st.text(st.characters(exclude_characters="\x01\x02", exclude_categories=["Cs"]), max_size=8)
maps = st.lists(st.tuples(text, text), max_size=3, unique_by=lambda pair: pair[0])


@given(
    st.lists(
        st.tuples(st.binary(min_size=1, max_size=20), st.none() | text, st.none() | text, st.none() | maps), min_size=1
    )
)
def test_a_row_is_a_message_whatever_it_holds(values):
    """Decoded by the client's code, and taken by the broker's, which trusts nobody."""
    bodies, keys, tags, maps = (list(column) for column in zip(*values, strict=True))
    found = messages_of(
        table(
            body=pa.array(bodies, pa.binary()),
            key=pa.array(keys, pa.string()),
            tags=pa.array(tags, pa.string()),
            properties=pa.array(maps, MAP),
        )
    )
    expected = []
    for body, key, tag, pairs in values:
        own = {name: value for name, value in pairs or [] if name and value and name not in RESERVED}
        known = {name: value for name, value in (("KEYS", key), ("TAGS", tag)) if value}
        expected.append((body, {**known, **own, "TRACE_ON": "true"}))
    assert sorted((message.body, sorted(message.properties.items())) for message in found) == sorted(
        (body, sorted(properties.items())) for body, properties in expected
    )
    assert all(message.sound and message.topic == "orders" and message.born_ms == 17 for message in found)


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=20), st.none() | text), min_size=1))
def test_the_broker_takes_what_is_made_for_it(values):
    bodies, tags = zip(*values, strict=True)
    (rows,) = rows_of(table(body=pa.array(bodies, pa.binary()), tags=pa.array(tags, pa.string())))
    runs = taken(packed(rows))
    found = [message for run in runs for message in messages_in(run.records())]
    marks = [mark for run in runs for mark in run.spans().tags.tolist()]
    assert marks == [java_hash(message.properties.get("TAGS", "")) for message in found]
    assert sorted(message.body for message in found) == sorted(bodies)
    assert {message.store_host for message in found} == {STORE}


def test_hosts_of_sixteen_bytes():
    (rows,) = rows_of(table(body=pa.array([b"a", b"b"])))
    expected = EXPECTED._replace(born_host=bytes(range(20)), store_host=bytes(range(1, 21)))
    (first, second) = [m for run in taken(packed(rows), expected) for m in messages_in(run.records())]
    assert (first.body, second.body, first.sys_flag) == (b"a", b"b", 0x30)
    assert (first.born_host, second.store_host) == (bytes(range(20)), bytes(range(1, 21)))


def test_a_batch_for_rocketmq_comes_apart_as_a_broker_takes_it_apart():
    (rows,) = rows_of(table(body=pa.array(["one", "two"]), key=pa.array(["k", None]), tags=pa.array([None, "t"])))
    run = run_of(Record(queue=1, length=0, topic=b"orders"), memoryview(batch(rows).data), b"")
    stored = memoryview(bytearray(run.length))
    run.write_into(stored, 0, 1, 0, 0)
    found = {message.body: message.properties for message in messages_in(stored)}
    assert (found[b"one"]["KEYS"], found[b"two"]["TAGS"], len(found)) == ("k", "t", 2)


def test_parts_of_a_batch_that_was_sliced():
    whole = table(
        body=pa.array(["a", "bb", "ccc", "dddd"]), properties=pa.array([[("n", "1")], None, [("n", "3")], []], MAP)
    )
    found = messages_of(whole.slice(1, 2))
    assert [(message.body, message.properties.get("n")) for message in found] == [(b"bb", None), (b"ccc", "3")]


def test_what_belongs_to_clients_and_brokers_is_not_copied():
    given = [("UNIQ_KEY", "id"), ("CLUSTER", "other"), ("KEYS", "old"), ("colour", "red"), ("DELAY", "3")]
    (message,) = messages_of(table(body=pa.array([b"x"]), key=pa.array(["new"]), properties=pa.array([given], MAP)))
    assert message.properties == {"KEYS": "new", "colour": "red", "TRACE_ON": "true"}


def test_pieces_are_as_large_as_they_may_be():
    (rows,) = rows_of(table(body=pa.array([bytes(100)] * 10 + [bytes(5_000)])))
    made = packed(rows)
    pieces = list(made.cut(1_000))
    assert b"".join(bytes(piece.bodies) for piece in pieces) == bytes(made.bodies)
    assert np.concatenate([piece.columns[1] for piece in pieces]).tolist() == made.columns[1].tolist()
    assert all(len(piece.bodies) <= 1_000 or len(piece) == 1 for piece in pieces)
    assert len(pieces) == 2
    assert all(len(set(piece.queue.tolist())) == 1 for piece in batch(rows).cut(1_000))


def test_pieces_have_the_properties_of_their_rows():
    (rows,) = rows_of(
        table(body=pa.array(["a", "bb", "ccc"]), key=pa.array(["x" * 90, "y", "z" * 90]), queue=pa.array([0, 0, 0]))
    )
    pieces = list(packed(rows).cut(106))
    assert [(bytes(piece.bodies), len(piece.properties)) for piece in pieces] == [(b"abb", 103), (b"ccc", 96)]


# --- queues -----------------------------------------------------------------------------------------------------------


@given(st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=80)))
def test_hashes_are_javas(values):
    found = java_hashes(pa.array([None if value is None else value.encode() for value in values], pa.binary()))
    assert found.tolist() == [java_hash(value or "") for value in values]


def test_rows_of_one_key_go_to_one_queue_and_the_one_that_the_client_takes():
    keys = [f"key-{number % 50}" for number in range(500)]
    found = messages_of(table(body=pa.array([str(n) for n in range(500)]), key=pa.array(keys)))
    assert all(message.queue_index == abs(java_hash(message.properties["KEYS"])) % QUEUES for message in found)
    of_one = [int(message.body) for message in found if message.properties["KEYS"] == "key-7"]
    assert of_one == sorted(of_one)


def test_rows_without_a_key_are_spread_evenly():
    queues = [message.queue_index for message in messages_of(table(body=pa.array(["x"] * 103)))]
    assert [queues.count(queue) for queue in range(QUEUES)] == [26, 26, 26, 25]
    first = {rows_of(table(body=pa.array(["x"])), turn=turn)[0].queue[0] for turn in range(QUEUES)}
    assert first == set(range(QUEUES))


def test_a_column_says_the_queue_and_where_it_is_null_the_key_does():
    columns = {"body": pa.array(["a", "b", "c"]), "key": pa.array(["k", "k", "k"])}
    found = messages_of(table(queue=pa.array([3, None, 0], pa.int32()), **columns))
    by_key = abs(java_hash("k")) % QUEUES
    assert {message.body: message.queue_index for message in found} == {b"a": 3, b"b": by_key, b"c": 0}
    fixed = SinkOptions(service="s:1", topic="orders", queue=2)
    assert {message.queue_index for message in messages_of(table(**columns), fixed)} == {2}


def test_topics_by_column_and_delays_apart():
    found = rows_of(
        table(
            topic=pa.array(["b", "a", "b", "b"]),
            body=pa.array(["1", "2", "3", "4"]),
            delay_ms=pa.array([None, 5, 7, -1], pa.int64()),
        ),
        SinkOptions(service="s:1"),
    )
    told = [
        (rows.topic, sorted(rows.body.to_pylist()), None if rows.delay_ms is None else rows.delay_ms.tolist())
        for rows in found
    ]
    assert told == [("b", [b"1", b"4"], None), ("b", [b"3"], [7]), ("a", [b"2"], [5])]


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"body": pa.array(["a", None])}, "null for its body"),
        ({"body": pa.array(["a", ""])}, "an empty body"),
        ({"body": pa.array(["a"]), "queue": pa.array([4])}, "queues 0 to 3, not 4"),
        ({"body": pa.array(["a"]), "queue": pa.array([-1])}, "queues 0 to 3, not -1"),
        ({"body": pa.array(["a", "b"]), "queue": pa.array([None, -2])}, "not -2"),
        ({"body": pa.array(["a"]), "delay_ms": pa.array([1 << 31])}, "2147483647 are the most"),
        ({"body": pa.array(["a"]), "key": pa.array(["a\x01b"])}, "the column key holds a character 1 or 2"),
        ({"body": pa.array(["a"]), "properties": pa.array([[("a", "\x02")]], MAP)}, "a property's value"),
        ({"body": pa.array(["a"]), "key": pa.array(["k" * props.BYTES_MAX])}, "has room for 32767"),
    ],
)
def test_rows_that_cannot_be_messages(columns, why):
    with pytest.raises(BadRows, match=why):
        messages_of(table(**columns))


def test_a_row_without_a_topic():
    with pytest.raises(BadRows, match="null for its topic"):
        rows_of(table(body=pa.array(["a"]), topic=pa.array([None], pa.string())), SinkOptions(service="s:1"))


def schema(**columns: spark.DataType) -> spark.StructType:
    return spark.StructType([spark.StructField(name, kind) for name, kind in columns.items()])


TEXT, INT, OCTETS, TIME = spark.StringType(), spark.IntegerType(), spark.BinaryType(), spark.TimestampType()


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"key": TEXT}, "no column body"),
        ({"body": INT}, "body is of type int: it has to be string or binary"),
        ({"body": TEXT, "queue": TEXT}, "queue is of type string: it has to be a whole number"),
        ({"body": TEXT, "properties": spark.MapType(TEXT, INT)}, r"it has to be map<string,string>"),
        ({"body": TEXT, "tag": TEXT}, "did you mean tags"),
        ({"body": TEXT, "price": INT}, "leave it out"),
    ],
)
def test_columns_that_cannot_be_messages(columns, why):
    with pytest.raises(ConfigError, match=why):
        check_columns(schema(**columns))


def test_what_was_read_can_be_written():
    texts = dict.fromkeys(("topic", "key", "tags", "message_id", "broker"), TEXT)
    times = dict.fromkeys(("born_time", "store_time"), TIME)
    properties = spark.MapType(TEXT, TEXT)
    check_columns(schema(**texts, **times, queue=INT, offset=spark.LongType(), body=OCTETS, properties=properties))


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"topic": "t"}, "service is missing"),
        ({"service": "localhost:1"}, "no topic is given"),
        ({"service": "localhost:1", "topic": "a,b"}, "give one topic"),
        ({"service": "localhost:1", "topic": "t", "queue": "-1"}, "a whole number from 0"),
        ({"service": "localhost:1", "topic": "t", "delay": "5"}, "did you mean delayMs"),
        ({"service": "localhost:1", "topic": "t", "commitKey": "x" * 300}, "1 to 215 characters"),
    ],
)
def test_options_that_cannot_be(options, why):
    with pytest.raises(ConfigError, match=why):
        sink_options(options, "batch", schema(body=TEXT))


def test_a_key_of_a_commit_has_no_meaning_in_a_stream():
    given = {"service": "localhost:1", "topic": "t", "commitkey": "x"}
    assert sink_options(given, "batch", schema(body=TEXT)).commit_key == "x"
    with pytest.raises(ConfigError, match="no meaning in a stream"):
        sink_options(given, "stream", schema(body=TEXT))


def test_marks_of_delays():
    (rows,) = rows_of(table(body=pa.array(["a"]), delay_ms=pa.array([1_500])))
    assert packed(rows).columns[-1].tolist() == [1_500]
    assert isinstance(rows.delay_ms, np.ndarray)


def test_every_option_and_column_is_documented():
    text = (Path(__file__).parents[2] / "docs" / "spark.md").read_text(encoding="utf-8")
    writing = text[text.index("## Reference: writing") :]
    assert [name for name in (*COLUMNS, *(option.name for option in WRITE_OPTIONS)) if f"`{name}`" not in writing] == []
