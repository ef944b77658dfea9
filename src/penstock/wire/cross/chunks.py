"""Messages that Pulsar's producers have cut into parts, each an entry of its own. Whoever joins them needs all of them;
here is what the parts say of themselves.

A message that is too large when joined, in too many parts, or encrypted (part by part) is not joined: its parts are
handed on one by one.
"""

from typing import NamedTuple

from penstock.wire.cross.to_rocketmq import OPENED_BYTES_MAX
from penstock.wire.pulsar.batch import is_encrypted
from penstock.wire.pulsar.commands_pb2 import MessageMetadata

PARTS_MAX = 1_024


class Chunk(NamedTuple):
    """A part: of which message, which one, of how many."""

    uuid: str
    number: int
    parts: int
    size_bytes: int  # of all of them
    joinable: bool

    @property
    def is_last(self) -> bool:
        return self.number == self.parts - 1


def chunk_in(metadata: MessageMetadata) -> Chunk | None:
    """None: the message is whole."""
    count, number, uuid = metadata.num_chunks_from_msg, metadata.chunk_id, metadata.uuid
    if count <= 1:
        return None
    size = max(metadata.total_chunk_msg_size, metadata.uncompressed_size)
    sound = 0 <= number < count <= PARTS_MAX and metadata.num_messages_in_batch == 1
    joinable = sound and 0 <= size <= OPENED_BYTES_MAX and not is_encrypted(metadata)
    return Chunk(uuid, number, count, metadata.total_chunk_msg_size, joinable)
