"""hot.proto reads the same bytes as commands.proto, and lets nothing pass that the parser's own checks would not."""

import struct
from typing import Any

import pytest
from crc32c import crc32c
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.framing import FrameError
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.commands_pb2 import BaseCommand, MessageMetadata
from penstock.wire.pulsar.entry import PayloadError, entry_of
from penstock.wire.pulsar.frame import command, frames_in, pack

LIMIT = 1 << 20
NUMBERS = st.one_of(st.integers(0, 300), st.integers(0, 2**64 - 1), st.just(2**64 - 1))


def varint(number: int) -> bytes:
    low = b""
    while number > 127:
        low += bytes((number & 127 | 128,))
        number >>= 7
    return low + bytes((number,))


def numbered(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def text(field: int, value: bytes) -> bytes:
    return varint(field << 3 | 2) + varint(len(value)) + value


def send_in(packed: bytes) -> Any:
    data = struct.pack(">II", 4 + len(packed), len(packed)) + packed
    (frame,), used = frames_in(memoryview(data), len(data), LIMIT)
    assert (frame.type, used) == (BaseCommand.SEND, len(data))
    return frame.body


@given(NUMBERS, NUMBERS, NUMBERS, st.integers(-3, 2**31 - 1))
def test_a_send_is_read_alike(producer, sequence, highest, messages):
    asked = pb.CommandSend(
        producer_id=producer, sequence_id=sequence, highest_sequence_id=highest, num_messages=messages
    )
    body = send_in(pack(command(BaseCommand.SEND, asked))[8:])
    assert (body.producer_id, body.sequence_id) == (producer, sequence)
    assert (body.highest_sequence_id, body.num_messages) == (highest, messages)


def test_a_send_whose_type_comes_last_is_read_alike():
    body = send_in(text(6, numbered(1, 7) + numbered(2, 8)) + numbered(1, BaseCommand.SEND))
    assert (body.producer_id, body.sequence_id, body.num_messages) == (7, 8, 1)


@pytest.mark.parametrize("lacking", [b"", numbered(1, 7), numbered(2, 7)], ids=["both", "sequence", "producer"])
@pytest.mark.parametrize("is_usual", [True, False], ids=["usual", "type last"])
def test_a_send_that_lacks_a_number_is_no_frame(lacking, is_usual):
    kind, field = numbered(1, BaseCommand.SEND), text(6, lacking)
    with pytest.raises(FrameError, match="lacks"):
        send_in(kind + field if is_usual else field + kind)


PAIRS = st.sampled_from([b"", text(1, b"k"), text(1, b"k") + text(2, b"v"), text(2, b"v"), b"\x01", b"none"])
FIELDS = st.one_of(
    st.builds(text, st.sampled_from([1, 5, 6, 7, 16, 18, 26]), st.sampled_from([b"", b"\x01", b"none", b"name"])),
    st.builds(numbered, st.sampled_from([2, 3, 8, 9, 11, 12, 19, 24, 27, 29, 31]), NUMBERS),
    st.builds(text, st.sampled_from([4, 13]), PAIRS),
    st.binary(max_size=3),
)
COMPLETE = [text(1, b"name"), numbered(2, 0), numbered(3, 1)]


def is_sound(metadata: bytes) -> bool:
    try:
        return MessageMetadata.FromString(metadata).IsInitialized()
    except DecodeError:
        return False


@pytest.mark.parametrize("pair", [b"", b"none", text(1, b"k"), text(2, b"v")])
@pytest.mark.parametrize("field", [4, 13])
def test_a_pair_that_is_none_is_not_stored_whatever_follows(field, pair):
    metadata = b"".join(COMPLETE) + text(field, pair) + text(field, text(1, b"k") + text(2, b"v"))
    rest = struct.pack(">I", len(metadata)) + metadata
    with pytest.raises(PayloadError):
        entry_of(1, memoryview(struct.pack(">HI", 0x0E01, crc32c(rest)) + rest), 1)


@given(st.lists(FIELDS, max_size=6), st.lists(st.sampled_from(COMPLETE), max_size=4), st.randoms())
def test_what_the_parser_would_not_take_is_not_stored(fields, required, random):
    parts = [*fields, *required]
    random.shuffle(parts)
    metadata = b"".join(parts)
    rest = struct.pack(">I", len(metadata)) + metadata + bytes(10_000)
    payload = memoryview(struct.pack(">HI", 0x0E01, crc32c(rest)) + rest)
    messages = MessageMetadata.FromString(metadata).num_messages_in_batch if is_sound(metadata) else 1
    try:
        entry, read = entry_of(1, payload, messages)
    except PayloadError:
        assert not is_sound(metadata) or messages != 1
        return
    whole = MessageMetadata.FromString(metadata)
    assert is_sound(metadata)
    assert (entry.count, read.sequence_id, read.publish_time) == (messages, whole.sequence_id, whole.publish_time)
    assert (read.deliver_at_time, read.num_chunks_from_msg) == (whole.deliver_at_time, whole.num_chunks_from_msg)
