"""An entry as an HTTP reply: the body as it was before it was compressed, and its metadata as headers.

A batch stays one: the client takes it apart. An encrypted body is passed on as it is. Metadata is written by producers,
and a header cannot hold everything: what would not be one is percent-encoded.
"""

import base64
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from urllib.parse import quote

from penstock.gateway.http.messages import Reply
from penstock.gateway.pulsar.admin.answers import Declined
from penstock.wire.pulsar.commands_pb2 import CompressionType, MessageMetadata
from penstock.wire.pulsar.compression import opened
from penstock.wire.pulsar.entry import metadata_in

BINARY = "application/octet-stream"


def time_of(time_ms: int) -> str:
    """A time as Pulsar's tools write and read it; empty when no calendar has it, since a producer may say anything."""
    try:
        return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return ""


def _yes(value: bool) -> str:
    return str(value).lower()


def _in_base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


Show = Callable[..., str]
# A field of the metadata, the header for it, and how it is written there. Only what is set is told.
FIELDS: tuple[tuple[str, str, Show], ...] = (
    ("publish_time", "publish-time", time_of),
    ("event_time", "event-time", time_of),
    ("deliver_at_time", "deliver-at-time", time_of),
    ("producer_name", "producer-name", str),
    ("sequence_id", "sequence-id", str),
    ("highest_sequence_id", "highest-sequence-id", str),
    ("replicated_from", "replicated-from", str),
    ("partition_key", "partition-key", str),
    ("partition_key_b64_encoded", "partition-key-b64-encoded", _yes),
    ("compression", "compression", lambda value: str(CompressionType.Name(value))),
    ("uncompressed_size", "uncompressed-size", str),
    ("num_messages_in_batch", "num-batch-message", str),
    ("null_value", "null-value", _yes),
    ("null_partition_key", "null-partition-key", _yes),
    ("encryption_algo", "encryption-algo", str),
    ("ordering_key", "Base64-ordering-key", _in_base64),
    ("schema_version", "Base64-schema-version", _in_base64),
    ("encryption_param", "Base64-encryption-param", _in_base64),
    ("num_chunks_from_msg", "PROPERTY-TOTAL-CHUNKS", str),  # these two are told twice: tools differ
    ("chunk_id", "PROPERTY-CHUNK-ID", str),
    ("num_chunks_from_msg", "num-chunks-from-msg", str),
    ("chunk_id", "chunk-id", str),
    ("total_chunk_msg_size", "total-chunk-msg-size", str),
    ("uuid", "uuid", str),
)


def reply_of(payload: memoryview, queue: int, row: int) -> Reply:
    metadata, body_at = metadata_in(payload, check=False)
    body = bytes(payload[body_at:])
    if not metadata.encryption_keys and metadata.num_chunks_from_msg <= 1:
        body = _opened(body, metadata)
    headers = [("X-Pulsar-Message-ID", f"{queue}:{row}"), *headers_of(metadata)]
    if metadata.HasField("num_messages_in_batch"):
        headers.append(("X-Pulsar-batch-size", str(len(body))))
    return Reply(200, body, BINARY, headers)


def _opened(body: bytes, metadata: MessageMetadata) -> bytes:
    try:
        return opened(body, metadata.compression, metadata.uncompressed_size)
    except ImportError:
        name = CompressionType.Name(metadata.compression)
        why = f"the message is compressed with {name}, which this broker cannot open: install penstock[client] for it"
        raise Declined(405, why) from None


def headers_of(metadata: MessageMetadata) -> Iterator[tuple[str, str]]:
    for field, header, show in FIELDS:
        if metadata.HasField(field) and (shown := show(getattr(metadata, field))):
            yield f"X-Pulsar-{header}", in_header(shown)
    yield "X-Pulsar-Is-Encrypted", _yes(bool(metadata.encryption_keys))
    for key in metadata.encryption_keys:
        yield "X-Pulsar-Base64-encryption-keys", _in_base64(key.SerializeToString())
    yield "X-Pulsar-PROPERTY", json.dumps({pair.key: pair.value for pair in metadata.properties})


def in_header(text: str) -> str:
    plain = text.isascii() and text.isprintable() and text == text.strip()
    return text if plain else quote(text, errors="surrogatepass")
