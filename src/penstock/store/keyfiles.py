"""Where blocks of the key index are kept: `keys/`, one small file per block. Everything in it is derived.

A block says which messages of a stretch of a queue have a key with a certain hash: two columns, sorted by hash. A file
is written once and never synced: it has a checksum, made with the log's secret, and what does not pass it (torn, or of
another log) counts as not there. The folder can be deleted at any time.
"""

import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from crc32c import crc32c

from penstock.store.files import Disk, read_whole

FOLDER = "keys"
_HEAD = struct.Struct("<IIQQQ")  # checksum over what follows, keys, queue, number, behind the last offset


class Block(NamedTuple):
    """`hashes` are sorted; `places` are the messages' offsets from the block's beginning; `until` is the offset behind
    the last message that was looked at.
    """

    hashes: npt.NDArray[np.uint32]
    places: npt.NDArray[np.uint16]
    until: int

    @property
    def size_bytes(self) -> int:
        return self.hashes.nbytes + self.places.nbytes


class KeyFiles:
    """Blocks by queue and number."""

    def __init__(self, disk: Disk, secret: int) -> None:
        self._disk, self._seed = disk, secret & 0xFFFFFFFF
        self.names = {found for name in disk.list(FOLDER) if (found := _parsed(name))}

    def load(self, queue: int, number: int) -> Block | None:
        """None when it is not there, or not sound."""
        data = read_whole(self._disk, _name(queue, number)) if (queue, number) in self.names else None
        if data is None or len(data) < _HEAD.size:
            return None
        checksum, count, *whose, until = _HEAD.unpack_from(data)
        if whose != [queue, number] or len(data) != _HEAD.size + 6 * count or crc32c(data[4:], self._seed) != checksum:
            return None
        hashes = np.frombuffer(data, np.uint32, count, _HEAD.size)
        return Block(hashes, np.frombuffer(data, np.uint16, count, _HEAD.size + 4 * count), until)

    def save(self, queue: int, number: int, block: Block) -> None:
        head = _HEAD.pack(0, len(block.hashes), queue, number, block.until)
        rest = b"".join((head[4:], block.hashes.tobytes(), block.places.tobytes()))
        self._disk.make_folder(FOLDER)
        file = self._disk.open(_name(queue, number), create=True)
        try:
            file.truncate(0)
            file.write(crc32c(rest, self._seed).to_bytes(4, "little") + rest, 0)
        finally:
            file.close()
        self.names.add((queue, number))

    def remove(self, queue: int, number: int) -> None:
        self.names.discard((queue, number))
        if self._disk.exists(_name(queue, number)):
            self._disk.remove(_name(queue, number))


def _name(queue: int, number: int) -> str:
    return f"{FOLDER}/{queue}-{number}.keys"


def _parsed(name: str) -> tuple[int, int] | None:
    queue, _, number = name.removesuffix(".keys").partition("-")
    return (int(queue), int(number)) if queue.isdecimal() and number.isdecimal() else None
