"""How an entry and a segment look in a file.

    segment  = header (64 bytes), entries one behind the other, zeros up to its fixed size
    entry    = header (80 bytes), payload

Two checksums per entry, both CRC32C: one over the payload, one over the header. With a sound header the damage of a
payload has a queue, a row and offsets, and the log goes on behind it. The header's checksum starts from a secret of
this log and from the entry's own position, so that bytes inside a payload can never pass for an entry, nor an entry for
one elsewhere.

`synced` is the position up to which the log was known to be on the medium when the entry was written: the last sound
entry proves how much must be there.
"""

import struct
from typing import NamedTuple

from crc32c import crc32c

FORMAT = 1
MAGIC = 0x7E5C_A11F
MAGIC_BYTES = struct.pack("<I", MAGIC)

# What follows magic and checksum: see Header.
FACTS = struct.Struct("<IIIIqqqqQqHHi")
STAMP = struct.Struct("<II")
HEADER = struct.Struct("<II72s")  # magic, checksum over the facts, the facts
HEADER_BYTES = HEADER.size

RUN = 1  # a row per message
GROUP = 2  # part of a group ...
GROUP_FIRST = 4  # ... its first ...
GROUP_LAST = 8  # ... its last entry
MOVED = 16  # a copy that the cleaner made: it takes no new row

SEED_MASK = 0xFFFFFFFF


class Header(NamedTuple):
    """An entry's header, decoded and found sound."""

    payload_crc: int
    length: int
    queue: int
    messages: int
    row: int
    base: int
    store_ms: int
    synced: int
    producer: int
    sequence: int
    encoding: int
    flags: int
    tag: int

    @property
    def rows(self) -> int:
        return self.messages if self.flags & RUN else 1


def header_in(view: memoryview, at: int, position: int, secret: int) -> Header | None:
    """The header at `at`, which is `position` in the log, or None when it is not sound."""
    facts = view[at + STAMP.size : at + HEADER_BYTES]
    if len(facts) < FACTS.size:
        return None
    magic, checksum = STAMP.unpack_from(view, at)
    if magic != MAGIC or crc32c(facts, (secret + position) & SEED_MASK) != checksum:
        return None
    return Header._make(FACTS.unpack_from(facts))


def put_header(buffer: memoryview, at: int, position: int, secret: int, header: Header) -> None:
    """Write a header. (The append path packs its own, see `append.py`.)"""
    facts = FACTS.pack(*header)
    HEADER.pack_into(buffer, at, MAGIC, crc32c(facts, (secret + position) & SEED_MASK), facts)


# --- segment header ---------------------------------------------------------------------------------------------------

SEGMENT_MAGIC = b"PENSTOCK"
_SEGMENT = struct.Struct("<8sIIqqqq")
SEGMENT_HEADER_BYTES = 64


class SegmentHeader(NamedTuple):
    format: int
    secret: int
    segment_bytes: int
    number: int
    previous_end: int  # where the log ended before this segment began: a position in an older segment
    created_ms: int


def pack_segment_header(header: SegmentHeader) -> bytes:
    body = _SEGMENT.pack(SEGMENT_MAGIC, *header)
    return (body + struct.pack("<I", crc32c(body))).ljust(SEGMENT_HEADER_BYTES, b"\0")


def unpack_segment_header(data: bytes) -> SegmentHeader | None:
    """None when it is damaged: the entries behind it may be sound all the same."""
    if len(data) < SEGMENT_HEADER_BYTES:
        return None
    magic, *facts = _SEGMENT.unpack_from(data)
    (checksum,) = struct.unpack_from("<I", data, _SEGMENT.size)
    if magic != SEGMENT_MAGIC or crc32c(data[: _SEGMENT.size]) != checksum:
        return None
    return SegmentHeader(*facts)
