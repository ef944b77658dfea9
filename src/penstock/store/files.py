"""The seam between the store and the disk.

Every byte the log reads or writes passes through a `Disk`; the store holds no path and calls nothing of `os` itself.
There are two: `LocalDisk` here, and the faulty in-memory disk of `penstock.testing.disk`, which can lose, tear and
refuse writes.

Names are relative, made by the store from numbers (`log/00000000000000000003.log`): a name that came over the wire
never becomes a path. A file's size is set with `truncate` before it is mapped; a mapping sees what `write` wrote.

Not here: SQLite, which brings its own I/O (`progress.py`), and the lock file (`lock.py`).
"""

import contextlib
import ctypes
import errno
import fcntl
import mmap
import os
from collections.abc import Sequence
from typing import Protocol

import numpy as np

NOWAIT = getattr(os, "RWF_NOWAIT", 0)  # Linux only: elsewhere every cold read goes to a worker thread
_mincore = getattr(ctypes.CDLL(None), "mincore", None)
_sync_file_range = getattr(ctypes.CDLL(None), "sync_file_range", None)  # Linux only
_BEGIN_WRITING = 2  # what it is asked: no waiting, and nobody is told of an error before he syncs
if _sync_file_range is not None:
    _sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


def datasync(descriptor: int) -> None:
    """What was written to a file is on the medium. macOS leaves it in the drive's own memory unless it is told more."""
    if hasattr(fcntl, "F_FULLFSYNC"):
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)


class File(Protocol):
    """One open file. Positions are bytes from its start."""

    def read(self, length: int, at: int) -> bytes:
        """Up to `length` bytes; fewer at the end of the file."""
        ...

    def read_all(self, places: Sequence[tuple[int, int]], wait: bool) -> list[memoryview] | None:
        """What lies at several places (length, at). Without `wait` None when some of it is not in memory: for the event
        loop, which must not wait for a disk.
        """
        ...

    def read_into(self, room: memoryview, at: int, wait: bool) -> bool:
        """As much as there is room for, or an OSError. Without `wait` False when some of it is not in memory."""
        ...

    def announce(self, at: int, length: int) -> None:
        """Begin to bring a range into memory, so that reading it waits less. Promises nothing."""
        ...

    def write(self, data: bytes | bytearray | memoryview, at: int) -> None:
        """All of `data`, or an OSError; after an error any part of it may have been written."""
        ...

    def sync(self) -> None:
        """What was written, and the size needed to read it back, is on the medium; or an OSError."""
        ...

    def push(self, at: int, length: int) -> None:
        """Begin to bring a range to the medium, so that a sync has less to do. Promises nothing, and says nothing."""
        ...

    @property
    def descriptor(self) -> int | None:
        """The system's number of this file, for those who sync it without asking this object. None: ask it."""
        ...

    def truncate(self, length: int) -> None: ...

    def reserve(self, at: int, length: int) -> None:
        """Disk space for a range that has not been written, or an OSError: writing to it through a mapping cannot fail
        then.
        """
        ...

    def length(self) -> int: ...

    def map(self, writable: bool) -> memoryview:
        """The whole file as memory. Writable mappings reach the medium by `sync`."""
        ...

    def is_resident(self, mapping: memoryview, at: int, length: int) -> bool:
        """Whether a part of a mapping of this file is in memory, so that reading it does not wait for the disk."""
        ...

    def close(self) -> None: ...


class Disk(Protocol):
    """A folder. `sync_folder` makes creations, renames and removals in a sub-folder durable."""

    def open(self, name: str, create: bool = False) -> File: ...

    def list(self, folder: str) -> list[str]: ...

    def exists(self, name: str) -> bool: ...

    def make_folder(self, folder: str) -> None: ...

    def rename(self, name: str, to: str) -> None: ...

    def remove(self, name: str) -> None: ...

    def sync_folder(self, folder: str) -> None: ...


def write_whole(disk: Disk, folder: str, name: str, data: bytes) -> None:
    """Replace a small file so that a crash leaves the old one or the new one, never a mixture."""
    scratch = f"{folder}/{name}.new"
    file = disk.open(scratch, create=True)
    try:
        file.truncate(0)
        file.write(data, 0)
        file.sync()
    finally:
        file.close()
    disk.rename(scratch, f"{folder}/{name}")
    disk.sync_folder(folder)


