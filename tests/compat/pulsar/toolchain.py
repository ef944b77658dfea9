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
# Netty, inside the client, reaches for what the JVM keeps closed.
_OPENED = ("--add-opens=java.base/java.nio=ALL-UNNAMED", "--add-opens=java.base/jdk.internal.misc=ALL-UNNAMED")


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
    def build(source: Path, folder: Path, limit_s: float) -> None:
        java()
        mvn = tool("mvn", "the Java client comes through Maven")
        places = [f"-Dbuild.folder={folder}", f"-Dmdep.outputFile={folder / 'classpath'}"]
        goals = [f"-Dpulsar.version={JAVA_LTS}", "compile", "dependency:build-classpath"]
        run([mvn, "-B", "-q", "-f", str(source / "pom.xml"), *places, *goals], folder, limit_s)

    folder = built(f"pulsar-java-{JAVA_LTS}", HERE / "java", build, say)
    classpath = f"{folder / 'classes'}{os.pathsep}{(folder / 'classpath').read_text().strip()}"
    return [java(), *JVM_FLAGS, *_OPENED, "-cp", classpath, "penstock.compat.pulsar.Driver"]


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
