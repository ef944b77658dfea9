"""Batches and compressed bodies: what is made can be opened, and what is no batch is refused."""

import zlib

import lz4.block
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.pulsar.batch import Message, batch_of, opened_entry, single_of
from penstock.wire.pulsar.commands_pb2 import LZ4, NONE, SNAPPY, ZLIB, ZSTD, EncryptionKeys, MessageMetadata
from penstock.wire.pulsar.compression import OPENED_BYTES_MAX, compressed, opened
from penstock.wire.pulsar.entry import PayloadError, packed
from penstock.wire.pulsar.snappy import SnappyError
from penstock.wire.pulsar.snappy import opened as from_snappy

METADATA = MessageMetadata(producer_name="p", sequence_id=10, publish_time=1_700_000_000_000)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
MESSAGES = st.builds(
    Message,
    body=st.binary(max_size=50),
    properties=st.dictionaries(TEXT, TEXT, max_size=3),
    key=TEXT,
    ordering_key=st.binary(max_size=5),
    event_ms=st.integers(0, 2**63),
    sequence=st.integers(0, 2**63),
    null_value=st.booleans(),
)
METHODS = st.sampled_from([NONE, LZ4, ZLIB, ZSTD])


@given(st.lists(MESSAGES, min_size=1, max_size=8), METHODS)
def test_a_batch_comes_back(messages, method):
    found = opened_entry(memoryview(batch_of(METADATA, messages, method)), check=True)
    assert found.messages == messages
    assert found.batched


@given(st.binary(max_size=300), METHODS)
def test_a_single_message_comes_back(body, method):
    metadata = MessageMetadata(partition_key="k", event_time=5)
    metadata.MergeFrom(METADATA)
    found = opened_entry(memoryview(single_of(metadata, body, method)))
    assert found.messages == [Message(body=body, key="k", event_ms=5, sequence=10)]
    assert not found.batched


def test_a_batch_of_one_is_a_batch():
    assert opened_entry(memoryview(batch_of(METADATA, [Message(body=b"alone")]))).batched


def test_messages_without_a_number_follow_the_batchs():
    own = bytes((0x18, 1))  # payload_size alone, as some clients write it
    body = b"".join(len(own).to_bytes(4, "big") + own + part for part in (b"a", b"b"))
    metadata = MessageMetadata(num_messages_in_batch=2)
    metadata.MergeFrom(METADATA)
    entry = packed(metadata, body)
    assert [message.sequence for message in opened_entry(memoryview(entry)).messages] == [10, 11]


def test_text_that_is_none_does_not_harm():
    metadata = METADATA.SerializeToString() + b"\x32\x02\xff\xfe"  # a key that is not UTF-8
    entry = packed(MessageMetadata.FromString(metadata), b"body")
    assert opened_entry(memoryview(entry)).messages[0].key == "\ufffd\ufffd"


def test_what_is_encrypted_stays_closed():
    metadata = MessageMetadata(encryption_keys=[EncryptionKeys(key="k", value=b"v")])
    metadata.MergeFrom(METADATA)
    with pytest.raises(PayloadError, match="encrypted"):
        opened_entry(memoryview(single_of(metadata, b"secret")))


@pytest.mark.parametrize(
    ("count", "body"),
    [
        (1, b""),
        (1, b"\0\0\0\x09\x18\x01"),
        (1, b"\xff\xff\xff\xff"),
        (1, b"\0\0\0\x02\x18\x05abc"),
        (1, b"\0\0\0\x02\x18\x01abc"),
        (2, b"\0\0\0\x02\x18\x01a"),
        (1, b"\0\0\0\0"),
        (1, b"\0\0\0\x02\xff\xff"),
        (1, b"\0\0\0\x0b\x18" + b"\xff" * 9 + b"\x01"),
    ],
)
def test_what_is_no_batch_is_refused(count, body):
    metadata = MessageMetadata(num_messages_in_batch=count)
    metadata.MergeFrom(METADATA)
    with pytest.raises(PayloadError):
        opened_entry(memoryview(packed(metadata, body)))


# --- compression ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", [LZ4, ZLIB, ZSTD])
@pytest.mark.parametrize("claimed", [0, 99_999, 100_001, 2**32 - 1])
def test_a_length_that_is_not_true_is_refused(method, claimed):
    """A bomb is not opened further than its metadata says, and not at all beyond the limit."""
    with pytest.raises(PayloadError):
        opened(compressed(bytes(100_000), method), method, claimed)


@pytest.mark.parametrize("method", [LZ4, ZLIB, ZSTD, SNAPPY, 99])
def test_what_was_not_compressed_is_refused(method):
    with pytest.raises(PayloadError):
        opened(b"\xff\xff\xff\xff not compressed", method, 1_000)


def test_the_formats_are_the_bare_ones():
    """As clients write them: LZ4 without a length in front, zlib with its header."""
    assert opened(lz4.block.compress(b"plain" * 20, store_size=False), LZ4, 100) == b"plain" * 20
    assert opened(zlib.compress(b"plain" * 20), ZLIB, 100) == b"plain" * 20
    assert OPENED_BYTES_MAX < 2**32 - 1


@pytest.mark.parametrize(
    ("block", "plain"),
    [
        (b"\x00", b""),
        (b"\x05\x10hello", b"hello"),
        (b"\x0a\x10hello\x05\x05hello"[:7] + b"\x05\x05", b"hellohello"),  # a copy of 5, from 5 back
        (b"\x08\x00a\x0d\x01", b"a" * 8),  # a copy that overlaps with itself
        (b"\x0a\x10hello\x12\x05\x00", b"hellohello"),  # the same with a distance of 16 bits
        (b"\x0a\x10hello\x13\x05\x00\x00\x00", b"hellohello"),  # and of 32
        (b"\x46\xf0\x45" + b"x" * 70, b"x" * 70),  # a literal whose length stands behind
    ],
)
def test_snappy_blocks_are_opened(block, plain):
    assert from_snappy(block, 1_000) == plain


@pytest.mark.parametrize(
    "block",
    [b"", b"\xff\xff\xff\xff\xff", b"\x05", b"\x05\x10hell", b"\x05\x10hello!", b"\x08\x0d\x01", b"\x02\x00a\x0d\x01"],
)
def test_what_is_no_snappy_block_is_refused(block):
    with pytest.raises(SnappyError):
        from_snappy(block, 1_000)


def test_a_snappy_block_is_bounded():
    with pytest.raises(SnappyError, match="at most"):
        from_snappy(b"\x05\x10hello", 4)


@given(st.binary(max_size=200))
def test_anything_is_either_opened_or_refused(data):
    for method in (LZ4, ZLIB, ZSTD, SNAPPY):
        try:
            assert len(opened(data, method, 100)) == 100
        except PayloadError:
            continue
