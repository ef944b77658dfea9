"""What is measured, as tables: the orders for the client, the figures that come of each, and the goals.

A ratio is ours beside RocketMQ's. `least` figures are better when larger. Where smaller is better and the goal says how
many times smaller (start, memory), the ratio is turned round.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bench.lines import Line
from bench.rocketmq.brokers import PENSTOCK, ROCKETMQ
from bench.rocketmq.load import Figures


class Order(NamedTuple):
    """One line: what the client is told."""

    title: str
    order: str
    words: Mapping[str, object]
    figures: tuple[str, ...]


class Figure(NamedTuple):
    """One figure of a line, and its goal by flush."""

    title: str
    unit: str
    digits: int
    least: bool = False
    turned: bool = False  # theirs beside ours: "so many times as small"
    goals: Mapping[str, float] = {}


SENDS = ("per_s", "cpu_us", "p99_ms")
PACED = ("p50_ms", "p99_ms", "cpu_us")

ORDERS = {
    "sync-send": Order("sync send, 16 threads", "send", {"mode": "sync", "threads": 16}, SENDS),
    "async-send": Order("async send, window of 1,000", "send", {"mode": "async", "window": 1_000}, SENDS),
    "batch-send": Order("batches of 32, 4 threads", "send", {"mode": "batch", "threads": 4, "batch": 32}, SENDS),
    "consume": Order("push consume of a backlog", "consume", {}, ("per_s", "cpu_us")),
    "publish": Order("publish at 500/s", "publish", {"rate": 500}, PACED),
    "deliver": Order("end to end at 500/s", "deliver", {"rate": 500}, PACED),
}
START, MEMORY = "start", "memory"
FAILED = "failed"  # the figure of a measurement that came to nothing
TITLES = {**{key: order.title for key, order in ORDERS.items()}, START: "cold start", MEMORY: "resident memory"}
KEYS = (START, *ORDERS, MEMORY)

FIGURES = {
    "per_s": Figure("throughput", "msg/s", 0, least=True, goals={"async": 1.5, "sync": 1.4}),
    "cpu_us": Figure("broker CPU per message", "us", 1, goals={"async": 0.4, "sync": 0.4}),
    "p50_ms": Figure("p50", "ms", 2),
    "p99_ms": Figure("p99", "ms", 2, goals={"async": 0.9, "sync": 0.9}),
    "first_s": Figure("to the first message sent", "s", 2, least=True, turned=True, goals={"async": 18, "sync": 18}),
    "idle_mb": Figure("idle", "MB", 0, least=True, turned=True, goals={"async": 7, "sync": 7}),
    "after_mb": Figure("after all lines", "MB", 0, least=True, turned=True),
    "after_anonymous_mb": Figure("after all lines, without page cache", "MB", 0, least=True, turned=True),
}


class Amounts(NamedTuple):
    """How much of everything."""

    runs: int
    heat_s: float  # load on each broker before the first line
    warm_s: float
    seconds: float
    backlog: int

    def words(self) -> dict[str, object]:
        return {"warm": self.warm_s, "seconds": self.seconds, "count": self.backlog}


FULL = Amounts(runs=3, heat_s=20, warm_s=1, seconds=5, backlog=200_000)
QUICK = Amounts(runs=1, heat_s=4, warm_s=1, seconds=2, backlog=100_000)


class Result(NamedTuple):
    """One measurement of one broker."""

    flush: str
    line: str
    broker: str
    figures: Figures


def table(results: Sequence[Result]) -> list[Line]:
    """A line per figure, with medians; in the order in which they were measured."""
    kinds = dict.fromkeys((r.flush, r.line, figure) for r in results for figure in r.figures if figure in FIGURES)
    return [line for kind in kinds if (line := _line(kind, results))]


def _line(kind: tuple[str, str, str], results: Sequence[Result]) -> Line | None:
    flush, key, name = kind
    if key in ORDERS and name not in ORDERS[key].figures:
        return None
    figure = FIGURES[name]
    found = {broker: _median(results, broker, kind) for broker in (PENSTOCK, ROCKETMQ)}
    ours, theirs = found[PENSTOCK], found[ROCKETMQ]
    title = f"{flush} flush, {TITLES[key]}: {figure.title}"
    if ours is None or theirs is None:
        only = ours if theirs is None else theirs
        return Line(title, only or 0.0, figure.unit, None, figure.least, "no ratio: one broker alone")
    ratio = _ratio(theirs, ours) if figure.turned else _ratio(ours, theirs)
    beside = f"{ours:,.{figure.digits}f} / {theirs:,.{figure.digits}f} {figure.unit}"
    return Line(
        title,
        ratio,
        "times as small" if figure.turned else "of RocketMQ",
        figure.goals.get(flush),
        figure.least,
        beside,
    )


def _ratio(above: float, below: float) -> float:
    return above / below if below else 0.0


def _median(results: Sequence[Result], broker: str, kind: tuple[str, str, str]) -> float | None:
    flush, key, name = kind
    values = [
        r.figures[name] for r in results if (r.flush, r.line, r.broker) == (flush, key, broker) and name in r.figures
    ]
    return statistics.median(values) if values else None
