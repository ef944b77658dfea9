"""Reading with one schema what was written with another: the rules one by one, and all together on many pairs."""

import io
import itertools
import json
import random

import fastavro
import pytest
from fastavro.schema import SchemaParseException, UnknownType
from hypothesis import given
from hypothesis import strategies as st
from tests.core.schemas.generated import named_in, pair
from tests.core.schemas.test_avro import field, node, record

from penstock.core.schemas.avro import AvroError
from penstock.core.schemas.resolution import DEPTH_MAX, PROMOTED, Budget, TooComplex, can_read

PLAIN = ["null", "boolean", "int", "long", "float", "double", "bytes", "string"]
ENUM = {"type": "enum", "name": "E", "symbols": ["A", "B"]}
FIXED = {"type": "fixed", "name": "F", "size": 4}


def reads(reader, writer, **more):
    return not can_read(node(reader), node(writer), **more)


# --- one rule after the other -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reader", "writer"), list(itertools.product(PLAIN, PLAIN)))
def test_plain_types_are_promoted_and_nothing_else(reader, writer):
    assert reads(reader, writer) == (reader == writer or reader in PROMOTED.get(writer, ()))


def test_a_field_that_was_not_written_needs_a_default():
    old, new = record(field("a", "int")), record(field("a", "int"), field("b", "string"))
    assert can_read(node(new), node(old)) == ["the type itself: 'b' is not written, and has no default"]
    assert reads(old, new)
    assert reads(record(field("a", "int"), field("b", "string", default="")), old)
    assert reads(record(field("a", "int"), field("b", ["null", "string"], default=None)), old)


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("int", "3"),
        ("int", True),
        ("null", 3),
        ("string", None),
        (["null", "int"], 3),
        ([], None),
        (ENUM, "C"),
        ({"type": "array", "items": "int"}, ["x"]),
        ({"type": "map", "values": "int"}, {"x": "y"}),
        (record(field("x", "int"), name="In"), {}),
        (record(field("x", "int"), name="In"), {"x": "y"}),
    ],
)
def test_a_default_that_is_none_of_its_type_is_no_default(kind, default):
    (why,) = can_read(node(record(field("b", kind, default=default))), node(record()))
    assert why.startswith("b: it is not written")


@pytest.mark.parametrize(
    ("kind", "default"),
    [
        ("double", 3),
        ("bytes", "\u00ff"),
        (FIXED, "abcd"),
        (ENUM, "A"),
        (["int", "null"], 3),
        ({"type": "array", "items": "int"}, [1, 2]),
        ({"type": "map", "values": ENUM}, {"x": "A"}),
        (record(field("x", "int"), field("y", "int", default=1), name="In"), {"x": 3}),
    ],
)
def test_a_default_that_is_one(kind, default):
    assert reads(record(field("b", kind, default=default)), record())


def test_fields_are_matched_by_name_and_alias_not_by_place():
    writer = record(field("a", "int"), field("b", "string"))
    assert reads(record(field("b", "string"), field("a", "int")), writer)
    assert reads(record(field("x", "string", aliases=["b"]), field("a", "int")), writer)
    assert not reads(record(field("x", "string", aliases=["c"])), writer)
    (why,) = can_read(node(record(field("x", "int", aliases=["b"]))), node(writer))
    assert why == "x: string is written, int is expected"


def test_aliases_that_make_two_fields_one():
    writer = record(field("a", "int"), field("b", "int"))
    assert not reads(record(field("a", "int", aliases=["b"])), writer)


def test_records_in_one_place_may_be_called_differently():
    assert reads(record(field("a", "int"), name="User2"), record(field("a", "int"), name="User1"))


def test_enums_and_fixed_are_known_by_their_names():
    assert reads(ENUM, {**ENUM, "namespace": "elsewhere"})
    assert not reads(ENUM, {**ENUM, "name": "Other"})
    assert reads({**ENUM, "aliases": ["Other"]}, {**ENUM, "name": "Other"})
    assert not reads(FIXED, {**FIXED, "size": 5})
    assert not reads(FIXED, {**FIXED, "name": "Other"})
    assert not reads(FIXED, ENUM)


def test_symbols_that_a_reader_does_not_have():
    more = {**ENUM, "symbols": ["A", "B", "C"]}
    assert reads(ENUM, more)
    assert not reads(ENUM, more, symbols=True)
    assert reads({**ENUM, "default": "A"}, more, symbols=True)
    assert reads(more, ENUM, symbols=True)


def test_unions():
    assert reads(["null", "int"], "int")
    assert reads("long", ["int", "long"])
    assert not reads("int", ["null", "int"])
    assert not reads(["null", "string"], ["null", "int"])
    assert reads(["null", "double"], ["null", "int", "float"])
    assert not reads([], "int")
    assert reads(["null", "string"], ["string", "null"])
    assert reads(["null", "bytes"], "string")


