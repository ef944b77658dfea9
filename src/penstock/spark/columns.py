"""The columns that every message has, and which of them are asked for.

`.schema(...)` chooses among them: a column that is not named is not decoded. With `valueFormat`, names that are not in
this table are columns of the body.
"""

import difflib

import pyarrow as pa
from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.errors import ConfigError

PROPERTIES = "properties"
CORRUPT = "_corrupt"  # a body that does not parse

COLUMNS: dict[str, DataType] = {
    "topic": StringType(),
    "queue": IntegerType(),
    "offset": LongType(),
    "key": StringType(),
    "tags": StringType(),
    "body": BinaryType(),
    PROPERTIES: MapType(StringType(), StringType()),
    "born_time": TimestampType(),
    "store_time": TimestampType(),
    "message_id": StringType(),
    "broker": StringType(),
}


def schema(properties: bool = False) -> StructType:
    """What a read without `.schema(...)` gives."""
    return StructType([StructField(name, kind) for name, kind in COLUMNS.items() if properties or name != PROPERTIES])


def check(wanted: StructType) -> None:
    """ConfigError unless each of these columns is one that messages have, with its type."""
    for field in wanted.fields:
        if field.name not in COLUMNS:
            near = difflib.get_close_matches(field.name, COLUMNS, 1)
            hint = f"did you mean {near[0]!r}?" if near else "a valueFormat would parse the body into columns"
            raise ConfigError(f"messages have no column {field.name!r}: {hint} There are: {', '.join(COLUMNS)}")
        check_type(field)


def check_type(field: StructField) -> None:
    """ConfigError unless a column of messages has this type."""
    kind = COLUMNS[field.name]
    if field.dataType != kind:
        told, known = field.dataType.simpleString(), kind.simpleString()
        raise ConfigError(f"column {field.name!r} is {known}, not {told}: cast it behind the read")


def arrow_schema(wanted: StructType) -> pa.Schema:
    """As Spark wants to get it: it compares it with this, exactly."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(wanted, timezone="UTC")
