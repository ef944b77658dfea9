"""A real RocketMQ on loopback: name server and broker, two Java processes on free ports with a folder of their own.

    with real_rocketmq(folder) as peer:
        peer.namesrv, peer.broker                     # HOST:PORT each

The tests hold against it too; that is how they are known to be right. `python -m tests.compat.rocketmq.peer` runs one
in the foreground until its standard input ends, and prints its addresses.

The name server's port is waited for before the broker starts: a broker whose first registration is lost stays invisible
for half a minute. The broker is ready once the name server knows its cluster topic.
"""

import contextlib
import json
import random
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.compat.rocketmq import toolchain

HOST = "127.0.0.1"
CLUSTER = "DefaultCluster"
BROKER_NAME = "broker-a"
START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 15

# 4.9 logs by a file that it looks for under its home, and does not start without it. What it says goes to its output.
LOGBACK = """<configuration>
  <appender name="said" class="ch.qos.logback.core.ConsoleAppender">
    <encoder><pattern>%d %p %t - %m%n</pattern></encoder>
  </appender>
  <root level="WARN"><appender-ref ref="said"/></root>
</configuration>
"""
LOGBACK_FILES = ("logback_namesrv.xml", "logback_broker.xml")

_OPENS = ("java.nio", "sun.nio.ch", "java.lang", "java.util")
_EXPORTS = ("jdk.internal.ref", "sun.nio.ch")
OPEN_FLAGS = (
    *(f"--add-opens=java.base/{package}=ALL-UNNAMED" for package in _OPENS),
    *(f"--add-exports=java.base/{package}=ALL-UNNAMED" for package in _EXPORTS),
)
JVM_FLAGS = (*OPEN_FLAGS, "-XX:MaxDirectMemorySize=1g", "-Xms512m", "-Xmx1g")
NAME_SERVER = "org.apache.rocketmq.namesrv.NamesrvStartup"
BROKER = "org.apache.rocketmq.broker.BrokerStartup"


class Peer(NamedTuple):
    """Where clients find it."""

    namesrv: str
    broker: str
    pids: tuple[int, int]


@contextlib.contextmanager
def real_rocketmq(
    folder: Path,
    version: str = toolchain.BROKER_5,
    settings: Mapping[str, str] | None = None,
    ports: tuple[int, int] | None = None,
) -> Iterator[Peer]:
    """A name server and a broker that is registered with it; settings go on top of the broker's own."""
    classpath = toolchain.peer_classpath(version)
    namesrv_port, broker_port = ports or (free_port(), free_broker_port())
    with contextlib.ExitStack() as stack:
        name_server = configured(folder / "namesrv", name_server_settings(namesrv_port))
        first = stack.enter_context(process(classpath, NAME_SERVER, name_server))
        wait_for(first, lambda: listens(namesrv_port), name_server.parent / "output")
        store = folder / "broker" / "store"
        chosen = broker_settings(store, f"{HOST}:{namesrv_port}", broker_port) | dict(settings or {})
        broker = configured(folder / "broker", chosen)
        second = stack.enter_context(process(classpath, BROKER, broker))
        wait_for(second, lambda: _knows(namesrv_port, CLUSTER), broker.parent / "output")
        yield Peer(f"{HOST}:{namesrv_port}", f"{HOST}:{broker_port}", (first.pid, second.pid))


def free_port() -> int:
    with socket.create_server((HOST, 0)) as server:
        return server.getsockname()[1]


def free_broker_port() -> int:
    """A broker listens on this port, on the one two below (its fast side) and on the one above (replication)."""
    while True:
        port = random.randrange(20_000, 30_000)
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            for offset in (0, -2, 1):
                stack.enter_context(socket.create_server((HOST, port + offset)))
            return port


def name_server_settings(port: int) -> dict[str, str]:
    return {"listenPort": str(port), "bindAddress": HOST}


def broker_settings(store: Path, namesrv: str, broker_port: int) -> dict[str, str]:
    return {
        "brokerClusterName": CLUSTER,
        "brokerName": BROKER_NAME,
        "brokerIP1": HOST,
        "brokerIP2": HOST,
        "bindAddress": HOST,
        "namesrvAddr": namesrv,
        "listenPort": str(broker_port),
        "storePathRootDir": str(store),
        "storePathCommitLog": str(store / "commitlog"),
        "mappedFileSizeCommitLog": str(64 << 20),
        "autoCreateTopicEnable": "true",
        "enablePropertyFilter": "true",
        "traceTopicEnable": "true",
        "transactionCheckInterval": "2000",
        "transactionTimeOut": "2000",
    }


def configured(folder: Path, settings: Mapping[str, str]) -> Path:
    """A file of settings in a new folder, which is also the process's home."""
    (folder / "conf").mkdir(parents=True)
    for name in LOGBACK_FILES:
        (folder / "conf" / name).write_text(LOGBACK, encoding="utf-8")
    file = folder / "settings.conf"
    file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), encoding="utf-8")
    return file


@contextlib.contextmanager
def process(classpath: str, main: str, settings: Path) -> Iterator[subprocess.Popen[bytes]]:
    begun = started(classpath, main, settings)
    try:
        yield begun
    finally:
        killed(begun)


def started(classpath: str, main: str, settings: Path, flags: Iterable[str] = JVM_FLAGS) -> subprocess.Popen[bytes]:
    """A Java process in the folder of its settings; what it says is in the file `output` there."""
    home = settings.parent
    command = [toolchain.java(), *flags, f"-Duser.home={home}", f"-Drocketmq.home.dir={home}"]
    with (home / "output").open("ab") as output:
        return subprocess.Popen(
            [*command, "-cp", classpath, main, "-c", str(settings)],
            cwd=home,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )


def killed(process: subprocess.Popen[bytes]) -> None:
    """For who leaves nothing that is looked at again: a broker takes ten seconds and more to shut down."""
    process.kill()
    process.wait()


def stopped(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_for(process: subprocess.Popen[bytes], ready: Callable[[], bool], output: Path, what: str = "RocketMQ") -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"{what} did not start:\n{output.read_text(errors='replace')[-4000:]}")
        time.sleep(0.1)


def listens(port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
        return True
    return False


def _knows(namesrv_port: int, topic: str) -> bool:
    """Whether the name server has a route for a topic."""
    return ask_names(namesrv_port, 105, {"topic": topic})[0] == 0


def ask_names(port: int, code: int, ext: Mapping[str, str]) -> tuple[int, bytes]:
    """The code and the body of a name server's answer: one request of the protocol, with a JSON header."""
    header = json.dumps({"code": code, "extFields": ext, "flag": 0, "language": "OTHER", "opaque": 1}).encode()
    with socket.create_connection((HOST, port), 5) as connection, connection.makefile("rb") as answers:
        connection.sendall((4 + len(header)).to_bytes(4) + len(header).to_bytes(4) + header)
        length = int.from_bytes(answers.read(4))
        header_bytes = int.from_bytes(answers.read(4)) & 0xFFFFFF
        return json.loads(answers.read(header_bytes))["code"], answers.read(length - 4 - header_bytes)


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-peer-") as folder, real_rocketmq(Path(folder)) as peer:
        print(json.dumps(peer._asdict()), flush=True)  # noqa: T201
        sys.stdin.read()


if __name__ == "__main__":
    main()
