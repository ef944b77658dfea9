"""The Java client that puts load on the brokers: one process for both, told what to do line by line.

    with Load.started(home, say) as load:
        figures = load.run(broker, "send", mode="sync", threads=16, ...)

`figures` has what the client measured (messages, per_s, p50_ms, p99_ms, failures) and what the broker's process used
between the beginning and the end of the measured part (cpu_us, per message).
"""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Self

from tests.compat.rocketmq import toolchain
from tests.compat.rocketmq.clients import Process

from bench.rocketmq.brokers import Broker

HERE = Path(__file__).parent
WAIT_S = 300  # above every wait that the program has itself
JVM_FLAGS = ("-Xms1g", "-Xmx1g")
MESSAGE = {"bytes": 1_024, "queues": 4}

Figures = dict[str, float]


class LoadFailed(Exception):
    """The client could not do what it was told; in its words."""


class Load:
    """The client's process."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._numbers = itertools.count(1)

    @classmethod
    def started(cls, home: Path, say: toolchain.Say) -> Self:
        program = toolchain.java_program("rocketmq-bench", HERE / "java", toolchain.CLIENT_5, say)
        command = [toolchain.java(), *JVM_FLAGS, f"-Duser.home={home}", "-cp", program, "penstock.bench.Load"]
        home.mkdir(parents=True)
        return cls(Process(command, home, WAIT_S).ready())

    def run(self, broker: Broker, order: str, **words: object) -> Figures:
        """One measurement, on a topic of its own."""
        self.begin(broker.namesrv, order, **words)
        before_s = broker.cpu_s()
        figures = self.end()
        used_s = broker.cpu_s() - before_s
        return {**figures, "cpu_us": used_s * 1e6 / max(figures["messages"], 1)}

    def begin(self, namesrv: str, order: str, **words: object) -> None:
        """Have everything set up and warm."""
        topic = f"bench-{next(self._numbers)}"
        given = {**MESSAGE, **words, "namesrv": namesrv, "topic": topic}
        self._checked(self._process.ask(" ".join([order, *(f"{key}={value}" for key, value in given.items())])))

    def end(self) -> Figures:
        """Measure."""
        return self._figures(self._process.ask("go"))

    def _figures(self, line: dict[str, object]) -> Figures:
        figures = self._checked(line)
        return {key: value for key, value in figures.items() if isinstance(value, int | float)} | _told(figures)

    def trying(self) -> Callable[[], Figures]:
        """Let the measured part begin, and have the wait for its end."""
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
