"""`penstock serve` as a process: ready, signals, refusals."""

import json
import signal
import socket
import sys
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from tests.cli.conftest import PORTS


def get(url: str) -> tuple[int, bytes]:
    try:
        with urlopen(url, timeout=30) as answer:
            return answer.status, answer.read()
    except HTTPError as error:
        with error:
            return error.code, error.read()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_broker_starts_says_so_and_stops(serve, number):
    broker = serve()
    assert broker.ready["pid"] == broker.process.pid
    assert get(f"{broker.http}/healthz") == (200, b'{"status":"alive"}\n')
    assert get(f"{broker.http}/readyz")[0] == 200
    assert b"# TYPE penstock_" in get(f"{broker.http}/metrics")[1]
    address = broker.ready["http"].split(":")
    broker.signal(number)
    assert broker.exit_code() == 0
    assert not broker.ready_file.exists()
    with socket.socket() as probe:
        assert probe.connect_ex((address[0], int(address[1]))) != 0


def test_a_stopped_broker_starts_again_on_its_folder(serve):
    for _ in range(2):
        broker = serve()
        broker.signal(signal.SIGTERM)
        assert broker.exit_code() == 0


def test_a_killed_broker_starts_again_on_its_folder(serve):
    broker = serve()
    broker.signal(signal.SIGKILL)
    assert broker.exit_code() == -signal.SIGKILL
    assert broker.ready_file.exists()
    again = serve()
    assert again.ready["pid"] == again.process.pid
    assert get(f"{again.http}/readyz")[0] == 200


def test_a_second_broker_on_the_same_folder_is_refused(serve, refused, tmp_path):
    first = serve()
    sentence = refused("serve", f"--data={tmp_path / 'data'}", "--http-port=0")
    assert f"the data folder {tmp_path / 'data'} is in use by another broker" in sentence
    assert get(f"{first.http}/readyz")[0] == 200


def test_a_port_in_use_is_refused(refused, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ports = (*PORTS, f"--http-port={port}")  # the last counts
        sentence = refused("serve", f"--data={tmp_path / 'data'}", *ports, "--log-level=error")
    assert f"port {port} on 127.0.0.1 is in use" in sentence
    assert "--http-port" in sentence


@pytest.mark.parametrize("host", ["0.0.0.0", "192.0.2.1", "::", "example.invalid"])
def test_an_address_that_others_reach_is_refused(refused, tmp_path, host):
    sentence = refused("serve", f"--data={tmp_path / 'data'}", "--host", host)
    assert host in sentence
    assert "--insecure" in sentence
    assert not (tmp_path / "data").exists()


def test_a_folder_that_cannot_be_one_is_refused(refused, tmp_path):
    (tmp_path / "file").write_text("")
    assert f"the data folder {tmp_path / 'file'} cannot be used" in refused("serve", f"--data={tmp_path / 'file'}")


def test_a_setting_that_does_not_exist_is_refused(refused, tmp_path):
    file = tmp_path / "p.toml"
    file.write_text("[server]\nhttp_prot = 1\n")
    assert "did you mean server.http_port?" in refused("serve", "--config", file)
    assert "--durability is 'maybe'" in refused("serve", "--durability=maybe")
    assert "PENSTOCK_SERVER_HTTP_PORT" in refused("serve", PENSTOCK_SERVER_HTTP_PROT="1")


def test_flags_come_before_variables_and_those_before_the_file(serve, tmp_path):
    file = tmp_path / "p.toml"
    file.write_text('[log]\nformat = "json"\nlevel = "error"\n[store]\ndurability = "sync"\n')
    variables = {"PENSTOCK_STORE_DURABILITY": "async", "PENSTOCK_LOG_LEVEL": "debug"}
    broker = serve(f"--config={file}", "--log-level=info", **variables)
    said = json.loads(broker.lines[-1])
    assert (said["level"], said["message"], said["durability"]) == ("info", "ready", "async")


# --- a broker that does not stop --------------------------------------------------------------------------------------

HANGING = """
import asyncio, sys
from penstock.cli.main import main
from penstock.core.broker import Broker

async def hang(self):
    await asyncio.Event().wait()

Broker.stop = hang
sys.argv[0] = "penstock"
main()
"""
HANGS = (sys.executable, "-c", HANGING, "serve")


def test_a_second_signal_stops_at_once(serve):
    broker = serve(command=HANGS)
    broker.signal(signal.SIGTERM)
    broker.logged("stopping")
    broker.signal(signal.SIGTERM)
    assert broker.exit_code() == 128 + signal.SIGTERM
    assert any("stopped at once" in line for line in broker.lines)


def test_a_broker_that_takes_too_long_to_stop_is_left_to_recovery(serve):
    broker = serve(command=HANGS, PENSTOCK_SERVER_STOP_TIMEOUT_MS="20")
    broker.signal(signal.SIGTERM)
    assert broker.exit_code() == 1
    assert any("not stopped cleanly" in line and "took too long" in line for line in broker.lines)
    assert get(f"{serve().http}/readyz")[0] == 200
