"""Pull answers to Arrow: beside the decoder that reads one record after the other, on anything that can be made up."""

import struct
import zlib
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.spark import columns, decode
from penstock.spark.decode import Decoder
from penstock.spark.ranges import Range
from penstock.spark.records import MAGIC_V2, BadRecords, records_in
from penstock.wire.rocketmq.record import HEADS, V6, Message, Record, length_of, message_in, messages_in

FROM, UNTIL = datetime(1970, 1, 1, tzinfo=UTC), 2**47
SOURCE = Range("orders", "broker-a", "127.0.0.1:10911", 3, 0, 2**40)
EVERYTHING = columns.arrow_schema(columns.schema(properties=True))

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x01\x02"), max_size=12)
PIECES = st.one_of(TEXT, st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "\x01", "\x02", "\x01\x02", "KEYS\x01a\x02"]))
PROPERTIES = st.one_of(
    st.lists(PIECES, max_size=8).map("".join),
    st.dictionaries(st.sampled_from(["KEYS", "TAGS", "UNIQ_KEY", "KEY", "x"]), TEXT, max_size=5).map(
        lambda found: "\x02".join(f"{name}\x01{value}" for name, value in found.items())
    ),
)


@st.composite
def records(draw: st.DrawFn) -> Record:
    sys_flag = draw(st.sampled_from([0, 0x10, 0x20, 0x30])) | draw(st.sampled_from([0, 0, 1]))
    body = draw(st.binary(max_size=40))
    made = Record(
        queue=1,
        length=0,
        topic=draw(st.sampled_from([b"", b"orders", b"t" * 127])),
        queue_index=3,
        body=zlib.compress(body) if sys_flag & 1 else body,
        properties=draw(PROPERTIES).encode(),
        sys_flag=sys_flag,
        born_ms=draw(st.integers(0, UNTIL)),
        born_host=draw(st.binary(min_size=20, max_size=20))[: 20 if sys_flag & 0x10 else 8],
        store_host=draw(st.binary(min_size=20, max_size=20))[: 20 if sys_flag & 0x20 else 8],
    )
    made.length = length_of(made)
    return made


def written(some: list[Record], first: int = 0) -> bytes:
    """As a broker answers a pull with them."""
    out = b""
    for at, record in enumerate(some):
        buffer = memoryview(bytearray(record.length))
        record.write_into(buffer, 0, 7, first + at, 1_700_000_000_000 + at)
        out += buffer
    return out


def simple(body: bytes = b"hello", properties: str = "", **others: object) -> Record:
    made = Record(queue=1, length=0, topic=b"orders", body=body, properties=properties.encode(), **others)
    made.length = length_of(made)
    return made


def second_version(record: bytes) -> bytes:
    """The same record as RocketMQ 5 writes it for long topics: two bytes for the topic's length."""
    (sys_flag,) = struct.unpack_from(">i", record, 36)
    (body_bytes,) = struct.unpack_from(">I", record, HEADS[sys_flag & V6].size - 4)
    at = HEADS[sys_flag & V6].size + body_bytes
    return struct.pack(">II", len(record) + 1, MAGIC_V2) + record[8:at] + b"\0" + record[at:]


def batches_of(data: bytes, schema: pa.Schema = EVERYTHING, source: Range = SOURCE) -> list[pa.RecordBatch]:
    found = list(Decoder(schema).batches(data, source))
    for batch in found:
        batch.validate(full=True)
        assert batch.schema.equals(schema)
    return found


def rows_of(data: bytes, schema: pa.Schema = EVERYTHING, source: Range = SOURCE) -> list[dict[str, object]]:
    return [row for batch in batches_of(data, schema, source) for row in batch.to_pylist()]


