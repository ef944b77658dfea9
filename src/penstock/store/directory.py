"""The checkpoint: `tables/directory`, one file that says what the row files hold and up to which position of the log.

Everything in it is derived. It is replaced whole, with a checksum; when it is missing or damaged, all of it is rebuilt
from the log. The order that makes it safe: the log is synced up to the position, then the row files, then this file
takes the old one's place. Rows written later lie behind those it counts and are simply written again by the replay.
"""

from array import array

import msgspec
from crc32c import crc32c

from penstock.model import Durability
from penstock.store.files import Disk, File, read_whole, write_whole
from penstock.store.plan import Damage
from penstock.store.rowfiles import FOLDER, RowFiles
from penstock.store.table import QueueTable

NAME = "directory"
VERSION = 1
ANY = -1  # a bit for every encoding


class TableState(msgspec.Struct, array_like=True):
    queue: int
    durability: Durability
    min_row: int
    min_offset: int
    next_row: int
    next_offset: int
    live_bytes: int
    last_ms: int
    first_piece: int
    slots: bytes  # the four columns of the pieces: int64 each
    piece_offsets: bytes
    piece_times: bytes
    piece_crcs: bytes
    producers: dict[int, int]
    encodings: int = ANY  # not told by older versions


class Directory(msgspec.Struct):
    version: int
    position: int
    last_ms: int
    piece_rows: int
    chunk_pieces: int
    chunks: int
    live: dict[int, int]
    facts: dict[str, bytes]  # the catalog ...
    facts_row: int  # ... up to this row of its queue
    damage: list[Damage]
    tables: list[TableState]


def load(disk: Disk, piece_rows: int, chunk_pieces: int) -> Directory | None:
    """The last checkpoint, or None when there is none to trust."""
    data = read_whole(disk, f"{FOLDER}/{NAME}")
    if data is None or len(data) < 4 or crc32c(data[4:]) != int.from_bytes(data[:4], "little"):
        return None
    try:
        directory = msgspec.msgpack.decode(data[4:], type=Directory)
    except msgspec.DecodeError:
        return None
    same = (directory.version, directory.piece_rows, directory.chunk_pieces) == (VERSION, piece_rows, chunk_pieces)
    return directory if same else None


def _packed(numbers: list[int]) -> bytes:
    return array("q", numbers).tobytes()


def _unpacked(data: bytes) -> list[int]:
    return array("q", data).tolist()


def state_of(table: QueueTable) -> TableState:
    return TableState(
        table.queue,
        table.durability,
        table.min_row,
        table.min_offset,
        table.next_row,
        table.next_offset,
        table.live_bytes,
        table.last_ms,
        table.first_piece,
        _packed(table.slots),
        _packed(table.piece_offsets),
        _packed(table.piece_times),
        _packed(table.piece_crcs),
        dict(table.producers),
        table.encodings,
    )


def table_of(state: TableState, files: RowFiles) -> QueueTable:
    table = QueueTable(files, state.queue, state.durability, state.min_row, state.min_offset)
    table.next_row, table.next_offset = state.next_row, state.next_offset
    table.live_bytes, table.last_ms, table.producers = state.live_bytes, state.last_ms, state.producers
    table.first_piece, table.slots = state.first_piece, _unpacked(state.slots)
    table.piece_offsets, table.piece_times = _unpacked(state.piece_offsets), _unpacked(state.piece_times)
    table.piece_crcs, table.encodings = _unpacked(state.piece_crcs), state.encodings
    table.clean_row = state.next_row
    table.unproved = set(range(table.first_piece, table.first_piece + len(table.slots)))
    return table


def seal(table: QueueTable, piece_rows: int) -> set[int]:
    """Take the checksums of the pieces that changed since the last checkpoint; their slots."""
    if table.next_row == table.clean_row and not table.changed:
        return set()
    dirty = set(table.changed)
    dirty.update(range(table.clean_row // piece_rows, table.first_piece + len(table.slots)))
    dirty = {number for number in dirty if table.first_piece <= number < table.first_piece + len(table.slots)}
    for number in dirty:
        table.piece(number)  # damage is mended before a new checksum covers it
        table.piece_crcs[number - table.first_piece] = table.checksum(number, table.next_row)
    table.clean_row = table.next_row
    table.changed.clear()
    return {table.slots[number - table.first_piece] for number in dirty}


class Pending:
    """A checkpoint under way: what to write, once the log is durable up to `position`. `write` may run in a worker
    thread.
    """

    def __init__(
        self, disk: Disk, directory: Directory, slots: set[int], files: list[File], freed: list[int], dead: list[int]
    ) -> None:
        self._disk, self._directory, self._files = disk, directory, files
        self.position, self.slots, self.freed, self.dead = directory.position, slots, freed, dead

    def write(self) -> None:
        for file in self._files:
            file.sync()
        body = msgspec.msgpack.encode(self._directory)
        write_whole(self._disk, FOLDER, NAME, crc32c(body).to_bytes(4, "little") + body)
