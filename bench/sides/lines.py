"""What is measured of two brokers, as tables: the orders for the client, the figures that come of each, and the goals.

A ratio is ours beside the rival's. `least` figures are better when larger. Where smaller is better and the goal says
how many times smaller (start, memory), the ratio is turned round. Pure.
"""

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bench.lines import Line
from bench.sides.brokers import PENSTOCK

START, MEMORY = "start", "memory"
FAILED = "failed"  # the figure of a measurement that came to nothing

Figures = dict[str, float]


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


class Race(NamedTuple):
    """Penstock and a rival, and what is measured of them."""

    rival: str
    name: str  # of the rival, as people write it
    orders: Mapping[str, Order]
    figures: Mapping[str, Figure]
    message: Mapping[str, object]  # what every order says of messages and topics, unless it says otherwise
    heat: str  # the order that both are warmed up with

    @property
    def keys(self) -> tuple[str, ...]:
        return (START, *self.orders, MEMORY)

    @property
    def titles(self) -> dict[str, str]:
        return {
            START: "cold start",
            **{key: order.title for key, order in self.orders.items()},
            MEMORY: "resident memory",
        }

    def table(self, results: Sequence[Result]) -> list[Line]:
        """A line per figure, with medians; in the order in which they were measured."""
        kinds = dict.fromkeys(
            (r.flush, r.line, figure) for r in results for figure in r.figures if figure in self.figures
        )
        return [line for kind in kinds if (line := self._line(kind, results))]

    def _line(self, kind: tuple[str, str, str], results: Sequence[Result]) -> Line | None:
        flush, key, name = kind
        if key in self.orders and name not in self.orders[key].figures:
            return None
        figure = self.figures[name]
        ours, theirs = (_median(results, broker, kind) for broker in (PENSTOCK, self.rival))
        title = f"{flush} flush, {self.titles[key]}: {figure.title}"
        if ours is None or theirs is None:
            only = ours if theirs is None else theirs
            return Line(title, only or 0.0, figure.unit, None, figure.least, "no ratio: one broker alone")
        ratio = _ratio(theirs, ours) if figure.turned else _ratio(ours, theirs)
        unit = "times as small" if figure.turned else f"of {self.name}"
        beside = f"{ours:,.{figure.digits}f} / {theirs:,.{figure.digits}f} {figure.unit}"
        return Line(title, ratio, unit, figure.goals.get(flush), figure.least, beside)


def both(goal: float) -> dict[str, float]:
    """The same goal for either flush."""
    return {"async": goal, "sync": goal}


def _ratio(above: float, below: float) -> float:
    return above / below if below else 0.0


def _median(results: Sequence[Result], broker: str, kind: tuple[str, str, str]) -> float | None:
    flush, key, name = kind
    values = [
        r.figures[name] for r in results if (r.flush, r.line, r.broker) == (flush, key, broker) and name in r.figures
    ]
    return statistics.median(values) if values else None
