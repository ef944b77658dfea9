"""What a Spark uses: CPU of a whole family, also of those that end meanwhile, and the largest worker."""

import contextlib
import os
import threading
import time
from pathlib import Path
from typing import Self

from bench.machine import cpu_s, family, machine_cpu_s, memory_mb

EVERY_S = 0.2


def is_python(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return "python" in Path(f"/proc/{pid}/comm").read_text()
    return False


class Watch:
    """While it is entered: what a Spark, its Python workers, a broker and the whole machine use. Processes come and go,
    so they are looked at every so often.
    """

    def __init__(self, spark_pid: int, broker_pid: int) -> None:
        self._spark, self._broker = spark_pid, broker_pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._before: dict[int, float] = {}
        self._now: dict[int, float] = {}
        self._workers: set[int] = set()
        self.worker_mb = self.wall_s = self.machine_s = 0.0

    def __enter__(self) -> Self:
        self._look()
        self._before = dict(self._now)
        self.wall_s, self.machine_s = time.perf_counter(), machine_cpu_s()
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.wall_s, self.machine_s = time.perf_counter() - self.wall_s, machine_cpu_s() - self.machine_s
        self._over.set()
        self._thread.join()
        self._look()

    def _run(self) -> None:
        while not self._over.wait(EVERY_S):
            self._look()

    def _look(self) -> None:
        for pid in (*family(self._spark), self._broker):
            self._now[pid] = max(cpu_s(pid), self._now.get(pid, 0.0))
            if is_python(pid) and pid not in (self._spark, self._broker):
                self._workers.add(pid)
                self.worker_mb = max(self.worker_mb, memory_mb(pid, "RssAnon"))

    def _used_s(self, pids: set[int]) -> float:
        return sum(self._now[pid] - self._before.get(pid, 0.0) for pid in pids)

    @property
    def broker_s(self) -> float:
        return self._used_s({self._broker})

    @property
    def spark_s(self) -> float:
        return self._used_s(self._now.keys() - {self._broker})

    @property
    def workers_s(self) -> float:
        return self._used_s(self._workers)

    @property
    def others_share(self) -> float:
        """Of the machine, to anybody else."""
        others_s = self.machine_s - self.spark_s - self.broker_s
        return max(0.0, others_s / (self.wall_s * (os.cpu_count() or 1)))
