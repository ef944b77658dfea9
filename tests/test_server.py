"""The composition root, inside this process."""

import json
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.config import Config, ServerConfig
from penstock.core.broker import Broker
from penstock.errors import ConfigError, FolderInUse, StoreError
from penstock.server import GATEWAYS, Server, check_host


def config(folder: Path, **server) -> Config:
    ports = dict.fromkeys(("namesrv_port", "broker_port", "pulsar_port", "http_port"), 0)
    return Config(server=ServerConfig(data=str(folder / "data"), **(ports | server)))


def is_open(address: str) -> bool:
    host, _, port = address.rpartition(":")
    with socket.socket() as probe:
        return probe.connect_ex((host, int(port))) == 0


async def test_every_gateway_has_an_address_while_the_server_runs(tmp_path):
    server = Server(config(tmp_path))
    await server.start()
    try:
        assert server.addresses.keys() == GATEWAYS.keys()
        assert all(is_open(address) for address in server.addresses.values())
        assert server.obstacle() == ""
    finally:
        await server.stop()
    assert not any(is_open(address) for address in server.addresses.values())
    assert server.obstacle() == "stopping"


async def test_the_ready_file_is_there_exactly_while_the_server_is_ready(tmp_path):
    ready = tmp_path / "ready.json"
    ready.write_text("from a broker that was killed")
    server = Server(config(tmp_path, ready_file=str(ready)))
    server.open()
    assert not ready.exists()
    await server.start()
    assert json.loads(ready.read_text()).keys() == {*GATEWAYS, "pid"}
    await server.stop()
    assert [file.name for file in tmp_path.iterdir()] == ["data"]


async def test_a_ready_file_that_cannot_be_written_is_told(tmp_path):
    with pytest.raises(ConfigError, match="ready file"):
        await Server(config(tmp_path, ready_file=str(tmp_path / "missing" / "ready"))).start()


async def test_a_start_that_fails_leaves_nothing_open(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        server = Server(config(tmp_path, http_port=port))
        with pytest.raises(ConfigError, match=f"port {port}"):
            await server.start()
    again = Server(config(tmp_path, http_port=port))
    await again.start()
    await again.stop()


async def failing(broker):
    raise StoreError("the first failure")


async def failing_again(broker):
    raise ValueError("the second failure")


async def test_a_broker_that_does_not_start_gives_its_folder_back(tmp_path, monkeypatch):
    server = Server(config(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(Broker, "start", failing)
        with pytest.raises(StoreError, match="the first failure"):
            await server.start()
    again = Server(config(tmp_path))
    await again.start()
    await again.stop()


async def test_why_a_start_failed_is_what_the_caller_hears(tmp_path, monkeypatch, caplog):
    server = Server(config(tmp_path))
    with monkeypatch.context() as patch:
        patch.setattr(Broker, "start", failing)
        patch.setattr(Broker, "stop", failing_again)
        with pytest.raises(StoreError, match="the first failure"):
            await server.start()
    assert "the second failure" in caplog.text


async def test_a_folder_has_one_broker(tmp_path):
    first = Server(config(tmp_path))
    await first.start()
    with pytest.raises(FolderInUse):
        await Server(config(tmp_path)).start()
    await first.stop()


async def test_a_broker_that_is_not_ready_says_why(tmp_path, monkeypatch):
    server = Server(config(tmp_path))
    assert server.obstacle() == "starting"
    await server.start()
    with monkeypatch.context() as patch:
        patch.setattr(server, "_broker", SimpleNamespace(ready=False, state="read-only: the disk failed"))
        assert server.obstacle() == "read-only: the disk failed"
    await server.stop()


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_loopback_is_open_to_all(host):
    check_host(ServerConfig(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.invalid", "127.0.0.1.example.invalid"])
def test_other_addresses_need_a_word(host):
    with pytest.raises(ConfigError, match="--insecure"):
        check_host(ServerConfig(host=host))
    check_host(ServerConfig(host=host, insecure=True))
