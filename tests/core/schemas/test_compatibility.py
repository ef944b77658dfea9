"""What may follow what, by kind and by strategy."""

import json

import pytest
from tests.core.schemas.test_avro import field, record

from penstock.core.schemas.compatibility import check, same, why_not, why_not_read
from penstock.core.schemas.model import PRIMITIVE, Kind, Schema
from penstock.core.schemas.pairs import ENCODING, halves, joined
from penstock.errors import SchemaInvalid
from penstock.model import SchemaStrategy as S


def of(kind, schema, **properties):
    return Schema(kind, json.dumps(schema).encode(), properties)


def avro(*fields, **more):
    return of(Kind.AVRO, record(*fields, **more))


def pair(key, value, encoding="INLINE"):
    kinds = {"key.schema.type": key.kind.value, "value.schema.type": value.kind.value, ENCODING: encoding}
    return Schema(Kind.KEY_VALUE, joined(key.data, value.data), kinds)


def native(root, descriptors="CgA="):
    return of(Kind.PROTOBUF_NATIVE, {"fileDescriptorSet": descriptors, "rootMessageTypeName": root})


A = avro(field("a", "int"))
A_AND_B = avro(field("a", "int"), field("b", "int"))  # reads nothing older; is read by A
A_AND_MAYBE_B = avro(field("a", "int"), field("b", "int", default=0))
MAYBE_A = avro(field("a", "int", default=0))
B = avro(field("b", "int"))
STRING = Schema(Kind.STRING)


# --- one --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", sorted(PRIMITIVE))
def test_primitives_have_no_data(kind):
    check(Schema(kind))
    check(Schema(kind, b"null"))  # from a client for Python
    with pytest.raises(SchemaInvalid):
        check(Schema(kind, b"{}"))


@pytest.mark.parametrize(
    "schema",
    [
        Schema(Kind.AVRO),
        Schema(Kind.AVRO, b"null"),
        of(Kind.AVRO, ["null", "int"]),
        of(Kind.AVRO, {"type": "object"}),
        Schema(Kind.JSON, b"nothing"),
        of(Kind.JSON, {"type": "R"}),
        of(Kind.JSON, [3]),
        Schema(Kind.PROTOBUF_NATIVE, b"{}"),
        Schema(Kind.PROTOBUF_NATIVE, b"[]"),
        of(Kind.PROTOBUF_NATIVE, {"rootMessageTypeName": "x"}),
        Schema(Kind.KEY_VALUE),
        Schema(Kind.KEY_VALUE, b"\0\0\0\1"),
        Schema(Kind.KEY_VALUE, b"\0\0\0\5abc\0\0\0\0"),
        Schema(Kind.KEY_VALUE, joined(b"", b"") + b"x"),
        Schema(Kind.KEY_VALUE, joined(b"", b""), {"key.schema.type": "KEY_VALUE"}),
        Schema(Kind.KEY_VALUE, joined(b"", b""), {"key.schema.type": "nothing"}),
        pair(Schema(Kind.AVRO, b"{}"), STRING),
    ],
)
def test_what_is_none_of_its_kind(schema):
    with pytest.raises(SchemaInvalid):
        check(schema)


def test_what_is_one():
    for schema in (A, of(Kind.AVRO, "int"), native("shop.Order"), pair(A, STRING), pair(STRING, STRING)):
        check(schema)
    check(of(Kind.JSON, {"type": "object", "id": "urn:x", "properties": {}}))  # the form before Avro's


def test_the_halves_of_a_key_and_value():
    assert halves(pair(STRING, A, "SEPARATED")) == (STRING, Schema(Kind.AVRO, A.data), "SEPARATED")
    none = Schema(Kind.KEY_VALUE, b"\xff\xff\xff\xff" * 2)
    assert halves(none) == (Schema(Kind.BYTES), Schema(Kind.BYTES), "INLINE")


# --- two --------------------------------------------------------------------------------------------------------------


def test_which_are_the_same():
    assert same(A, Schema(Kind.AVRO, json.dumps(json.loads(A.data) | {"doc": "x"}, indent=2).encode(), {"x": "y"}))
    assert not same(A, B)
    assert not same(A, Schema(Kind.JSON, A.data))
    assert same(STRING, Schema(Kind.STRING, b"null"))
    assert same(pair(A, STRING), pair(Schema(Kind.AVRO, A.data + b" "), STRING))
    assert not same(pair(A, STRING), pair(A, STRING, "SEPARATED"))
    assert not same(native("x"), native("y"))


# --- many -------------------------------------------------------------------------------------------------------------

EVOLVED = [  # old, new, and with which strategies that is allowed
    (A, A_AND_B, {S.FORWARD, S.FORWARD_TRANSITIVE}),
    (A_AND_B, A, {S.BACKWARD, S.BACKWARD_TRANSITIVE}),
    (A, A_AND_MAYBE_B, {S.BACKWARD, S.FORWARD, S.FULL, S.BACKWARD_TRANSITIVE, S.FORWARD_TRANSITIVE, S.FULL_TRANSITIVE}),
    (A, B, set()),
]


@pytest.mark.parametrize(("old", "new", "allowed"), EVOLVED)
def test_every_strategy(old, new, allowed):
    for strategy in set(S) - {S.ALWAYS_COMPATIBLE}:
        assert bool(why_not(new, [old], strategy)) == (strategy not in allowed), strategy
    assert why_not(new, [old], S.ALWAYS_COMPATIBLE) == []