def read_whole(disk: Disk, name: str) -> bytes | None:
    """All of a small file, or None when it is not there."""
    if not disk.exists(name):
        return None
    file = disk.open(name)
    try:
        return file.read(file.length(), 0)
    finally:
        file.close()


class LocalFile:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    @property
    def descriptor(self) -> int | None:
        return self._descriptor

    def read(self, length: int, at: int) -> bytes:
        data = os.pread(self._descriptor, length, at)
        while len(data) < length:
            more = os.pread(self._descriptor, length - len(data), at + len(data))
            if not more:
                break
            data += more
        return data

    def read_all(self, places: Sequence[tuple[int, int]], wait: bool) -> list[memoryview] | None:
        found: list[memoryview] = []
        for length, at in places:
            room = memoryview(bytearray(length))
            if not self.read_into(room, at, wait):
                return None
            found.append(room)
        return found

    def read_into(self, room: memoryview, at: int, wait: bool) -> bool:
        if not wait:
            return self._read_now(room, at)
        done = 0
        while done < len(room):
            some = os.preadv(self._descriptor, [room[done:]], at + done)
            if not some:
                raise OSError(errno.EIO, f"the file ends {len(room) - done} bytes before what should be there")
            done += some
        return True

    def _read_now(self, room: memoryview, at: int) -> bool:
        try:
            return bool(NOWAIT) and os.preadv(self._descriptor, [room], at, NOWAIT) == len(room)
        except OSError:  # not in memory, or a file system that cannot tell
            return False

    def announce(self, at: int, length: int) -> None:
        if hasattr(os, "posix_fadvise"):
            with contextlib.suppress(OSError):  # a file system that does not know this: reading will tell what is wrong
                os.posix_fadvise(self._descriptor, at, length, os.POSIX_FADV_WILLNEED)

    def write(self, data: bytes | bytearray | memoryview, at: int) -> None:
        done = os.pwrite(self._descriptor, data, at)
        while done < len(data):
            done += os.pwrite(self._descriptor, memoryview(data)[done:], at + done)

    def sync(self) -> None:
        datasync(self._descriptor)

    def push(self, at: int, length: int) -> None:
        if _sync_file_range is not None:
            _sync_file_range(self._descriptor, at, length, _BEGIN_WRITING)

    def truncate(self, length: int) -> None:
        os.ftruncate(self._descriptor, length)

    def reserve(self, at: int, length: int) -> None:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._descriptor, at, length)
        else:  # macOS
            self.write(bytes(length), at)

    def length(self) -> int:
        return os.fstat(self._descriptor).st_size

    def map(self, writable: bool) -> memoryview:
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        return memoryview(mmap.mmap(self._descriptor, 0, access=access))

    def is_resident(self, mapping: memoryview, at: int, length: int) -> bool:
        if _mincore is None or length <= 0:
            return False
        first = at - at % mmap.PAGESIZE
        pages = -(-(at + length - first) // mmap.PAGESIZE)
        flags = np.zeros(pages, dtype=np.uint8)
        address = np.frombuffer(mapping, dtype=np.uint8, count=1).ctypes.data + first
        failed = _mincore(
            ctypes.c_void_p(address), ctypes.c_size_t(at + length - first), ctypes.c_void_p(flags.ctypes.data)
        )
        return not failed and bool((flags & 1).all())

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    __del__ = (
        close  # a worker thread may still read a segment that was closed for everyone else: it goes with its last user
    )


class LocalDisk:
    """A folder on a real disk."""

    def __init__(self, root: str) -> None:
        self._root = root
        os.makedirs(root, exist_ok=True)

    def _path(self, name: str) -> str:
        return os.path.join(self._root, name)

    def open(self, name: str, create: bool = False) -> LocalFile:
        flags = os.O_RDWR | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        return LocalFile(os.open(self._path(name), flags, 0o640))

    def list(self, folder: str) -> list[str]:
        try:
            return sorted(os.listdir(self._path(folder)))
        except FileNotFoundError:
            return []

    def exists(self, name: str) -> bool:
        return os.path.exists(self._path(name))

    def make_folder(self, folder: str) -> None:
        os.makedirs(self._path(folder), exist_ok=True)

    def rename(self, name: str, to: str) -> None:
        os.replace(self._path(name), self._path(to))

    def remove(self, name: str) -> None:
        os.unlink(self._path(name))

    def sync_folder(self, folder: str) -> None:
        descriptor = os.open(self._path(folder), os.O_RDONLY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
