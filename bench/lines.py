"""What a line of the table is, and the few helpers that all parts use."""

import os
import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

from penstock.clock import SystemClock
from penstock.config import StoreConfig
from penstock.model import Durability, Entry
from penstock.store.files import LocalDisk
from penstock.store.store import Store


@dataclass
class Line:
    """One figure and its goal, if it has one. `least` goals are to be reached from above, others from below."""

    name: str
    value: float
    unit: str
    goal: float | None
    least: bool
    beside: str = ""  # what it was compared with, and how that did

    @property
    def reached(self) -> bool:
        if self.goal is None:
            return True
        return self.value >= self.goal if self.least else self.value <= self.goal

    def text(self) -> str:
        return f"{self.name:66} {self.value:10,.2f} {self.unit:14} {self._verdict():20} {self.beside}"

    def _verdict(self) -> str:
        if self.goal is None:
            return ""
        return f"{'>=' if self.least else '<='} {self.goal:<8,g} {'ok' if self.reached else 'MISSED'}"

    def as_dict(self) -> dict[str, object]:
        return {**asdict(self), "reached": self.reached}


class Raw(Entry):
    """A message as the store sees one: bytes that copy themselves into the buffer."""

    encoding: ClassVar[int] = 60

    body: bytes = b""

    def write_into(self, buffer: memoryview, at: int, queue_id: int, offset: int, store_ms: int) -> None:
        buffer[at : at + self.length] = self.body


def raw(queue: int, body: bytes) -> Raw:
    return Raw(queue=queue, length=len(body), body=body)


def opened(folder: Path, queues: int, durability: Durability) -> Store:
    store = Store.open(LocalDisk(str(folder)), StoreConfig(durability=durability), SystemClock())
    for queue in range(1, queues + 1):
        store.create_queue(queue, durability)
    store.flush()
    return store


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds on the wall and seconds of CPU."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def in_turns(runs: int, *works: Callable[[], tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """Each work `runs` times, taking turns, in an order that changes; after one turn that does not count."""
    results: list[list[tuple[float, float]]] = [[] for _ in works]
    order = list(range(len(works)))
    for run in range(runs + 1):
        for index in order if run % 2 else reversed(order):
            result = works[index]()
            if run:
                results[index].append(result)
    return results


def median(values: list[tuple[float, float]], column: int = 0) -> float:
    return statistics.median(value[column] for value in values)


def settle() -> None:
    """Let the disk finish what earlier runs left in memory."""
    os.sync()
