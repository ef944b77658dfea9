"""Fixtures: a broker inside this process, and the real clients of both protocols pointed at it."""

import contextlib
import functools
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pulsar
import pytest
from tests.compat.conftest import unavailable
from tests.compat.pulsar.toolchain import JAVA_LTS, JVM_FLAGS, OPENED, java, java_program
from tests.compat.rocketmq import toolchain
from tests.compat.rocketmq.clients import Client, Runner

from penstock.testing.server import Running, running

HERE = Path(__file__).parent
DRIVER_TIMEOUT_S = 60
SMALL_BYTES = 100_000  # as large as a message may be here, so that a few hundred kilobytes are chunks

Line = dict[str, object]


@functools.cache
def pulsar_java(say: toolchain.Say = toolchain.quiet) -> list[str]:
    classpath = java_program(f"cross-java-{JAVA_LTS}", HERE / "java", say, f"-Dpulsar.version={JAVA_LTS}")
    return [java(), *JVM_FLAGS, *OPENED, "-cp", classpath, "penstock.compat.cross.Driver"]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build before the first test, where no test's timeout runs."""
    if any(item.path.is_relative_to(HERE) for item in session.items):
        with contextlib.suppress(toolchain.Missing):  # said where a test asks for it
            pulsar_java()


class Both:
    """A broker, and whoever is to talk to it."""

    def __init__(self, penstock: Running, folder: Path) -> None:
        self.penstock, self._folder = penstock, folder
        self.url = f"pulsar://{penstock.addresses['pulsar']}"
        log = pulsar.FileLogger(pulsar.LoggerLevel.Warn, str(folder / "client.log"))
        self.client = pulsar.Client(self.url, logger=log)

    def rocketmq(self, client: Client, home: str = "home") -> Runner:
        try:
            command = toolchain.DRIVERS[client.driver](toolchain.quiet)
        except toolchain.Missing as reason:
            unavailable(client.name, reason)
        return Runner(client, command, self.penstock.addresses["namesrv"], self._folder / client.name / home)

    def java(self, what: str, topic: str, count: int) -> list[Line]:
        """Pulsar's client for Java, to its end."""
        try:
            command = pulsar_java()
        except toolchain.Missing as reason:
            unavailable("java", reason)
        done = subprocess.run(
            [*command, what, self.url, topic, str(count)],
            capture_output=True,
            text=True,
            timeout=DRIVER_TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-4000:]}"
        return [json.loads(line) for line in done.stdout.splitlines()]

    def subscribed(self, topic: str, **more: object) -> "pulsar.Consumer":
        first = pulsar.InitialPosition.Earliest
        return self.client.subscribe(topic, "python", initial_position=first, **more)

    def read(self, topic: str, count: int, **more: object) -> "list[pulsar.Message]":
        """What a subscription gets, acknowledged."""
        consumer = self.subscribed(topic, **more)
        got = []
        for _ in range(count):
            got.append(consumer.receive(timeout_millis=20_000))
            consumer.acknowledge(got[-1])
        consumer.close()
        return got


Opened = Callable[..., "contextlib.AbstractContextManager[Both]"]


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    """opened(server={"data": folder}) is a broker with its clients."""

    @contextlib.contextmanager
    def open_(**sections: object) -> Iterator[Both]:
        with running(pulsar={"message_bytes_max": SMALL_BYTES}, **sections) as penstock:
            both = Both(penstock, tmp_path_factory.mktemp("homes"))
            yield both
            both.client.close()

    return open_


@pytest.fixture(scope="module")
def both(opened: Opened) -> Iterator[Both]:
    with opened() as both:
        yield both
