"""Scrubbing a data folder that no broker uses: every entry, every row, every derived file. Reads only.

`verify` tells what is damaged, `dump` lists what is there. Damage in what is derived (tables, checkpoint) is a note:
the next start mends it. Damage in the log is damage.
"""

from collections.abc import Callable, Iterator

import msgspec

from penstock.config import StoreConfig
from penstock.errors import NotOurFolder
from penstock.store import directory
from penstock.store.files import Disk
from penstock.store.format import find_format
from penstock.store.plan import Damage
from penstock.store.rowfiles import RowFiles
from penstock.store.scan import Found, scan
from penstock.store.segments import Segments

Progress = Callable[[int, int], None]  # bytes done, bytes in all


class Verdict(msgspec.Struct):
    entries: int = 0
    messages: int = 0
    bytes: int = 0
    damage: list[Damage] = []
    notes: list[str] = []

    @property
    def sound(self) -> bool:
        return not self.damage


class Dumped(msgspec.Struct):
    """One entry of the log."""

    position: int
    queue: int
    row: int
    offset: int
    count: int
    store_ms: int
    length: int
    encoding: int
    flags: int
    sound: bool
    payload: bytes


def _open_segments(disk: Disk) -> Segments:
    found = find_format(disk)
    if found is None:
        raise NotOurFolder
    return Segments(disk, found.segment_bytes, found.secret, StoreConfig().open_segments_max)


def verify(disk: Disk, config: StoreConfig | None = None, progress: Progress | None = None) -> Verdict:
    """Check everything in a data folder."""
    verdict = Verdict()
    segments = _open_segments(disk)
    total = len(segments.numbers) * segments.segment_bytes
    for item in _everything(segments):
        if isinstance(item, Damage):
            verdict.damage.append(item)
            continue
        verdict.entries += 1
        verdict.messages += item.header.messages
        verdict.bytes += item.end - item.position
        if not item.sound:
            verdict.damage.append(Damage(item.position, item.end - item.position, "payload checksum wrong"))
        if progress and verdict.entries % 10_000 == 0:
            done = segments.numbers.index(item.position // segments.segment_bytes) * segments.segment_bytes
            progress(done + item.position % segments.segment_bytes, total)
    for number in segments.numbers:
        if segments.header(number) is None:
            verdict.notes.append(f"segment {number}: its header is damaged; its entries were read all the same")
    _check_tables(disk, config or StoreConfig(), verdict)
    return verdict


def dump(disk: Disk) -> Iterator[Dumped | Damage]:
    """Every entry in the order of the log, and the damage between them."""
    for item in _everything(_open_segments(disk)):
        if isinstance(item, Damage):
            yield item
            continue
        header = item.header
        yield Dumped(
            item.position,
            header.queue,
            header.row,
            header.base,
            header.messages,
            header.store_ms,
            header.length,
            header.encoding,
            header.flags,
            item.sound,
            bytes(item.payload),
        )


def _everything(segments: Segments) -> Iterator[Found | Damage]:
    if segments.numbers:
        yield from scan(segments, segments.first_position(segments.numbers[0]))


def _check_tables(disk: Disk, config: StoreConfig, verdict: Verdict) -> None:
    saved = directory.load(disk, config.piece_rows, config.chunk_pieces)
    if saved is None:
        verdict.notes.append("there is no usable checkpoint: the next start rebuilds the tables from the log")
        return
    files = RowFiles(disk, config.piece_rows, config.chunk_pieces)
    tables = [directory.table_of(state, files) for state in saved.tables]
    if not files.reopen(saved.chunks, set()):
        verdict.notes.append("a table file is missing or too short: the next start rebuilds the tables from the log")
        return
    for table in tables:
        for at, crc in enumerate(table.piece_crcs):
            number = table.first_piece + at
            if table.checksum(number, table.clean_row) != crc:
                verdict.notes.append(
                    f"queue {table.queue}: piece {number} of its table is damaged; it is mended when used"
                )
