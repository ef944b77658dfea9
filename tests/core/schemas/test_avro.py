"""Avro's schemas: what is one, what is none, and what is the same one."""

import json

import pytest

from penstock.core.schemas import avro
from penstock.core.schemas.avro import NO_DEFAULT, AvroError, form, parsed


def node(schema):
    return parsed(json.dumps(schema).encode())


def record(*fields, name="R", **more):
    return {"type": "record", "name": name, "fields": list(fields), **more}


def field(name, kind, **more):
    return {"name": name, "type": kind, **more}


def test_a_record_with_all_there_is():
    found = node(
        record(
            field("a", "int", default=3, aliases=["old"]),
            field("b", ["null", {"type": "array", "items": "string"}]),
            field("c", {"type": "map", "values": {"type": "enum", "name": "E", "symbols": ["X", "Y"], "default": "X"}}),
            field("d", {"type": "fixed", "name": "other.F", "size": 16}),
            field("e", "E"),
            field("f", {"type": "int", "logicalType": "date"}),
            namespace="shop",
            aliases=["Q", "far.Away"],
        )
    )
    assert (found.name, found.short_name, found.aliases) == ("shop.R", "R", ("shop.Q", "far.Away"))
    a, b, c, d, e, f = found.fields
    assert (a.type.kind, a.default, a.aliases, b.default) == ("int", 3, ("old",), NO_DEFAULT)
    assert [branch.label for branch in b.type.branches] == ["null", "array"]
    assert (c.type.items.name, c.type.items.symbols, c.type.items.default) == ("shop.E", ("X", "Y"), "X")
    assert (d.type.name, d.type.size) == ("other.F", 16)
    assert e.type is c.type.items
    assert f.type.kind == "int"


def test_a_record_may_be_in_itself():
    found = node(record(field("next", ["null", "R"])))
    assert found.fields[0].type.branches[1] is found


def test_a_name_without_a_namespace_is_found_from_within_one():
    inner = record(field("x", "Plain"), name="n.Inner")
    found = node(record(field("p", {"type": "enum", "name": "Plain", "symbols": []}), field("i", inner)))
    assert found.fields[1].type.fields[0].type is found.fields[0].type


@pytest.mark.parametrize(
    "schema",
    [
        3,
        None,
        {},
        "R",
        {"type": 3},
        {"type": "record"},
        {"type": "record", "name": "R"},
        {"type": "record", "name": "R", "fields": [3]},
        record(field("a", "int"), field("a", "int")),
        record(field("1a", "int")),
        record(field("a b", "int")),
        record(field("", "int")),
        record({"name": "a"}),
        record(field("a", record(name="R"))),
        record(name=""),
        record(name=3),
        record(namespace=3),
        record(field("a", "int", aliases="b")),
        {"type": "enum", "name": "E", "symbols": ["A", "A"]},
        {"type": "enum", "name": "E", "symbols": ["A"], "default": "B"},
        {"type": "enum", "name": "E"},
        {"type": "fixed", "name": "F", "size": -1},
        {"type": "fixed", "name": "F", "size": True},
        {"type": "fixed", "name": "int", "size": 1},
        {"type": "array"},
        {"type": "map", "values": "nothing"},
        ["int", "int"],
        ["int", ["null"]],
        [{"type": "array", "items": "int"}, {"type": "array", "items": "long"}],
    ],
)
def test_what_is_no_schema(schema):
    with pytest.raises(AvroError):
        node(schema)


@pytest.mark.parametrize("data", [b"", b"{", b"\xff", b'{"type": }', b"[" * 100_000])
def test_what_is_no_json(data):
    with pytest.raises(AvroError):
        parsed(data)


def test_how_deep_and_how_large_it_may_be():
    deep = "int"
    for _ in range(avro.DEPTH_MAX):
        deep = {"type": "array", "items": deep}
    assert node(deep).kind == "array"
    with pytest.raises(AvroError, match="too deep"):
        node({"type": "array", "items": deep})
    with pytest.raises(AvroError, match="too deep or too large"):
        node(record(*(field(f"f{number}", "int") for number in range(avro.NODES_MAX))))


def test_documentation_and_layout_make_no_difference():
    plain = record(field("a", "int"))
    told = record(field("a", {"type": "int"}, doc="the first"), doc="all of it")
    assert form(json.dumps(plain).encode()) == form(json.dumps(told, indent=3, sort_keys=True).encode())


@pytest.mark.parametrize(
    "other",
    [
        record(field("a", "long")),
        record(field("b", "int")),
        record(field("a", "int", default=1)),
        record(field("a", {"type": "int", "logicalType": "date"})),
        record(field("a", "int"), name="S"),
    ],
)
def test_everything_else_does(other):
    assert form(json.dumps(record(field("a", "int"))).encode()) != form(json.dumps(other).encode())


def test_documentation_in_a_default_is_a_value():
    def one(text):
        return json.dumps(record(field("a", {"type": "map", "values": "string"}, default={"doc": text}))).encode()

    assert form(one("x")) != form(one("y"))
