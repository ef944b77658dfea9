"""What dispatch wants to know of an entry, from its metadata: whose key it has, when it is due, which chunk it is."""

import base64
import binascii

from penstock.core.subscriptions.keyed import slot_of
from penstock.core.subscriptions.seats import Offer
from penstock.wire.pulsar.commands_pb2 import MessageMetadata
from penstock.wire.pulsar.entry import metadata_in


def inspect(offer: Offer) -> None:
    metadata, _ = metadata_in(offer.payload, check=False)
    offer.slot = slot_of(key_of(metadata))
    if metadata.deliver_at_time > 0:
        offer.due_ms = metadata.deliver_at_time
    if metadata.num_chunks_from_msg > 1:
        offer.chunk = metadata.uuid
        offer.is_last_chunk = metadata.chunk_id >= metadata.num_chunks_from_msg - 1


def key_of(metadata: MessageMetadata) -> bytes:
    """What keeps messages in order: the ordering key, else the key; one of its own for a message that has neither."""
    if metadata.HasField("ordering_key"):
        return bytes(metadata.ordering_key)
    if metadata.HasField("partition_key"):
        key = metadata.partition_key.encode()
        return _decoded(key) if metadata.partition_key_b64_encoded else key
    return f"{metadata.producer_name}-{metadata.sequence_id}".encode()


def _decoded(key: bytes) -> bytes:
    try:
        return base64.b64decode(key, validate=True)
    except binascii.Error:
        return key  # it says what it is not: any stable key will do
