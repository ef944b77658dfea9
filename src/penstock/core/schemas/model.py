"""A schema as a topic has it: of a kind, with some data that the kind gives a meaning to."""

import enum

import msgspec

from penstock.errors import SchemaInvalid


class Kind(enum.StrEnum):
    """What a schema is of. The words are Pulsar's; BYTES is only ever a half of a key and value."""

    BYTES = "BYTES"
    STRING = "STRING"
    BOOLEAN = "BOOLEAN"
    INT8 = "INT8"
    INT16 = "INT16"
    INT32 = "INT32"
    INT64 = "INT64"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    DATE = "DATE"
    TIME = "TIME"
    TIMESTAMP = "TIMESTAMP"
    INSTANT = "INSTANT"
    LOCAL_DATE = "LOCAL_DATE"
    LOCAL_TIME = "LOCAL_TIME"
    LOCAL_DATE_TIME = "LOCAL_DATE_TIME"
    AVRO = "AVRO"
    JSON = "JSON"  # written as JSON; what is written is told by a schema of Avro
    PROTOBUF = "PROTOBUF"  # the same
    PROTOBUF_NATIVE = "PROTOBUF_NATIVE"
    KEY_VALUE = "KEY_VALUE"
    EXTERNAL = "EXTERNAL"  # is kept elsewhere: the data, if any, are nobody's here


OF_AVRO = frozenset({Kind.AVRO, Kind.JSON, Kind.PROTOBUF})
PRIMITIVE = frozenset(set(Kind) - OF_AVRO - {Kind.PROTOBUF_NATIVE, Kind.KEY_VALUE, Kind.EXTERNAL})


class Schema(msgspec.Struct, frozen=True):
    kind: Kind
    data: bytes = b""
    properties: dict[str, str] = {}

    @property
    def size_bytes(self) -> int:
        texts = sum(len(key.encode()) + len(value.encode()) for key, value in self.properties.items())
        return len(self.data) + texts


def kind_named(name: str) -> Kind:
    try:
        return Kind(name)
    except ValueError:
        raise SchemaInvalid(f"{name[:50]!r} is no kind of schema that is kept") from None
