"""A real Pulsar on loopback: `standalone`, one Java process (broker, bookie, metadata) on free ports in its own folder.

    with real_pulsar(folder) as peer:
        peer.service, peer.web                        # pulsar://HOST:PORT and http://HOST:PORT

A fixture asks `toolchain.peer_home()` first, outside of any test's time limit (the first time 245 MB are fetched), and
skips by `tests.compat.conftest.unavailable` when that raises `Missing`. The settings of `standalone.conf` hold, with
what is given on top: `real_pulsar(folder, {"journalSyncData": "true"})`. A topic is made by the first who asks for it.
`python -m tests.compat.pulsar.peer` runs one until its standard input ends, and prints its addresses.

Its port opens before the namespace public/default is there: it is ready once that is.
"""

import contextlib
import json
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.compat.pulsar import toolchain
from tests.compat.rocketmq.peer import HOST, free_port, killed, wait_for

MAIN = "org.apache.pulsar.PulsarStandaloneStarter"
WITHOUT = ("--no-functions-worker", "--no-stream-storage")
MEMORY = ("-Xms512m", "-Xmx1g", "-XX:MaxDirectMemorySize=2g", "-XX:+UseG1GC")
_DRIVERS = "org.apache.pulsar.metadata.bookkeeper.PulsarMetadata"
_OPENED = (
    "java.base/java.io",
    "java.base/java.util.zip",
    "java.base/java.nio",
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.platform",
    "java.management/sun.management",
    "jdk.management/com.sun.management.internal",
)
# As its own script starts it, except for the memory.
JVM_FLAGS = (
    *(f"--add-opens={package}=ALL-UNNAMED" for package in _OPENED),
    "-Djava.net.preferIPv4Stack=true",
    "-Dio.netty.tryReflectionSetAccessible=true",
    "-Dio.netty.recycler.maxCapacityPerThread=4096",
    f"-Dbookkeeper.metadata.bookie.drivers={_DRIVERS}BookieDriver",
    f"-Dbookkeeper.metadata.client.drivers={_DRIVERS}ClientDriver",
    "-Dlog4j2.is.webapp=false",
)
LOG4J = """<Configuration>
  <Appenders><Console name="said"><PatternLayout pattern="%d %p %t - %m%n%throwable"/></Console></Appenders>
  <Loggers><Root level="error"><AppenderRef ref="said"/></Root></Loggers>
</Configuration>
"""


class Ports(NamedTuple):
    broker: int
    web: int


class Peer(NamedTuple):
    """Where clients find it."""

    service: str
    web: str
    pid: int


@contextlib.contextmanager
def real_pulsar(
    folder: Path,
    settings: Mapping[str, str] | None = None,
    ports: Ports | None = None,
    memory: Iterable[str] = MEMORY,
) -> Iterator[Peer]:
    """A broker that has its namespace; what it says is in the file `output` of the folder."""
    home = toolchain.peer_home()
    ports = ports or Ports(free_port(), free_port())
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "log4j2.xml").write_text(LOG4J, encoding="utf-8")
    chosen = {**_own_settings(ports), **(settings or {})}
    own = "".join(f"{name}={value}\n" for name, value in chosen.items())
    given = (home / "conf" / "standalone.conf").read_text(encoding="utf-8")
    (folder / "standalone.conf").write_text(f"{given}\n{own}", encoding="utf-8")  # the last of a name counts
    process = _started(home, folder, memory)
    try:
        wait_for(process, lambda: _is_ready(ports.web), folder / "output", "Pulsar")
        yield Peer(f"pulsar://{HOST}:{ports.broker}", f"http://{HOST}:{ports.web}", process.pid)
    finally:
        killed(process)


def _own_settings(ports: Ports) -> dict[str, str]:
    return {
        "brokerServicePort": str(ports.broker),
        "webServicePort": str(ports.web),
        "bindAddress": HOST,
        "advertisedAddress": HOST,
        "listeningInterface": "lo",  # of the bookie, which takes any free port
    }


def _started(home: Path, folder: Path, memory: Iterable[str]) -> subprocess.Popen[bytes]:
    conf = folder / "standalone.conf"
    named = [f"-Dpulsar.config.file={conf}", f"-Dlog4j.configurationFile={folder / 'log4j2.xml'}"]
    java = [toolchain.java(), *JVM_FLAGS, *memory, *named, "-cp", f"{folder}:{home / 'lib'}/*", MAIN]
    places = ["--metadata-dir", str(folder / "metadata"), "--bookkeeper-dir", str(folder / "bookies")]
    words = [*WITHOUT, "--config", str(conf), *places, "--advertised-address", HOST]
    with (folder / "output").open("ab") as output:
        return subprocess.Popen([*java, *words], cwd=folder, stdin=subprocess.DEVNULL, stdout=output, stderr=output)


def _is_ready(web_port: int) -> bool:
    url = f"http://{HOST}:{web_port}/admin/v2/namespaces/public/default"
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=5):  # an answer of 404 is an OSError too
        return True
    return False


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="penstock-peer-") as folder, real_pulsar(Path(folder)) as peer:
        print(json.dumps(peer._asdict()), flush=True)  # noqa: T201
        sys.stdin.read()


if __name__ == "__main__":
    main()
