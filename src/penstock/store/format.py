"""The data folder's `format` file: which format, which secret, how large a segment.

Written once, when the folder is made. Each segment carries the same facts in its header, so that losing this file loses
nothing: they are taken from there.
"""

import secrets

import msgspec
from crc32c import crc32c

from penstock.errors import FormatUnknown, StoreError
from penstock.store.files import Disk, read_whole, write_whole
from penstock.store.layout import FORMAT, SEGMENT_HEADER_BYTES, SegmentHeader, unpack_segment_header

LOG_FOLDER = "log"
NAME = "format"


class Format(msgspec.Struct, frozen=True):
    format: int
    secret: int
    segment_bytes: int
    crc: int = 0

    def checksum(self) -> int:
        return crc32c(b"%d %d %d" % (self.format, self.secret, self.segment_bytes))


def open_format(disk: Disk, segment_bytes: int) -> Format:
    """The folder's facts: read, taken from a segment, or made anew for an empty folder."""
    found = find_format(disk)
    if found is None:
        if disk.list(LOG_FOLDER):
            raise StoreError("neither the format file nor any segment's header can be read: the log's secret is lost")
        found = Format(FORMAT, secrets.randbits(32), segment_bytes)
    _write(disk, found)
    return found


def find_format(disk: Disk) -> Format | None:
    """The folder's facts, with nothing written; None when nothing here is ours."""
    found = _from_file(disk) or _from_segments(disk)
    if found is not None and found.format != FORMAT:
        raise FormatUnknown(found.format, FORMAT)
    return found


def _from_file(disk: Disk) -> Format | None:
    try:
        found = msgspec.json.decode(read_whole(disk, NAME) or b"", type=Format)
    except msgspec.DecodeError:
        return None
    return found if found.crc == found.checksum() else None


def _from_segments(disk: Disk) -> Format | None:
    for name in disk.list(LOG_FOLDER):
        header = _segment_header(disk, f"{LOG_FOLDER}/{name}")
        if header is not None:
            return Format(header.format, header.secret, header.segment_bytes)
    return None


def _segment_header(disk: Disk, name: str) -> SegmentHeader | None:
    file = disk.open(name)
    try:
        return unpack_segment_header(file.read(SEGMENT_HEADER_BYTES, 0))
    finally:
        file.close()


def _write(disk: Disk, found: Format) -> None:
    whole = msgspec.structs.replace(found, crc=found.checksum())
    if read_whole(disk, NAME) != msgspec.json.encode(whole):
        write_whole(disk, ".", NAME, msgspec.json.encode(whole))
