"""Bodies as columns: `valueFormat` json, avro, string or binary.

Which columns: those of `valueSchema`, or those that `.schema(...)` names beside the columns of messages. A body that
does not parse loses nothing: its own columns are null and the body itself stands in `_corrupt`.

JSON is parsed by Arrow, all bodies of a batch at once. What it refuses is halved until the bodies that are to blame
stand alone. So that no body can pass for two, or for none, each is put into an object of its own on a line of its own:
a body cannot end its line before the object is closed (a line's end in a text is refused), and behind that the next
object has to begin. As many rows as bodies therefore means one row for each body.
"""

import functools
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyspark.sql.types import BinaryType, DataType, MapType, StringType, StructField, StructType

from penstock.errors import ConfigError
from penstock.spark import avro
from penstock.spark.columns import COLUMNS, CORRUPT, arrow_schema, check, check_type

JSON, AVRO, STRING, BINARY = "json", "avro", "string", "binary"
VALUE = "value"  # the column of a body that is not taken apart
PLAIN: dict[str, DataType] = {STRING: StringType(), BINARY: BinaryType()}

_OPENING, _CLOSING = b'{"v":', b"}\n"


# --- on the driver ----------------------------------------------------------------------------------------------------


def with_values(messages: StructType, value_format: str, value_schema: str) -> StructType | str:
    """The columns of messages and those of their bodies; as text when it takes Spark to read it."""
    if not value_format:
        return messages
    corrupt = StructField(CORRUPT, BinaryType())
    if value_format in PLAIN:
        return StructType([*messages.fields, StructField(VALUE, PLAIN[value_format]), corrupt])
    if not value_schema:
        what = "an Avro schema" if value_format == AVRO else 'one such as "id long, name string"'
        raise ConfigError(f"valueFormat {value_format} needs to know the columns: give valueSchema, {what}")
    if value_format == AVRO:
        return StructType([*messages.fields, *avro.spark_fields(value_schema), corrupt])
    own = [_ddl(field) for field in messages.fields]
    return ", ".join([*own, value_schema, f"`{CORRUPT}` binary"])


def _ddl(field: StructField) -> str:
    return f"`{field.name}` {field.dataType.simpleString()}{'' if field.nullable else ' NOT NULL'}"


def check_values(wanted: StructType, value_format: str, value_schema: str) -> None:
    """ConfigError unless all these columns can be had."""
    if not value_format:
        check(wanted)
        return
    names = wanted.fieldNames()
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ConfigError(
            f"column {twice[0]!r} is there twice: leave it out of valueSchema, since messages have one of that name"
        )
    for field in wanted.fields:
        if field.name in COLUMNS:
            check_type(field)
        elif field.name == CORRUPT and field.dataType != BinaryType():
            raise ConfigError(f"column {CORRUPT!r} holds bodies that do not parse: it is binary")
    _CHECKS[value_format](value_fields(wanted), value_schema)


def value_fields(wanted: StructType) -> StructType:
    """Those of the body."""
    return StructType([field for field in wanted.fields if field.name not in COLUMNS and field.name != CORRUPT])


def _check_json(fields: StructType, value_schema: str) -> None:
    for field in fields.fields:
        if _has_map(field.dataType):
            raise ConfigError(f"column {field.name!r} is a map, and objects of JSON are structs: name its fields")
    try:
        _parsed([b"{}"], _json_type(fields))
    except pa.ArrowException as error:
        raise ConfigError(f"JSON cannot be read into these columns: {error}") from None


def _has_map(kind: DataType) -> bool:
    inner = [field.dataType for field in kind.fields] if isinstance(kind, StructType) else []
    element = getattr(kind, "elementType", None)
    return isinstance(kind, MapType) or any(map(_has_map, [*inner, *([element] if element else [])]))


def _check_avro(fields: StructType, value_schema: str) -> None:
    if not value_schema:
        raise ConfigError("valueFormat avro needs the schema that bodies were written with: give valueSchema")
    known = {field.name: field.dataType for field in avro.spark_fields(value_schema)}
    for field in fields.fields:
        if field.name not in known:
            raise ConfigError(f"neither messages nor valueSchema have a column {field.name!r}: {', '.join(known)}")
        if field.dataType != known[field.name]:
            told, found = field.dataType.simpleString(), known[field.name].simpleString()
            raise ConfigError(f"column {field.name!r} is {found} in valueSchema, not {told}: cast it behind the read")


def _check_plain(kind: DataType) -> Callable[[StructType, str], None]:
    def run(fields: StructType, value_schema: str) -> None:
        for field in fields.fields:
            if field.name != VALUE or field.dataType != kind:
                known = f"{VALUE} {kind.simpleString()}"
                raise ConfigError(f"with this valueFormat the body is one column, {known!r}, and not {field.name!r}")

    return run


_CHECKS: dict[str, Callable[[StructType, str], None]] = {
    JSON: _check_json,
    AVRO: _check_avro,
    STRING: _check_plain(PLAIN[STRING]),
    BINARY: _check_plain(PLAIN[BINARY]),
}


# --- on executors -----------------------------------------------------------------------------------------------------

Parse = Callable[[pa.Array], pa.Array]  # of binary, to a struct; null where it does not parse