@pytest.mark.parametrize("strategy", list(S))
def test_the_first_is_always_taken(strategy):
    assert why_not(A, [], strategy) == []


@pytest.mark.parametrize(
    ("strategy", "first", "second", "third"),
    [
        (S.BACKWARD, A, MAYBE_A, avro(field("b", "int", default=0))),
        (S.FORWARD, A_AND_B, A_AND_MAYBE_B, A),
    ],
)
def test_transitive_is_with_all_versions(strategy, first, second, third):
    """Each may follow the one before; the third does not go with the first where that counts."""
    others = [first, second]
    assert why_not(third, others, strategy) == []
    if strategy is S.FORWARD:
        assert why_not(third, others, S.FORWARD_TRANSITIVE)
    else:
        assert why_not(third, others, S.BACKWARD_TRANSITIVE) == []


def test_a_promotion_goes_one_way():
    int_, long_ = avro(field("a", "int")), avro(field("a", "long"))
    assert why_not(long_, [int_], S.BACKWARD) == []
    assert why_not(long_, [int_], S.FORWARD)
    assert why_not(int_, [long_], S.FULL)


@pytest.mark.parametrize("kind", [Kind.JSON, Kind.PROTOBUF])
def test_json_and_protobuf_are_compared_as_avro(kind):
    old, new = Schema(kind, A.data), Schema(kind, A_AND_B.data)
    assert why_not(new, [old], S.FORWARD) == []
    assert why_not(new, [old], S.BACKWARD)


def test_json_in_the_old_form_goes_with_any():
    old = of(Kind.JSON, {"type": "object", "id": "urn:x"})
    assert why_not(Schema(Kind.JSON, A.data), [old], S.FULL) == []
    assert why_not(old, [Schema(Kind.JSON, A.data)], S.FULL) == []


@pytest.mark.parametrize("kind", sorted(PRIMITIVE - {Kind.STRING}))
def test_another_kind_does_not_follow(kind):
    (why, *_) = why_not(Schema(kind), [STRING], S.FULL)
    assert "STRING" in why
    assert why_not(Schema(kind), [STRING], S.ALWAYS_COMPATIBLE) == []


def test_one_that_is_kept_elsewhere_goes_with_its_kind_alone():
    external = Schema(Kind.EXTERNAL)
    check(Schema(Kind.EXTERNAL, b"anything"))
    assert same(external, Schema(Kind.EXTERNAL))
    assert not same(external, Schema(Kind.EXTERNAL, b"x"))
    assert why_not(Schema(Kind.EXTERNAL, b"x"), [external], S.FULL) == []
    assert why_not(external, [A], S.FULL)
    assert why_not(STRING, [external], S.BACKWARD)
    assert why_not(pair(external, A), [pair(external, A)], S.FULL) == []
    assert why_not(pair(external, external), [pair(STRING, external)], S.FULL)


def test_a_key_and_value_has_two_halves():
    old = pair(STRING, A)
    assert why_not(pair(STRING, A_AND_MAYBE_B), [old], S.FULL) == []
    (why,) = why_not(pair(STRING, A_AND_B), [old], S.BACKWARD)
    assert "value" in why
    assert why_not(pair(Schema(Kind.INT32), A), [old], S.BACKWARD)
    assert why_not(pair(A, A_AND_B), [pair(A_AND_B, A)], S.BACKWARD)
    (why,) = why_not(pair(STRING, A, "SEPARATED"), [old], S.BACKWARD)
    assert "SEPARATED" in why


def test_protobuf_with_its_descriptors_keeps_its_message():
    assert why_not(native("shop.Order", "Cgw="), [native("shop.Order")], S.FULL) == []
    assert why_not(native("shop.Other"), [native("shop.Order")], S.FULL)


# --- who reads --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", [S.BACKWARD, S.FORWARD, S.FULL, S.FORWARD_TRANSITIVE])
def test_a_consumer_has_to_read_the_newest(strategy):
    assert why_not_read(A, [B, A_AND_B], strategy) == []
    assert why_not_read(A_AND_B, [A_AND_B, A], strategy)


def test_where_all_versions_count_they_count_for_consumers_too():
    assert why_not_read(A, [B, A_AND_B], S.BACKWARD_TRANSITIVE)
    assert why_not_read(A, [A_AND_B], S.BACKWARD_TRANSITIVE) == []
    assert why_not_read(A, [A_AND_B], S.FULL_TRANSITIVE)


def test_a_consumer_with_the_newest_itself():
    assert why_not_read(A, [B, A], S.ALWAYS_INCOMPATIBLE) == []
    assert why_not_read(B, [B, A], S.ALWAYS_INCOMPATIBLE)
    assert why_not_read(STRING, [B, A], S.ALWAYS_COMPATIBLE) == []


def test_so_many_and_so_large_that_they_are_not_compared():
    wide = [field(f"f{at}", "int", default=0) for at in range(3_000)]
    others = [avro(*wide, field(f"g{at}", "int", default=0)) for at in range(60)]
    (why,) = why_not(avro(*wide), others, S.FULL_TRANSITIVE)
    assert "too large to compare" in why
