"""Bodies as columns: what parses, what does not and stays, and what cannot be asked for."""

import io
import json
from decimal import Decimal

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.errors import ConfigError
from penstock.spark import columns
from penstock.spark.values import check_values, values_for, with_values

ORDER = StructType(
    [
        StructField("id", LongType()),
        StructField("name", StringType()),
        StructField("price", DoubleType()),
        StructField("at", TimestampType()),
        StructField("day", DateType()),
        StructField(
            "lines", ArrayType(StructType([StructField("item", StringType()), StructField("due", DateType())]))
        ),
    ]
)
AVRO = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "attributes", "type": {"type": "map", "values": "int"}},
        {"name": "lines", "type": {"type": "array", "items": "string"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "amount", "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2}},
    ],
}


def parsed(kind: str, fields: StructType, bodies: list[bytes], schema: str = "") -> list[dict[str, object]]:
    values = values_for(fields, kind, schema)
    found = values.columns(pa.array(bodies, pa.binary()))
    for column in found.values():
        column.validate(full=True)
    rows = pa.table(found).to_pylist()
    assert values.corrupt == sum(row["_corrupt"] is not None for row in rows)
    return rows


def corrupt(rows: list[dict[str, object]]) -> list[object]:
    return [row["_corrupt"] for row in rows]


# --- json -------------------------------------------------------------------------------------------------------------


def test_json_becomes_columns():
    body = {
        "id": 7,
        "name": "ä",
        "price": 2.5,
        "at": "2026-01-31T12:00:00Z",
        "day": "2026-01-31",
        "lines": [{"item": "x", "due": "2026-02-01"}],
        "more": [1],
    }
    (row,) = parsed("json", ORDER, [json.dumps(body, indent=1).encode()])
    assert (row["id"], row["name"], row["price"], row["_corrupt"]) == (7, "ä", 2.5, None)
    assert row["at"].isoformat() == "2026-01-31T12:00:00+00:00"
    assert row["day"].isoformat() == "2026-01-31"
    assert [(line["item"], line["due"].isoformat()) for line in row["lines"]] == [("x", "2026-02-01")]


def test_fields_that_are_missing_are_null():
    (row,) = parsed("json", ORDER, [b"{}"])
    assert set(row.values()) == {None}


BAD = [b"", b"5", b"null", b"[]", b"{", b'{"id":"text"}', b'{"id":1.5}', b'{"name":"\xff"}', b'{"id":1}x', b"\x00"]
TRICKS = [b'{"id":1}} {"v":{"id":2}', b'{"id":1}{"id":2}', b'{"id":1}\n{"id":2}', b'{"name":"x', b'y"}', b'{"id":1}}\n']


@pytest.mark.parametrize("body", [*BAD, *TRICKS])
def test_what_does_not_parse_stays_and_harms_no_other(body: bytes):
    good = [b'{"id":%d}' % at for at in range(20)]
    rows = parsed("json", ORDER, [*good[:9], body, *good[9:]])
    assert [row["id"] for row in rows] == [*range(9), None, *range(9, 20)]
    assert corrupt(rows) == [None] * 9 + [body] + [None] * 11


@settings(deadline=None, max_examples=200)
@given(st.lists(st.one_of(st.sampled_from([*BAD, *TRICKS, b'{"id":3}', b"{}"]), st.binary(max_size=30)), max_size=12))
def test_any_bodies_keep_their_places(bodies: list[bytes]):
    """Each body alone is the measure of it among others."""
    fields = StructType([StructField("id", LongType())])
    assert parsed("json", fields, bodies) == [row for body in bodies for row in parsed("json", fields, [body])]


# --- avro -------------------------------------------------------------------------------------------------------------


def written(**fields: object) -> bytes:
    out = io.BytesIO()
    whole = {"id": 1, "name": None, "attributes": {}, "lines": [], "at": 0, "amount": Decimal(0), **fields}
    fastavro.schemaless_writer(out, fastavro.parse_schema(AVRO), whole)
    return out.getvalue()


def avro_fields(schema: object = AVRO) -> StructType:
    both = with_values(columns.schema(), "avro", json.dumps(schema))
    assert isinstance(both, StructType)
    return StructType([field for field in both if field.name not in columns.COLUMNS and field.name != "_corrupt"])


