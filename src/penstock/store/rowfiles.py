"""Where the rows of all queue tables lie: a few large files, cut into pieces.

A row says where one message (or closed batch) is in the log. A piece holds `piece_rows` rows of one queue; a queue
table is a list of pieces. All pieces of all queues share few files, each mapped whole, so that ten thousand queues need
no more open files and mappings than one does. A file is sparse: an empty piece costs no disk.

The dtype is aligned on purpose: on a packed one `searchsorted` copies the whole column first.
"""

import struct
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from penstock.store.files import Disk, File

FOLDER = "tables"

# position, base offset, store ms, tag hash, length, count, lead (from the entry's start to this record), flags
ROW = struct.Struct("<qqqqiiii")
ROW_BYTES = ROW.size
ROW_DTYPE = np.dtype(
    [
        ("position", "<i8"),
        ("base", "<i8"),
        ("time", "<i8"),
        ("tag", "<i8"),
        ("length", "<i4"),
        ("count", "<i4"),
        ("lead", "<i4"),
        ("flags", "<i4"),
    ],
    align=True,
)
LOST = 1  # row flag: what it stood for was damaged; it keeps its number and its offsets
UNSURE = 2  # row flag: of a lost row whose offset is not known either
NOWHERE = -1  # the position of a lost row

Rows = npt.NDArray[np.void]


class RowFiles:
    """Hands out pieces by slot number and takes them back."""

    def __init__(self, disk: Disk, piece_rows: int, chunk_pieces: int) -> None:
        self._disk, self.piece_rows, self._chunk_pieces = disk, piece_rows, chunk_pieces
        self.piece_bytes = piece_rows * ROW_BYTES
        self._files: list[File] = []
        self._views: list[memoryview] = []
        self._rows: list[Rows] = []
        self._free: list[int] = []
        self.before_reuse: Callable[[], None] = lambda: None  # whoever may still read them lets go of them
        self._freed: list[int] = []  # still named by the last checkpoint: not to be overwritten before the next

    @property
    def chunks(self) -> int:
        return len(self._files)

    def _name(self, chunk: int) -> str:
        return f"{FOLDER}/{chunk:08d}.rows"

    def reset(self) -> None:
        """Throw all rows away."""
        self._files, self._views, self._rows, self._free, self._freed = [], [], [], [], []
        for name in self._disk.list(FOLDER):
            if name.endswith(".rows"):
                self._disk.remove(f"{FOLDER}/{name}")

    def reopen(self, chunks: int, used: set[int]) -> bool:
        """Take up the files of the last checkpoint; False when one is missing or too short."""
        for chunk in range(chunks):
            name = self._name(chunk)
            if not self._disk.exists(name):
                return False
            file = self._disk.open(name)
            if file.length() < self._chunk_pieces * self.piece_bytes:
                return False
            self._adopt(file)
        self._free = [slot for slot in range(chunks * self._chunk_pieces - 1, -1, -1) if slot not in used]
        return True

    def _adopt(self, file: File) -> None:
        view = file.map(writable=True)
        self._files.append(file)
        self._views.append(view)
        self._rows.append(np.frombuffer(view, dtype=ROW_DTYPE))

    def close(self) -> None:
        self._files, self._views, self._rows = [], [], []

    def allocate(self) -> int:
        if not self._free:
            self._grow()
        return self._free.pop()

    def _grow(self) -> None:
        chunk = len(self._files)
        file = self._disk.open(self._name(chunk), create=True)
        file.truncate(0)
        file.truncate(self._chunk_pieces * self.piece_bytes)
        self._disk.sync_folder(FOLDER)
        self._adopt(file)
        first = chunk * self._chunk_pieces
        self._free.extend(range(first + self._chunk_pieces - 1, first - 1, -1))

    def free(self, slot: int) -> None:
        self._freed.append(slot)

    def take_freed(self) -> list[int]:
        freed, self._freed = self._freed, []
        return freed

    def put_back(self, freed: list[int]) -> None:
        self._freed.extend(freed)

    def reuse(self, freed: list[int]) -> None:
        if freed:
            self.before_reuse()
        self._free.extend(freed)

    def place(self, slot: int) -> tuple[memoryview, int]:
        """The memory that holds a piece, and where in it the piece begins."""
        chunk, piece = divmod(slot, self._chunk_pieces)
        return self._views[chunk], piece * self.piece_bytes

    def reserve(self, slot: int, first: int, rows: int) -> None:
        """Make sure that the disk has room for some rows of a piece; an OSError when it has not."""
        chunk, piece = divmod(slot, self._chunk_pieces)
        self._files[chunk].reserve(piece * self.piece_bytes + first * ROW_BYTES, rows * ROW_BYTES)

    def rows(self, slot: int) -> Rows:
        chunk, piece = divmod(slot, self._chunk_pieces)
        return self._rows[chunk][piece * self.piece_rows : (piece + 1) * self.piece_rows]

    def files_of(self, slots: set[int]) -> list[File]:
        return [self._files[chunk] for chunk in sorted({slot // self._chunk_pieces for slot in slots})]
