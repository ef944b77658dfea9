"""A broker that runs, whichever it is; and Penstock, started in a folder of its own.

CPU is that of the broker with all its threads and children; memory is that of everything that has to run.
"""

import contextlib
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Protocol

from tests.compat.rocketmq.peer import stopped

from bench.installed import as_installed
from bench.machine import cpu_s, family, memory_mb

PENSTOCK = "penstock"
FLUSHES = ("async", "sync")
START_TIMEOUT_S = 30


class Broker(NamedTuple):
    """One that is running. The first process is the broker."""

    name: str
    address: str
    pids: tuple[int, ...]

    def cpu_s(self) -> float:
        return sum(cpu_s(pid) for pid in family(self.pids[0]))

    def resident_mb(self) -> float:
        return self._memory_mb("VmRSS")

    def anonymous_mb(self) -> float:
        """What is not page cache."""
        return self._memory_mb("RssAnon")

    def _memory_mb(self, field: str) -> float:
        return sum(memory_mb(pid, field) for first in self.pids for pid in family(first))

    def text(self) -> str:
        return f"{self.name}: {self.address}, process {self.pids[0]}"


class Ports(Protocol):
    """Where a broker is going to listen, known before it starts."""

    @property
    def address(self) -> str:
        """What clients are told."""


class Serving(Protocol):
    """Starts a broker by its name in a new folder; gives it once it is ready. A profile is Penstock's alone."""

    def __call__(
        self, name: str, folder: Path, flush: str, ports: Ports, profile: str = ""
    ) -> contextlib.AbstractContextManager[Broker]: ...


@contextlib.contextmanager
def penstock(folder: Path, flush: str, address: str, ports: Mapping[str, int], profile: str = "") -> Iterator[Broker]:
    """`ports` by listener; the others take any. A profile is written when it stops."""
    folder.mkdir(parents=True)
    ready = folder / "ready.json"
    profiled = ["-m", "cProfile", "-o", profile] if profile else []
    settings = [f"--data={folder / 'data'}", f"--durability={flush}", f"--ready-file={ready}", "--log-level=warning"]
    numbers = [f"--{name}-port={ports.get(name, 0)}" for name in ("namesrv", "broker", "pulsar", "http")]
    command = [sys.executable, *profiled, "-m", "penstock", "serve", *settings, *numbers]
    as_installed()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        _wait(process, ready)
        yield Broker(PENSTOCK, address, (process.pid,))
    finally:
        stopped(process)


def _wait(process: "subprocess.Popen[bytes]", ready: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not ready.exists():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("Penstock did not start; what it said is above")
        time.sleep(0.01)
