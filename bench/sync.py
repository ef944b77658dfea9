"""Group commit: 64 producers on 64 queues, each with one message waiting, beside the raw disk's fdatasync."""

import asyncio
import os
import shutil
import statistics
import time
from collections.abc import Iterator
from pathlib import Path

from bench.lines import Line, in_turns, median, opened, raw, settle
from penstock.clock import SystemClock
from penstock.config import StoreConfig
from penstock.model import Durability
from penstock.store.keeper import Keeper

RUNS = 5
WAITERS = 64


def lines(folder: Path, quick: bool) -> Iterator[Line]:
    seconds = 1.0 if quick else 3.0
    body = os.urandom(1_024)
    served: list[float] = []

    def ours() -> tuple[float, float]:
        syncs, messages, took = asyncio.run(_group_commit(folder / "sync", body, seconds))
        shutil.rmtree(folder / "sync")
        settle()
        served.append(messages / syncs)
        return syncs / took, messages / took

    def disk() -> tuple[float, float]:
        return _raw_syncs(folder / "raw", seconds), 0.0

    mine, theirs = in_turns(RUNS, ours, disk)
    ratio, per_second = median(mine) / median(theirs), median(mine, 1)
    covered = statistics.median(served)
    beside = (
        f"{median(mine):,.0f} / {median(theirs):,.0f} syncs/s, {per_second:,.0f} messages/s, {covered:.0f} per sync"
    )
    yield Line(f"append, sync, {WAITERS} producers on {WAITERS} queues", ratio, "of raw syncs", 0.70, True, beside)


async def _group_commit(folder: Path, body: bytes, seconds: float) -> tuple[int, int, float]:
    """Syncs, messages acknowledged, seconds."""
    store = opened(folder, WAITERS, Durability.SYNC)
    keeper = Keeper(store, SystemClock(), StoreConfig())
    await keeper.start()
    messages, until = 0, time.perf_counter() + seconds
    done = asyncio.Event()
    waiting = WAITERS

    def send(queue: int) -> None:
        entry = raw(queue, body)

        def acknowledged(error: Exception | None) -> None:
            nonlocal messages, waiting
            if error is not None:
                raise error
            messages += 1
            if time.perf_counter() < until:
                send(queue)
                return
            waiting -= 1
            if not waiting:
                done.set()

        keeper.when_durable(store.append([entry]), acknowledged)

    began, before = time.perf_counter(), store.syncs
    for queue in range(1, WAITERS + 1):
        send(queue)
    await done.wait()
    took, syncs = time.perf_counter() - began, store.syncs - before
    await keeper.stop()
    return syncs, messages, took


def _raw_syncs(path: Path, seconds: float) -> float:
    """Fdatasyncs per second, each after overwriting as much as a group commit writes: the best that the disk can do."""
    size, data = 64 << 20, os.urandom(WAITERS // 2 * 1_104)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    for at in range(0, size, 1 << 20):
        os.pwrite(descriptor, bytes(1 << 20), at)
    os.fsync(descriptor)
    count, at, began = 0, 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        os.pwrite(descriptor, data, at)
        os.fdatasync(descriptor)
        count, at = count + 1, (at + len(data)) % (size - len(data))
    rate = count / (time.perf_counter() - began)
    os.close(descriptor)
    os.unlink(path)
    return rate
