"""Fixtures: a broker inside this process, whose log a test can look into, and Pulsar's real clients pointed at it."""

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.compat.conftest import unavailable
from tests.compat.pulsar import toolchain
from tests.compat.rocketmq.toolchain import Missing, quiet

from penstock.testing.server import Running, running

HERE = Path(__file__).parent
DRIVER_TIMEOUT_S = 60

Line = dict[str, object]
Drive = Callable[..., list[Line]]


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build before the first test, where no test's timeout runs, and where it can be said."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    ours = [item for item in session.items if item.path.is_relative_to(HERE)]
    asked = [item.callspec.params["drive"] for item in ours if hasattr(item, "callspec")]
    for name, driver in toolchain.DRIVERS.items():
        if name in asked:
            with contextlib.suppress(Missing):  # said where a test asks for it
                driver(reporter.write_line if reporter else quiet)


@pytest.fixture(scope="session")
def penstock() -> Iterator[Running]:
    with running() as broker:
        yield broker


@pytest.fixture(params=list(toolchain.DRIVERS))
def drive(request: pytest.FixtureRequest, penstock: Running, tmp_path: Path) -> Drive:
    """drive("produce", topic, 10, "batched") runs each client in turn to its end, and gives its lines."""

    def run(what: str, topic: str, count: int = 0, mode: str = "") -> list[Line]:
        try:
            command = toolchain.DRIVERS[request.param]()
        except Missing as reason:
            unavailable(request.param, reason)
        arguments = [what, f"pulsar://{penstock.addresses['pulsar']}", topic, str(count), mode]
        done = subprocess.run(
            [*command, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=DRIVER_TIMEOUT_S, check=False
        )
        assert done.returncode == 0, f"{done.stdout[-2000:]}{done.stderr[-4000:]}"
        return [json.loads(line) for line in done.stdout.splitlines()]

    run.client = request.param
    return run
