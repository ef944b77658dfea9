"""Appending what clients send, without waiting for the disk, beside a plain sequential `write` of the same
bytes.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from bench.lines import Line, in_turns, median, opened, settle, timed
from penstock.model import Durability, Entry
from penstock.store.layout import HEADER_BYTES
from penstock.wire.pulsar.entry import PulsarEntry
from penstock.wire.rocketmq.record import Record, length_of

RUNS = 7


def message(queue: int, body: bytes) -> Entry:
    """As a send of RocketMQ's client is stored."""
    record = Record(queue=queue, length=0, topic=b"orders", body=body, properties=b"UNIQ_KEY\x01%032X\x02" % queue)
    record.length = length_of(record)
    return record


def closed_batch(queue: int, body: bytes) -> Entry:
    """As a batch of Pulsar's client is stored: whole."""
    return PulsarEntry(queue=queue, length=len(body), count=64, payload=body)


class Shape(NamedTuple):
    """One comparison: what a call of `append` holds. The entries for one queue are neighbours."""

    what: str
    entry: Callable[[int, bytes], Entry]
    entries: int
    queues: int
    body_bytes: int
    goal: float


SHAPES = (
    Shape("64 entries of 1 KB per call, one queue", message, 64, 1, 1_024, 0.30),
    Shape("64 entries of 1 KB per call, 4 queues", message, 64, 4, 1_024, 0.30),
    Shape("64 entries of 1 KB per call, 64 queues", message, 64, 64, 1_024, 0.30),
    Shape("one entry of 64 KB per call", closed_batch, 1, 1, 65_536, 0.60),
)


def lines(folder: Path, quick: bool) -> Iterator[Line]:
    megabytes = 64 if quick else 256
    for shape in SHAPES:
        yield from _compare(folder, megabytes, shape)


def _compare(folder: Path, megabytes: int, shape: Shape) -> Iterator[Line]:
    what, entry, entries, queues, body_bytes, goal = shape
    body = os.urandom(body_bytes)
    calls = megabytes * 1_048_576 // (entries * body_bytes)
    call_bytes = entries * (entry(1, body).length + HEADER_BYTES)

    def ours() -> tuple[float, float]:
        store = opened(folder / "append", queues, Durability.ASYNC)
        batch = [entry(index * queues // entries + 1, body) for index in range(entries)]

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
