"""Reading a queue from the page cache, alone in the log and among 64."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from bench.lines import Line, in_turns, median, opened, raw, timed
from penstock.clock import SystemClock
from penstock.config import StoreConfig
from penstock.model import Durability
from penstock.store.files import LocalDisk
from penstock.store.store import Store

RUNS = 5


def lines(folder: Path, quick: bool) -> Iterator[Line]:
    megabytes = 128 if quick else 512
    yield from _sequential(folder, megabytes, queues=1, goal=1_000)
    yield from _sequential(folder, megabytes, queues=64, goal=300)


def _sequential(folder: Path, megabytes: int, queues: int, goal: float) -> Iterator[Line]:
    store = opened(folder / "read", queues, Durability.ASYNC)
    body = os.urandom(1_024)
    batch = [raw(1 + index % queues, body) for index in range(64)]
    for _ in range(megabytes * 1_048_576 // (64 * 1_024)):
        store.append(batch)
    store.close()
    store = Store.open(LocalDisk(str(folder / "read")), StoreConfig(), SystemClock())
    first_s, _ = timed(lambda: _read_all(store, queues))  # with every checksum looked at
    (runs,) = in_turns(RUNS, lambda: timed(lambda: _read_all(store, queues)))
    size = megabytes * 1_048_576
    where = "alone in the log" if queues == 1 else f"{queues} queues interleaved"
    beside = f"{size / first_s / 1e6:,.0f} MB/s the first time, with checksums"
    yield Line(
        f"read from the page cache, 1 KB messages, {where}", size / median(runs) / 1e6, "MB/s", goal, True, beside
    )
    store.abandon()
    shutil.rmtree(folder / "read")


def _read_all(store: Store, queues: int) -> None:
    for queue in range(1, queues + 1):
        offset, end = 0, store.bounds(queue).max_offset
        while offset < end:
            batch = store.read(queue, offset, 1_000, 1 << 20)
            b"".join(batch.payloads)  # what a gateway does with it
            offset = batch.next_offset
