"""Random work for a store, from a seed: what the crash and error tests let happen before the lights go out.

A `Workload` does one step at a time, all of it through a witness. Segments and table pieces are tiny, so that a hundred
steps roll, checkpoint and clean several times. The same seed does the same steps.
"""

import contextlib
import itertools
import random
from collections.abc import Callable

from penstock.clock import ManualClock
from penstock.config import StoreConfig
from penstock.errors import StoreError
from penstock.model import Durability
from penstock.store.directory import Pending
from penstock.store.files import Disk
from penstock.store.store import Store
from penstock.testing.witness import Witness
from penstock.wire import plain
from penstock.wire.plain import PLAIN_RUN, Plain, PlainRun

KIB = 1024
QUEUES = {1: Durability.SYNC, 2: Durability.SYNC, 3: Durability.ASYNC, 4: Durability.ASYNC}
BODY_BYTES_MAX = 600
LARGE_BODY_BYTES = 5_000
KEYS = ("a", "b", "c")


def small_config() -> StoreConfig:
    return StoreConfig(
        segment_bytes=16 * KIB,
        fill_step_bytes=2 * KIB,
        fill_ahead_bytes=4 * KIB,
        append_buffer_bytes=4 * KIB,
        hot_bytes=8 * KIB,
        piece_rows=8,
        chunk_pieces=16,
        open_segments_max=3,
        catalog_slack_rows=20,
        clean_live_share_max=0.5,
    )


def open_store(disk: Disk, clock: ManualClock) -> Store:
    return Store.open(disk, small_config(), clock, splitters={PLAIN_RUN: plain.split})


class Workload:
    """`refused` counts the steps that the store refused with one of its own errors."""

    def __init__(self, choose: random.Random, store: Store, witness: Witness, clock: ManualClock) -> None:
        self.choose, self.store, self.witness, self.clock = choose, store, witness, clock
        self.refused: list[StoreError] = []
        self._serial = itertools.count()
        self._name = choose.randrange(1 << 32)
        self.pending: Pending | None = None

    def begin(self) -> None:
        """The queues that all work goes to."""
        for queue_id, durability in QUEUES.items():
            self.witness.create(self.store, queue_id, durability)
        self.witness.flush(self.store)

    def step(self) -> str:
        """Do something; its name."""
        name = self.choose.choices(_NAMES, _WEIGHTS)[0]
        try:
            STEPS[name][1](self)
        except StoreError as error:
            self.refused.append(error)
        return name

    def _message(self, queue_id: int, length: int) -> Plain:
        body = b"%08x-%d." % (self._name, next(self._serial))
        return plain.plain(queue_id, body + self.choose.randbytes(length), tags=self.choose.choice(["", "red", "blue"]))

    def _queue(self) -> int:
        return self.choose.choice(self.witness.live_queues)

    def message(self) -> Plain:
        large = self.choose.random() < 0.03
        return self._message(self._queue(), LARGE_BODY_BYTES if large else self.choose.randrange(BODY_BYTES_MAX))

    def run(self) -> PlainRun:
        queue_id, count = self._queue(), self.choose.randint(1, 12)
        return plain.plain_run([self._message(queue_id, self.choose.randrange(BODY_BYTES_MAX)) for _ in range(count)])

    def batch(self) -> Plain:
        """A closed one: one entry, one row, several offsets."""
        entry = self.message()
        entry.count = self.choose.randint(2, 5)
        return entry

    def entry(self) -> Plain | PlainRun:
        kinds: list[Callable[[], Plain | PlainRun]] = [self.message, self.message, self.run, self.batch]
        entry = self.choose.choice(kinds)()
        if self.choose.random() < 0.5:
            entry.producer, entry.sequence = self._name + self.choose.randint(1, 3), next(self._serial)
        return entry

    def facts(self) -> dict[str, bytes | None]:
        """One fact, unlike any before, or that there is none any more."""
        value = b"%d." % next(self._serial) + self.choose.randbytes(self.choose.randrange(300))
        return {self.choose.choice(KEYS): value if self.choose.random() < 0.8 else None}


# --- the steps --------------------------------------------------------------------------------------------------------


def _append(work: Workload) -> None:
    work.witness.append(work.store, [work.entry() for _ in range(work.choose.randint(1, 5))])


def _append_group(work: Workload) -> None:
    work.witness.append(work.store, [work.entry() for _ in range(work.choose.randint(1, 8))], group=True)


def _append_with_facts(work: Workload) -> None:
    work.witness.append(work.store, [work.entry() for _ in range(work.choose.randint(1, 4))], facts=work.facts())


def _flush(work: Workload) -> None:
    work.witness.flush(work.store)


def _see(work: Workload) -> None:
    work.witness.see(work.store)


def _trim(work: Workload) -> None:
    queue_id = work.choose.choice(work.witness.live_queues)
    bounds = work.store.bounds(queue_id)
    work.witness.trim(work.store, queue_id, work.choose.randint(bounds.min_offset, bounds.max_offset))


def _trim_all(work: Workload) -> None:
    for queue_id in work.witness.live_queues:
        work.witness.trim(work.store, queue_id, work.store.bounds(queue_id).max_offset)


def _clean(work: Workload) -> None:
    if work.pending is None:  # the broker does not do both at once
        work.store.clean()


def _checkpoint(work: Workload) -> None:
    if work.pending is None:
        work.store.checkpoint()


def _checkpoint_aside(work: Workload) -> None:
    """As the running broker does it: begun in one step, written in a later one, with other work between."""
    if work.pending is None:
        work.pending = work.store.begin_checkpoint()
        return
    work.witness.flush(work.store)
    pending, work.pending = work.pending, None
    if work.store.durable_position < pending.position:
        work.store.abort_checkpoint(pending)
        return
    try:
        pending.write()
    except OSError:
        work.store.abort_checkpoint(pending)
    else:
        work.store.end_checkpoint(pending)


def _fill(work: Workload) -> None:
    with contextlib.suppress(OSError):
        work.store.fill()


def _put(work: Workload) -> None:
    for key, value in work.facts().items():
        work.witness.put(work.store, key, value)


def _replace_queue(work: Workload) -> None:
    """Queue numbers are never used again, so a new one takes the place of the one that goes."""
    queue_id = work.choose.choice(work.witness.live_queues)
    durability = work.witness.queues[queue_id].durability
    work.witness.create(work.store, max(work.witness.queues) + 1, durability)
    work.witness.drop(work.store, queue_id)


def _wait(work: Workload) -> None:
    work.clock.advance(work.choose.randrange(5_000))


STEPS: dict[str, tuple[int, Callable[[Workload], None]]] = {
    "append": (40, _append),
    "append a group": (12, _append_group),
    "append with facts": (5, _append_with_facts),
    "flush": (25, _flush),
    "see": (5, _see),
    "trim": (5, _trim),
    "trim all": (1, _trim_all),
    "clean": (5, _clean),
    "checkpoint": (4, _checkpoint),
    "checkpoint aside": (8, _checkpoint_aside),
    "fill": (5, _fill),
    "put": (6, _put),
    "replace a queue": (1, _replace_queue),
    "wait": (3, _wait),
}
_NAMES = list(STEPS)
_WEIGHTS = [weight for weight, _ in STEPS.values()]
