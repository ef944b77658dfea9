"""A real RocketMQ cluster on loopback: two name servers, two masters, and a slave of the first one.

    with real_cluster(folder) as cluster:
        cluster.namesrv                                # HOST:PORT;HOST:PORT
        cluster.kill(MASTER_A)                         # as a machine that loses its power, but for its disk
        cluster.start(MASTER_A)                        # with the same port and the same files

The brokers' names have a machine room before the @. A master sends whoever is behind, if only by a message, to its
slave: so that tests need not fill the memory first. The slave holds a pull for a second only: it would not notice what
has come before its next look, five seconds later.
"""

import contextlib
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.compat.rocketmq import peer, toolchain

from penstock.wire.rocketmq import fastjson

ROOM_A, ROOM_B = "hz", "sh"
BROKER_A, BROKER_B = f"{ROOM_A}@a", f"{ROOM_B}@b"
NAMES_1, NAMES_2, MASTER_A, SLAVE_A, MASTER_B = "names-1", "names-2", "master-a", "slave-a", "master-b"
PLACES = {MASTER_A: (BROKER_A, 0), SLAVE_A: (BROKER_A, 1), MASTER_B: (BROKER_B, 0)}
WITHIN_S = 90

# Five processes on few cores: small ones, without a second compiler and collector threads.
JVM_FLAGS = (
    *peer.OPEN_FLAGS,
    *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MaxDirectMemorySize=512m", "-Xms256m", "-Xmx512m"),
)


class Member(NamedTuple):
    """One process of the cluster, whether it runs or not."""

    main: str
    settings: Path
    port: int


class RealCluster:
    def __init__(self, folder: Path, version: str) -> None:
        self._folder, self._classpath = folder, toolchain.peer_classpath(version)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._members: dict[str, Member] = {}

    @property
    def namesrv(self) -> str:
        return ";".join(self.address(name) for name in (NAMES_1, NAMES_2))

    def address(self, name: str) -> str:
        return f"{peer.HOST}:{self._members[name].port}"

    # --- coming and going ---------------------------------------------------------------------------------------------

    def begin(self) -> None:
        for name in (NAMES_1, NAMES_2):
            port = peer.free_port()
            self._add(name, peer.NAME_SERVER, peer.name_server_settings(port), port)
            self.start(name)
        self._until(lambda: all(peer.listens(self._members[name].port) for name in (NAMES_1, NAMES_2)))
        for name, (broker, number) in PLACES.items():
            port = peer.free_broker_port()
            self._add(name, peer.BROKER, self._broker_settings(name, broker, number, port), port)
            self.start(name)
        self.whole()

    def _broker_settings(self, name: str, broker: str, number: int, port: int) -> dict[str, str]:
        settings = peer.broker_settings(self._folder / name / "store", self.namesrv, port)
        return settings | {
            "brokerName": broker,
            "brokerId": str(number),
            "brokerRole": "SLAVE" if number else "ASYNC_MASTER",
            "registerNameServerPeriod": "10000",
            "slaveReadEnable": "true",
            "accessMessageInMemoryMaxRatio": "0",
            "longPollingEnable": "false" if number else "true",
        }

    def _add(self, name: str, main: str, settings: Mapping[str, str], port: int) -> None:
        self._members[name] = Member(main, peer.configured(self._folder / name, settings), port)

    def start(self, name: str) -> None:
        member = self._members[name]
        self._running[name] = peer.started(self._classpath, member.main, member.settings, JVM_FLAGS)

    def kill(self, name: str) -> None:
        peer.killed(self._running.pop(name))

    def whole(self) -> None:
        """Start whoever is down, and wait until both name servers know all brokers."""
        for name in self._members.keys() - self._running.keys():
            self.start(name)
        everybody = {BROKER_A: {0, 1}, BROKER_B: {0}}
        self._until(lambda: all(self.known(name) == everybody for name in (NAMES_1, NAMES_2)))

    def end(self) -> None:
        for process in self._running.values():
            peer.killed(process)

    # --- what is known ------------------------------------------------------------------------------------------------

    def known(self, name_server: str) -> dict[str, set[int]]:
        """The numbers of the brokers that a name server knows, by name."""
        try:
            code, body = peer.ask_names(self._members[name_server].port, 106, {})
        except OSError:
            return {}
        found = fastjson.table(fastjson.loads(body), "brokerAddrTable") if code == 0 else {}
        return {
            str(broker): {int(number) for number in fastjson.table(data, "brokerAddrs")}
            for broker, data in found.items()
        }

    def _until(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not is_so():
            ended = [name for name, process in self._running.items() if process.poll() is not None]
            if ended or time.monotonic() > deadline:
                said = {name: _tail(self._members[name].settings.parent / "output") for name in self._running}
                raise RuntimeError(f"the cluster is not whole; ended: {ended}; it said: {said}")
            time.sleep(0.1)


def _tail(file: Path) -> str:
    return file.read_text(errors="replace")[-1000:]


@contextlib.contextmanager
def real_cluster(folder: Path, version: str = toolchain.BROKER_4) -> Iterator[RealCluster]:
    cluster = RealCluster(folder, version)
    try:
        cluster.begin()
        yield cluster
    finally:
        cluster.end()
