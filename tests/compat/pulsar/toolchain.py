"""The programs that drive Pulsar's real clients, built as those of RocketMQ are (`tests/compat/rocketmq/toolchain.py`).

The newest client for Python is in this environment already; an older one gets an environment of its own.
"""

import functools
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from tests.compat.rocketmq.toolchain import JVM_FLAGS, BuildFailed, Missing, Say, built, java, quiet, tool
from tests.compat.rocketmq.toolchain import _run as run

HERE = Path(__file__).parent
PYTHON_OLD = "3.5.0"
JAVA_LTS = "4.0.13"
BROKER = "4.0.8"
ADMIN_TOOL = "org.apache.pulsar.admin.cli.PulsarAdminTool"
NODE_BINARY_LIMIT_S = 120
# Netty, inside the client, reaches for what the JVM keeps closed.
OPENED = ("--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED")


def python_new(say: Say = quiet) -> list[str]:
    return [sys.executable, str(HERE / "python" / "driver.py")]


def python_old(say: Say = quiet) -> list[str]:
    """An environment with an older client."""

    def build(source: Path, folder: Path, limit_s: float) -> None:
        run([sys.executable, "-m", "venv", str(folder / "venv")], folder, limit_s)
        pip = [str(folder / "venv" / "bin" / "python"), "-m", "pip", "install", "--quiet", "--only-binary=:all:"]
        run([*pip, f"pulsar-client=={PYTHON_OLD}"], folder, limit_s)

    if sys.version_info >= (3, 13):
        raise Missing(f"pulsar-client {PYTHON_OLD} has no wheel for this Python: 3.12 is the last")
    folder = built(f"pulsar-python-{PYTHON_OLD}", HERE / "python", build, say)
    return [str(folder / "venv" / "bin" / "python"), str(HERE / "python" / "driver.py")]


def java_driver(say: Say = quiet) -> list[str]:
    classpath = java_program(f"pulsar-java-{JAVA_LTS}", HERE / "java", say, f"-Dpulsar.version={JAVA_LTS}")
    return [java(), *JVM_FLAGS, *OPENED, "-cp", classpath, "penstock.compat.pulsar.Driver"]


def admin_driver(say: Say = quiet) -> list[str]:
    """Takes the address of the HTTP side as its argument."""
    classpath = java_program(f"pulsar-admin-{JAVA_LTS}", HERE / "admin", say)
    return [java(), *JVM_FLAGS, *OPENED, "-cp", classpath, "penstock.compat.pulsar.Admin"]


def java_program(name: str, source: Path, say: Say, *versions: str) -> str:
    """Where Java finds a Maven project's classes, compiled now if need be, and its packages."""

    def build(source: Path, folder: Path, limit_s: float) -> None:
        place = f"-Dmdep.outputFile={folder / 'classpath'}"
        maven(source, folder, limit_s, *versions, place, "compile", "dependency:build-classpath")

    folder = built(name, source, build, say)
    return f"{folder / 'classes'}{os.pathsep}{(folder / 'classpath').read_text().strip()}"


def maven(source: Path, folder: Path, limit_s: float, *words: str) -> None:
    java()
    mvn = tool("mvn", "what is written in Java comes through Maven")
    run([mvn, "-B", "-q", "-f", str(source / "pom.xml"), f"-Dbuild.folder={folder}", *words], folder, limit_s)


def peer_home(say: Say = quiet) -> Path:
    """The folder of a real Pulsar (245 MB), unpacked."""

    def build(source: Path, folder: Path, limit_s: float) -> None:
        maven(source, folder, limit_s, f"-Dpulsar.version={BROKER}", "dependency:unpack-dependencies")

    return built(f"pulsar-peer-{BROKER}", HERE / "peer", build, say) / f"apache-pulsar-{BROKER}"


def pulsar_admin(say: Say = quiet) -> list[str]:
    """The tool that comes with a real Pulsar. Takes a file of settings, then its own words."""
    quietly = ("-Dlog4j2.level=OFF", "-Djava.net.preferIPv4Stack=true")
    return [java(), *JVM_FLAGS, *OPENED, *quietly, "-cp", f"{peer_home(say) / 'lib'}/*", ADMIN_TOOL]


def go_driver(say: Say = quiet) -> list[str]:
    def build(source: Path, folder: Path, limit_s: float) -> None:
        go = tool("go", "the Go client is compiled with it")
        run([go, "build", "-mod=readonly", "-trimpath", "-o", str(folder / "driver"), "."], source, limit_s)

    return [str(built("pulsar-go", HERE / "go", build, say) / "driver")]


class NotToBeHad(Missing):
    """What no package registry has; says what was tried."""


def node_driver(say: Say = quiet) -> list[str]:
    """The client is a binary that is not in its package: it is fetched from elsewhere."""
    node = tool("node", "the client for Node runs on it")

    def build(source: Path, folder: Path, limit_s: float) -> None:
        npm = tool("npm", "the client for Node comes through it")
        shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
        run([npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"], folder, limit_s)
        client = folder / "node_modules" / "pulsar-client"
        fetch = folder / "node_modules" / "@mapbox" / "node-pre-gyp" / "bin" / "node-pre-gyp"
        try:
            run([node, str(fetch), "install"], client, NODE_BINARY_LIMIT_S)
            run([node, "GenCertFile.js"], client, NODE_BINARY_LIMIT_S)
        except BuildFailed as failure:
            reason = next((line for line in str(failure).splitlines() if "failed, reason" in line), str(failure))
            raise NotToBeHad(f"its binary is not in the npm package and was not found: {reason[-300:]}") from None

    return [node, str(built("pulsar-node", HERE / "node", build, say) / "driver.js")]


DRIVERS: dict[str, Callable[..., list[str]]] = {
    "python": python_new,
    f"python-{PYTHON_OLD}": python_old,
    f"java-{JAVA_LTS}": java_driver,
    "go": go_driver,
}
DRIVERS = {name: functools.cache(driver) for name, driver in DRIVERS.items()}
