"""The columns that every message has, and which of them are asked for.

`.schema(...)` chooses among them: a column that is not named is not decoded. With `valueFormat`, names that are not in
this table are columns of the body.

`properties` holds what has no column: a property that another column of the same read has is not there once more, and
neither is what clients and brokers write into every message for each other. Such pairs would be most of it.
"""

import difflib
from collections.abc import Collection

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
from penstock.wire.rocketmq import properties as props

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

MAY_BE_NULL = ("key", "tags")  # of all others Spark need not look, row by row
IN_COLUMNS = {"key": props.KEYS, "tags": props.TAGS, "message_id": props.UNIQ_KEY}
BETWEEN_THEM = (props.WAIT, props.CLUSTER, props.MSG_REGION, props.TRACE_ON)


def schema(properties: bool = False) -> StructType:
    """What a read without `.schema(...)` gives."""
    names = [name for name in COLUMNS if properties or name != PROPERTIES]
    return StructType([StructField(name, COLUMNS[name], nullable=name in MAY_BE_NULL) for name in names])


def left_out(names: Collection[str]) -> tuple[str, ...]:
    """Which properties the column `properties` does not hold beside these columns.

    >>> left_out(["tags", "properties"])
    ('TAGS', 'WAIT', 'CLUSTER', 'MSG_REGION', 'TRACE_ON')
    """
    return (*(name for column, name in IN_COLUMNS.items() if column in names), *BETWEEN_THEM)


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