class Values:
    """Makes the columns of bodies. `corrupt` counts those that did not parse."""

    def __init__(self, parse: Parse) -> None:
        self._parse = parse
        self.corrupt = 0

    def columns(self, bodies: pa.Array) -> dict[str, pa.Array]:
        parsed = self._parse(bodies)
        failed = pc.is_null(parsed)
        self.corrupt += parsed.null_count
        columns = dict(zip(parsed.type.names, parsed.flatten(), strict=True))  # null where the struct is
        return columns | {CORRUPT: pc.if_else(failed, bodies, pa.scalar(None, pa.binary()))}


def values_for(wanted: StructType, value_format: str, value_schema: str) -> Values:
    """What parses bodies into those columns of a schema that are not of messages."""
    return Values(_PARSERS[value_format](value_fields(wanted), value_schema))


def _json_parser(fields: StructType, value_schema: str) -> Parse:
    kind, wanted = _json_type(fields), pa.struct(list(arrow_schema(fields)))

    def parse(bodies: pa.Array) -> pa.Array:
        pieces: list[pa.Array] = []
        _halving(bodies, kind, wanted, pieces)
        return pa.concat_arrays(pieces)

    return parse


def _halving(bodies: pa.Array, kind: pa.DataType, wanted: pa.DataType, out: list[pa.Array]) -> None:
    """Parse them all; when that fails, each half of them."""
    try:
        found = _parsed(bodies, kind).cast(wanted)
    except pa.ArrowInvalid:
        found = pa.nulls(len(bodies), wanted) if len(bodies) == 1 else None
    if found is not None and len(found) == len(bodies):
        out.append(found)
        return
    if len(bodies) == 1:  # one that says it is several
        out.append(pa.nulls(1, wanted))
        return
    middle = len(bodies) // 2
    _halving(bodies[:middle], kind, wanted, out)
    _halving(bodies[middle:], kind, wanted, out)


def _parsed(bodies: "pa.Array | list[bytes]", kind: pa.DataType) -> pa.Array:
    """As many rows as there are objects, and pa.ArrowInvalid for what is no JSON or not of this type."""
    text = _lines(bodies if isinstance(bodies, pa.Array) else pa.array(bodies, pa.binary()))
    if not len(text):
        return pa.nulls(0, kind)
    try:
        str(text.data, "utf-8")
    except UnicodeDecodeError:
        raise pa.ArrowInvalid("not UTF-8") from None
    table = pj.read_json(
        pa.BufferReader(pa.py_buffer(text)),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(text) + 1),
        parse_options=pj.ParseOptions(
            explicit_schema=pa.schema([("v", kind)]), unexpected_field_behavior="ignore", newlines_in_values=True
        ),
    )
    return table.column("v").combine_chunks()


def _lines(bodies: pa.Array) -> "np.typing.NDArray[np.uint8]":
    """Each in an object, on a line of its own."""
    opened = pc.binary_join_element_wise(
        pa.scalar(_OPENING, pa.binary()), bodies, pa.scalar(_CLOSING, pa.binary()), pa.scalar(b"", pa.binary())
    )
    ends = np.frombuffer(opened.buffers()[1], np.int32)[opened.offset : opened.offset + len(opened) + 1]
    return np.frombuffer(opened.buffers()[2] or b"", np.uint8)[int(ends[0]) : int(ends[-1])]


def _json_type(fields: StructType) -> pa.DataType:
    return _without_dates(pa.struct(list(arrow_schema(fields))))


def _without_dates(kind: pa.DataType) -> pa.DataType:
    """Arrow reads times from JSON, and no dates: those are read as times, and cast."""
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_dates(field.type)) for field in kind])
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_without_dates(kind.value_type)))
    return pa.timestamp("s") if pa.types.is_date(kind) else kind


def _string_parser(fields: StructType, value_schema: str) -> Parse:
    """UTF-8. Whole batches nearly always are; otherwise the bodies are looked at one by one."""

    def parse(bodies: pa.Array) -> pa.Array:
        try:
            texts = bodies.cast(pa.string())
        except pa.ArrowInvalid:
            texts = pa.array([_text(body) for body in bodies.to_pylist()], pa.string())
        return pa.StructArray.from_arrays([texts], [VALUE], mask=pc.is_null(texts))

    return parse


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def _binary_parser(fields: StructType, value_schema: str) -> Parse:
    return lambda bodies: pa.StructArray.from_arrays([bodies], [VALUE])


def _avro_parser(fields: StructType, value_schema: str) -> Parse:
    kind = pa.struct(list(arrow_schema(StructType(avro.spark_fields(value_schema)))))
    return functools.partial(_avro_parsed, avro.reader(value_schema), kind)


def _avro_parsed(read: avro.Read, kind: pa.DataType, bodies: pa.Array) -> pa.Array:
    found = [read(body) for body in bodies.to_pylist()]
    try:
        return pa.array(found, kind)
    except (pa.ArrowException, OverflowError):  # a value that its type has no room for
        return pa.concat_arrays([_fitting(one, kind) for one in found])


def _fitting(value: dict[str, object] | None, kind: pa.DataType) -> pa.Array:
    try:
        return pa.array([value], kind)
    except (pa.ArrowException, OverflowError):
        return pa.nulls(1, kind)


_PARSERS: dict[str, Callable[[StructType, str], Parse]] = {
    JSON: _json_parser,
    AVRO: _avro_parser,
    STRING: _string_parser,
    BINARY: _binary_parser,
}
