"""The programs that drive Pulsar's real clients, built as those of RocketMQ are (`tests/compat/rocketmq/toolchain.py`).

The newest client for Python is in this environment already; an older one gets an environment of its own.
"""

import functools
import os
import sys
from collections.abc import Callable
from pathlib import Path

from tests.compat.rocketmq.toolchain import JVM_FLAGS, Missing, Say, built, java, quiet, tool
from tests.compat.rocketmq.toolchain import _run as run

HERE = Path(__file__).parent
PYTHON_OLD = "3.5.0"
JAVA_LTS = "4.0.13"
BROKER = "4.0.8"
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


def go_driver(say: Say = quiet) -> list[str]:
    def build(source: Path, folder: Path, limit_s: float) -> None:
        go = tool("go", "the Go client is compiled with it")
        run([go, "build", "-mod=readonly", "-trimpath", "-o", str(folder / "driver"), "."], source, limit_s)

    return [str(built("pulsar-go", HERE / "go", build, say) / "driver")]


DRIVERS: dict[str, Callable[..., list[str]]] = {
    "python": python_new,
    f"python-{PYTHON_OLD}": python_old,
    f"java-{JAVA_LTS}": java_driver,
    "go": go_driver,
}
DRIVERS = {name: functools.cache(driver) for name, driver in DRIVERS.items()}
