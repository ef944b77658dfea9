"""A real Kafka broker on loopback: one Java process on free ports, with a folder of its own and its default settings.

with kafka(folder) as broker:
    broker.servers                                # HOST:PORT, as clients want it
"""

import base64
import contextlib
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.compat.rocketmq import toolchain
from tests.compat.rocketmq.peer import HOST, free_port

HERE = Path(__file__).parent
START_TIMEOUT_S, STOP_TIMEOUT_S = 60, 20
JVM_FLAGS = ("-Xms512m", "-Xmx1g", "-XX:+UseG1GC", "-Dlog4j2.level=WARN")


class Kafka(NamedTuple):
    servers: str
    pid: int


def broker_classpath(say: toolchain.Say) -> str:
    return _classpath("kafka-broker", HERE / "broker", say)


def connector_jars(say: toolchain.Say) -> list[str]:
    return _classpath("kafka-connector", HERE / "connector", say).split(os.pathsep)


def _classpath(name: str, source: Path, say: toolchain.Say) -> str:
    def build(source: Path, folder: Path, limit_s: float) -> None:
        toolchain.maven(source, folder, limit_s, toolchain.BROKER_5)

    return (toolchain.built(name, source, build, say) / "classpath").read_text().strip()


@contextlib.contextmanager
def kafka(folder: Path, say: toolchain.Say) -> Iterator[Kafka]:
    classpath, ports = broker_classpath(say), (free_port(), free_port())
    folder.mkdir(parents=True)
    settings = folder / "settings.properties"
    settings.write_text("".join(f"{name}={value}\n" for name, value in _settings(folder, *ports).items()))
    number = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
    _run(classpath, folder, "kafka.tools.StorageTool", "format", "-t", number.replace("-", "a"), "-c", str(settings))
    with _process(classpath, folder, "kafka.Kafka", str(settings)) as process:
        _wait(process, ports[0], folder)
        yield Kafka(f"{HOST}:{ports[0]}", process.pid)


def _settings(folder: Path, port: int, controller: int) -> dict[str, str]:
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{port},CONTROLLER://{HOST}:{controller}",
        "log.dirs": str(folder / "data"),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }


def _command(classpath: str, main: str, *words: str) -> list[str]:
    return [toolchain.java(), *JVM_FLAGS, "-cp", classpath, main, *words]


def _run(classpath: str, folder: Path, main: str, *words: str) -> None:
    done = subprocess.run(
        _command(classpath, main, *words),
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"Kafka's folder could not be made: {done.stdout[-1000:]}{done.stderr[-1000:]}")


@contextlib.contextmanager
def _process(classpath: str, folder: Path, main: str, *words: str) -> "Iterator[subprocess.Popen[bytes]]":
    with (folder / "output").open("wb") as output:
        process = subprocess.Popen(
            _command(classpath, main, *words), cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait(process: "subprocess.Popen[bytes]", port: int, folder: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        with contextlib.suppress(OSError), socket.create_connection((HOST, port), 1):
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"Kafka did not start:\n{(folder / 'output').read_text(errors='replace')[-3000:]}")
        time.sleep(0.1)
