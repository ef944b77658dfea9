"""Processes to be killed (a broker on fixed ports, a Spark application), and the thread that sends and keeps a journal.

Each process has a session of its own, so that it and all it has started can be killed together, and nobody else.
"""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from tests.spark.full.ledger import Ledger

from penstock.testing.frames import Connection
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode

ROOT = Path(__file__).parents[3]
START_TIMEOUT_S = 180
BURST = 20
AHEAD = (
    4_000  # how many messages a producer may be ahead of the copy: a slow machine need not copy more than a fast one
)
PAUSE_S = 0.05


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """A program that can be started again and again. What it says is in a file."""

    def __init__(self, log: Path, *arguments: str, variables: Mapping[str, str] | None = None) -> None:
        self._log, self._arguments, self._variables = log, arguments, variables or {}
        self._process: subprocess.Popen[bytes] | None = None
        self.starts = 0

    def start(self) -> None:
        environment = dict(os.environ)
        environment["PYTHONPATH"] = os.pathsep.join((str(ROOT / "src"), str(ROOT)))
        environment["PYSPARK_PYTHON"] = sys.executable
        environment |= self._variables
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", *self._arguments],
                cwd=ROOT, env=environment, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        self.starts += 1

    @property
    def pid(self) -> int:
        return self._process.pid if self._process else 0

    @property
    def runs(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """The process and all that it has started, at once."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def says(self) -> str:
        return self._log.read_text(errors="replace") if self._log.exists() else ""


class BrokerProcess(Process):
    def __init__(self, folder: Path) -> None:
        self._ready = folder / "ready"
        self.namesrv, self.broker = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
        ports = ("--namesrv-port", self.namesrv.split(":")[1], "--broker-port", self.broker.split(":")[1])
        where = (
            "--data",
            str(folder / "data"),
            "--ready-file",
            str(self._ready),
            "--http-port",
            "0",
            "--pulsar-port",
            "0",
        )
        super().__init__(folder / "broker.log", "penstock", "serve", *where, *ports)

    def start(self) -> None:
        self._ready.unlink(missing_ok=True)
        super().start()
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._ready.exists():
            assert self.runs, self.says()[-2_000:]
            assert time.monotonic() < deadline, "the broker does not start"
            time.sleep(0.02)

    def messages(self, topic: str) -> int:
        """How many there are; as cheap as can be, to see the moment of a commit."""
        with contextlib.suppress(OSError), contextlib.closing(Connection(self.broker)) as connection:
            return sum(_end(connection, topic, queue) for queue in range(4))
        return 0


def _end(connection: Connection, topic: str, queue: int) -> int:
    answer = connection.ask(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": queue})
    return int(answer.ext.get("offset", 0)) if answer.code == ResponseCode.SUCCESS else 0


def below(pid: int) -> list[tuple[int, str]]:
    """All processes that one has started, with those that they have started, and their commands."""
    listed = subprocess.run(["ps", "-axwwo", "pid=,ppid=,command="], capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in listed.splitlines()]
    children: dict[int, list[tuple[int, str]]] = {}
    for own, parent, *command in rows:
        children.setdefault(int(parent), []).append((int(own), command[0] if command else ""))
    found: list[tuple[int, str]] = []
    open_ = [pid]
    while open_:
        own = children.get(open_.pop(), [])
        open_ += [child for child, _ in own]
        found += own
    return found


def pythons_below(pid: int) -> list[int]:
    """The Python processes that a Spark application has started: its workers, and those that plan for its driver."""
    return [own for own, command in below(pid) if "pyspark" in command and "java" not in command.split(" ")[0]]


def executors_below(pid: int) -> list[int]:
    """The executors that a worker of a cluster has started, each a Java."""
    return [own for own, command in below(pid) if "CoarseGrainedExecutorBackend" in command]


def kill_a_worker(application: Process, choose: random.Random) -> bool:
    """One Python process of it; False when it has none."""
    return kill_one(pythons_below(application.pid), choose)


def kill_one(candidates: list[int], choose: random.Random) -> bool:
    if not candidates:
        return False
    with contextlib.suppress(ProcessLookupError):
        os.kill(choose.choice(candidates), signal.SIGKILL)
    return True


class Producer(threading.Thread):
    """Sends numbers, a burst at a time, each once, up to `limit`, and writes down which were acknowledged."""

    def __init__(self, address: str, topic: str, ledger: Ledger) -> None:
        super().__init__(name="producer", daemon=True)
        self._address, self._topic, self._ledger = address, topic, ledger
        self._over = threading.Event()
        self.limit = AHEAD
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            while not self._over.is_set():
                with contextlib.suppress(OSError), contextlib.closing(Connection(self._address)) as connection:
                    while not self._over.wait(PAUSE_S):
                        if self._ledger.sent < self.limit:
                            self._burst(connection)
                self._over.wait(PAUSE_S)
        except BaseException as failure:  # noqa: BLE001  # the test raises it
            self.failure = failure

    def _burst(self, connection: Connection) -> None:
        numbers = [self._ledger.next() for _ in range(BURST)]
        for number in numbers:
            ext: dict[str, object] = {"a": "crash", "b": self._topic, "c": "TBW102", "d": 4, "e": number % 4, "f": 0}
            properties = f"KEYS\x01{number}\x02"
            body = b"%d" % number
            connection.tell(RequestCode.SEND_MESSAGE_V2, number, {**ext, "g": 1, "h": 0, "i": properties}, body)
        for _ in numbers:
            answer = connection.next()
            if answer.code == ResponseCode.SUCCESS:
                self._ledger.acknowledged.add(answer.opaque)

    def finish(self) -> None:
        self._over.set()
        self.join()
        if self.failure:
            raise self.failure
