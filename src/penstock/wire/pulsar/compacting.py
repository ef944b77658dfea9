"""Compaction: which messages are the last with their key, and what is left of a batch when the others are taken out.

Works in a process of its own (`core/aside.py`), on payloads that the broker reads for it. First it looks at all of
them, in passes: `begin`, `look` again and again, `end`, which says whether another pass is needed. Memory is bounded: a
pass holds `keys_max` keys; when there are more, it goes on with a part of them only (those whose digest is below a
border) and leaves the rest to the next pass. Of what survives there is a number for each message. Then `kept` says of
each payload what is left of it.

Rules, as Pulsar has them: a message without a key does not survive. One without a body (or with a null value) deletes
its key. In a batch that survives in part, what is gone is marked as such and keeps its place, so that ids stay the
same; which of its messages are left is told beside it, since not all clients look at the marks. What cannot be opened
(an encrypted batch) survives whole. The chunks of a message survive together, and so do those of one that is not
complete yet. What RocketMQ's clients wrote goes by its key as well, and survives as Pulsar's clients get it.
"""

import hashlib
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from penstock.errors import StoreError
from penstock.wire.cross import is_record
from penstock.wire.cross.to_pulsar import entry_of_record
from penstock.wire.pulsar.batch import is_encrypted, own_metadata
from penstock.wire.pulsar.commands_pb2 import NONE, MessageMetadata, SingleMessageMetadata
from penstock.wire.pulsar.compression import compressed, opened
from penstock.wire.pulsar.entry import PayloadError, metadata_in, packed

KEYS_MAX = 500_000
DIGEST_BYTES = 16
CHUNKED_MAX = 1_000  # messages that are not complete yet, at a time
_LENGTH = struct.Struct(">I")

Value = int | tuple[int, ...]  # the offset of a message, or those of its chunks


Kept = tuple[bytes, bytes]  # what is left of an entry, and which of its messages: a bit each; no bits for all of them
NOTHING: Kept = (b"", b"")


class Member(NamedTuple):
    """A message of a batch: its key, whether it has a value, and where it lies in the opened body."""

    key: str
    has_value: bool
    is_gone: bool  # compacted before
    start: int
    behind: int


