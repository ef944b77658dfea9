"""The process: start, idle memory, and what comes after kill -9."""

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.installed import as_installed
from bench.lines import Line, opened, raw
from bench.lookup import anonymous_mb
from penstock.clock import SystemClock
from penstock.config import StoreConfig
from penstock.model import Durability
from penstock.store.files import LocalDisk
from penstock.store.store import Store

STARTS = 7


def lines(folder: Path, quick: bool) -> Iterator[Line]:
    yield from _start(folder)
    yield from _memory_after(folder, 1_000_000 if quick else 10_000_000)
    yield from _recovery(folder, 256 if quick else 1_024)


def _start(folder: Path) -> Iterator[Line]:
    took, anonymous, resident = [], [], []
    for _ in range(STARTS):
        milliseconds, process = _serve(folder / "start", folder / "ready.json")
        took.append(milliseconds)
        time.sleep(0.5)  # idle for a moment
        anonymous.append(anonymous_mb(str(process.pid)))
        resident.append(_resident_mb(process.pid))
        process.send_signal(signal.SIGTERM)
        process.wait(10)
    shutil.rmtree(folder / "start")
    yield Line("process start to ready", statistics.median(took), "ms", 500, False, f"best {min(took):.0f} ms")
    beside = f"{statistics.median(anonymous):.0f} MB of it not page cache"
    yield Line("idle resident memory", statistics.median(resident), "MB", 80, False, beside)


def _memory_after(folder: Path, entries: int) -> Iterator[Line]:
    """A broker on a folder that ten million messages went into, after it has served some of them."""
    store = opened(folder / "many", 64, Durability.ASYNC)
    batch = [raw(1 + index % 64, b"x" * 16) for index in range(1_000)]
    for _ in range(entries // 1_000):
        store.append(batch)
    here = anonymous_mb()
    store.close()
    del store
    milliseconds, process = _serve(folder / "many", folder / "ready.json")
    there = anonymous_mb(str(process.pid))
    process.send_signal(signal.SIGTERM)
    process.wait(10)
    shutil.rmtree(folder / "many")
    beside = f"{here:.0f} MB in the process that appended them; ready {milliseconds:.0f} ms after its start"
    yield Line(f"memory that is not page cache, folder of {entries:,} messages", there, "MB", 200, False, beside)


def _recovery(folder: Path, megabytes: int) -> Iterator[Line]:
    data = folder / "recovery"
    code = f"from bench.process import fill; fill({str(data)!r}, {megabytes})"
    writer = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    if writer.stdout is None or writer.stdout.readline().strip() != b"full":
        raise RuntimeError("the writer did not fill the log")
    writer.kill()
    writer.communicate()
    began = time.perf_counter()
    store = Store.open(LocalDisk(str(data)), StoreConfig(), SystemClock())
    took, report = time.perf_counter() - began, store.report
    beside = f"{report.replayed_entries:,} entries replayed of {store.bounds(1).max_offset * 64:,}"
    yield Line(f"recovery after kill -9, log of {megabytes:,} MB", took, "s", 2, False, beside)
    store.abandon()
    shutil.rmtree(data / "tables")
    began = time.perf_counter()
    store = Store.open(LocalDisk(str(data)), StoreConfig(), SystemClock())
    took = time.perf_counter() - began
    yield Line(f"all tables rebuilt, log of {megabytes:,} MB", took, "s", 60, False)
    store.abandon()
    shutil.rmtree(data)


def fill(folder: str, megabytes: int) -> None:
    """In a process of its own, to be killed: a log of 1 KB messages on 64 queues, with checkpoints as a broker makes
    them.
    """
    store, config, body = opened(Path(folder), 64, Durability.ASYNC), StoreConfig(), os.urandom(1_024)
    batch = [raw(queue, body) for queue in range(1, 65)]
    while store.end_position < megabytes * 1_048_576:
        store.append(batch)
        if store.end_position - store.checkpoint_position > config.checkpoint_bytes:
            store.checkpoint()
    print("full", flush=True)
    signal.pause()


def _serve(data: Path, ready: Path) -> tuple[float, "subprocess.Popen[bytes]"]:
    """A broker process, and the milliseconds from its start to its ready file."""
    ready.unlink(missing_ok=True)
    ports = [option for name in ("namesrv", "broker", "pulsar", "http") for option in (f"--{name}-port", "0")]
    as_installed()
    penstock = Path(sys.executable).parent / "penstock"
    command = [str(penstock), "serve", "--data", str(data), "--ready-file", str(ready), "--log-level", "error", *ports]
    began = time.perf_counter()
    process = subprocess.Popen(command)
    while not ready.exists():
        if process.poll() is not None:
            raise RuntimeError("the broker did not start")
        time.sleep(0.001)
    took = (time.perf_counter() - began) * 1000
    json.loads(ready.read_text())
    return took, process


def _resident_mb(pid: int) -> float:
    if not os.path.exists(f"/proc/{pid}/status"):
        return 0.0
    with open(f"/proc/{pid}/status") as status:
        return sum(int(line.split()[1]) for line in status if line.startswith("VmRSS")) / 1024
