"""Memory as it is on a machine that has been up for a while: all of it in use, most of it by the page cache.

    with full_page_cache(folder, say) as settle:
        settle()                                   # before every measurement

On a virtual machine that is fresh, or that gives what is free back to its host, the first touch of a page is a matter
of the host's: 8 us and more, ten times what the copy of its bytes takes. A broker that writes 100 MB/s then spends most
of its time there, whichever it is. So the page cache is filled with a file of nothing, which is a hole and takes no
room on the disk: what is written afterwards gets pages that the machine already has, as it does in daily use.
"""

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.lines import settle
from bench.machine import free_bytes

HOLE_BYTES = 1 << 42
STEP_BYTES = 512 << 20
READ_BYTES = 4 << 20

Settle = Callable[[], None]


@contextlib.contextmanager
def full_page_cache(folder: Path, say: Callable[[str], None], as_it_is: bool = False) -> Iterator[Settle]:
    """Fill it; what is given is to be called before each measurement: it waits for the disk, and fills what got free.

    `as_it_is` leaves the memory alone, to see what fresh pages cost."""
    if as_it_is:
        yield settle
        return
    with tempfile.NamedTemporaryFile(prefix=".penstock-hole-", dir=folder) as hole:
        os.truncate(hole.fileno(), HOLE_BYTES)
        filler = _Filler(hole.fileno())
        say(f"filling the page cache: {free_bytes() >> 20:,} MB are free (a minute or two on a fresh virtual machine)")

        def both() -> None:
            settle()
            filler.fill()

        both()
        say(f"the page cache is full: {free_bytes() >> 20:,} MB are free")
        yield both


class _Filler:
    def __init__(self, descriptor: int) -> None:
        self._descriptor, self._at = descriptor, 0
        self._buffer = bytearray(READ_BYTES)

    def fill(self) -> None:
        """Read on until half of what is read only takes the place of what was read before."""
        while True:
            before = free_bytes()
            for _ in range(STEP_BYTES // READ_BYTES):
                self._at += os.preadv(self._descriptor, [self._buffer], self._at)
            if before - free_bytes() < STEP_BYTES // 2:
                return