class Compactor:
    def __init__(self, keys_max: int = KEYS_MAX) -> None:
        self._keys_max = keys_max
        self._low, self._high = b"", b""  # digests that this pass looks at; empty: without border
        self._latest: dict[bytes, Value] = {}
        self._chunks: dict[str, list[int]] = {}  # by the id of a message that is not complete
        self._found: list[np.ndarray[tuple[int], np.dtype[np.int64]]] = []
        self._always: set[int] = set()  # offsets of what cannot be opened, or is not complete
        self._survivors = np.empty(0, np.int64)

    # --- looking ------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._low, self._high = self._high, b""
        self._latest.clear()
        self._chunks.clear()

    def look(self, offsets: Sequence[int], payloads: Sequence[bytes]) -> None:
        """Entries in the order of the log; the offset of an entry is that of its first message."""
        for offset, payload in zip(offsets, payloads, strict=True):
            self._look(offset, memoryview(payload))
        if len(self._latest) > self._keys_max:
            self._narrow()

    def _look(self, offset: int, given: memoryview) -> None:
        payload = _entry(given)
        if payload is None:
            return
        metadata, body_at = metadata_in(payload, check=False)
        if not metadata.HasField("num_messages_in_batch"):
            self._look_at_single(offset, metadata, len(payload) - body_at)
            return
        members = members_in(metadata, payload[body_at:])
        if members is None:
            self._always.add(offset)
            return
        for index, member in enumerate(members[1]):
            if not member.is_gone:
                self._take(member.key, member.has_value, offset + index)

    def _look_at_single(self, offset: int, metadata: MessageMetadata, body_bytes: int) -> None:
        key = _text(metadata.partition_key) if metadata.HasField("partition_key") else ""
        size_bytes = body_bytes if metadata.compression == NONE else metadata.uncompressed_size
        has_value = not metadata.null_value and size_bytes > 0
        if metadata.num_chunks_from_msg <= 1:
            self._take(key, has_value, offset)
            return
        chunks = self._chunks.setdefault(metadata.uuid, [])
        chunks.append(offset)
        if metadata.chunk_id >= metadata.num_chunks_from_msg - 1:
            self._take(key, has_value, tuple(self._chunks.pop(metadata.uuid)))
        elif len(self._chunks) > CHUNKED_MAX:
            self._always.update(self._chunks.pop(next(iter(self._chunks))))

    def _take(self, key: str, has_value: bool, value: Value) -> None:
        if not key:
            return
        digest = hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()
        if digest < self._low or (self._high and digest >= self._high):
            return
        if has_value:
            self._latest[digest] = value
        else:
            self._latest.pop(digest, None)

    def _narrow(self) -> None:
        """Too many keys: the half with the larger digests waits for the next pass."""
        digests = sorted(self._latest)
        self._high = digests[len(digests) // 2]
        for digest in digests[len(digests) // 2 :]:
            del self._latest[digest]

    def end(self) -> bool:
        """A pass has seen everything. Whether another is needed."""
        for chunks in self._chunks.values():
            self._always.update(chunks)
        self._found.append(np.fromiter(_flat(self._latest.values()), np.int64))
        if self._high:
            return True
        self._found.append(np.fromiter(self._always, np.int64))
        self._survivors = np.unique(np.concatenate(self._found))
        self._latest.clear()
        self._found.clear()
        return False

    # --- what is left -------------------------------------------------------------------------------------------------

    def kept(self, offsets: Sequence[int], payloads: Sequence[bytes]) -> list[Kept]:
        """What is left of each entry."""
        return [self._kept(offset, payload) for offset, payload in zip(offsets, payloads, strict=True)]

    def _kept(self, offset: int, given: bytes) -> Kept:
        view = _entry(memoryview(given))
        if view is None:
            return NOTHING
        payload, (metadata, body_at) = bytes(view), metadata_in(view, check=False)
        is_batch = metadata.HasField("num_messages_in_batch") and offset not in self._always
        found = self._which(offset, metadata.num_messages_in_batch if is_batch else 1)
        if not found:
            return NOTHING
        members = members_in(metadata, view[body_at:]) if is_batch else None
        if members is None or len(found) == len(members[1]):
            return payload, b""
        is_as_it_was = len(found) == sum(not member.is_gone for member in members[1])
        return payload if is_as_it_was else _rebatched(metadata, *members, found), _bits(found)

    def _which(self, offset: int, count: int) -> set[int]:
        """Which of the messages from an offset on survive, by their index."""
        low, high = np.searchsorted(self._survivors, [offset, offset + count])
        return {int(each) - offset for each in self._survivors[low:high]}


def _entry(payload: memoryview) -> memoryview | None:
    """As Pulsar's clients get it, also what RocketMQ's have written; None for what cannot be read: it has no key."""
    if not is_record(payload):
        return payload
    try:
        return memoryview(entry_of_record(payload))
    except StoreError:
        return None


def _flat(values: Iterable[Value]) -> Iterator[int]:
    for value in values:
        if isinstance(value, int):
            yield value
        else:
            yield from value


def _bits(indexes: set[int]) -> bytes:
    bits = np.zeros(max(indexes) + 1, np.uint8)
    bits[list(indexes)] = 1
    return np.packbits(bits, bitorder="little").tobytes()


def members_in(metadata: MessageMetadata, body: memoryview) -> tuple[bytes, list[Member]] | None:
    """The opened body of a batch and its messages; None when it cannot be opened."""
    if is_encrypted(metadata):
        return None
    try:
        plain = opened(bytes(body), metadata.compression, metadata.uncompressed_size)
        return plain, list(_members(plain, metadata.num_messages_in_batch))
    except (PayloadError, ImportError):  # what opens it may not be installed: an extra
        return None


def _members(body: bytes, count: int) -> Iterator[Member]:
    at = 0
    for _ in range(count):
        start = at
        own, at = own_metadata(body, at)
        at += own.payload_size
        if own.payload_size < 0 or at > len(body):
            raise PayloadError("a message of a batch does not fit")
        key = _text(own.partition_key) if own.HasField("partition_key") else ""
        yield Member(key, not own.null_value and own.payload_size > 0, own.compacted_out, start, at)


def _rebatched(metadata: MessageMetadata, body: bytes, members: list[Member], survivors: set[int]) -> bytes:
    gone: bytes = SingleMessageMetadata(payload_size=0, compacted_out=True).SerializeToString()
    left_out = _LENGTH.pack(len(gone)) + gone
    parts = [
        body[member.start : member.behind] if index in survivors else left_out for index, member in enumerate(members)
    ]
    whole, plain = MessageMetadata(), b"".join(parts)
    whole.CopyFrom(metadata)
    try:
        made = compressed(plain, metadata.compression)
        whole.uncompressed_size = len(plain)
    except (PayloadError, ImportError):  # Snappy is only read here
        made = plain
        whole.compression = NONE
        whole.ClearField("uncompressed_size")
    return packed(whole, made)


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
