"""What processes use, from /proc: CPU of a whole family with those that have ended, and the largest worker."""

import contextlib
import os
import threading
from pathlib import Path
from typing import Self

from bench.rocketmq.brokers import machine_cpu_s

__all__ = ["Peak", "family", "family_cpu_s", "machine_cpu_s", "workers_cpu_s"]


def family(pid: int) -> list[int]:
    """A process and all that it has started."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has just ended
            for child in task.read_text().split():
                found += family(int(child))
    return found


def is_python(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return "python" in Path(f"/proc/{pid}/comm").read_text()
    return False


def workers_cpu_s(pid: int) -> float:
    """Of the Python workers of a Spark."""
    return _cpu_s([one for one in family(pid)[1:] if is_python(one)])


def family_cpu_s(pid: int) -> float:
    return _cpu_s(family(pid))


def _cpu_s(pids: list[int]) -> float:
    """Of all of them, and of children that were waited for."""
    ticks = 0
    for one in pids:
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def _resident_mb(pid: int) -> float:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) / 1024
    return 0.0


class Peak:
    """While it is entered: the most memory that a Python worker of a Spark has had, looked at every so often."""

    EVERY_S = 0.2

    def __init__(self, pid: int) -> None:
        self._pid, self.mb = pid, 0.0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self.EVERY_S):
            self.mb = max([self.mb, *(_resident_mb(pid) for pid in family(self._pid)[1:] if is_python(pid))])
