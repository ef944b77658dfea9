"""Clients that reach the broker by another address than the one it listens on, as they do when it is in a container."""

import contextlib
import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat.conftest import serving, unavailable
from tests.compat.rocketmq import toolchain
from tests.compat.rocketmq.clients import GO, JAVA_4, JAVA_5, MqAdmin, Runner, bodies

CHUNK_BYTES = 64 * 1024


class Forwarder:
    """A port that passes everything on to another, which may become known later."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.target = ""
        self.connections = 0
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                near, _ = self._server.accept()
                host, port = self.target.split(":")
                far = socket.create_connection((host, int(port)))
                self.connections += 1
                self._open += [near, far]
                for source, sink in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=(source, sink), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        for each in (self._server, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@pytest.fixture(scope="module")
def doors(broker, tmp_path_factory) -> Iterator[tuple[Forwarder, Forwarder]]:
    """The name server's and the broker's, as they are seen from outside."""
    if broker.kind != "penstock":
        pytest.skip("a broker of our own is started for this")
    with contextlib.closing(Forwarder()) as names, contextlib.closing(Forwarder()) as door:
        folder = tmp_path_factory.mktemp("container")
        with serving(folder, "--advertise", door.address):
            ready = json.loads(Path(folder / "ready.json").read_text(encoding="utf-8"))
            names.target, door.target = ready["namesrv"], ready["broker"]
            yield names, door


def runner(client, names: Forwarder, home: Path) -> Runner:
    try:
        command = toolchain.DRIVERS[client.driver](toolchain.quiet)
    except toolchain.Missing as reason:
        unavailable(client.name, reason)
    return Runner(client, command, names.address, home)


@pytest.mark.parametrize("client", [JAVA_4, JAVA_5, GO], ids=lambda client: client.name)
def test_a_client_goes_where_it_is_told(client, doors, topic, group, tmp_path):
    names, door = doors
    used = runner(client, names, tmp_path)
    before = door.connections
    sent = used.produce(topic, 8)
    assert door.connections > before
    host = bytes.fromhex(str(sent[0]["offsetMsgId"]))[:8]
    assert f"{socket.inet_ntoa(host[:4])}:{int.from_bytes(host[4:])}" == door.address
    with used.push(topic, group) as consumer:
        assert sorted(str(line["body"]) for line in consumer.take(8)) == bodies("m", 8)


def test_a_tool_finds_a_message_by_its_id(doors, topic, tmp_path):
    """It goes straight to the address that stands in the id."""
    names, door = doors
    used = runner(JAVA_5, names, tmp_path)
    sent = used.produce(topic, 2, "--keys")[1]
    with contextlib.closing(MqAdmin(used)) as tool:
        printed = tool("queryMsgById", "-t", topic, "-i", str(sent["offsetMsgId"]))
        route = tool("topicRoute", "-t", topic)
    assert re.search(rf"Store Host: +{door.address}", printed)
    assert f'"{door.address}"' in route
