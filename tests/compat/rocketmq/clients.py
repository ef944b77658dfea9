"""The real clients as tests see them: start a driver, read its lines, stop it.

    sent = client.produce(topic, 10, "--mode", "async")          # runs to its end: a line per message
    with client.push(topic, group) as consumer:                  # started, and stopped as an application would
        got = consumer.take(10)
    consumer.rest                                                # what came besides, until it was down

Every driver makes the same numbered messages, so `bodies(label, count)` says what must arrive. Lines are read by a
thread, so that a wait can end: a driver that says nothing for WAIT_S seconds fails the test with everything it said.
"""

import collections
import contextlib
import json
import os
import queue
import subprocess
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple, Self

WAIT_S = 40
LANES = 3
FILLING = "0123456789abcdef"

Line = dict[str, object]


class Client(NamedTuple):
    """One client in one setting, and what it can do."""

    name: str
    driver: str  # as in toolchain.DRIVERS
    modes: tuple[str, ...]
    flags: tuple[str, ...] = ()  # of the JVM
    creates_topics: bool = True  # by sending to one that is not there


ALL_MODES = ("sync", "async", "oneway", "batch", "ordered")
BINARY = ("-Drocketmq.serialize.type=ROCKETMQ",)

JAVA_4 = Client("java-4.9.8", "java-4", ALL_MODES)
JAVA_5 = Client("java-5.5.0", "java-5", ALL_MODES)
JAVA_4_BINARY = Client("java-4.9.8-binary", "java-4", ALL_MODES, BINARY)
JAVA_5_BINARY = Client("java-5.5.0-binary", "java-5", ALL_MODES, BINARY)
GO = Client("go-2.1.2", "go", ALL_MODES)
NODE = Client("ali-ons-3.12", "node", ("sync", "async"), creates_topics=False)

JAVA = (JAVA_4, JAVA_5, JAVA_4_BINARY, JAVA_5_BINARY)
CLIENTS = (*JAVA, GO, NODE)
DIFFERENT = (JAVA_4, JAVA_5, GO, NODE)


