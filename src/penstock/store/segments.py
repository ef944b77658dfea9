"""The log's files: fixed-size segments, named by number.

A position in the log is `number * segment_bytes + place in the file`, so any position finds its file by a division.
Segments are removed anywhere in the log once nothing in them is alive: gaps in the numbers are normal. Few are open at
a time.
"""

from collections import OrderedDict
from collections.abc import Iterator

from penstock.store.files import Disk, File
from penstock.store.format import LOG_FOLDER
from penstock.store.layout import (
    FORMAT,
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    pack_segment_header,
    unpack_segment_header,
)


class Segment:
    """One open segment. The mapping is made when somebody reads through it."""

    def __init__(self, number: int, file: File) -> None:
        self.number, self.file = number, file
        self._view: memoryview | None = None

    @property
    def view(self) -> memoryview:
        if self._view is None:
            self._view = self.file.map(writable=False) if self.file.length() else memoryview(b"")
        return self._view

    def forget_view(self) -> None:
        self._view = None


class Segments:
    def __init__(self, disk: Disk, segment_bytes: int, secret: int, open_max: int) -> None:
        self._disk, self.segment_bytes, self.secret, self._open_max = disk, segment_bytes, secret, open_max
        self.numbers = sorted(int(name[:-4]) for name in disk.list(LOG_FOLDER) if name.endswith(".log"))
        self._open: OrderedDict[int, Segment] = OrderedDict()
        self.quiet: dict[
            int, int
        ] = {}  # scans: from this place on nothing sound was found; as long as nothing is written

    @staticmethod
    def _name(number: int) -> str:
        return f"{LOG_FOLDER}/{number:020d}.log"

    def get(self, number: int) -> Segment:
        segment = self._open.get(number)
        if segment is None:
            segment = Segment(number, self._disk.open(self._name(number)))
            self._open[number] = segment
            self._forget_oldest()
        else:
            try:  # noqa: SIM105  # asked for with every read: a context manager would cost more than all else here
                self._open.move_to_end(number)
            except KeyError:  # closed by another thread meanwhile: what we have in hand is still good
                pass
        return segment

    def pin(self, numbers: set[int]) -> dict[int, File | None]:
        """The files of some segments, to be read whatever becomes of the segments; None for one that is not there."""
        return {number: self.get(number).file if number in self.numbers else None for number in numbers}

    def at(self, position: int) -> tuple[Segment, int]:
        """The segment that holds a position, and the place in its file."""
        number, place = divmod(position, self.segment_bytes)
        return self.get(number), place

    def _forget_oldest(self) -> None:
        while len(self._open) > self._open_max:
            self._open.popitem(last=False)  # closed with its last reader

    def create(self, number: int, previous_end: int, now_ms: int) -> Segment:
        """A new last segment. Not synced: the first commit that covers it syncs it and the folder."""
        file = self._disk.open(self._name(number), create=True)
        try:
            file.truncate(0)
            file.truncate(self.segment_bytes)
            header = SegmentHeader(FORMAT, self.secret, self.segment_bytes, number, previous_end, now_ms)
            file.write(pack_segment_header(header), 0)
        except OSError:
            file.close()
            self._disk.remove(self._name(number))
            raise
        segment = Segment(number, file)
        self._open[number] = segment
        self.numbers.append(number)
        self._forget_oldest()
        return segment

    def mapped(self, numbers: set[int]) -> dict[int, memoryview]:
        """The mappings of some segments, of those that are there."""
        return {number: self.get(number).view for number in numbers if number in self.numbers}

    def mend_lengths(self) -> None:
        """A power cut may keep a name but not the size, which is set before anything is synced."""
        for number in self.numbers:
            file = self.get(number).file
            if file.length() < self.segment_bytes:
                file.truncate(self.segment_bytes)

    def remove(self, number: int) -> None:
        self._disk.remove(self._name(number))
        self._open.pop(number, None)
        self.numbers.remove(number)

    def close(self) -> None:
        self._open.clear()

    def sync_folder(self) -> None:
        self._disk.sync_folder(LOG_FOLDER)

    def header(self, number: int) -> SegmentHeader | None:
        return unpack_segment_header(self.get(number).file.read(SEGMENT_HEADER_BYTES, 0))

    def first_position(self, number: int) -> int:
        return number * self.segment_bytes + SEGMENT_HEADER_BYTES

    def from_position(self, position: int) -> Iterator[tuple[int, int, int | None]]:
        """The segments from a position on: number, the place to begin at, and where the entries of a sealed one end if
        known.
        """
        first, place = divmod(position, self.segment_bytes)
        numbers = [number for number in self.numbers if number >= first]
        for number, successor in zip(numbers, [*numbers[1:], None], strict=False):
            begin = max(place, SEGMENT_HEADER_BYTES) if number == first else SEGMENT_HEADER_BYTES
            yield number, begin, self._sealed_end(number, successor)

    def _sealed_end(self, number: int, successor: int | None) -> int | None:
        if successor != number + 1:
            return None  # the newest, or its neighbour is gone
        header = self.header(successor)
        if header is None:
            return None
        end = header.previous_end - number * self.segment_bytes
        return end if SEGMENT_HEADER_BYTES <= end <= self.segment_bytes else None
