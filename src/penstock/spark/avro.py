"""Avro: the columns of a record's schema, and bodies that were written with it (the bare record, without a header).

What a schema promises is checked before any body is read: Spark has no recursive types, and an array whose items take
no bytes lets a body of ten bytes claim any number of them.
"""

import io
import json
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from penstock.errors import ConfigError

Schema = Any  # what JSON gives: a name, a list, or an object
Read = Callable[[bytes], dict[str, object] | None]

_PRIMITIVES: dict[str, DataType] = {
    "boolean": BooleanType(),
    "int": IntegerType(),
    "long": LongType(),
    "float": FloatType(),
    "double": DoubleType(),
    "bytes": BinaryType(),
    "string": StringType(),
    "enum": StringType(),
    "fixed": BinaryType(),
}
_LOGICAL: dict[str, DataType] = {
    "date": DateType(),
    "timestamp-millis": TimestampType(),
    "timestamp-micros": TimestampType(),
    "local-timestamp-millis": TimestampNTZType(),
    "local-timestamp-micros": TimestampNTZType(),
    "uuid": StringType(),
}
_DECIMAL_DIGITS_MAX = 38


def spark_fields(text: str) -> list[StructField]:
    """The columns of a schema. ConfigError when it is none, or none that Spark has types for."""
    kind = _kind(_parsed(text), {}, ())
    if not isinstance(kind, StructType):
        raise ConfigError("valueSchema has to be the Avro schema of a record: its fields become columns")
    return kind.fields


def reader(text: str) -> Read:
    """Reads bodies; None for one that was not written with this schema, or does not end where it should."""
    import fastavro

    schema = fastavro.parse_schema(_parsed(text))
    plain = _plain(_kind(_parsed(text), {}, ()))

    def read(body: bytes) -> dict[str, object] | None:
        stream = io.BytesIO(body)
        try:
            found = fastavro.schemaless_reader(stream, schema, None)
            return plain(found) if stream.tell() == len(body) else None
        except Exception:  # noqa: BLE001  # whatever hostile bytes make the library raise: it did not parse
            return None

    return read


def _parsed(text: str) -> Schema:
    import fastavro  # here, and not above: who reads no Avro need not wait for it

    try:
        schema = json.loads(text)
        fastavro.parse_schema(schema)
    except (ValueError, RecursionError, TypeError, KeyError, fastavro.schema.SchemaParseException) as error:
        raise ConfigError(f"valueSchema is not an Avro schema: {error!s:.200}") from None
    return schema


def _kind(schema: Schema, named: dict[str, DataType | None], inside: tuple[str, ...]) -> DataType:
    """The type of a schema. `named` has those that were given a name before; None while they are being made."""
    if isinstance(schema, list):
        return _union(schema, named, inside)
    if isinstance(schema, str):
        return _by_name(schema, named, inside)
    kind = schema["type"]
    if isinstance(kind, (dict, list)):
        return _kind(kind, named, inside)
    if "name" in schema:
        inside = (*inside, schema["name"])
        named[_full_name(schema)] = named[schema["name"]] = None
    made = _MADE.get(kind, _plain_one)(schema, named, inside)
    if "name" in schema:
        named[_full_name(schema)] = named[schema["name"]] = made
    return made


def _full_name(schema: Mapping[str, str]) -> str:
    namespace = schema.get("namespace", "")
    return f"{namespace}.{schema['name']}" if namespace else schema["name"]


def _by_name(name: str, named: dict[str, DataType | None], inside: tuple[str, ...]) -> DataType:
    if name in _PRIMITIVES and name not in ("enum", "fixed"):
        return _PRIMITIVES[name]
    made = named.get(name)
    if made is None:
        why = "it holds itself" if name in named else "Spark has no such type"
        raise ConfigError(f"valueSchema cannot be columns: {name!r} in {'.'.join(inside) or 'it'}: {why}")
    return made


def _union(schemas: list[Schema], named: dict[str, DataType | None], inside: tuple[str, ...]) -> DataType:
    others = [schema for schema in schemas if schema != "null"]
    if len(others) != 1:
        raise ConfigError(
            f"valueSchema cannot be columns: a union in {'.'.join(inside) or 'it'} has {len(others)} types besides null"
        )
    return _kind(others[0], named, inside)


def _record(schema: Schema, named: dict[str, DataType | None], inside: tuple[str, ...]) -> DataType:
    return StructType([StructField(field["name"], _kind(field["type"], named, inside)) for field in schema["fields"]])


def _array(schema: Schema, named: dict[str, DataType | None], inside: tuple[str, ...]) -> DataType:
    element = _kind(schema["items"], named, inside)
    if not (isinstance(schema["items"], list) or _takes_bytes(element)):  # of a union, which of them it is takes one
        raise ConfigError(f"valueSchema cannot be read safely: items of an array in {'.'.join(inside)} take no bytes")
    return ArrayType(element)


def _takes_bytes(kind: DataType) -> bool:
    return not isinstance(kind, StructType) or any(_takes_bytes(field.dataType) for field in kind.fields)


def _map(schema: Schema, named: dict[str, DataType | None], inside: tuple[str, ...]) -> DataType:
    return MapType(StringType(), _kind(schema["values"], named, inside))


def _plain_one(schema: Schema, named: dict[str, DataType | None], inside: tuple[str, ...]) -> DataType:
    logical = schema.get("logicalType")
    if schema["type"] == "fixed" and not schema.get("size"):
        raise ConfigError(f"valueSchema cannot be read safely: {schema.get('name')!r} takes no bytes")
    if logical == "decimal" and schema["type"] in ("bytes", "fixed"):
        precision = int(schema.get("precision", 0))
        if not 0 < precision <= _DECIMAL_DIGITS_MAX:
            raise ConfigError(f"valueSchema cannot be columns: a decimal of {precision} digits, and Spark has 38")
        return DecimalType(precision, int(schema.get("scale", 0)))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    kind = _PRIMITIVES.get(schema["type"])
    return kind if kind is not None else _by_name(schema["type"], named, inside)


_MADE: dict[str, Callable[[Schema, dict[str, DataType | None], tuple[str, ...]], DataType]] = {
    "record": _record,
    "array": _array,
    "map": _map,
}


# --- values as Arrow takes them ---------------------------------------------------------------------------------------

Plain = Callable[[Any], Any]


def _plain(kind: DataType) -> Plain:
    """What turns what the library reads into what Arrow takes: maps into pairs, ids into text."""
    if isinstance(kind, StructType):
        inner = {field.name: _plain(field.dataType) for field in kind.fields}
        return lambda value: None if value is None else {name: each(value[name]) for name, each in inner.items()}
    if isinstance(kind, ArrayType):
        item = _plain(kind.elementType)
        return lambda value: None if value is None else [item(one) for one in value]
    if isinstance(kind, MapType):
        item = _plain(kind.valueType)
        return lambda value: None if value is None else [(name, item(one)) for name, one in value.items()]
    if isinstance(kind, StringType):
        return lambda value: None if value is None else str(value)
    return lambda value: value
