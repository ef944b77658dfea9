"""Fixtures: a broker inside this process, whose log a test can look into, and Pulsar's real clients pointed at it."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.compat.conftest import unavailable
from tests.compat.pulsar import toolchain
from tests.compat.pulsar.drivers import Admin, Client, Driver
from tests.compat.rocketmq.toolchain import Missing, quiet

from penstock.testing.server import Running, running

HERE = Path(__file__).parent

Open = Callable[..., Client]


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
def admin(penstock: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admin]:
    """The client that pulsar-admin is made of."""
    try:
        command = toolchain.admin_driver()
    except Missing as reason:
        unavailable("pulsar-client-admin", reason)
    driver = Driver("admin", [*command, penstock.http], tmp_path_factory.mktemp("admin"))
    yield Admin(driver)
    driver.stop()


@pytest.fixture
def open_client(driver: Driver, penstock: Running) -> Iterator[Open]:
    """open_client() gives a client of its own, closed at the end with all that it has open."""
    opened: list[Client] = []

    def open_one(url: str = f"pulsar://{penstock.addresses['pulsar']}", **more: object) -> Client:
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
