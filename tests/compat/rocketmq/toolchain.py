"""The programs that drive the real clients: what they need of this machine, and their building.

A driver is built once into build/compat and found there again by the hash of its sources; `python -m
tests.compat.rocketmq.toolchain` builds them all and says how it goes. A tool that is not there raises `Missing` with a
sentence; a build that fails raises `BuildFailed` with the tool's own words.

Packages come through the ordinary clients (mvn, go, npm) from wherever those are set up to look.
"""

import contextlib
import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
BUILDS = ROOT / "build" / "compat"

CLIENT_4 = "4.9.8"
CLIENT_5 = "5.5.0"
BROKER_4 = "4.9.7"  # the broker of 4.9.8 was never published
BROKER_5 = "5.5.0"

# Short-lived processes on few cores: no second compiler, no collector threads.
JVM_FLAGS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m")

BUILD_LIMIT_S = 900  # the first time packages are fetched

Build = Callable[[Path, Path, float], None]  # from, to, within seconds
Say = Callable[[str], None]


class Missing(Exception):
    """A tool is not on this machine; says which, and what it is for."""


class BuildFailed(Exception):
    """A driver could not be built; ends with what the tool said."""


def quiet(_: str) -> None:
    """Nobody is told."""


def tool(name: str, why: str) -> str:
    """The path of a tool."""
    found = shutil.which(name)
    if not found:
        raise Missing(f"{name} is not on the path: {why}")
    return found


def built(name: str, source: Path, build: Build, say: Say = quiet, limit_s: float = BUILD_LIMIT_S) -> Path:
    """The folder of a finished build of these sources; built now if there is none."""
    folder = BUILDS / f"{name}-{_fingerprint(source)}"
    complete = folder / ".complete"
    if complete.exists():
        return folder
    with _alone(name):
        if complete.exists():
            return folder
        say(f"building {name} (the first time takes a minute: its packages are fetched)")
        for older in BUILDS.glob(f"{name}-*"):
            shutil.rmtree(older)
        folder.mkdir(parents=True)
        build(source, folder, limit_s)
        complete.touch()
    return folder


@contextlib.contextmanager
def _alone(name: str) -> Iterator[None]:
    """Nobody else builds this meanwhile; who comes second waits, and finds it built."""
    BUILDS.mkdir(parents=True, exist_ok=True)
    with (BUILDS / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fingerprint(source: Path) -> str:
    digest = hashlib.sha256(Path(__file__).read_bytes())
    for file in sorted(_files(source)):
        digest.update(f"{file.relative_to(source)}\0".encode() + file.read_bytes())
    return digest.hexdigest()[:12]


def _files(source: Path) -> Iterator[Path]:
    return (file for file in source.rglob("*") if file.is_file())


def _run(command: list[str], folder: Path, limit_s: float) -> None:
    quietly = {"stdin": subprocess.DEVNULL, "capture_output": True, "text": True}
    try:
        done = subprocess.run(command, cwd=folder, **quietly, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        raise BuildFailed(f"{' '.join(command)} did not end within {limit_s:g} s") from None
    if done.returncode:
        raise BuildFailed(f"{' '.join(command)} in {folder} failed:\n{done.stdout[-4000:]}{done.stderr[-4000:]}")


def java() -> str:
    return tool("java", "the Java client needs Java 17 or newer")


def maven(source: Path, folder: Path, limit_s: float, version: str, *goals: str) -> None:
    java()
    mvn = tool("mvn", "the Java client comes through Maven")
    places = [f"-Dbuild.folder={folder}", f"-Dmdep.outputFile={folder / 'classpath'}"]
    settings = [f"-Drocketmq.version={version}", *places]
    command = [mvn, "-B", "-q", "-f", str(source / "pom.xml"), *settings, *goals, "dependency:build-classpath"]
    _run(command, folder, limit_s)


def java_driver(version: str, say: Say = quiet, limit_s: float = BUILD_LIMIT_S) -> list[str]:
    """The command that starts the Java driver with a client version; flags of the JVM go behind its first word."""

    classpath = java_program(f"rocketmq-java-{version}", HERE / "java", version, say, limit_s)
    home = f"-Drocketmq.home.dir={HERE / 'java' / 'home'}"
    return [java(), *JVM_FLAGS, home, "-cp", classpath, "penstock.compat.Driver"]


def java_program(name: str, source: Path, version: str, say: Say = quiet, limit_s: float = BUILD_LIMIT_S) -> str:
    """Where Java finds a Maven project's classes, compiled now if need be, and a client version."""

    def build(source: Path, folder: Path, limit_s: float) -> None:
        maven(source, folder, limit_s, version, "compile")

    folder = built(name, source, build, say, limit_s)
    return f"{folder / 'classes'}{os.pathsep}{(folder / 'classpath').read_text().strip()}"


def peer_classpath(version: str, say: Say = quiet) -> str:
    """Where Java finds a real name server and broker."""

    def build(source: Path, folder: Path, limit_s: float) -> None:
        maven(source, folder, limit_s, version)

    return (built(f"rocketmq-peer-{version}", HERE / "peer", build, say) / "classpath").read_text().strip()


def go_driver(say: Say = quiet, limit_s: float = BUILD_LIMIT_S) -> list[str]:
    """The command that starts the Go driver."""

    def build(source: Path, folder: Path, limit_s: float) -> None:
        go = tool("go", "the Go client is compiled with it")
        _run([go, "build", "-mod=readonly", "-trimpath", "-o", str(folder / "driver"), "."], source, limit_s)

    return [str(built("rocketmq-go", HERE / "go", build, say, limit_s) / "driver")]


def node_driver(say: Say = quiet, limit_s: float = BUILD_LIMIT_S) -> list[str]:
    """The command that starts the Node driver."""
    node = tool("node", "the Node client runs on it")

    def build(source: Path, folder: Path, limit_s: float) -> None:
        npm = tool("npm", "the Node client comes through it")
        shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("node_modules"))
        _run([npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"], folder, limit_s)

    return [node, str(built("rocketmq-node", HERE / "node", build, say, limit_s) / "driver.js")]


DRIVERS: dict[str, Callable[..., list[str]]] = {
    "java-4": functools.partial(java_driver, CLIENT_4),
    "java-5": functools.partial(java_driver, CLIENT_5),
    "go": go_driver,
    "node": node_driver,
}


def main() -> int:
    failed = 0
    for name, driver in DRIVERS.items():
        try:
            driver(lambda words: print(words, flush=True))  # noqa: T201
            print(f"{name}: ready")  # noqa: T201
        except (Missing, BuildFailed) as reason:
            failed += 1
            print(f"{name}: {reason}", file=sys.stderr)  # noqa: T201
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
