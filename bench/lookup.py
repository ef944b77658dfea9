"""Finding an offset or a time in a queue of ten million entries, and the memory that such a queue takes."""

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from bench.lines import Line, raw
from penstock.clock import ManualClock
from penstock.config import StoreConfig
from penstock.model import Durability
from penstock.store.files import LocalDisk
from penstock.store.store import Store

LOOKUPS = 2_000


def lines(folder: Path, quick: bool) -> Iterator[Line]:
    entries = 1_000_000 if quick else 10_000_000
    clock = ManualClock()
    before = anonymous_mb()
    store = Store.open(LocalDisk(str(folder / "lookup")), StoreConfig(durability=Durability.ASYNC), clock)
    store.create_queue(1, Durability.ASYNC)
    first_ms = clock.now_ms()
    batch = [raw(1, b"x" * 16)] * 1_000
    for _ in range(entries // 1_000):
        store.append(batch)
        clock.advance(10)
    grown = anonymous_mb() - before
    table, last_ms, choose = store.table(1), clock.now_ms(), random.Random(1)
    offsets = [choose.randrange(entries) for _ in range(LOOKUPS)]
    times = [choose.randrange(first_ms, last_ms) for _ in range(LOOKUPS)]
    yield _line(f"lookup by offset among {entries:,} entries", table.row_at_offset, offsets)
    yield _line(f"lookup by time among {entries:,} entries", table.row_at_time, times)
    yield Line(f"memory that is not page cache, {entries:,} entries later", grown, "MB more", 100, False)
    store.abandon()
    del store, table
    shutil.rmtree(folder / "lookup")


def _line(name: str, look_up: Callable[[int], int], wanted: list[int]) -> Line:
    took = []
    for value in wanted:
        began = time.perf_counter()
        look_up(value)
        took.append(time.perf_counter() - began)
    took.sort()
    beside = f"p99 {took[int(len(took) * 0.99)] * 1e6:.1f} us"
    return Line(name, took[len(took) // 2] * 1e6, "us (median)", 50, False, beside)


def anonymous_mb(pid: str = "self") -> float:
    """Resident memory that is not page cache (Linux)."""
    if not os.path.exists(f"/proc/{pid}/status"):
        return 0.0
    with open(f"/proc/{pid}/status") as status:
        return sum(int(line.split()[1]) for line in status if line.startswith("RssAnon")) / 1024
