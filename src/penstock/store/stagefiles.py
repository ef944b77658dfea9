"""Stages on the disk: `stages/`, a numbered file for each that is too large for the memory.

A file is a row of things that were put there, each with its length and checksum, and is only added to. Nothing is
synced before somebody asks for it, which is when a commit is about to be decided: until then a stage may be lost, and
whoever commits it is told. So that this does not take long, what is put there is on its way to the medium at once. At
the start all files go but those that a decided commit still has to publish.
"""

import struct
from collections.abc import Iterable, Iterator, Sequence

from crc32c import crc32c

from penstock.errors import StoreError
from penstock.store.files import Disk

FOLDER = "stages"
PUSH_BYTES = 4 << 20  # that begin their way to the medium together
_HEAD = struct.Struct("<II")  # length of what follows, its checksum

Buffer = bytes | memoryview
Item = Sequence[Buffer]  # what is put there, in parts


class StageFiles:
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        disk.make_folder(FOLDER)
        self._next = 1 + max(self._numbers(), default=0)

    def _numbers(self) -> list[int]:
        names = (name.removesuffix(".stage") for name in self._disk.list(FOLDER))
        return [int(name) for name in names if name.isdecimal()]

    def create(self) -> int:
        """The number of a new, empty file."""
        number, self._next = self._next, self._next + 1
        self._disk.open(_name(number), create=True).close()
        return number

    def add(self, number: int, at: int, items: Iterable[Item]) -> int:
        """Put things behind what is there, which ends at `at`; where it ends then. Their parts are not joined here:
        they may be megabytes.
        """
        file, begin = self._disk.open(_name(number)), at - at % PUSH_BYTES
        try:
            for parts in items:
                checksum = 0
                for part in parts:
                    checksum = crc32c(part, checksum)
                for part in (_HEAD.pack(sum(map(len, parts)), checksum), *parts):
                    file.write(part, at)
                    at += len(part)
            if at - begin >= PUSH_BYTES:
                file.push(begin, at - at % PUSH_BYTES - begin)
        finally:
            file.close()
        return at

    def read(self, number: int, at: int = 0) -> Iterator[tuple[bytes, int]]:
        """What was put into a file from `at` on, in order, each with where it ends; StoreError where it is damaged."""
        file = self._disk.open(_name(number))
        try:
            end = file.length()
            while at < end:
                head = file.read(_HEAD.size, at)
                length, checksum = _HEAD.unpack(head) if len(head) == _HEAD.size else (0, 0)
                data = file.read(length, at + _HEAD.size) if length <= end - at else b""
                if not data or len(data) != length or crc32c(data) != checksum:
                    raise StoreError(f"{_name(number)} is damaged at byte {at}: what it holds cannot be published")
                at += _HEAD.size + length
                yield data, at
        finally:
            file.close()

    def sync(self, numbers: Iterable[int]) -> None:
        """These files are on the medium: in a worker thread, since it takes its time."""
        for number in numbers:
            file = self._disk.open(_name(number))
            try:
                file.sync()
            finally:
                file.close()
        self._disk.sync_folder(FOLDER)
        self._disk.sync_folder(".")  # the folder may be new

    def remove(self, number: int) -> None:
        if self._disk.exists(_name(number)):
            self._disk.remove(_name(number))

    def keep_only(self, numbers: set[int]) -> None:
        for number in set(self._numbers()) - numbers:
            self.remove(number)


def _name(number: int) -> str:
    return f"{FOLDER}/{number}.stage"
