"""What a Pulsar send becomes in the log: its own bytes, checked before."""

import struct

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.pulsar.batch import Message, batch_of, single_of
from penstock.wire.pulsar.commands_pb2 import LZ4, MessageMetadata
from penstock.wire.pulsar.entry import (
    BATCH_MESSAGES_MAX,
    METADATA_BYTES_MAX,
    PULSAR,
    ChecksumMismatch,
    PayloadError,
    entry_of,
    metadata_in,
    packed,
)

METADATA = MessageMetadata(producer_name="p", sequence_id=3, publish_time=1_700_000_000_000)


def batch(count: int) -> bytes:
    return batch_of(METADATA, [Message(body=b"%d" % number) for number in range(count)])


@given(st.binary(max_size=500))
def test_an_entry_is_stored_as_it_came(body):
    payload = single_of(METADATA, body)
    entry, metadata = entry_of(9, memoryview(payload), 1)
    buffer = memoryview(bytearray(entry.length + 6))
    entry.write_into(buffer, 3, 9, 0, 0)
    assert bytes(buffer) == b"\0\0\0" + payload + b"\0\0\0"
    assert (entry.encoding, entry.queue, entry.count, entry.run) == (PULSAR, 9, 1, False)
    assert metadata.sequence_id == 3


def test_a_batch_counts_its_messages():
    assert entry_of(1, memoryview(batch(17)), 17)[0].count == 17


@pytest.mark.parametrize("claimed", [1, 16, 18, 0, -1])
def test_a_claim_that_is_not_the_batchs_is_refused(claimed):
    with pytest.raises(PayloadError, match="has a batch of 17"):
        entry_of(1, memoryview(batch(17)), claimed)


@pytest.mark.parametrize("count", [0, -1, 12, BATCH_MESSAGES_MAX + 1, 2**31 - 1])
def test_offsets_cannot_be_used_up_by_a_batch_that_is_none(count):
    """60 bytes have room for ten messages at most."""
    metadata = MessageMetadata(producer_name="p", sequence_id=3, publish_time=1, num_messages_in_batch=count)
    with pytest.raises(PayloadError, match="cannot have"):
        entry_of(1, memoryview(packed(metadata, bytes(60))), count)
    metadata.compression, metadata.uncompressed_size = LZ4, 60
    with pytest.raises(PayloadError, match="cannot have"):
        entry_of(1, memoryview(packed(metadata, bytes(20))), count)


def test_every_bit_counts():
    payload = bytearray(single_of(METADATA, b"body"))
    for at in range(len(payload)):
        for bit in range(8):
            payload[at] ^= 1 << bit
            with pytest.raises(PayloadError):
                entry_of(1, memoryview(payload), 1)
            payload[at] ^= 1 << bit
    entry_of(1, memoryview(payload), 1)


def test_the_checksum_is_the_one_that_clients_make():
    """Over all behind it, from the length of the metadata on."""
    head = METADATA.SerializeToString()
    rest = struct.pack(">I", len(head)) + head + b"body"
    assert crc32c(b"123456789") == 0xE3069283
    assert single_of(METADATA, b"body") == struct.pack(">HI", 0x0E01, crc32c(rest)) + rest


def test_a_checksum_that_is_wrong_is_told_apart():
    payload = bytearray(single_of(METADATA, b"body"))
    payload[-1] ^= 1
    with pytest.raises(ChecksumMismatch):
        entry_of(1, memoryview(payload), 1)
    assert metadata_in(memoryview(payload), check=False)[0].producer_name == "p"


def test_a_message_may_come_without_a_checksum():
    payload = single_of(METADATA, b"body")[6:]
    entry, _ = entry_of(1, memoryview(payload), 1)
    assert bytes(entry.payload) == payload


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\0",
        b"\x0e\x01",
        b"\x0e\x02\0\0\0\x02\x08\x01" + single_of(METADATA, b"a broker's own metadata"),
        struct.pack(">I", 100) + b"short",
        struct.pack(">I", METADATA_BYTES_MAX + 1) + bytes(METADATA_BYTES_MAX + 1),
        struct.pack(">I", 3) + b"\xff\xff\xff",
        struct.pack(">I", 0),
        struct.pack(">I", 3) + b"\x0a\x01p",
    ],
)
def test_what_would_break_a_consumer_is_not_taken(payload):
    with pytest.raises(PayloadError):
        entry_of(1, memoryview(payload), 1)
