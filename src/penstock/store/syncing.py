"""Syncing again and again while somebody waits, and the marks by which the loop's thread and the committer's tell each
other how far they are. Each mark has one writer; `_syncing.c` is `rounds_in_python`, compiled, and needs no lock of the
interpreter's.
"""

import os
from array import array
from contextlib import suppress

from penstock.compiled import compiled
from penstock.store.files import datasync

SETTLED = 0  # behind the last append that is complete; written by the loop
GENERATION = (
    1  # another number whenever another file is the one to sync, before anything is settled in that; by the loop
)
WANTED = 2  # how far somebody waits for it to be durable; by the loop
DONE = 3  # how far it is durable; by the committer
ROUNDS = 4  # how many syncs there were; by the committer

Marks = array  # of these

_ONCE = (1).to_bytes(8, "little")


def marks_at(position: int) -> "Marks[int]":
    """For a log that ends there, all of it durable."""
    return array("q", [position, 0, position, position, 0])


def rounds_in_python(descriptor: int, generation: int, marks: "Marks[int]", bell: int) -> int:
    """Sync as long as somebody waits for what is not durable yet; `bell` is written to after each. Ends also when
    another file is to be synced. 0, or the number of the error that a sync failed with.
    """
    while marks[WANTED] > marks[DONE]:
        position = marks[SETTLED]
        if marks[GENERATION] != generation or position <= marks[DONE]:
            return 0
        try:
            datasync(descriptor)
        except OSError as error:
            return error.errno or -1
        marks[DONE] = position
        marks[ROUNDS] += 1
        with suppress(BlockingIOError):  # it rings already
            os.write(bell, _ONCE)
    return 0


rounds = compiled("penstock.store._syncing", rounds_in_python)