class Process:
    """A driver that is under way."""

    def __init__(self, command: list[str], home: Path, wait_s: float = WAIT_S) -> None:
        self._command, self._wait_s = command, wait_s
        self._lines: queue.SimpleQueue[Line | None] = queue.SimpleQueue()
        self._errors: list[str] = []
        self._process = subprocess.Popen(
            command,
            cwd=home,
            env=os.environ | {"HOME": str(home), "LC_ALL": "C.UTF-8"},  # Java reads arguments in the locale's encoding
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            encoding="utf-8",
        )
        self._readers = [threading.Thread(target=target, daemon=True) for target in (self._read, self._read_errors)]
        for reader in self._readers:
            reader.start()
        self._early: collections.deque[Line] = collections.deque()
        self.rest: list[Line] = []

    @property
    def pid(self) -> int:
        return self._process.pid

    def _read(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(json.loads(line))
        self._lines.put(None)

    def _read_errors(self) -> None:
        self._errors.extend(self._process.stderr or ())

    def ready(self) -> Self:
        """Wait until it has started. A message may be consumed before that is said."""
        early: list[Line] = []
        try:
            while "ready" not in (line := self.next()):
                early.append(line)
        except AssertionError:
            self.kill()
            raise
        self._early.extend(early)
        return self

    def next(self) -> Line:
        """The next line."""
        if self._early:
            return self._early.popleft()
        try:
            line = self._lines.get(timeout=self._wait_s)
        except queue.Empty:
            raise AssertionError(f"nothing came for {self._wait_s} s; {self._said()}") from None
        if line is None:
            raise AssertionError(f"ended early; {self._said()}")
        return line

    def take(self, count: int) -> list[Line]:
        """The next lines."""
        got: list[Line] = []
        while len(got) < count:
            try:
                got.append(self.next())
            except AssertionError as failure:
                bodies = sorted(str(line.get("body"))[:40] for line in got)
                raise AssertionError(f"{len(got)} of {count} lines came: {bodies}; then {failure}") from None
        return got

    def waiting(self, within_s: float = 0.2) -> list[Line]:
        """What has come; after waiting a little for it, for those who watch several."""
        lines = list(self._early)
        self._early.clear()
        try:
            while (line := self._lines.get(timeout=0 if lines else within_s)) is not None:
                lines.append(line)
            raise AssertionError(f"ended early; {self._said()}")
        except queue.Empty:
            return lines

    def ask(self, line: str) -> Line:
        """Write a line and have the answer."""
        self.tell(line)
        return self.next()

    def tell(self, line: str) -> None:
        """Write a line."""
        assert self._process.stdin
        with contextlib.suppress(BrokenPipeError):  # it has ended: the answer is missing, and that is said
            self._process.stdin.write(f"{line}\n")
            self._process.stdin.flush()

    def to_the_end(self) -> list[Line]:
        """All lines that are left, up to the one that says that it is done."""
        lines: list[Line] = []
        while "done" not in (line := self.next()):
            lines.append(line)
        self._ended()
        return lines

    def stop(self) -> None:
        """Let it shut down as an application would; what it still says is the rest."""
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.close()
        self.rest = self.to_the_end()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self._process.kill()
        self._close()

    def _ended(self) -> None:
        code = self._process.wait(WAIT_S)
        self._close()
        if code:
            raise AssertionError(f"exit code {code}; {self._said()}")

    def _close(self) -> None:
        self._process.wait()
        for reader in self._readers:
            reader.join()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            with contextlib.suppress(BrokenPipeError):
                if pipe:
                    pipe.close()

    def _said(self) -> str:
        return f"{' '.join(self._command[-12:])} said:\n{''.join(self._errors[-60:])}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if self._process.poll() is not None:
            self._close()
        elif kind:
            self.kill()
        else:
            self.stop()


class Runner:
    """A client with its driver built, pointed at a broker."""

    def __init__(self, client: Client, command: list[str], namesrv: str, home: Path) -> None:
        self.client, self.namesrv, self.home = client, namesrv, home
        self._command = command
        if client.driver.startswith("java"):
            self._command = [command[0], f"-Duser.home={home}", *client.flags, *command[1:]]

    def start(self, *words: str) -> Process:
        """Any subcommand."""
        self.home.mkdir(parents=True, exist_ok=True)
        return Process([*self._command, *words], self.home)

    def produce(self, topic: str, count: int, *options: str) -> list[Line]:
        """Send numbered messages; what was answered to each, by number."""
        words = ("--namesrv", self.namesrv, "--topic", topic, "--count", str(count))
        with self.start("produce", *words, *options) as process:
            return sorted(process.to_the_end(), key=lambda line: line["number"])

    def push(self, topic: str, group: str, *options: str) -> Process:
        """A push consumer that is ready."""
        return self._consumer("push", topic, group, options)

    def pull(self, topic: str, group: str, *options: str) -> Process:
        """A consumer that pulls."""
        return self._consumer("pull", topic, group, options)

    def _consumer(self, kind: str, topic: str, group: str, options: Iterable[str]) -> Process:
        return self.start(kind, "--namesrv", self.namesrv, "--topic", topic, "--group", group, *options).ready()


class MqAdmin:
    """mqadmin in one long-lived process: mqadmin("topicRoute", "-t", "orders") gives what it prints.

    It ends its process when it cannot read its options; the next command then has a new one.
    """

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._process: Process | None = None

    @property
    def version(self) -> str:
        return self._runner.client.name.removeprefix("java-")

    def __call__(self, command: str, *words: str) -> str:
        self._process = self._process or self._runner.start("admin").ready()
        try:
            return str(self._process.ask("\t".join([command, "-n", self._runner.namesrv, *words]))["printed"])
        except AssertionError:
            self.close()
            raise

    def close(self) -> None:
        if self._process:
            self._process.kill()
            self._process = None


def body(label: str, number: int, body_bytes: int = 0) -> str:
    """The body that every driver gives to a message."""
    name = f"{label}-{number}"
    if len(name) >= body_bytes:
        return name
    return f"{name} {FILLING * (body_bytes // len(FILLING) + 1)}"[:body_bytes]


def bodies(label: str, count: int, body_bytes: int = 0) -> list[str]:
    return [body(label, number, body_bytes) for number in range(count)]


def number_of(line: Line) -> int:
    """The number in a message's body."""
    return int(str(line["body"]).split(" ")[0].rsplit("-", 1)[1])
