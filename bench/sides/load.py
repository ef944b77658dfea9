"""The client that puts load on the brokers: one process for both, told what to do line by line.

    with Load.started("rocketmq", {"bytes": 1_024}, home, say) as load:
        figures = load.run(broker, "send", mode="sync", threads=16, ...)

`figures` has what the client measured (messages, per_s, p50_ms, p99_ms, failures), what the broker's process used
between the beginning and the end of the measured part (cpu_us, per message), what the client itself used (client_us:
they share the cores, so it bounds what any broker can reach), and the share of the machine that went to anybody else in
that time (others_share): if that is not near 0, the figures are not worth much.
"""

import itertools
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, Self

from tests.compat.pulsar import toolchain as pulsar
from tests.compat.rocketmq import toolchain as rocketmq
from tests.compat.rocketmq.clients import Process

from bench.machine import cpu_s, machine_cpu_s
from bench.sides.brokers import Broker
from bench.sides.lines import Figures

JAVA = Path(__file__).parents[1] / "java"
WAIT_S = 300  # above every wait that the program has itself
JVM_FLAGS = ("-Xms1g", "-Xmx1g")
VERSIONS = (f"-Drocketmq.version={rocketmq.CLIENT_5}", f"-Dpulsar.version={pulsar.JAVA_LTS}")


class Used(NamedTuple):
    """CPU time up to a moment, or between two."""

    wall_s: float
    broker_s: float
    client_s: float
    machine_s: float

    def __sub__(self, before: "Used") -> "Used":
        return Used(*(now - then for now, then in zip(self, before, strict=True)))

    @property
    def others_s(self) -> float:
        """What neither the broker under load nor the client used: noise."""
        return self.machine_s - self.broker_s - self.client_s


class LoadFailed(Exception):
    """The client could not do what it was told; in its words."""


class Load:
    """The client's process."""

    def __init__(self, process: Process, message: Mapping[str, object]) -> None:
        self._process, self._message = process, message
        self._numbers = itertools.count(1)

    @classmethod
    def started(cls, client: str, message: Mapping[str, object], home: Path, say: rocketmq.Say) -> Self:
        """With the Java client of one system; `message` is what every order says of messages and topics."""
        program = pulsar.java_program("bench", JAVA, say, *VERSIONS)
        java = [rocketmq.java(), *JVM_FLAGS, *pulsar.OPENED, f"-Duser.home={home}"]
        home.mkdir(parents=True)
        return cls(Process([*java, "-cp", program, f"penstock.bench.{client}.Main"], home, WAIT_S).ready(), message)

    @property
    def pid(self) -> int:
        return self._process.pid

    def run(self, broker: Broker, order: str, **words: object) -> Figures:
        """One measurement, on a topic of its own."""
        self.begin(broker.address, order, **words)
        before = self._used(broker)
        figures = self.end()
        used = self._used(broker) - before
        messages = max(figures["messages"], 1)
        return {
            **figures,
            "cpu_us": used.broker_s * 1e6 / messages,
            "client_us": used.client_s * 1e6 / messages,
            "others_share": max(0.0, used.others_s / (used.wall_s * (os.cpu_count() or 1))),
        }

    def _used(self, broker: Broker) -> "Used":
        client_s = cpu_s(self._process.pid)
        return Used(time.perf_counter(), broker.cpu_s(), client_s, machine_cpu_s())

    def begin(self, address: str, order: str, **words: object) -> None:
        """Have everything set up and warm."""
        topic = f"bench-{self.pid}-{next(self._numbers)}"  # two clients on one broker keep apart
        given = {**self._message, **words, "service": address, "topic": topic}
        self._checked(self._process.ask(" ".join([order, *(f"{key}={value}" for key, value in given.items())])))

    def end(self) -> Figures:
        """Measure."""
        return self._figures(self._process.ask("go"))

    def _figures(self, line: dict[str, object]) -> Figures:
        figures = self._checked(line)
        return {key: value for key, value in figures.items() if isinstance(value, int | float)} | _told(figures)

    def trying(self) -> Callable[[], Figures]:
        """Let the measured part begin, now, and have the wait for its end."""
        self._process.tell("go")
        return lambda: self._figures(self._process.next())

    def _checked(self, line: dict[str, object]) -> dict[str, object]:
        if "failed" in line:
            raise LoadFailed(f"the client failed: {line['failed']}")
        return line

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()


def _told(figures: dict[str, object]) -> dict[str, object]:
    return {"failure": figures["failure"]} if figures.get("failures") else {}
