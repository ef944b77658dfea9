"""Fixtures: a broker, and the real clients pointed at it.

These tests run when asked for, `pytest -m interop tests/compat`, and not otherwise: they need Java, Go and Node, and
packages from the network the first time. A client whose tools are not on this machine is skipped, by name and with the
reason; PENSTOCK_REQUIRE_INTEROP=1 makes that a failure.

The broker is a `penstock serve` of this tree. PENSTOCK_COMPAT_NAMESRV=HOST:PORT names another that is running already,
and PENSTOCK_COMPAT_NAMESRV=rocketmq starts a real RocketMQ 5.5 (rocketmq-4: 4.9): the same assertions hold there.
"""

import contextlib
import itertools
import json
import os
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.compat.rocketmq import toolchain
from tests.compat.rocketmq.clients import JAVA_4, JAVA_5, Client, MqAdmin, Runner
from tests.compat.rocketmq.peer import Peer, real_rocketmq

HERE = Path(__file__).parent
REQUIRE = "PENSTOCK_REQUIRE_INTEROP"
NAMESRV = "PENSTOCK_COMPAT_NAMESRV"
TEST_TIMEOUT_S = 180
START_TIMEOUT_S = 30
READY = "ready"
CLUSTER = "DefaultCluster"


PEERS = {"rocketmq": toolchain.BROKER_5, "rocketmq-4": toolchain.BROKER_4}


class Broker(NamedTuple):
    """What the tests are run against."""

    namesrv: str
    kind: str  # penstock, one of the peers, or given


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    for item in ours:
        item.add_marker(pytest.mark.interop)
        item.add_marker(pytest.mark.timeout(TEST_TIMEOUT_S))
    if "interop" not in config.getoption("markexpr"):
        config.hook.pytest_deselected(items=ours)
        items[:] = [item for item in items if item not in ours]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build before the first test, where no test's timeout runs, and where it can be said."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    say = reporter.write_line if reporter else toolchain.quiet
    for name in sorted({name for item in session.items for name in drivers_of(item)}):
        with contextlib.suppress(toolchain.Missing):  # said where a test asks for it
            toolchain.DRIVERS[name](say)


def drivers_of(item: pytest.Item) -> Iterator[str]:
    """Which drivers a test needs: of the clients among its parameters, and Java where its fixtures ask for that."""
    parameters = getattr(item, "callspec", None)
    for value in parameters.params.values() if parameters else ():
        if isinstance(value, Client):
            yield value.driver
    for fixture in ("admin", "mqadmin", "new_topic"):
        if fixture in getattr(item, "fixturenames", ()):
            yield JAVA_5.driver


def unavailable(what: str, reason: object) -> None:
    """Skip, or fail where everything has to run."""
    if os.environ.get(REQUIRE) == "1":
        pytest.fail(f"{what}: {reason} ({REQUIRE}=1)")
    pytest.skip(f"{what}: {reason}")


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One broker for all tests, which keep apart by topics and groups; or one of each kind that a folder asks for."""
    given = getattr(request, "param", "") or os.environ.get(NAMESRV) or "penstock"
    folder = tmp_path_factory.mktemp("broker")
    if given == "penstock":
        with serving(folder) as namesrv:
            yield Broker(namesrv, "penstock")
    elif given in PEERS:
        with real_peer(folder, PEERS[given]) as peer:
            yield Broker(peer.namesrv, given)
    else:
        yield Broker(given, "given")


@contextlib.contextmanager
def real_peer(folder: Path, version: str) -> Iterator[Peer]:
    """A real RocketMQ; the test is skipped where there is none to be had."""
    try:
        toolchain.peer_classpath(version)
    except toolchain.Missing as reason:
        unavailable(f"a real RocketMQ {version}", reason)
    with real_rocketmq(folder, version) as peer:
        yield peer


@contextlib.contextmanager
def serving(folder: Path, *flags: str) -> Iterator[str]:
    """A `penstock serve` on free ports; gives the address of its name server. Its log is kept in the folder."""
    ready_file = folder / "ready.json"
    settings = [f"--data={folder / 'data'}", f"--ready-file={ready_file}"]
    ports = [f"--{name}-port=0" for name in ("namesrv", "broker", "pulsar", "http")]
    command = [sys.executable, "-m", "penstock", "serve", *settings, *ports, *flags]
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        ready = threading.Event()
        reader = threading.Thread(target=keep_log, args=(process, folder / "log", ready), daemon=True)
        reader.start()
        try:
            ready.wait(START_TIMEOUT_S)
            yield str(json.loads(ready_file.read_text(encoding="utf-8"))["namesrv"])
        finally:
            process.terminate()
            process.wait()
            reader.join()


def keep_log(process: subprocess.Popen[str], file: Path, ready: threading.Event) -> None:
    """Write down what a broker says, and tell when it is ready or has ended."""
    with file.open("a", encoding="utf-8") as log:
        for line in process.stderr or ():
            log.write(line)
            log.flush()
            if READY in line:
                ready.set()
    ready.set()


@pytest.fixture(scope="session")
def use(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Runner]:
    """use(JAVA_5) gives that client, pointed at the broker; with another home it is another installation of it."""

    def use(client: Client, home: str = "home") -> Runner:
        try:
            command = toolchain.DRIVERS[client.driver](toolchain.quiet)
        except toolchain.Missing as reason:
            unavailable(client.name, reason)
        return Runner(client, command, broker.namesrv, tmp_path_factory.getbasetemp() / "homes" / client.name / home)

    return use


@pytest.fixture
def name(request: pytest.FixtureRequest) -> Callable[[str], str]:
    """name("orders") gives a name that no other test and no earlier run has."""
    run = secrets.token_hex(4)
    return lambda words: f"{words}-{run}"


@pytest.fixture
def topic(name: Callable[[str], str]) -> str:
    """A topic that is not there yet; the first message makes it, with four queues."""
    return name("topic")


@pytest.fixture
def group(name: Callable[[str], str]) -> str:
    return name("group")


@pytest.fixture(scope="session", params=[JAVA_4, JAVA_5], ids=lambda client: client.name)
def mqadmin(request: pytest.FixtureRequest, use: Callable[..., Runner]) -> Iterator[MqAdmin]:
    """The tool of each version."""
    with contextlib.closing(MqAdmin(use(request.param, "mqadmin"))) as tool:
        yield tool


@pytest.fixture(scope="session")
def admin(use: Callable[..., Runner]) -> Iterator[MqAdmin]:
    """The newer tool, for tests that need something done and are not about the tool."""
    with contextlib.closing(MqAdmin(use(JAVA_5, "admin"))) as tool:
        yield tool


@pytest.fixture
def new_topic(admin: MqAdmin, name: Callable[[str], str]) -> Callable[..., str]:
    """new_topic(queues=4) makes a topic."""
    numbers = itertools.count()

    def make(queues: int = 4) -> str:
        topic = name(f"made-{next(numbers)}")
        printed = admin("updateTopic", "-c", CLUSTER, "-t", topic, "-r", str(queues), "-w", str(queues))
        assert "success" in printed, printed
        return topic

    return make


@pytest.fixture
def topic_of(topic: str, request: pytest.FixtureRequest) -> Callable[[Client], str]:
    """A topic that this client can send to: made before for one that cannot make it."""
    return lambda client: topic if client.creates_topics else request.getfixturevalue("new_topic")()
