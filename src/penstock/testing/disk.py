"""A disk in memory that loses, tears and refuses: what the store's promises are tested against.

`FaultyDisk` stands behind the same seam as the real disk (`store/files.py`). It keeps apart what memory holds and what
the medium holds, and says what the machine could find after a power cut (`crash`), or the process after it was killed
(`kill`). Both give a new disk and leave this one as it is, so that one moment yields many states.

The model is harsher than most file systems, and allowed by POSIX: a file's content is on the medium only after its own
`sync`, its name only after `sync_folder` on the folder that holds it (a folder's own name: on its parent). Sectors and
names arrive in any order.

Every call that a real disk could refuse is counted in `calls`, so that a test can fail each in turn (`fail_at`) or look
at the disk before each (`watch`). Several threads may use one disk; a call is atomic.

Not here: reads that are slow, and time.
"""

import enum
import errno
import os
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from penstock.testing.inode import Inode, subset
from penstock.testing.names import Names, clean_name, with_parents


class Mode(enum.Enum):
    """What a power cut leaves of the unsynced."""

    NOTHING = "nothing"
    PREFIX = "prefix"  # everything up to some moment, in order
    TORN_512 = "torn at 512 bytes"  # each sector as it was at some moment of its own
    TORN_4096 = "torn at 4096 bytes"


class Call(NamedTuple):
    """A call that is about to be carried out."""

    number: int
    kind: str  # open, create, list, make_folder, rename, remove, sync_folder; read, write, sync, truncate, reserve, map
    name: str


class Fault(NamedTuple):
    error: OSError
    short_bytes: int  # of a write, how much is written before the error


class MappedHoleError(Exception):
    """On a real disk the process would be dead: SIGBUS, from memory mapped over a hole when no space is left."""


class FaultyFile:
    """An open file. Made by `FaultyDisk.open`."""

    def __init__(self, disk: "FaultyDisk", name: str, inode: Inode) -> None:
        self._disk, self._name, self._inode, self._open = disk, name, inode, True

    @property
    def descriptor(self) -> int | None:
        return None

    def _begin(self, kind: str) -> Fault | None:
        if not self._open:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF), self._name)
        return self._disk.begin(kind, self._name)

    def read(self, length: int, at: int) -> bytes:
        with self._disk.lock:
            _refuse(self._begin("read"))
            return bytes(memoryview(self._inode.content)[at : at + length])

    def is_resident(self, mapping: memoryview, at: int, length: int) -> bool:
        return not self._disk.cold

    def read_all(self, places: Sequence[tuple[int, int]], wait: bool) -> list[memoryview] | None:
        if self._disk.cold and not wait:
            return None
        return [memoryview(self.read(length, at)) for length, at in places]

    def read_into(self, room: memoryview, at: int, wait: bool) -> bool:
        if self._disk.cold and not wait:
            return False
        room[:] = self.read(len(room), at)
        return True

    def announce(self, at: int, length: int) -> None:
        """Nothing gets faster here."""

    def write(self, data: bytes | bytearray | memoryview, at: int) -> None:
        with self._disk.lock:
            whole = bytes(data)
            fault = self._begin("write") or self._disk.no_room(self._inode, at, len(whole))
            self._inode.write(self._disk.calls, at, whole[: fault.short_bytes] if fault else whole)
            _refuse(fault)

    def sync(self) -> None:
        with self._disk.lock:
            fault = self._begin("sync")
            self._disk.check_mapped(self._name, self._inode)
            if fault:
                self._inode.lose()
                _refuse(fault)
            if not self._disk.lying:
                self._inode.sync()

    def truncate(self, length: int) -> None:
        with self._disk.lock:
            _refuse(self._begin("truncate"))
            if length != len(self._inode.content):
                self._inode.truncate(self._disk.calls, length)

    def push(self, at: int, length: int) -> None:
        """Nothing: what has not been synced may be there after a power cut, or not, as ever."""

    def reserve(self, at: int, length: int) -> None:
        with self._disk.lock:
            _refuse(self._begin("reserve") or self._disk.no_room(self._inode, at, length))
            self._inode.reserve(self._disk.calls, at, length)

    def length(self) -> int:
        return len(self._inode.content)

    def map(self, writable: bool) -> memoryview:
        with self._disk.lock:
            _refuse(self._begin("map"))
            if not self._inode.content:
                raise ValueError("cannot map an empty file")
            return self._inode.map(writable)

    def close(self) -> None:
        self._open = False


