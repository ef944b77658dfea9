"""The broker inside a test: what a user's own tests get."""

import threading
from pathlib import Path
from urllib.request import urlopen

import pytest

from penstock.config import Config
from penstock.errors import ConfigError, FolderInUse
from penstock.model import Durability
from penstock.testing.server import PORTS, running, serving


def ready(url: str) -> bool:
    with urlopen(f"{url}/readyz", timeout=30) as answer:
        return answer.status == 200


def test_the_fixture_is_a_broker_that_answers(penstock_server):
    assert ready(penstock_server.http)
    assert penstock_server.http == f"http://{penstock_server.addresses['http']}"


def test_nothing_is_left_behind():
    threads = threading.active_count()
    with running() as broker:
        folder, url = Path(broker.config.server.data), broker.http
        assert folder.is_dir()
    assert not folder.exists()
    assert threading.active_count() == threads
    with pytest.raises(OSError, match="refused"):
        ready(url)


def test_two_brokers_at_once_are_two():
    with running() as one, running() as other:
        assert one.addresses["http"] != other.addresses["http"]
        assert one.config.server.data != other.config.server.data
        assert ready(one.http)
        assert ready(other.http)


async def test_a_broker_in_the_loop_of_the_test():
    async with serving(store={"durability": "async", "segment_bytes": "8MiB"}) as broker:
        assert broker.server.obstacle() == ""
        assert broker.config.store.durability is Durability.ASYNC
        assert broker.config.store.segment_bytes == 8 * 2**20


def test_a_configuration_is_taken_as_it_is_and_not_changed(tmp_path):
    config = Config()
    config.server.data = str(tmp_path / "mine")
    for port in PORTS:
        setattr(config.server, port, 0)
    with running(config, http={"connections_max": 7}) as broker:
        assert broker.config.http.connections_max == 7
        assert (tmp_path / "mine").is_dir()
    assert (tmp_path / "mine").is_dir()
    assert config.http == Config().http


def test_what_goes_wrong_is_raised_where_the_test_is(tmp_path):
    with pytest.raises(ConfigError, match=r"store\.segment_bytes"), running(store={"segmnt_bytes": 1}):
        pass
    with (
        running(server={"data": str(tmp_path)}),
        pytest.raises(FolderInUse),
        running(server={"data": str(tmp_path)}),
    ):
        pass


def test_an_error_of_the_test_itself_still_stops_the_broker():
    with pytest.raises(ZeroDivisionError), running() as broker:
        _ = 1 / 0
    with pytest.raises(OSError, match="refused"):
        ready(broker.http)


pytest_plugins = ["pytester"]


def test_the_plugin_loads_nothing_of_the_broker_until_a_test_asks(pytester):
    pytester.makepyfile(
        """
        import sys

        def test_nothing_is_loaded():
            assert "penstock.testing.plugin" in sys.modules
            assert not {"numpy", "penstock.server"} & set(sys.modules)

        def test_a_broker(penstock_server):
            assert penstock_server.addresses
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=2)
