"""What is measured, and the table: the ratio of both, with its goal. Pure."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from bench.lines import Line

PENSTOCK, KAFKA = "penstock", "kafka"
ENGINES = (PENSTOCK, KAFKA)


class Order(NamedTuple):
    """One line. Times are compared the other way round: the ratio is above 1 when ours is better."""

    title: str
    goal: float | None
    is_time: bool = False
    both: bool = True  # whether Kafka is measured beside


ORDERS = {
    "count": Order("count", 1.5),
    "two": Order("two columns: offset and body", 1.0),
    "parquet": Order("all columns, with properties or headers, to Parquet", 1.0),
    "stream": Order("AvailableNow catch-up, 1 million per batch", 1.0),
    "micro": Order("micro-batch of 80 rows", 1.0, is_time=True),
    "sink": Order("batch write of key and body", 1.0),
}


class Result(NamedTuple):
    """One measurement."""

    key: str
    engine: str
    rows: int
    wall_s: float
    spark_cpu_s: float  # the JVM and its Python workers
    workers_cpu_s: float  # the workers alone
    broker_cpu_s: float
    others_share: float  # of the machine, meanwhile: noise
    workers_mb: float = 0.0  # the largest Python worker

    @property
    def figure(self) -> float:
        """Rows per second; milliseconds for a time."""
        return self.wall_s * 1000 if ORDERS[self.key].is_time else self.rows / self.wall_s

    @property
    def cpu_us(self) -> float:
        """Of Spark and the broker, per row."""
        return (self.spark_cpu_s + self.broker_cpu_s) * 1e6 / max(self.rows, 1)


def table(results: Sequence[Result]) -> list[Line]:
    lines = []
    for key, order in ORDERS.items():
        ours, other = (_median(results, key, engine) for engine in ENGINES)
        if not ours:
            continue
        ratio = _ratio(ours[0], other[0], order.is_time) if other else 0.0
        unit = "ms" if order.is_time else "rows/s"
        told = f"{ours[0]:,.0f} / {other[0]:,.0f} {unit}" if other else f"{ours[0]:,.0f} {unit}"
        cpu = f"; CPU {ours[1]:.2f}" + (f" / {other[1]:.2f}" if other else "") + " us per row"
        lines.append(Line(order.title, ratio, "of Kafka", order.goal if other else None, True, told + cpu))
    return lines


def _ratio(ours: float, other: float, is_time: bool) -> float:
    return (other / ours if is_time else ours / other) if ours and other else 0.0


def _median(results: Sequence[Result], key: str, engine: str) -> tuple[float, float] | None:
    found = [result for result in results if (result.key, result.engine) == (key, engine)]
    if not found:
        return None
    return statistics.median(r.figure for r in found), statistics.median(r.cpu_us for r in found)


class Growth(NamedTuple):
    """A read of a topic of some size."""

    messages: int
    wall_s: float
    cpu_us: float
    workers_mb: float


def growth_lines(found: Sequence[Growth]) -> list[Line]:
    """What a message costs as a topic grows, beside the smallest."""
    if not found:
        return []
    first = found[0]
    lines = []
    for one in found[1:]:
        beside = f"{one.cpu_us:.2f} / {first.cpu_us:.2f} us of CPU per row"
        title = f"cost per message, {one.messages:,} beside {first.messages:,}"
        lines.append(Line(title, one.cpu_us / first.cpu_us, "times", 1.25, False, beside))
        told = f"{one.workers_mb:.0f} / {first.workers_mb:.0f} MB"
        lines.append(
            Line("memory of a worker, the same two", one.workers_mb / first.workers_mb, "times", 1.25, False, told)
        )
    return lines
