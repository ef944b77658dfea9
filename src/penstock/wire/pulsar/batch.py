"""Batches, opened and made. The broker keeps them closed; they are opened to be read by clients of another protocol,
and made for messages that come from there.

    per message: u32 length of its own metadata | metadata | body

All of that together is compressed, then encrypted; the metadata in front of it speaks for the whole batch. An entry
whose metadata has no number of messages is one message, and its body is the message's.
"""

import struct
from collections.abc import Iterator, Sequence

import msgspec
from google.protobuf.message import DecodeError

from penstock.wire.pulsar.commands_pb2 import NONE, KeyValue, MessageMetadata, SingleMessageMetadata
from penstock.wire.pulsar.compression import compressed, opened
from penstock.wire.pulsar.entry import METADATA_BYTES_MAX, PayloadError, metadata_in, packed

_LENGTH = struct.Struct(">I")


class Message(msgspec.Struct, kw_only=True):
    """One message, as it stands in an entry. What is shared by a batch is in the entry's metadata."""

    body: bytes
    properties: dict[str, str] = {}
    key: str = ""
    key_is_base64: bool = False
    ordering_key: bytes = b""
    event_ms: int = 0
    sequence: int = 0
    null_value: bool = False
    compacted_out: bool = False


class Opened(msgspec.Struct):
    """An entry, opened. `batched`: its messages have indexes."""

    metadata: MessageMetadata
    messages: list[Message]
    batched: bool


def is_encrypted(metadata: MessageMetadata) -> bool:
    return bool(metadata.encryption_keys)


def opened_entry(payload: memoryview, check: bool = False) -> Opened:
    """The messages of an entry. PayloadError when it cannot be opened: encrypted ones cannot."""
    metadata, body_at = metadata_in(payload, check)
    if is_encrypted(metadata):
        raise PayloadError("it is encrypted, and only its consumer has the key")
    body = opened(bytes(payload[body_at:]), metadata.compression, metadata.uncompressed_size)
    return Opened(metadata, list(messages_in(body, metadata)), metadata.HasField("num_messages_in_batch"))


def messages_in(body: bytes, metadata: MessageMetadata) -> Iterator[Message]:
    """The messages of a body that is neither compressed nor encrypted any more."""
    return _batched(body, metadata) if metadata.HasField("num_messages_in_batch") else iter((_single(body, metadata),))


def _single(body: bytes, metadata: MessageMetadata) -> Message:
    return Message(
        body=body,
        properties=_properties(metadata.properties),
        key=_text(metadata.partition_key),
        key_is_base64=metadata.partition_key_b64_encoded,
        ordering_key=metadata.ordering_key,
        event_ms=metadata.event_time,
        sequence=metadata.sequence_id,
        null_value=metadata.null_value,
    )


def _batched(body: bytes, batch: MessageMetadata) -> Iterator[Message]:
    at, count = 0, batch.num_messages_in_batch
    for index in range(count):
        own, at = own_metadata(body, at)
        behind = at + own.payload_size
        if own.payload_size < 0 or behind > len(body):
            raise PayloadError(f"message {index} of a batch of {count} does not fit: {own.payload_size} bytes")
        yield Message(
            body=body[at:behind],
            properties=_properties(own.properties),
            key=_text(own.partition_key),
            key_is_base64=own.partition_key_b64_encoded,
            ordering_key=own.ordering_key,
            event_ms=own.event_time,
            sequence=own.sequence_id if own.HasField("sequence_id") else batch.sequence_id + index,
            null_value=own.null_value,
            compacted_out=own.compacted_out,
        )
        at = behind
    if at != len(body):
        raise PayloadError(f"behind the {count} messages of a batch come {len(body) - at} bytes more")


def own_metadata(body: bytes, at: int) -> tuple[SingleMessageMetadata, int]:
    if at + 4 > len(body):
        raise PayloadError(f"a batch is cut off at byte {at} of {len(body)}")
    (length,) = _LENGTH.unpack_from(body, at)
    behind = at + 4 + length
    if length > METADATA_BYTES_MAX or behind > len(body):
        raise PayloadError(f"metadata of {length} bytes does not fit at byte {at} of a batch of {len(body)}")
    try:
        own = SingleMessageMetadata.FromString(body[at + 4 : behind])
    except DecodeError as error:
        raise PayloadError(f"the metadata at byte {at} of a batch cannot be read: {error}") from None
    if not own.IsInitialized():
        raise PayloadError(f"the metadata at byte {at} of a batch does not say how long its message is")
    return own, behind


def _properties(pairs: Sequence[KeyValue]) -> dict[str, str]:
    return {_text(pair.key): _text(pair.value) for pair in pairs}


def _text(value: str | bytes) -> str:
    """A text field comes as bytes when it is not UTF-8: the parser does not mind, so clients may send it."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


# --- making -----------------------------------------------------------------------------------------------------------


def batch_of(metadata: MessageMetadata, messages: Sequence[Message], compression: int = NONE) -> bytes:
    """A batch, as a producer sends it. `metadata` has the names and times; what follows from the messages is set."""
    body = b"".join(part for message in messages for part in _parts(message))
    whole = MessageMetadata()
    whole.CopyFrom(metadata)
    whole.num_messages_in_batch = len(messages)
    return packed(*_compressed(whole, body, compression))


def single_of(metadata: MessageMetadata, body: bytes, compression: int = NONE) -> bytes:
    """One message that is in no batch."""
    whole = MessageMetadata()
    whole.CopyFrom(metadata)
    return packed(*_compressed(whole, body, compression))


def _compressed(metadata: MessageMetadata, body: bytes, compression: int) -> tuple[MessageMetadata, bytes]:
    if compression != NONE:
        metadata.compression = compression  # type: ignore[assignment]  # the number of a method
        metadata.uncompressed_size = len(body)
    return metadata, compressed(body, compression)


def _parts(message: Message) -> tuple[bytes, bytes, bytes]:
    own = SingleMessageMetadata(
        payload_size=len(message.body),
        properties=[KeyValue(key=key, value=value) for key, value in message.properties.items()],
        sequence_id=message.sequence,
    )
    if message.key:
        own.partition_key, own.partition_key_b64_encoded = message.key, message.key_is_base64
    if message.ordering_key:
        own.ordering_key = message.ordering_key
    if message.event_ms:
        own.event_time = message.event_ms
    if message.null_value:
        own.null_value = True
    head: bytes = own.SerializeToString()
    return _LENGTH.pack(len(head)), head, message.body