def test_a_branch_of_a_union_is_known_by_its_whole_name_or_what_it_looks_like():
    one, two = record(field("a", "int"), name="n.One"), record(field("b", "int"), name="n.Two")
    assert reads(["null", one, two], one)
    assert reads(["null", one], record(field("a", "int"), name="elsewhere.Like"))
    assert not reads(["null", one], record(field("b", "int"), name="elsewhere.Unlike"))
    assert not reads(["null", ENUM], {**ENUM, "namespace": "elsewhere"})
    assert reads(["null", ENUM], ["null", {**ENUM, "namespace": "elsewhere"}])


def test_records_that_are_in_themselves():
    def tree(value, name="Tree", **more):
        return record(
            field("value", value, **more), field("left", ["null", name]), field("right", ["null", name]), name=name
        )

    assert reads(tree("long"), tree("int"))
    assert can_read(node(tree("int")), node(tree("long"))) == ["value: long is written, int is expected"]
    assert not reads(tree("string"), record(field("left", ["null", "Tree"]), field("right", "null"), name="Tree"))
    two = record(field("to", ["null", record(field("back", ["null", "One"]), name="Two")]), name="One")
    assert reads(two, two)


def test_what_is_wrong_is_named_where_it_is():
    inner = record(field("d", "int"), name="Inner")
    writer = record(field("a", {"type": "array", "items": {"type": "map", "values": inner}}))
    reader = json.loads(json.dumps(writer).replace('"int"', '"boolean"'))
    assert can_read(node(reader), node(writer)) == ["a.[].[].d: int is written, boolean is expected"]


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_two_that_are_too_deep_to_compare():
    """Each record has the one before as a field: nothing is nested, and all of it is deep."""

    def chain(kind):
        links = [record(field("x", kind), name="L0")]
        links += [record(field("x", f"L{at}"), name=f"L{at + 1}") for at in range(DEPTH_MAX + 1)]
        return node(record(*(field(f"f{at}", link) for at, link in enumerate(links)))).fields

    assert can_read(chain("long")[10].type, chain("int")[10].type) == []
    with pytest.raises(TooComplex):
        can_read(chain("long")[-1].type, chain("int")[-1].type)


def test_defaults_that_are_many():
    """Each record has the next twice, with a default that leaves the rest to its fields."""
    kind = record(field("x", "int", default=1), name="D0")
    for at in range(30):
        inner = field("a", kind, default={}), field("b", f"D{at}", default={})
        kind = record(*inner, name=f"D{at + 1}")
    with pytest.raises(TooComplex):
        can_read(node(record(field("all", kind, default={}))), node(record()))


def test_a_budget_is_shared():
    wide = record(*(field(f"f{at}", "int") for at in range(100)))
    one, other, budget = node(wide), node({**wide, "name": "S"}), Budget(250)
    assert can_read(one, other, budget=budget) == []
    assert can_read(one, other, budget=budget) == []
    with pytest.raises(TooComplex):
        can_read(one, other, budget=budget)


# --- many pairs -------------------------------------------------------------------------------------------------------


def nodes(schemas):
    try:
        return tuple(node(schema) for schema in schemas)
    except AvroError:
        return None


@given(st.integers(0, 10**9))
def test_a_schema_reads_itself_also_when_it_is_written_down_twice(number):
    schema, _ = pair(number)
    both = nodes([schema, {**schema, "doc": "the same"}])
    if both:
        assert can_read(*both, symbols=True) == []


def value_of(kind, seed, depth=0):
    """Something that can be written; what is in itself ends after a while."""
    if kind.kind == "union":
        plain = [each for each in kind.branches if each.kind != "record"]
        return value_of(seed.choice(plain if depth > 3 and plain else kind.branches), seed, depth + 1)
    if kind.kind == "record":
        return {each.name: value_of(each.type, seed, depth + 1) for each in kind.fields}
    if kind.items is not None:
        inner = [value_of(kind.items, seed, depth + 1) for _ in range(0 if depth > 3 else 2)]
        return inner if kind.kind == "array" else dict(zip("ab", inner, strict=False))
    if kind.kind in ("enum", "fixed"):
        return seed.choice(kind.symbols) if kind.symbols else b"x" * kind.size
    return {"bytes": b"b", "null": None, "boolean": True, "string": "s"}.get(kind.kind, 7)


def names_in(schema):
    return {(each["name"], each.get("namespace")) for each in named_in(schema, "record")}


@given(st.integers(0, 10**9))
def test_what_can_be_read_is_read(number):
    """By fastavro, whatever is written. It wants records to be called the same, and takes aliases of fields where they
    are not: only pairs whose records are called the same are asked about.
    """
    reader, writer = pair(number)
    both = nodes([reader, writer])
    if both is None or can_read(*both, symbols=True) or names_in(reader) != names_in(writer):
        return
    try:
        write, read = fastavro.parse_schema(writer), fastavro.parse_schema(reader)
    except (SchemaParseException, UnknownType):  # of defaults that nobody needs, and names outside of a namespace
        return
    seed = random.Random(number)
    try:
        values = [value_of(both[1], seed) for _ in range(5)]
    except RecursionError:  # a record that is in itself without a way out has no values
        return
    for value in values:
        data = io.BytesIO()
        fastavro.schemaless_writer(data, write, value)
        data.seek(0)
        fastavro.schemaless_reader(data, write, read)
        assert not data.read()