def expected(message: Message) -> dict[str, object]:
    opened = zlib.decompress(message.body) if message.sys_flag & 1 else message.body
    return {
        "topic": "orders",
        "queue": 3,
        "offset": message.offset,
        "key": message.properties.get("KEYS"),
        "tags": message.properties.get("TAGS"),
        "body": opened,
        "properties": sorted(message.properties.items()),
        "born_time": FROM + timedelta(milliseconds=message.born_ms),
        "store_time": FROM + timedelta(milliseconds=message.store_ms),
        "message_id": message.message_id,
        "broker": "broker-a",
    }


@settings(max_examples=300, deadline=None)
@given(st.lists(records(), max_size=12), st.booleans())
def test_columns_are_what_the_other_decoder_reads(some: list[Record], second: bool):
    data = written(some)
    wanted = [expected(message) for message in messages_in(memoryview(data))]
    if second:
        each = [message_in(memoryview(data), at).length for at in _starts(data)]
        parts = [data[at : at + size] for at, size in zip(_starts(data), each, strict=True)]
        data = b"".join(second_version(part) if at % 2 else part for at, part in enumerate(parts))
    found = rows_of(data)
    for row in found:
        row["properties"] = sorted(row["properties"])  # type: ignore[call-overload]
    assert found == wanted


def _starts(data: bytes) -> list[int]:
    at, found = 0, []
    while at < len(data):
        found.append(at)
        at += message_in(memoryview(data), at).length
    return found


def test_one_decoder_gives_each_range_its_own_names():
    """What all rows have in common is made once, and used again for as many rows as there are."""
    decoder = Decoder(EVERYTHING)
    other = Range("invoices", "broker-b", "127.0.0.1:10911", 4, 0, 2**40)
    for source, count in ((SOURCE, 3), (SOURCE, 5), (SOURCE, 1), (other, 2), (other, 4), (SOURCE, 4)):
        (batch,) = decoder.batches(written([simple()] * count), source)
        batch.validate(full=True)
        named = [batch.column(name).to_pylist() for name in ("topic", "queue", "broker")]
        assert named == [[source.topic] * count, [source.queue] * count, [source.broker] * count]


@settings(max_examples=400, deadline=None)
@given(st.lists(records(), min_size=1, max_size=5), st.data())
def test_bytes_that_lie_are_refused_or_read_within_their_bounds(some: list[Record], data: st.DataObject):
    """Any bytes changed, or the end cut off: rows whose columns are sound, or one error."""
    spoilt = bytearray(written(some))
    for at in data.draw(st.lists(st.integers(0, len(spoilt) - 1), min_size=1, max_size=6)):
        spoilt[at] = data.draw(st.sampled_from([0, 1, 2, 0x7F, 0x80, 0xFF]))
    del spoilt[data.draw(st.integers(0, len(spoilt))) :]
    with suppress(BadRecords):
        found = batches_of(bytes(spoilt))  # not as rows of Python's: its calendar ends with the year 9999
        assert sum(batch.num_rows for batch in found) <= len(some)


@pytest.mark.parametrize("length", [0, 1, 90, 2**31, 2**32 - 1])
def test_a_length_that_lies_is_refused(length: int):
    data = bytearray(written([simple(), simple()]))
    data[:4] = struct.pack(">I", length)
    with pytest.raises(BadRecords):
        records_in(bytes(data))


def test_a_body_that_is_longer_than_its_record_is_refused():
    data = bytearray(written([simple(), simple(), simple()]))
    data[84:88] = struct.pack(">I", 1_000)
    with pytest.raises(BadRecords, match="body is longer"):
        rows_of(bytes(data))


