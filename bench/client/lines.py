"""What is measured, and the table: ours with its goals, beside it the Java client's figures and the ratio. Pure."""

import statistics
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bench.lines import Line

OURS, JAVA = "python", "java"


class Order(NamedTuple):
    """One line: what both clients are told, and the goal of ours."""

    title: str
    order: str
    words: Mapping[str, object]  # a word that a client does not know is left alone by it
    goal_per_s: int


ORDERS = {
    "send": Order("awaited sends, 256 in flight", "send", {"mode": "async", "window": 256}, 15_000),
    "push": Order("pushed to a handler that does nothing", "consume", {}, 60_000),
}


class Result(NamedTuple):
    """One measurement of one client."""

    key: str
    client: str
    per_s: float
    client_cpu_us: float  # per message
    others_share: float = 0.0  # of the machine, to neither this client nor the broker: noise


def table(results: Sequence[Result]) -> list[Line]:
    lines = []
    for key, order in ORDERS.items():
        ours, java = (_median(results, key, client) for client in (OURS, JAVA))
        if ours is None:
            continue
        goal = float(order.goal_per_s)
        lines.append(Line(order.title, ours.per_s, "msg/s", goal, least=True, beside=_beside(ours, java)))
    return lines


def _beside(ours: Result, java: Result | None) -> str:
    cpu = f"CPU of the client {ours.client_cpu_us:.1f} us"
    if java is None:
        return cpu
    ratio = ours.per_s / java.per_s if java.per_s else 0.0
    return f"{cpu}; Java {java.per_s:,.0f} msg/s, {java.client_cpu_us:.1f} us: {ratio:.2f} of Java"


def _median(results: Sequence[Result], key: str, client: str) -> Result | None:
    found = [result for result in results if (result.key, result.client) == (key, client)]
    if not found:
        return None
    median = statistics.median
    return Result(key, client, median(r.per_s for r in found), median(r.client_cpu_us for r in found))
