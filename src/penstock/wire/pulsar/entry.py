"""What the log holds for one Pulsar send: the bytes that the producer sent, from the checksum on, as they came.

    [ u16 0x0e01 | u32 CRC-32C of all that follows ]  u32 length of the metadata | metadata | body

A consumer gets the same bytes, so nothing is made anew: a batch stays closed, a compressed body stays compressed. Only
the metadata is looked at, and nothing is stored that would break a consumer's parser: the checksum fits, the metadata
is complete, and the batch has as many messages as the command says.

A batch takes as many offsets as it has messages, and one row.
"""

import struct
from typing import ClassVar

from crc32c import crc32c
from google.protobuf.message import DecodeError

from penstock.errors import PenstockError
from penstock.model import Entry
from penstock.wire.pulsar.commands_pb2 import NONE, CompressionType, MessageMetadata
from penstock.wire.pulsar.hot_pb2 import Metadata

PULSAR = 5  # encoding in the log

CHECKSUM_MAGIC = 0x0E01
METADATA_BYTES_MAX = 1024 * 1024  # a parser makes many bytes out of few
BATCH_MESSAGES_MAX = 1_000_000
BATCHED_BYTES_MIN = 6  # of a message in a batch: its length, and the least that its metadata can be

_CHECKSUM = struct.Struct(">HI")
_LENGTH = struct.Struct(">I")

COMPRESSED = frozenset(CompressionType.values()) - {NONE}

# What hot.proto says of fields that are not there.
ABSENT, NOTHING, NO_TEXT = (1 << 64) - 1, b"none", b"\x01"

_decode, _decode_hot = MessageMetadata.FromString, Metadata.FromString


class PayloadError(PenstockError):
    """What was sent cannot be stored."""


class ChecksumMismatch(PayloadError):
    def __init__(self, said: int, found: int) -> None:
        super().__init__(f"the checksum of a message is {found:08x}, and not {said:08x} as it says: it was damaged")


class PulsarEntry(Entry):
    """One send. `payload` is a view into the receive buffer: it is copied when the entry is appended."""

    encoding: ClassVar[int] = PULSAR
    verbatim: ClassVar[bool] = True

    payload: memoryview | bytes = b""

    def write_into(self, buffer: memoryview, at: int, queue_id: int, offset: int, store_ms: int) -> None:
        buffer[at : at + self.length] = self.payload


def entry_of(queue: int, payload: memoryview, messages: int) -> tuple[PulsarEntry, Metadata]:
    """An entry of what came with a send that says that it holds so many messages, and its metadata. Hot."""
    metadata_at, body_at = _located(payload, True)
    metadata = _looked_at(payload[metadata_at:body_at])
    count = metadata.num_messages_in_batch
    if count != messages:
        raise PayloadError(f"a send of {messages} messages has a batch of {count}")
    length = len(payload)
    if count != 1:
        _check_count(count, metadata, length - body_at)
    return PulsarEntry(queue=queue, length=length, count=count, payload=payload), metadata


def _check_count(count: int, metadata: Metadata, body_bytes: int) -> None:
    """More messages than fit would use up offsets for nothing."""
    plain_bytes = body_bytes if metadata.compression not in COMPRESSED else metadata.uncompressed_size
    limit = min(BATCH_MESSAGES_MAX, plain_bytes // BATCHED_BYTES_MIN)
    if not 1 <= count <= limit:
        raise PayloadError(f"a batch of {plain_bytes} bytes cannot have {count} messages")


def _located(payload: memoryview, check: bool) -> tuple[int, int]:
    """Where the metadata begins, and where the body does."""
    at = 0
    length = len(payload)
    if length >= 6:
        magic, said = _CHECKSUM.unpack_from(payload)
        if magic == CHECKSUM_MAGIC:
            at = 6
            if check and said != (found := crc32c(payload[at:])):
                raise ChecksumMismatch(said, found)
    if length < at + 4:
        raise PayloadError(f"a message of {length} bytes has no metadata")
    (metadata_bytes,) = _LENGTH.unpack_from(payload, at)
    body_at = at + 4 + metadata_bytes
    if body_at > length or metadata_bytes > METADATA_BYTES_MAX:
        raise PayloadError(
            f"metadata of {metadata_bytes} bytes in a message of {length}: at most {METADATA_BYTES_MAX} are taken"
        )
    return at + 4, body_at


def _looked_at(packed: memoryview) -> Metadata:
    """The metadata as hot.proto reads it. Where that does not see everything, the parser itself has looked too."""
    try:
        metadata: Metadata = _decode_hot(packed)
    except DecodeError as error:
        raise PayloadError(f"the metadata of a message cannot be read: {error}") from None
    if (
        metadata.sequence_id == ABSENT
        or metadata.publish_time == ABSENT
        or metadata.producer_name == NO_TEXT
        or metadata.HasField("properties")
        or metadata.HasField("encryption_keys")
    ):
        _metadata(packed)
    return metadata


def hot_metadata_in(payload: memoryview) -> Metadata:
    """What dispatch needs of what the log holds."""
    metadata_at, body_at = _located(payload, False)
    metadata: Metadata = _decode_hot(payload[metadata_at:body_at])
    return metadata


def metadata_in(payload: memoryview, check: bool = True) -> tuple[MessageMetadata, int]:
    """The metadata, and where the body begins. Without `check` the checksum is not looked at: what the log holds has
    been checked before.
    """
    metadata_at, body_at = _located(payload, check)
    return _metadata(payload[metadata_at:body_at]), body_at


def _metadata(packed: memoryview) -> MessageMetadata:
    try:
        metadata: MessageMetadata = _decode(packed)
    except DecodeError as error:
        raise PayloadError(f"the metadata of a message cannot be read: {error}") from None
    if not metadata.IsInitialized():
        lacking = ", ".join(metadata.FindInitializationErrors()[:5])
        raise PayloadError(f"the metadata of a message lacks {lacking}")
    return metadata


def packed(metadata: MessageMetadata, body: bytes) -> bytes:
    """A message as it is sent and stored, with its checksum."""
    head: bytes = metadata.SerializeToString()
    rest = _LENGTH.pack(len(head)) + head + body
    return _CHECKSUM.pack(CHECKSUM_MAGIC, crc32c(rest)) + rest