def test_only_what_is_asked_for_is_decoded(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delattr(decode, "Properties")
    for name in ("body", "message_id", "key", "tags"):
        monkeypatch.delitem(decode.MAKERS, name)
    schema = pa.schema([("offset", pa.int64()), ("queue", pa.int32())])
    assert rows_of(written([simple()], 5), schema) == [{"offset": 5, "queue": 3}]


def test_only_the_range_is_taken():
    data = written([simple(b"%d" % at) for at in range(10)], first=100)
    source = Range("orders", "broker-a", "", 3, 103, 106)
    assert [row["body"] for row in rows_of(data, source=source)] == [b"3", b"4", b"5"]
    assert rows_of(data, source=Range("orders", "broker-a", "", 3, 200, 300)) == []


def test_messages_out_of_order_are_refused():
    with pytest.raises(BadRecords, match="out of order"):
        rows_of(written([simple()], 5) + written([simple()], 4))


def test_of_two_properties_with_one_name_the_later_counts():
    many = [simple(properties="a\x011\x02b\x012\x02a\x013\x02"), simple(properties="b\x014")]
    assert [dict(row["properties"]) for row in rows_of(written(many))] == [{"a": "3", "b": "2"}, {"b": "4"}]


def test_many_names_are_told_apart():
    """More than there are bits in a number, and one twice."""
    texts = ["\x02".join(f"n{at}-{name}\x01v" for name in range(10)) for at in range(20)]
    texts.append("n0-0\x01first\x02n0-1\x01x\x02n0-0\x01last")
    found = [dict(row["properties"]) for row in rows_of(written([simple(properties=text) for text in texts]))]
    assert found[-1] == {"n0-0": "last", "n0-1": "x"}
    assert [len(each) for each in found[:-1]] == [10] * 20


def test_text_that_is_not_utf8_is_kept_and_mended():
    record = simple()
    record.properties = b"KEYS\x01a\xff\x02TAGS\x01b\x02"
    record.length = length_of(record)
    (row, _) = rows_of(written([record, simple()]))
    assert (row["key"], row["tags"]) == ("a\ufffd", "b")


def test_a_body_that_cannot_be_opened_comes_as_it_is():
    (row,) = rows_of(written([simple(b"not zlib", sys_flag=1)]))
    assert row["body"] == b"not zlib"


def test_bodies_that_grow_come_in_several_batches(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(decode, "OPENED_BYTES_MAX", 10_000)
    some = [simple(zlib.compress(bytes(4_000)), sys_flag=1) if at % 3 else simple() for at in range(20)]
    schema = pa.schema([("offset", pa.int64()), ("body", pa.binary())])
    found = list(Decoder(schema).batches(written(some), SOURCE))
    assert len(found) > 3
    rows = [row for batch in found for row in batch.to_pylist()]
    assert [row["offset"] for row in rows] == list(range(20))
    assert [len(row["body"]) for row in rows] == [4_000 if at % 3 else 5 for at in range(20)]


def test_other_tags_with_the_same_hash_are_left_out():
    some = [simple(properties=f"TAGS\x01{tag}") for tag in ("Aa", "BB", "Aa")]  # their hashes are equal
    some.append(simple())
    found = list(Decoder(EVERYTHING, frozenset({"Aa"})).batches(written(some), SOURCE))
    assert [row["offset"] for batch in found for row in batch.to_pylist()] == [0, 2]


def test_a_time_that_no_clock_has_is_cut():
    (row,) = next(
        Decoder(pa.schema([("born_time", pa.timestamp("us", tz="UTC"))])).batches(
            written([simple(born_ms=2**63 - 1)]), SOURCE
        )
    ).columns
    assert row.cast(pa.int64()).to_pylist() == [(2**63 - 1) // 1000 * 1000]


def test_nothing_is_no_rows():
    assert rows_of(b"") == []
    assert len(records_in(b"")) == 0


def test_a_great_many_at_once():
    """Far more than one step of anything: checked against arithmetic."""
    some = [simple(b"x" * (at % 50), f"KEYS\x01k{at}\x02TAGS\x01t{at % 3}\x02") for at in range(5_000)]
    (batch,) = Decoder(EVERYTHING).batches(written(some, 1_000), SOURCE)
    assert np.array_equal(batch["offset"].to_numpy(), np.arange(1_000, 6_000))
    assert batch["key"].to_pylist() == [f"k{at}" for at in range(5_000)]
    assert batch["tags"].to_pylist() == [f"t{at % 3}" for at in range(5_000)]
    assert [len(body) for body in batch["body"].to_pylist()] == [at % 50 for at in range(5_000)]
