"""Somebody who sends and receives over the RocketMQ port, for the demo: a real client where this machine can run one,
and frames of our own otherwise.

    visitor = best_visitor(folder, say)
    with visitor.sending(addresses, "orders", "before", 1_000) as sender:
        acknowledged = sender.take(300)                      # numbers of messages, as they are acknowledged
        ...                                                  # the broker is killed
        acknowledged += sender.rest()                        # what was acknowledged before that
    with visitor.receiving(addresses, "orders", "group") as receiver:
        bodies = receiver.take(300)

Message number 7 of the label "before" has the body "before-7". The real clients are driven by the programs of the
compatibility tests, in a clone of this project; what is not on the machine, or cannot be built, is said in plain words.
"""

import contextlib
import importlib
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from penstock.testing.frames import OwnFrames

Say = Callable[[str], None]
Addresses = dict[str, str]

BUILD_LIMIT_S = 120
REST_S = 1.0


class Sender(Protocol):
    def take(self, count: int) -> list[int]: ...

    def rest(self) -> list[int]: ...


class Receiver(Protocol):
    def take(self, count: int) -> list[str]: ...


class Visitor(Protocol):
    @property
    def name(self) -> str: ...

    def sending(
        self, addresses: Addresses, topic: str, label: str, count: int
    ) -> contextlib.AbstractContextManager[Sender]: ...

    def receiving(
        self, addresses: Addresses, topic: str, group: str
    ) -> contextlib.AbstractContextManager[Receiver]: ...


class Kind(NamedTuple):
    """A real client: its tools, and the names that the compatibility tests have for it."""

    name: str
    tools: tuple[str, ...]
    client: str
    driver: str


KINDS = (
    Kind("the Go client", ("go",), "GO", "go"),
    Kind("the Node client", ("node", "npm"), "NODE", "node"),
    Kind("the Java client", ("java", "mvn"), "JAVA_5", "java-5"),
)


def best_visitor(folder: Path, say: Say) -> Visitor:
    """The first real client whose tools are here, if it can be built; frames of our own otherwise."""
    kind = next((kind for kind in KINDS if all(shutil.which(tool) for tool in kind.tools)), None)
    if kind is None:
        say("no real client: neither Go nor Node nor Java is on this machine; frames of our own instead")
        return OwnFrames()
    try:
        return RealClient(kind, folder, say)
    except NotBuilt as reason:
        say(f"{kind.name} could not be built: {reason}; frames of our own instead")
        return OwnFrames()


class NotBuilt(Exception):
    """Why there is no driver for a client."""


class RealClient:
    """A client of RocketMQ's in a process of its own, which says what it does line by line."""

    def __init__(self, kind: Kind, folder: Path, say: Say) -> None:
        self.name = kind.name
        self._clients, toolchain = _compat("clients"), _compat("toolchain")
        self._client, self._folder = getattr(self._clients, kind.client), folder
        try:
            self._command = toolchain.DRIVERS[kind.driver](say, BUILD_LIMIT_S)
        except (toolchain.Missing, toolchain.BuildFailed, OSError) as error:
            raise NotBuilt(str(error).strip().splitlines()[-1][:200]) from error

    @contextlib.contextmanager
    def sending(self, addresses: Addresses, topic: str, label: str, count: int) -> Iterator[Sender]:
        words = ("--topic", topic, "--label", label, "--count", str(count))
        process = self._started(addresses, "produce", *words)
        try:
            yield _Sending(process)
        finally:
            process.kill()

    @contextlib.contextmanager
    def receiving(self, addresses: Addresses, topic: str, group: str) -> Iterator[Receiver]:
        with self._started(addresses, "push", "--topic", topic, "--group", group).ready() as process:
            yield _Receiving(process)

    def _started(self, addresses: Addresses, *words: str) -> Any:
        runner = self._clients.Runner(self._client, self._command, addresses["namesrv"], self._folder)
        return runner.start(words[0], "--namesrv", addresses["namesrv"], *words[1:])


class _Sending:
    def __init__(self, process: Any) -> None:
        self._process = process

    def take(self, count: int) -> list[int]:
        lines = _taken(self._process, count)
        if refused := [line for line in lines if line.get("status") != "SEND_OK"]:
            raise SystemExit(f"a message was not taken: {refused[0]}")
        return _numbers(lines)

    def rest(self) -> list[int]:
        with contextlib.suppress(AssertionError):  # it has ended
            return _numbers(self._process.waiting(REST_S))
        return []


class _Receiving:
    def __init__(self, process: Any) -> None:
        self._process = process

    def take(self, count: int) -> list[str]:
        return [str(line["body"]) for line in _taken(self._process, count)]


def _taken(process: Any, count: int) -> list[dict[str, Any]]:
    try:
        lines: list[dict[str, Any]] = process.take(count)
    except AssertionError as error:
        raise SystemExit(f"the client did not go on: {error}") from error
    return lines


def _numbers(lines: list[dict[str, Any]]) -> list[int]:
    return [int(line["number"]) for line in lines if line.get("status") == "SEND_OK"]


def _compat(name: str) -> ModuleType:
    """A module of the compatibility tests, which are there in a clone and not in an installed package."""
    try:
        return importlib.import_module(f"tests.compat.rocketmq.{name}")
    except ImportError as error:
        raise NotBuilt("its driver is among the tests of a clone, and this is not one") from error
