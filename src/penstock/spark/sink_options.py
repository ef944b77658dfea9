"""What a write is asked to do: its options, and whether the columns of a DataFrame can become messages. Pure.

An option holds for all rows, whatever a column says. A column that nobody knows is refused with the nearest name that
there is, except those that a read gives and a write has no use for: a topic can be copied as it was read.
"""

import difflib
from collections.abc import Callable, Mapping

import msgspec
from pyspark.sql import types as spark

from penstock.errors import ConfigError
from penstock.spark.options import BATCH, Option, a_service, a_text, checked, is_pulsar, topic_names
from penstock.wire.rocketmq.staged import NAME_CHARS_MAX

DELAY_MS_MAX = (1 << 31) - 1  # what the wire has room for; a broker may allow less
QUEUE_MAX = 65_535
KEY_CHARS_MAX = NAME_CHARS_MAX - 40  # of a commit: more is put in front of it

TEXT = (spark.StringType, spark.VarcharType, spark.CharType)
OCTETS = (*TEXT, spark.BinaryType)
WHOLE = (spark.ByteType, spark.ShortType, spark.IntegerType, spark.LongType)
COLUMNS: dict[str, tuple[type[spark.DataType], ...]] = {
    "topic": TEXT,
    "key": OCTETS,
    "tags": TEXT,
    "body": OCTETS,
    "properties": (spark.MapType,),
    "queue": WHOLE,
    "delay_ms": WHOLE,
}
ONLY_READ = frozenset({"offset", "born_time", "store_time", "message_id", "broker"})


class SinkOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Pickled on its way to the executors."""

    service: str
    topic: str = ""
    key: str = ""
    tags: str = ""
    queue: int | None = None
    delay_ms: int = 0
    commit_key: str = ""


def one_topic(text: str) -> str:
    names = topic_names(text)
    if len(names) > 1:
        raise ValueError("give one topic; rows for several have a column topic")
    return names[0]


def _number(most: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        word = text.strip()
        if not (word.isascii() and word.isdecimal() and len(word) <= 18 and int(word) <= most):
            raise ValueError(f"it has to be a whole number from 0 to {most}")
        return int(word)

    return read


def commit_key(text: str) -> str:
    if not 0 < len(text) <= KEY_CHARS_MAX:
        raise ValueError(f"it has to be a text of 1 to {KEY_CHARS_MAX} characters")
    return text


WRITE_OPTIONS = (
    Option("service", a_service),
    Option("topic", one_topic),
    Option("key", a_text),
    Option("tags", a_text),
    Option("queue", _number(QUEUE_MAX)),
    Option("delayMs", _number(DELAY_MS_MAX)),
    Option("commitKey", commit_key, (BATCH,)),
)
_FIELDS = {"delayMs": "delay_ms", "commitKey": "commit_key"}


def sink_options(given: Mapping[str, str], kind: str, schema: spark.StructType) -> SinkOptions:
    """The options of a write; ConfigError says what is wrong with the first that is, or with the columns."""
    values = checked(given, _known(given), kind)
    if "service" not in values:
        raise ConfigError('the option service is missing: which cluster is to be written to? "rocketmq://host:port"')
    check_columns(schema)
    if "topic" not in values and "topic" not in schema.names:
        raise ConfigError("no topic is given: name one by the option topic, or have a column topic")
    return SinkOptions(**{_FIELDS.get(name, name): value for name, value in values.items()})  # type: ignore[arg-type]


def _known(given: Mapping[str, str]) -> tuple[Option, ...]:
    """All options, as the service understands them."""
    if not is_pulsar(given):
        return WRITE_OPTIONS
    from penstock.spark.pulsar.options import sink_options

    return sink_options(WRITE_OPTIONS)


def check_columns(schema: spark.StructType) -> None:
    for field in schema.fields:
        if field.name in ONLY_READ:
            continue
        kinds = COLUMNS.get(field.name)
        if kinds is None:
            raise ConfigError(f"the column {field.name} has no meaning in a message{_nearest(field.name)}")
        if not isinstance(field.dataType, kinds) or not _is_of_texts(field.dataType):
            raise ConfigError(
                f"the column {field.name} is of type {field.dataType.simpleString()}: {_wanted(field.name)}"
            )
    if "body" not in schema.names:
        raise ConfigError(
            "there is no column body, of type string or binary: every message needs one. "
            'For rows of several columns make one: to_json(struct("*")).alias("body")'
        )


def _is_of_texts(kind: spark.DataType) -> bool:
    return not isinstance(kind, spark.MapType) or (
        isinstance(kind.keyType, spark.StringType) and isinstance(kind.valueType, spark.StringType)
    )


def _wanted(name: str) -> str:
    if name == "properties":
        return "it has to be map<string,string>"
    return f"it has to be {' or '.join(dict.fromkeys(_NAMES[kind] for kind in COLUMNS[name]))}"


_NAMES: dict[type[spark.DataType], str] = {
    **dict.fromkeys(TEXT, "string"),
    spark.BinaryType: "binary",
    **dict.fromkeys(WHOLE, "a whole number (int or bigint)"),
}


def _nearest(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), COLUMNS, n=1, cutoff=0.65)
    return f": did you mean {near[0]}?" if near else f": leave it out; there are {', '.join(COLUMNS)}"
