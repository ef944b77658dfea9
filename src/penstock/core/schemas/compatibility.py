"""Whether data are a schema of their kind, whether two are the same, and whether one may follow others: by kind.

- Avro, JSON and Protobuf (whose data are schemas of Avro too): as `resolution.py` says
- a key and value: both halves, and the key is in the same place
- Protobuf with its own descriptors: the message is called the same, as with Pulsar; its fields are not looked at
- one that is kept elsewhere: whoever keeps it decides; it goes with others of that kind, and with nothing else
- all others have no data: being of the same kind is enough

A JSON schema in the form that clients had before Avro's is taken, and goes with any other.
"""

from collections.abc import Callable, Sequence
from typing import Any

from penstock.core.schemas import avro
from penstock.core.schemas.model import OF_AVRO, PRIMITIVE, Kind, Schema
from penstock.core.schemas.pairs import halves
from penstock.core.schemas.resolution import Budget, TooComplex, can_read
from penstock.errors import SchemaInvalid
from penstock.model import SchemaStrategy

CHECK_STEPS_MAX = 200_000  # for one schema with all that it has to go with

_ROOT = "rootMessageTypeName"
_NOTHING = (b"", b"null")  # a client for Python says null
_JSON_TYPES = ("object", "array", "string", "number", "integer", "boolean", "null", "any")

BACKWARD = frozenset({SchemaStrategy.BACKWARD, SchemaStrategy.BACKWARD_TRANSITIVE})
FORWARD = frozenset({SchemaStrategy.FORWARD, SchemaStrategy.FORWARD_TRANSITIVE})
FULL = frozenset({SchemaStrategy.FULL, SchemaStrategy.FULL_TRANSITIVE})
READS_NEWEST = FORWARD | {SchemaStrategy.BACKWARD, SchemaStrategy.FULL}
TRANSITIVE = frozenset(strategy for strategy in SchemaStrategy if strategy.endswith("_TRANSITIVE"))


# --- one schema -------------------------------------------------------------------------------------------------------


def check(schema: Schema) -> None:
    """Raises SchemaInvalid when the data are not of the kind."""
    try:
        _CHECKS.get(schema.kind, _check_primitive)(schema)
    except avro.AvroError as error:
        raise SchemaInvalid(str(error)) from None


def _check_primitive(schema: Schema) -> None:
    if schema.data not in _NOTHING:
        raise SchemaInvalid(f"one of {schema.kind} has no data, and this has {len(schema.data)} bytes")


def _check_avro(schema: Schema) -> None:
    node = avro.parsed(schema.data)
    if node.kind == avro.UNION and schema.kind is Kind.AVRO:
        raise SchemaInvalid("it is a union")


def _check_json(schema: Schema) -> None:
    if not _is_old_json(schema.data):
        _check_avro(schema)


def _is_old_json(data: bytes) -> bool:
    try:
        avro.parsed(data)
        return False
    except avro.AvroError:
        raw = avro.json_in(data)
        return isinstance(raw, dict) and raw.get("type") in _JSON_TYPES


def _check_pair(schema: Schema) -> None:
    key, value, _ = halves(schema)
    check(key)
    check(value)


def _check_native(schema: Schema) -> None:
    _root(schema)


def _root(schema: Schema) -> str:
    raw: Any = avro.json_in(schema.data)
    root = raw.get(_ROOT) if isinstance(raw, dict) else None
    if not isinstance(root, str) or not root or not isinstance(raw.get("fileDescriptorSet"), str):
        raise SchemaInvalid(f"it has no {_ROOT}, or no fileDescriptorSet")
    return root


_CHECKS: dict[Kind, Callable[[Schema], None]] = {
    Kind.AVRO: _check_avro,
    Kind.PROTOBUF: _check_avro,
    Kind.JSON: _check_json,
    Kind.PROTOBUF_NATIVE: _check_native,
    Kind.KEY_VALUE: _check_pair,
    Kind.EXTERNAL: lambda schema: None,
}


# --- two --------------------------------------------------------------------------------------------------------------


def same(one: Schema, other: Schema) -> bool:
    """Whether two schemas, which both are some, are one."""
    if one.kind is not other.kind:
        return False
    if one.kind in PRIMITIVE or one == other:
        return True
    if one.kind in OF_AVRO:
        return avro.form(one.data) == avro.form(other.data)
    if one.kind is Kind.KEY_VALUE:
        ours, theirs = halves(one), halves(other)
        return same(ours.key, theirs.key) and same(ours.value, theirs.value) and ours.encoding == theirs.encoding
    return one.data == other.data


def cannot_read(reader: Schema, writer: Schema, budget: Budget) -> list[str]:
    """Why what was written with one schema cannot be read with another."""
    if reader.kind is not writer.kind:
        return [f"it is of {reader.kind}, the topic's is of {writer.kind}"]
    if reader.kind in OF_AVRO:
        return _cannot_read_avro(reader, writer, budget)
    if reader.kind is Kind.KEY_VALUE:
        return _cannot_read_pair(reader, writer, budget)
    if reader.kind is Kind.PROTOBUF_NATIVE and _root(reader) != _root(writer):
        return [f"it is of message {_root(reader)[:100]!r}, the topic's is of {_root(writer)[:100]!r}"]
    return []


def _cannot_read_avro(reader: Schema, writer: Schema, budget: Budget) -> list[str]:
    if reader.kind is Kind.JSON and (_is_old_json(reader.data) or _is_old_json(writer.data)):
        return []
    return can_read(avro.parsed(reader.data), avro.parsed(writer.data), budget=budget)


def _cannot_read_pair(reader: Schema, writer: Schema, budget: Budget) -> list[str]:
    read, written = halves(reader), halves(writer)
    if read.encoding != written.encoding:
        return [f"its key is {read.encoding[:20]}, the topic's is {written.encoding[:20]}"]
    both = (("key", read.key, written.key), ("value", read.value, written.value))
    return [f"{half}: {why}" for half, one, other in both for why in cannot_read(one, other, budget)]


# --- many -------------------------------------------------------------------------------------------------------------


def why_not(schema: Schema, others: Sequence[Schema], strategy: SchemaStrategy) -> list[str]:
    """Why a schema cannot follow others, of which the last is the newest; empty when it can."""
    if strategy is SchemaStrategy.ALWAYS_COMPATIBLE or not others:
        return []
    if strategy not in BACKWARD | FORWARD | FULL:
        return [f"the strategy is {strategy}"]
    budget = Budget(CHECK_STEPS_MAX)
    try:
        for other in reversed(others if strategy in TRANSITIVE else others[-1:]):
            if found := _between(schema, other, strategy, budget):
                return found
    except TooComplex as error:
        return [str(error)]
    return []


def _between(schema: Schema, other: Schema, strategy: SchemaStrategy, budget: Budget) -> list[str]:
    found: list[str] = []
    if strategy in BACKWARD | FULL:
        found += [f"what was written cannot be read: {why}" for why in cannot_read(schema, other, budget)]
    if strategy in FORWARD | FULL:
        found += [f"what it writes could not be read: {why}" for why in cannot_read(other, schema, budget)]
    return found


def why_not_read(schema: Schema, others: Sequence[Schema], strategy: SchemaStrategy) -> list[str]:
    """Why a consumer cannot have a schema where a topic has others. For most strategies it has to be able to read the
    newest, as with Pulsar; for the others it is asked what a producer is asked. The newest itself is always taken.
    """
    if others and same(schema, others[-1]):
        return []
    return why_not(schema, others, SchemaStrategy.BACKWARD if strategy in READS_NEWEST else strategy)