class FaultyDisk:
    def __init__(self) -> None:
        self.calls = 0
        self.lying = False  # syncs say that they succeeded, and do nothing
        self.cold = False  # nothing is in memory when asked without waiting
        self.watch: Callable[[Call], None] | None = None
        self.lock = threading.RLock()
        self._names = Names()
        self._full = False
        self._planned: dict[int, Fault] = {}
        self._broken: dict[str, OSError] = {}

    # --- the seam ----------------------------------------------------------------------------------------------------

    def open(self, name: str, create: bool = False) -> FaultyFile:
        with self.lock:
            name = clean_name(name)
            made = create and name not in self._names.linked
            _refuse(self.begin("create" if made else "open", name))
            if made and self._full:
                raise _no_space()
            if made:
                self._names.relink(self.calls, name, {name: Inode()})
            return FaultyFile(self, name, self._names.file(name))

    def exists(self, name: str) -> bool:
        return clean_name(name) in self._names.linked

    def make_folder(self, folder: str) -> None:
        with self.lock:
            folder = clean_name(folder)
            _refuse(self.begin("make_folder", folder))
            for name in with_parents(folder):
                if name not in self._names.linked:
                    self._names.relink(self.calls, name, {name: self._names.folder})

    def rename(self, name: str, to: str) -> None:
        with self.lock:
            name, to = clean_name(name), clean_name(to)
            _refuse(self.begin("rename", name))
            self._names.relink(self.calls, to, {name: None, to: self._names.file(name)})

    def remove(self, name: str) -> None:
        with self.lock:
            name = clean_name(name)
            _refuse(self.begin("remove", name))
            self._names.file(name)
            self._names.relink(self.calls, name, {name: None})

    def sync_folder(self, folder: str) -> None:
        with self.lock:
            folder = clean_name(folder)
            _refuse(self.begin("sync_folder", folder))
            self._names.require_folder(folder)
            if not self.lying:
                self._names.sync(folder)

    # --- faults ------------------------------------------------------------------------------------------------------

    def fail_at(self, number: int, error: OSError, short_bytes: int = 0) -> None:
        """Let the call with this number fail, once. The next call has the number `calls`."""
        self._planned[number] = Fault(error, short_bytes)

    def break_calls(self, kind: str, error: OSError) -> None:
        """Let every call of a kind fail until `mend`."""
        self._broken[kind] = error

    def mend(self) -> None:
        self._broken.clear()
        self._planned.clear()

    def fill_up(self) -> None:
        """No space is left until `make_space`: what has its place on the disk can still be overwritten."""
        for inode in self._names.inodes():
            inode.allocated.update(inode.touched_holes())
        self._full = True

    def make_space(self) -> None:
        self._full = False

    def flip(self, name: str, byte: int, bit: int) -> None:
        """Rot: one bit is wrong from now on."""
        self._names.file(clean_name(name)).flip(byte, bit)

    # --- for files: count and judge a call ---------------------------------------------------------------------------

    def begin(self, kind: str, name: str) -> Fault | None:
        """Count a call; the fault that was planned for it, if any."""
        number = self.calls
        if self.watch is not None:
            self.watch(Call(number, kind, name))
        self.calls = number + 1
        broken = self._broken.get(kind)
        return self._planned.pop(number, None) or (Fault(broken, 0) if broken else None)

    def no_room(self, inode: Inode, at: int, length: int) -> Fault | None:
        room = inode.room(at, length) if self._full else length
        return None if room == length else Fault(_no_space(), room)

    def check_mapped(self, name: str, inode: Inode) -> None:
        holes = inode.touched_holes()
        if holes and self._full:
            raise MappedHoleError(f"{name}: pages {holes}, written through a mapping, have no place on the full disk")
        inode.allocated.update(holes)

    # --- what is there, and what is left -----------------------------------------------------------------------------

    def content(self, name: str) -> bytes:
        """What a file holds, without a call that counts."""
        return bytes(self._names.file(clean_name(name)).content)

    def files(self) -> list[str]:
        return self._names.files()

    def kill(self) -> "FaultyDisk":
        """After `kill -9`: memory is the system's, so all that was written is there, and still unsynced."""
        with self.lock:
            return self._successor(self._names.inherited(Inode.copy))

    def crash(self, choose: random.Random, mode: Mode) -> "FaultyDisk":
        """After a power cut: one of the states that it may leave."""
        with self.lock:
            changes = {change.moment for inode in self._names.inodes() for change in inode.pending}
            relinks = [relink.moment for relink in self._names.pending]
            moment = choose.choice([-1, *sorted(changes.union(relinks))])
            links = self._names.arrived(set(_ARRIVAL[mode](choose, relinks, moment)))
            survive = _SURVIVAL[mode]
            return self._successor(self._names.replaced_by(links, lambda inode: Inode(survive(inode, choose, moment))))

    def _successor(self, names: Names) -> "FaultyDisk":
        after = FaultyDisk()
        after._names = names
        after.calls = self.calls  # what is pending keeps its place in the order
        return after

    def list(self, folder: str) -> list[str]:  # last: from here on the class has no other `list`
        with self.lock:
            folder = clean_name(folder)
            _refuse(self.begin("list", folder))
            return self._names.within(folder)


_SURVIVAL: dict[Mode, Callable[[Inode, random.Random, int], bytearray]] = {
    Mode.NOTHING: lambda inode, choose, moment: inode.durable,
    Mode.PREFIX: lambda inode, choose, moment: inode.at_moment(choose, moment),
    Mode.TORN_512: lambda inode, choose, moment: inode.torn(choose, 512),
    Mode.TORN_4096: lambda inode, choose, moment: inode.torn(choose, 4096),
}
_ARRIVAL: dict[Mode, Callable[[random.Random, list[int], int], Iterable[int]]] = {
    Mode.NOTHING: lambda choose, relinks, moment: (),
    Mode.PREFIX: lambda choose, relinks, moment: (each for each in relinks if each <= moment),
    Mode.TORN_512: lambda choose, relinks, moment: subset(choose, relinks),
    Mode.TORN_4096: lambda choose, relinks, moment: subset(choose, relinks),
}


def _refuse(fault: Fault | None) -> None:
    if fault:
        raise OSError(fault.error.errno, os.strerror(fault.error.errno or errno.EIO))


def _no_space() -> OSError:
    return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
