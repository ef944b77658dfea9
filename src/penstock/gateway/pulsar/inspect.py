"""What dispatch wants to know of an entry, from its metadata: whose key it has, when it is due, which chunk it is."""

import base64
import binascii
import hashlib

from penstock.core.subscriptions.keyed import slot_of
from penstock.core.subscriptions.seats import Offer
from penstock.wire.pulsar.entry import hot_metadata_in
from penstock.wire.pulsar.hot_pb2 import Metadata

UUID_BYTES_MAX = 128


def inspect(offer: Offer, keyed: bool) -> None:
    """Hot. Only where consumers have keys of their own is the key looked at."""
    metadata = hot_metadata_in(offer.payload)
    if keyed:
        offer.slot = slot_of(key_of(metadata))
    if metadata.deliver_at_time > 0:
        offer.due_ms = metadata.deliver_at_time
    if metadata.num_chunks_from_msg > 1:
        offer.chunk = chunked_as(metadata.uuid)
        offer.is_last_chunk = metadata.chunk_id >= metadata.num_chunks_from_msg - 1


def chunked_as(uuid: bytes) -> str:
    """What the parts of a message have in common. It is kept while they come: however long, it takes little."""
    short = uuid if len(uuid) <= UUID_BYTES_MAX else hashlib.blake2b(uuid, digest_size=16).digest()
    return short.decode("latin-1")


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
