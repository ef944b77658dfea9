"""The generated code is what commands.proto says. Read here without the compiler, which not everybody has."""

import re
from pathlib import Path

import pytest
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from penstock.wire.pulsar import commands_pb2
from penstock.wire.pulsar.commands_pb2 import BaseCommand
from penstock.wire.pulsar.frame import FIELDS

PROTO = Path(commands_pb2.__file__).with_name("commands.proto")
TOKENS = re.compile(r'"[^"]*"|-?[\w.]+|[{}=;\[\]]')
SCALARS = {
    number: name.removeprefix("TYPE_").lower() for name, number in vars(FieldDescriptor).items() if "TYPE_" in name[:5]
}


def described(text: str) -> dict[str, object]:
    """The messages and enums of a .proto, by their whole names: fields as (label, type, number, default)."""
    tokens = TOKENS.findall(re.sub(r"//.*", "", text))
    found: dict[str, object] = {}
    at = tokens.index("package") + 3
    while at < len(tokens):
        at = block(tokens, at, "", found)
    return found


def block(tokens: list[str], at: int, around: str, found: dict[str, object]) -> int:
    """One message or enum, from its keyword on; where the next begins."""
    kind, name = tokens[at], around + tokens[at + 1]
    at += 3
    own: dict[str, object] = {}
    found[name] = own
    while tokens[at] != "}":
        if tokens[at] in ("message", "enum"):
            at = block(tokens, at, f"{name}.", found)
        elif kind == "enum":
            own[tokens[at]] = int(tokens[at + 2])
            at += 4
        else:
            label, type_, field, _, number = tokens[at : at + 5]
            at += 5
            default = tokens[at + 3] if tokens[at] == "[" else None
            at += 6 if default is not None else 1
            own[field] = (label, type_, int(number), default)
    return at + 1


def compiled() -> dict[str, object]:
    found: dict[str, object] = {}
    for message in commands_pb2.DESCRIPTOR.message_types_by_name.values():
        add_message(message, found)
    for enum in commands_pb2.DESCRIPTOR.enum_types_by_name.values():
        add_enum(enum, found)
    return found


def short(descriptor: Descriptor | EnumDescriptor) -> str:
    return descriptor.full_name.removeprefix("penstock.wire.pulsar.")


def add_enum(enum: EnumDescriptor, found: dict[str, object]) -> None:
    found[short(enum)] = {value.name: value.number for value in enum.values}


def add_message(message: Descriptor, found: dict[str, object]) -> None:
    found[short(message)] = {field.name: facts(field) for field in message.fields}
    for enum in message.enum_types:
        add_enum(enum, found)


def facts(field: FieldDescriptor) -> tuple[str, str, int, str | None]:
    label = "repeated" if field.is_repeated else "required" if field.is_required else "optional"
    named = field.message_type or field.enum_type
    default = None
    if field.has_default_value:
        default = field.enum_type.values_by_number[field.default_value].name if field.enum_type else text(field)
    return label, named.name if named else SCALARS[field.type], field.number, default


def text(field: FieldDescriptor) -> str:
    return str(field.default_value).lower()


def test_the_generated_code_is_what_the_proto_says():
    assert compiled() == described(PROTO.read_text())


@pytest.mark.parametrize(
    ("written", "instead"),
    [
        ("required uint64 producer_id = 2;", "required uint64 producer_id = 20;"),
        ("optional int32 partition = 3 [default = -1];", "optional int32 partition = 3;"),
        ("repeated KeyValue properties = 4;", "optional KeyValue properties = 4;"),
        ("ProducerFenced = 25;", "ProducerFenced = 26;"),
        ("  optional CommandPing ping = 18;\n", ""),
    ],
)
def test_a_difference_would_be_seen(written, instead):
    changed = PROTO.read_text()
    assert written in changed
    assert compiled() != described(changed.replace(written, instead, 1))


def test_the_field_of_a_command_has_the_number_of_its_type():
    fields = {field.name: field.number for field in BaseCommand.DESCRIPTOR.fields if field.name != "type"}
    assert fields == {name: number for number, name in FIELDS.items()}
