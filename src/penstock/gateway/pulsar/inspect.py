"""What dispatch wants to know of an entry, from its metadata: whose key it has, when it is due, which chunk it is."""

import base64
import binascii

from penstock.core.subscriptions.keyed import slot_of
from penstock.core.subscriptions.seats import Offer
from penstock.wire.pulsar.entry import hot_metadata_in
from penstock.wire.pulsar.hot_pb2 import Metadata


def inspect(offer: Offer, keyed: bool) -> None:
    """Hot. Only where consumers have keys of their own is the key looked at."""
    metadata = hot_metadata_in(offer.payload)
    if keyed:
        offer.slot = slot_of(key_of(metadata))
    if metadata.deliver_at_time > 0:
        offer.due_ms = metadata.deliver_at_time
    if metadata.num_chunks_from_msg > 1:
        offer.chunk = metadata.uuid.decode(errors="replace")
        offer.is_last_chunk = metadata.chunk_id >= metadata.num_chunks_from_msg - 1


def key_of(metadata: Metadata) -> bytes:
    """What keeps messages in order: the ordering key, else the key; one of its own for a message that has neither."""
    if metadata.HasField("ordering_key"):
        return metadata.ordering_key
    if metadata.HasField("partition_key"):
        key = metadata.partition_key
        return _decoded(key) if metadata.partition_key_b64_encoded else key
    return b"%b-%d" % (metadata.producer_name, metadata.sequence_id)


def _decoded(key: bytes) -> bytes:
    try:
        return base64.b64decode(key, validate=True)
    except binascii.Error:
        return key  # it says what it is not: any stable key will do
