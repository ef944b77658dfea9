"""Fixtures: a broker inside this process, whose log a test can look into, and Pulsar's real clients pointed at it.

PENSTOCK_COMPAT_PULSAR=pulsar starts a real Pulsar instead, to compare with. Tests that look into the broker, or are
about Penstock alone, are left out then.
"""

import contextlib
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.compat.conftest import unavailable
from tests.compat.pulsar import toolchain
from tests.compat.pulsar.drivers import Admin, Client, Driver
from tests.compat.pulsar.peer import real_pulsar
from tests.compat.rocketmq.toolchain import Missing, quiet

from penstock.testing.server import Running, running

HERE = Path(__file__).parent
REAL = os.environ.get("PENSTOCK_COMPAT_PULSAR") == "pulsar"
REAL_SETTINGS = {"acknowledgmentAtBatchIndexLevelEnabled": "true"}

Open = Callable[..., Client]


class Service(NamedTuple):
    """Where clients find the broker."""

    url: str
    http: str


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without what is about Penstock alone, where another broker is used."""
    about = [item for item in items if REAL and item.path.is_relative_to(HERE) and "penstock" in item.fixturenames]
    config.hook.pytest_deselected(items=about)
    items[:] = [item for item in items if item not in about]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build before the first test, where no test's timeout runs, and where it can be said."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    ours = [item for item in session.items if item.path.is_relative_to(HERE)]
    asked = {item.callspec.params.get("driver") for item in ours if hasattr(item, "callspec")}
    builds = [driver for name, driver in toolchain.DRIVERS.items() if name in asked]
    if any("admin" in item.fixturenames for item in ours):
        builds.append(toolchain.admin_driver)
    if any("pulsar_admin" in item.fixturenames for item in ours):
        builds.append(toolchain.pulsar_admin)
    for build in builds:
        with contextlib.suppress(Missing):  # said where a test asks for it
            build(reporter.write_line if reporter else quiet)


@pytest.fixture(scope="session")
def penstock() -> Iterator[Running]:
    with running() as broker:
        yield broker


@pytest.fixture(scope="session")
def service(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    if not REAL:
        penstock = request.getfixturevalue("penstock")
        yield Service(f"pulsar://{penstock.addresses['pulsar']}", penstock.http)
        return
    with real_pulsar(tmp_path_factory.mktemp("pulsar"), REAL_SETTINGS) as peer:
        yield Service(peer.service, peer.web)


@pytest.fixture(scope="session", params=list(toolchain.DRIVERS))
def driver(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Driver]:
    """Each client in turn: one process for all its tests."""
    try:
        command = toolchain.DRIVERS[request.param]()
    except Missing as reason:
        unavailable(request.param, reason)
    driver = Driver(request.param, command, tmp_path_factory.mktemp("driver"))
    yield driver
    driver.stop()


@pytest.fixture(scope="session")
def admin(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admin]:
    """The client that pulsar-admin is made of."""
    try:
        command = toolchain.admin_driver()
    except Missing as reason:
        unavailable("pulsar-client-admin", reason)
    driver = Driver("admin", [*command, service.http], tmp_path_factory.mktemp("admin"))
    yield Admin(driver)
    driver.stop()


@pytest.fixture
def open_client(driver: Driver, service: Service) -> Iterator[Open]:
    """open_client() gives a client of its own, closed at the end with all that it has open."""
    driver.again()
    opened: list[Client] = []

    def open_one(url: str = service.url, **more: object) -> Client:
        opened.append(Client(driver, url, **more))
        return opened[-1]

    yield open_one
    for client in opened:
        client.close()


@pytest.fixture
def client(open_client: Open) -> Client:
    return open_client()


@pytest.fixture
def new_topic(name: Callable[[str], str]) -> Callable[[], str]:
    """Names of topics that are not there yet."""
    numbers = itertools.count()
    return lambda: name(f"topic-{next(numbers)}")


@pytest.fixture
def topic(new_topic: Callable[[], str]) -> str:
    return new_topic()
