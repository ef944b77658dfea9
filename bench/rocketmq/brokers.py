"""The two brokers, started alike: a folder of their own, free ports on loopback, and the flush that was asked for.

    with serving("penstock", folder, "async", Ports.free()) as broker:
        broker.namesrv, broker.cpu_s(), broker.resident_mb()

CPU is that of the broker with all its threads and children (RocketMQ's name server is left out of it: clients hardly
ask it); memory is that of everything that has to run, RocketMQ's name server too. RocketMQ runs as it comes, with a
heap of 0.5 to 1 GB instead of the 8 GB that its own script would take.
"""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, Self

from tests.compat.rocketmq import peer

PENSTOCK, ROCKETMQ = "penstock", "rocketmq"
SEGMENT_BYTES = 1 << 30  # RocketMQ's own default for a file of its log; the compatibility tests take less
FLUSHES = {"async": "ASYNC_FLUSH", "sync": "SYNC_FLUSH"}
START_TIMEOUT_S = 30
STOP_TIMEOUT_S = 15


class Ports(NamedTuple):
    """Where a broker is going to listen, known before it starts."""

    namesrv: int
    broker: int

    @classmethod
    def free(cls) -> Self:
        return cls(peer.free_port(), peer.free_broker_port())


class Broker(NamedTuple):
    """One that is running. The first process is the broker."""

    name: str
    namesrv: str
    pids: tuple[int, ...]

    def cpu_s(self) -> float:
        return sum(cpu_s(pid) for pid in _family(self.pids[0]))

    def resident_mb(self) -> float:
        return self._memory_mb("VmRSS")

    def anonymous_mb(self) -> float:
        """What is not page cache."""
        return self._memory_mb("RssAnon")

    def _memory_mb(self, field: str) -> float:
        return sum(_status_kb(pid, field) for first in self.pids for pid in _family(first)) / 1024

    def text(self) -> str:
        return f"{self.name}: name server {self.namesrv}, process {self.pids[0]}"


def serving(
    name: str, folder: Path, flush: str, ports: Ports, profile: str = ""
) -> contextlib.AbstractContextManager[Broker]:
    """A broker in a new folder, ready; a profile is written when Penstock stops."""
    if name == ROCKETMQ:
        return _rocketmq(folder, flush, ports)
    return _penstock(folder, flush, ports, profile)


@contextlib.contextmanager
def _penstock(folder: Path, flush: str, ports: Ports, profile: str) -> Iterator[Broker]:
    folder.mkdir(parents=True)
    ready = folder / "ready.json"
    profiled = ["-m", "cProfile", "-o", profile] if profile else []
    settings = [
        "--data",
        str(folder / "data"),
        "--durability",
        flush,
        "--ready-file",
        str(ready),
        "--log-level",
        "warning",
    ]
    numbers = ["--namesrv-port", str(ports.namesrv), "--broker-port", str(ports.broker)]
    others = ["--pulsar-port", "0", "--http-port", "0"]
    command = [sys.executable, *profiled, "-m", "penstock", "serve", *settings, *numbers, *others]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        _wait(process, ready)
        yield Broker(PENSTOCK, f"{peer.HOST}:{ports.namesrv}", (process.pid,))
    finally:
        _stop(process)


@contextlib.contextmanager
def _rocketmq(folder: Path, flush: str, ports: Ports) -> Iterator[Broker]:
    settings = {"flushDiskType": FLUSHES[flush], "mappedFileSizeCommitLog": str(SEGMENT_BYTES)}
    with peer.real_rocketmq(folder, settings=settings, ports=ports) as found:
        yield Broker(ROCKETMQ, found.namesrv, (found.pids[1], found.pids[0]))


def _wait(process: "subprocess.Popen[bytes]", ready: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not ready.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("Penstock did not start; what it said is above")
        time.sleep(0.01)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _family(pid: int) -> list[int]:
    """A process and all that it has started."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has just ended
            for child in task.read_text().split():
                found += _family(int(child))
    return found


def cpu_s(pid: int) -> float:
    """utime and stime of all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def machine_cpu_s() -> float:
    """What all processes and the kernel have used on all cores."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = (
        int(ticks) for ticks in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")


def _status_kb(pid: int, field: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))