def test_avro_becomes_columns():
    body = written(id=9, name="n", attributes={"a": 1}, lines=["x", "y"], at=1_769_860_800_000, amount=Decimal("12.50"))
    (row,) = parsed("avro", avro_fields(), [body], json.dumps(AVRO))
    assert (row["id"], row["name"], row["attributes"], row["lines"]) == (9, "n", [("a", 1)], ["x", "y"])
    assert (row["at"].isoformat(), row["amount"]) == ("2026-01-31T12:00:00+00:00", Decimal("12.50"))
    kinds = {field.name: field.dataType for field in avro_fields()}
    assert (kinds["attributes"].simpleString(), kinds["amount"]) == ("map<string,int>", DecimalType(8, 2))


def test_avro_that_does_not_parse_stays():
    good, bad = written(), [b"", b"\xff" * 30, written() + b"x", written()[:-1]]
    rows = parsed("avro", avro_fields(), [good, *bad, good], json.dumps(AVRO))
    assert corrupt(rows) == [None, *bad, None]


def test_a_value_that_its_type_has_no_room_for_stays():
    schema = {"type": "record", "name": "R", "fields": [{"name": "at", "type": {"type": "long"}}]}
    schema["fields"][0]["type"]["logicalType"] = "timestamp-millis"
    out = io.BytesIO()
    fastavro.schemaless_writer(
        out, {"type": "record", "name": "R", "fields": [{"name": "at", "type": "long"}]}, {"at": 2**62}
    )
    rows = parsed("avro", avro_fields(schema), [out.getvalue()], json.dumps(schema))
    assert corrupt(rows) == [out.getvalue()]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ("no json", "not an Avro schema"),
        ("{}", "not an Avro schema"),
        ('"string"', "schema of a record"),
        ({"name": "x", "type": ["int", "string"]}, "a union in R has 2 types"),
        ({"name": "x", "type": "null"}, "no such type"),
        ({"name": "x", "type": {"type": "array", "items": {"type": "record", "name": "E", "fields": []}}}, "no bytes"),
        ({"name": "x", "type": {"type": "fixed", "name": "F", "size": 0}}, "no bytes"),
        ({"name": "x", "type": ["null", "R"]}, "it holds itself"),
    ],
)
def test_an_avro_schema_that_cannot_be_columns_is_refused(schema: object, why: str):
    text = schema if isinstance(schema, str) else json.dumps({"type": "record", "name": "R", "fields": [schema]})
    with pytest.raises(ConfigError, match=why):
        with_values(columns.schema(), "avro", text)


# --- string and binary ------------------------------------------------------------------------------------------------


def test_texts_are_one_column():
    fields = StructType([StructField("value", StringType())])
    rows = parsed("string", fields, [b"a", b"\xff", "ä".encode()])
    assert [(row["value"], row["_corrupt"]) for row in rows] == [("a", None), (None, b"\xff"), ("ä", None)]


def test_bytes_are_one_column():
    rows = parsed("binary", StructType([StructField("value", BinaryType())]), [b"a", b"\xff"])
    assert [row["value"] for row in rows] == [b"a", b"\xff"]


# --- what is asked for ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "fields", "why"),
    [
        ("", [StructField("id", LongType())], "no column 'id'"),
        ("json", [StructField("m", MapType(StringType(), LongType()))], "is a map"),
        ("json", [StructField("key", StringType()), StructField("key", LongType())], "twice"),
        ("json", [StructField("body", StringType())], "'body' is binary, not string"),
        ("json", [StructField("_corrupt", StringType())], "it is binary"),
        ("string", [StructField("text", StringType())], "the body is one column, 'value string'"),
        ("avro", [StructField("id", LongType())], "give valueSchema"),
    ],
)
def test_columns_that_cannot_be_had_are_refused(kind: str, fields: list[StructField], why: str):
    with pytest.raises(ConfigError, match=why):
        check_values(StructType(fields), kind, "")


def test_json_needs_to_know_the_columns():
    with pytest.raises(ConfigError, match="give valueSchema"):
        with_values(columns.schema(), "json", "")


def test_an_avro_column_of_another_type_is_refused():
    with pytest.raises(ConfigError, match="'id' is bigint in valueSchema, not string"):
        check_values(StructType([StructField("id", StringType())]), "avro", json.dumps(AVRO))
