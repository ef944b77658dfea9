"""Compacted views as they are kept: the fact that names one, and what its entries look like in the log.

    u64 row in the source | u64 offset there | u32 length of the bits | a bit per message that is left | payload

How they are made: `compaction.py`; how they are read: `subscriptions/compacted.py`.
"""

import struct
from typing import ClassVar, NamedTuple

import msgspec

from penstock.model import Entry

COMPACTED = 6  # encoding in the log
_HEAD = struct.Struct("<qqI")
HEAD_BYTES = _HEAD.size


class View(msgspec.Struct, frozen=True):
    """As it is kept: the queue with what survived, and the first row of the source that it does not know."""

    queue: int
    topic: str
    horizon: int
    at_ms: int
    took_ms: int = 0
    removed: int = 0  # entries that did not survive the last run


class Found(NamedTuple):
    """An entry of a source or of its view, by its row and offset in the source."""

    row: int
    offset: int
    messages: int
    payload: memoryview
    living: int | None = None  # a bit for each message that is left; None: all


class ViewEntry(Entry):
    encoding: ClassVar[int] = COMPACTED

    source_row: int = 0
    source_offset: int = 0
    living: bytes = b""
    payload: bytes = b""

    def write_into(self, buffer: memoryview, at: int, queue_id: int, offset: int, store_ms: int) -> None:
        _HEAD.pack_into(buffer, at, self.source_row, self.source_offset, len(self.living))
        buffer[at + _HEAD.size : at + self.length] = self.living + self.payload


def found_in(entry: memoryview, messages: int) -> Found:
    row, offset, bits = _HEAD.unpack_from(entry)
    living = int.from_bytes(entry[_HEAD.size : _HEAD.size + bits], "little") if bits else None
    return Found(row, offset, messages, entry[_HEAD.size + bits :], living)
