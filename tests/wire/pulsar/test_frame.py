"""Pulsar's frames: round trips, bytes in any portions, and input that is no such thing."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.framing import FrameError
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.commands_pb2 import BaseCommand
from penstock.wire.pulsar.frame import COMMAND_BYTES_MAX, command, frames_in, pack, pack_head

LIMIT = 1 << 20
SEND, PING, LOOKUP, CONNECT = BaseCommand.SEND, BaseCommand.PING, BaseCommand.LOOKUP, BaseCommand.CONNECT


def send(sequence: int, payload: bytes) -> bytes:
    body = pb.CommandSend(producer_id=7, sequence_id=sequence, num_messages=1)
    return pack_head(command(SEND, body), len(payload)) + payload


def framed(packed: bytes, payload: bytes = b"") -> bytes:
    return struct.pack(">II", 4 + len(packed) + len(payload), len(packed)) + packed + payload


@given(st.integers(0, 2**64 - 1), st.binary(max_size=300))
def test_a_send_comes_back_with_its_payload(sequence, payload):
    data = send(sequence, payload)
    (frame,), used = frames_in(memoryview(data), len(data), LIMIT)
    assert used == len(data)
    assert (frame.type, frame.body.producer_id, frame.body.sequence_id) == (SEND, 7, sequence)
    assert bytes(frame.payload) == payload


def test_frames_in_any_portions():
    """Whole, byte by byte, and with bytes left over."""
    lookup = command(LOOKUP, pb.CommandLookupTopic(topic="orders", request_id=3))
    data = pack(command(PING, pb.CommandPing())) + send(1, b"one") + pack(lookup) + send(2, b"two" * 50)
    for portion in (1, 2, 3, 7, 50, len(data)):
        buffer, found = b"", []
        for at in range(0, len(data), portion):
            buffer += data[at : at + portion]
            frames, used = frames_in(memoryview(buffer), len(buffer), LIMIT)
            found += [(frame.type, bytes(frame.payload)) for frame in frames]
            buffer = buffer[used:]
        assert found == [(PING, b""), (SEND, b"one"), (LOOKUP, b""), (SEND, b"two" * 50)]
        assert buffer == b""


def test_fields_that_are_not_known_are_passed_over():
    """Newer clients send more than we know."""
    packed = command(LOOKUP, pb.CommandLookupTopic(topic="orders", request_id=3)).SerializeToString()
    data = framed(packed + b"\xf2\x7f\x03new")
    (frame,), _ = frames_in(memoryview(data), len(data), LIMIT)
    assert frame.body.topic == "orders"


def test_a_command_may_have_its_type_behind():
    packed = pb.CommandSend(producer_id=1, sequence_id=2).SerializeToString()
    data = framed(b"\x32" + bytes((len(packed),)) + packed + b"\x08\x06")
    (frame,), _ = frames_in(memoryview(data), len(data), LIMIT)
    assert (frame.type, frame.body.sequence_id) == (SEND, 2)


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (struct.pack(">II", LIMIT + 1, 0), "at most"),
        (struct.pack(">II", 0xFFFFFFFF, 0xFFFFFFFF), "at most"),
        (struct.pack(">II", 3, 0), "at most"),
        (struct.pack(">II", 10, 100), "at most"),
        (struct.pack(">II", LIMIT, COMMAND_BYTES_MAX + 1), "at most"),
        (framed(b"\x08"), "cannot be read"),
        (framed(b"\xff\xff\xff\xff"), "cannot be read"),
        (framed(b"\x08\x63"), "not known"),
        (framed(b"\x32\x00"), "not known"),
        (framed(b""), "not known"),
        (framed(b"\x08\x06"), "lacks"),
        (framed(b"\x08\x06\x32\x02\x08\x01"), "lacks sequence_id"),
        (framed(b"\x08\x02\x12\x00"), "lacks client_version"),
    ],
)
def test_what_is_no_frame_is_refused(data, why):
    with pytest.raises(FrameError, match=why):
        frames_in(memoryview(data), len(data), LIMIT)


def test_a_length_that_is_too_large_is_refused_before_the_bytes_come():
    """A frame is not waited for that would not be taken."""
    with pytest.raises(FrameError):
        frames_in(memoryview(struct.pack(">II", LIMIT + 1, 10)), 8, LIMIT)
    assert frames_in(memoryview(struct.pack(">II", LIMIT, 10)), 8, LIMIT) == ([], 0)


@given(st.binary(max_size=200))
def test_anything_is_either_frames_or_a_frame_error(data):
    try:
        frames, used = frames_in(memoryview(data), len(data), LIMIT)
    except FrameError:
        return
    assert used <= len(data)
    assert all(frame.body.IsInitialized() for frame in frames)
