"""The order of things: both brokers stand, one is under load while the other is halted, and they take turns. A JVM that
idles takes part of a core, and would take it from the broker whose turn it is.

Before the first line both get some load that does not count, and so does a first round of every line: the client's code
and the rival's have to be compiled. Who goes first changes from round to round.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.compat.rocketmq.toolchain import Say

from bench.machine import halted
from bench.pagecache import Settle
from bench.sides.brokers import PENSTOCK, Broker, Ports, Serving
from bench.sides.lines import FAILED, MEMORY, START, Amounts, Figures, Race, Result
from bench.sides.load import Load, LoadFailed

IDLE_S = 3.0
NOISY_SHARE = 0.1


class Plan(NamedTuple):
    """What to do."""

    race: Race
    serving: Serving
    free_ports: Callable[[], Ports]
    folder: Path
    brokers: Sequence[str]
    keys: Sequence[str]
    amounts: Amounts
    profile: str
    say: Say
    pause: Callable[[], None]  # called while the brokers still run
    settle: Settle  # called before each measurement


def results(plan: Plan, flush: str, load: Load) -> Iterator[Result]:
    """All measurements with one flush."""
    if START in plan.keys or MEMORY in plan.keys:
        yield from _starts(plan, flush, load)
    wanted = [key for key in plan.race.orders if key in plan.keys]
    if wanted:
        yield from _loads(plan, flush, load, wanted)


def _starts(plan: Plan, flush: str, load: Load) -> Iterator[Result]:
    for run in range(plan.amounts.runs + 1):
        for name in _turn(plan.brokers, run):
            first_s, idle_mb = _start(plan, f"{name}-{flush}-start-{run}", name, flush, load)
            which = f"{flush} flush, start, {f'run {run}' if run else 'warm-up'}, {name}"
            plan.say(f"{which}: first message after {first_s:.2f} s, {idle_mb:.0f} MB idle")
            if run and START in plan.keys:
                yield Result(flush, START, name, {"first_s": first_s})
            if run and MEMORY in plan.keys:
                yield Result(flush, MEMORY, name, {"idle_mb": idle_mb})


def _start(plan: Plan, folder: str, name: str, flush: str, load: Load) -> tuple[float, float]:
    """Seconds from the start of the processes to the first message taken, and memory some seconds after that."""
    ports = plan.free_ports()
    load.begin(ports.address, "first")
    tried = load.trying()
    with plan.serving(name, plan.folder / folder, flush, ports) as broker:
        first_s = tried()["seconds"]  # the client's own: it takes its time to close
        time.sleep(IDLE_S)
        return first_s, broker.resident_mb()


def _loads(plan: Plan, flush: str, load: Load, wanted: Sequence[str]) -> Iterator[Result]:
    with contextlib.ExitStack() as stack:
        brokers = {}
        for name in plan.brokers:
            ports, profile = plan.free_ports(), plan.profile if name == PENSTOCK else ""
            folder = plan.folder / f"{name}-{flush}"
            brokers[name] = stack.enter_context(plan.serving(name, folder, flush, ports, profile))
            plan.say(brokers[name].text())
        for broker in brokers.values():
            _heat(plan, broker, load)
        for key in wanted:
            yield from _line(plan, flush, load, brokers, key)
        if MEMORY in plan.keys:
            for name, broker in brokers.items():
                figures = {"after_mb": broker.resident_mb(), "after_anonymous_mb": broker.anonymous_mb()}
                yield Result(flush, MEMORY, name, figures)
        plan.pause()


def _heat(plan: Plan, broker: Broker, load: Load) -> None:
    """Load that does not count: the rival's code takes a while to be compiled, and so does the client's."""
    plan.say(f"{broker.name} is warmed up for {plan.amounts.heat_s:g} s")
    order = plan.race.orders[plan.race.heat]
    load.run(broker, order.order, **order.words, **{**plan.amounts.words(), "seconds": plan.amounts.heat_s})


def _line(plan: Plan, flush: str, load: Load, brokers: dict[str, Broker], key: str) -> Iterator[Result]:
    order = plan.race.orders[key]
    for run in range(plan.amounts.runs + 1):
        for name in _turn(list(brokers), run):
            plan.settle()
            which = f"{flush} flush, {key}, {f'run {run}' if run else 'warm-up'}, {name}"
            idle = [pid for other, broker in brokers.items() if other != name for pid in broker.pids]
            try:
                with halted(idle):
                    figures = load.run(brokers[name], order.order, **order.words, **plan.amounts.words())
            except LoadFailed as failed:  # the others still count
                plan.say(f"{which}: NOT MEASURED: {failed}")
                yield Result(flush, key, name, {FAILED: 1})
                continue
            plan.say(f"{which}: {_text(figures)}")
            if run:
                yield Result(flush, key, name, figures)


def _turn(names: Sequence[str], run: int) -> list[str]:
    return list(names) if run % 2 else list(reversed(names))


def _text(figures: Figures) -> str:
    parts = [f"{figures['per_s']:,.0f} msg/s", f"CPU {figures['cpu_us']:.1f} us (client {figures['client_us']:.1f})"]
    if "p99_ms" in figures:
        parts.append(f"p50 {figures['p50_ms']:.2f} ms, p99 {figures['p99_ms']:.2f} ms")
    if figures["others_share"] > NOISY_SHARE:
        parts.append(f"{figures['others_share']:.0%} of the machine went to others")
    if figures.get("failures"):
        parts.append(f"{figures['failures']:,} FAILED, the first with: {figures['failure']}")
    return ", ".join(parts)
