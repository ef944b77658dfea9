"""Frames: bytes to commands, commands to bytes. Sans-IO and plural: all frames of one read at once.

    u32 length of what follows | u32 length of the command | command | payload, with sends and messages only

A command is a protobuf `BaseCommand`: a type, and the field that belongs to it, which is what a `Frame` carries. A
length is checked against the limits before anything is allocated; a command has a limit of its own, since a parser
makes many bytes out of few. What cannot be read, or has a type that is not known, loses the framing's meaning:
`FrameError`, and the connection has to be closed.
"""

import struct
from typing import Any

import msgspec
from google.protobuf.message import DecodeError, Message

from penstock.wire.framing import FrameError
from penstock.wire.pulsar.commands_pb2 import BaseCommand
from penstock.wire.pulsar.hot_pb2 import Send

MESSAGE_BYTES_MAX = 5 * 1024 * 1024  # unless another limit is told when a connection begins
SLACK_BYTES = 10 * 1024  # what a frame may have beyond the limit of a message: clients count only a part of it
COMMAND_BYTES_MAX = 1024 * 1024

LENGTHS = struct.Struct(">II")
_TYPES = BaseCommand.Type.DESCRIPTOR.values_by_number
# A type's field has the type's own number.
FIELDS = {number: BaseCommand.DESCRIPTOR.fields_by_number[number].name for number in _TYPES}
_FIRST = min(_TYPES)  # what a type reads as when it is missing or not known

_decode, _decode_send = BaseCommand.FromString, Send.FromString

# Hot: a send whose command begins as every client writes it, with its type, then the tag and the length of its field.
ABSENT = (1 << 64) - 1
_LENGTHS_AND_TAGS = struct.Struct(">III")
_SEND = BaseCommand.SEND
_SEND_TAGS = 0x08_06_32_00 - 4  # the length is that of the command without these 4 bytes
_SEND_BYTES_MAX = 4 + 128  # as long as it is one byte


class Frame(msgspec.Struct, gc=False):
    """One command. `payload` is a view into the receive buffer, valid until the handler returns."""

    type: int
    body: Any  # the command's own message: CommandLookupTopic, ...; of a send that of hot.proto
    payload: memoryview


def frames_in(view: memoryview, end: int, frame_bytes_max: int) -> tuple[list[Frame], int]:
    """All complete frames in `view[:end]`, and how many bytes they take."""
    frames: list[Frame] = []
    at, unpack, add = 0, _LENGTHS_AND_TAGS.unpack_from, frames.append
    while end - at >= 12:
        length, command_bytes, tags = unpack(view, at)
        if length > frame_bytes_max or length < 4 + command_bytes or command_bytes > COMMAND_BYTES_MAX:
            raise _not_taken(length, command_bytes, frame_bytes_max)
        behind = at + 4 + length
        if behind > end:
            return frames, at
        payload_at = at + 8 + command_bytes
        if tags - command_bytes == _SEND_TAGS and command_bytes < _SEND_BYTES_MAX:
            add(Frame(_SEND, _send(view[at + 12 : payload_at]), view[payload_at:behind]))
        else:
            add(_frame(view[at + 8 : payload_at], view[payload_at:behind]))
        at = behind
    if end - at >= 8:  # the lengths, and perhaps a type
        length, command_bytes = LENGTHS.unpack_from(view, at)
        if length > frame_bytes_max or length < 4 + command_bytes or command_bytes > COMMAND_BYTES_MAX:
            raise _not_taken(length, command_bytes, frame_bytes_max)
        if 4 + length <= end - at:
            add(_frame(view[at + 8 : at + 8 + command_bytes], view[at + 8 + command_bytes : at + 4 + length]))
            at += 4 + length
    return frames, at


def _not_taken(length: int, command_bytes: int, frame_bytes_max: int) -> FrameError:
    return FrameError(
        f"a frame of {length} bytes with a command of {command_bytes}: "
        f"at most {frame_bytes_max} and {COMMAND_BYTES_MAX} are taken"
    )


def _send(packed: memoryview) -> Send:
    """Hot: a send is read by hot.proto."""
    try:
        send: Send = _decode_send(packed)
    except DecodeError as error:
        raise FrameError(f"a command cannot be read: {error}") from None
    if send.sequence_id == ABSENT or send.producer_id == ABSENT:
        for name in ("producer_id", "sequence_id"):
            if not send.HasField(name):
                raise FrameError(f"a command of type {_SEND} lacks {name}")
    return send


def _frame(command: memoryview, payload: memoryview) -> Frame:
    try:
        decoded = _decode(command)
    except DecodeError as error:
        raise FrameError(f"a command cannot be read: {error}") from None
    kind = decoded.type
    if kind == _FIRST and not decoded.HasField("type"):
        raise FrameError("a command has no type, or one that is not known")
    body = getattr(decoded, FIELDS[kind])
    if not body.IsInitialized():
        raise FrameError(f"a command of type {kind} lacks {', '.join(body.FindInitializationErrors()[:5])}")
    if kind == _SEND:  # put together in another way than usual
        body = _decode_send(body.SerializeToString())
    return Frame(kind, body, payload)


# --- writing ----------------------------------------------------------------------------------------------------------


def pack(command: BaseCommand) -> bytes:
    """A frame without a payload."""
    packed: bytes = command.SerializeToString()
    return LENGTHS.pack(4 + len(packed), len(packed)) + packed


def pack_head(command: BaseCommand, payload_bytes: int) -> bytes:
    """A frame up to where its payload begins."""
    packed: bytes = command.SerializeToString()
    return LENGTHS.pack(4 + len(packed) + payload_bytes, len(packed)) + packed


def command(kind: int, body: Message) -> BaseCommand:
    """A command around its message."""
    made = BaseCommand(type=kind)  # type: ignore[arg-type]  # the number of a type
    getattr(made, FIELDS[kind]).CopyFrom(body)
    return made
