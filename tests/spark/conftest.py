"""Fixtures: one Spark for all tests of a run, and a broker beside it.

What is in this folder is quick and part of `make test`. What takes long (kills, a cluster, the pipelines at length) is
in `full/` and runs with `make test-spark`.
"""

import os
import secrets
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock.client.sync import Producer
from penstock.spark.session import session
from penstock.testing.server import Running, running

SOURCE = Path(__file__).parents[2] / "src"
SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.warehouse.dir": "build/spark-warehouse",
    "spark.log.level": "ERROR",
}
TEST_TIMEOUT_S = 300  # the first one starts a Java


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(TEST_TIMEOUT_S))


@pytest.fixture(scope="session")
def spark():
    """Spark on two threads of this machine. Its workers import the source of this tree."""
    before = dict(os.environ)
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(SOURCE), before.get("PYTHONPATH")]))
    os.environ.pop("PYSPARK_PYTHON", None)
    started = session("penstock-tests", "local[2]", SETTINGS)
    yield started
    started.stop()
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def penstock() -> Iterator[Running]:
    with running(store={"durability": "async"}) as broker:
        yield broker


@pytest.fixture(autouse=True)
def tracebacks():
    """An error that leaves the source shortens all tracebacks of its process, which here is this one."""
    yield
    vars(sys).pop("tracebacklimit", None)


@pytest.fixture(scope="module")
def producer(penstock):
    with Producer(penstock.addresses["namesrv"], "tests") as producer:
        yield producer


@pytest.fixture
def service(penstock: Running) -> str:
    """What the option `service` takes."""
    return f"rocketmq://{penstock.addresses['namesrv']}"


@pytest.fixture
def new_name() -> Callable[[str], str]:
    """Names that no other test has."""
    return lambda what: f"{what}_{secrets.token_hex(4)}"
