"""Syncing again and again while somebody waits, sleeping while nobody does, and the marks by which the loop's thread
and the committer's tell each other how far they are. Each mark has one writer. `_syncing.c` is the functions that end
in `_in_python`, compiled, and needs no lock of the interpreter's, neither for a sync nor to fall asleep and wake up.

Nobody is forgotten: who falls asleep says so first and then looks once more whether somebody waits; who begins to wait
says so first and then looks whether the other sleeps, and calls it through a pipe.
"""

import os
import select
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
ASLEEP = 5  # whether it has to be called; by the committer
STOPPED = 6  # whether it shall not sleep any more; by the loop

Marks = array  # of these

_ONCE = (1).to_bytes(8, "little")
_CALLS_BYTES = 4_096


def marks_at(position: int) -> "Marks[int]":
    """For a log that ends there, all of it durable."""
    return array("q", [position, 0, position, position, 0, 0, 0])


def rounds_in_python(
    descriptor: int, generation: int, marks: "Marks[int]", bell: int, calls: int = -1, sleep_ms: int = 0
) -> int:
    """Sync as long as somebody waits for what is not durable yet; `bell` is written to after each. Then sleep until
    there is a call, and so on; it ends when a sleep was not interrupted, when there are no `calls`, and when another
    file is to be synced. 0, or the number of the error that a sync failed with.
    """
    while not (error := _synced_while_wanted(descriptor, generation, marks, bell)):
        if marks[WANTED] > marks[DONE] or calls < 0 or not sleep_in_python(marks, calls, sleep_ms):
            return 0
    return error


def _synced_while_wanted(descriptor: int, generation: int, marks: "Marks[int]", bell: int) -> int:
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


def sleep_in_python(marks: "Marks[int]", calls: int, sleep_ms: int) -> bool:
    """Until there is a call; False when there was none, or it is to stop. Does not begin when somebody waits."""
    marks[ASLEEP] = 1
    try:
        if marks[WANTED] > marks[DONE]:
            return True
        if marks[STOPPED]:
            return False
        ear = select.poll()
        ear.register(calls, select.POLLIN)
        if not ear.poll(sleep_ms):
            return False
    finally:
        marks[ASLEEP] = 0
    with suppress(BlockingIOError):
        os.read(calls, _CALLS_BYTES)
    return not marks[STOPPED]


def call_in_python(marks: "Marks[int]", caller: int) -> None:
    """Wake who sleeps; after what it is to see was marked. (Between two lines of Python memory may not be in order:
    here everybody counts as asleep.)
    """
    with suppress(BlockingIOError):  # it is called already
        os.write(caller, b"!")


rounds = compiled("penstock.store._syncing", rounds_in_python)
sleep = compiled("penstock.store._syncing", sleep_in_python)
call = compiled("penstock.store._syncing", call_in_python)
