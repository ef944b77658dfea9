"""Appending, without waiting for the disk, beside a plain sequential `write` of the same bytes."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from bench.lines import Line, in_turns, median, opened, raw, settle, timed
from penstock.model import Durability
from penstock.store.layout import HEADER_BYTES

RUNS = 7


def lines(folder: Path, quick: bool) -> Iterator[Line]:
    megabytes = 64 if quick else 256
    yield from _compare(folder, megabytes, entries=64, body_bytes=1_024, goal=0.30, what="64 entries of 1 KB per call")
    yield from _compare(folder, megabytes, entries=1, body_bytes=65_536, goal=0.60, what="one entry of 64 KB per call")


def _compare(folder: Path, megabytes: int, entries: int, body_bytes: int, goal: float, what: str) -> Iterator[Line]:
    body = os.urandom(body_bytes)
    calls = megabytes * 1_048_576 // (entries * body_bytes)
    call_bytes = entries * (body_bytes + HEADER_BYTES)

    def ours() -> tuple[float, float]:
        store = opened(folder / "append", entries, Durability.ASYNC)
        batch = [raw(queue, body) for queue in range(1, entries + 1)]

        def work() -> None:
            for _ in range(calls):
                store.append(batch)

        result = timed(work)
        store.abandon()
        shutil.rmtree(folder / "append")
        settle()
        return result

    def plain_write() -> tuple[float, float]:
        data = os.urandom(call_bytes)
        descriptor = os.open(folder / "plain", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)

        def work() -> None:
            for _ in range(calls):
                os.write(descriptor, data)

        result = timed(work)
        os.close(descriptor)
        os.unlink(folder / "plain")
        settle()
        return result

    mine, disk = in_turns(RUNS, ours, plain_write)
    mine_mb, disk_mb = (calls * call_bytes / median(runs) / 1e6 for runs in (mine, disk))
    yield Line(
        f"append, async, {what}",
        mine_mb / disk_mb,
        "of plain write",
        goal,
        True,
        f"{mine_mb:,.0f} / {disk_mb:,.0f} MB/s",
    )
    if entries > 1:
        own_us, all_us = (
            value / calls / entries * 1e6 for value in (median(mine, 1) - median(disk, 1), median(mine, 1))
        )
        beside = f"{own_us:.2f} us without the write itself"
        yield Line(f"append, async, {what}: CPU per entry", all_us, "us", 3.0, False, beside)
