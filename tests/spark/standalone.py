"""A Spark cluster on loopback: a master and a worker, two Java processes as pyspark ships them, on free ports.

    with standalone(folder) as cluster:
        cluster.master                                # spark://127.0.0.1:PORT

The worker starts executors, which start Pythons of this environment, in processes of their own. What all of them say is
under the folder.
"""

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyspark
from tests.compat.rocketmq.peer import free_port, stopped

from penstock.spark.java import java_home

SOURCE = Path(__file__).parents[2] / "src"
START_TIMEOUT_S = 120
HOST = "127.0.0.1"


class Cluster(NamedTuple):
    """What a driver needs to know, and which processes there are."""

    master: str
    environment: dict[str, str]
    pids: dict[str, int]
    executors: Path  # a folder for each application, and one in it for each of its executors


@contextlib.contextmanager
def standalone(folder: Path, cores: int = 2) -> Iterator[Cluster]:
    port, page, workers_page = free_port(), free_port(), free_port()
    url = f"spark://{HOST}:{port}"
    variables = environment(folder)
    with contextlib.ExitStack() as stack:
        flags = ["--host", HOST, "--port", str(port), "--webui-port", str(page)]
        master = stack.enter_context(_part(folder, "master", "master.Master", flags, variables))
        _until(master, folder / "master.log", lambda: _workers(page) is not None)
        flags = ["--host", HOST, "--cores", str(cores), "--memory", "1g", "--webui-port", str(workers_page)]
        flags += ["--work-dir", str(folder / "work"), url]
        worker = stack.enter_context(_part(folder, "worker", "worker.Worker", flags, variables))
        _until(worker, folder / "worker.log", lambda: _workers(page) == 1)
        yield Cluster(url, variables, {"master": master.pid, "worker": worker.pid}, folder / "work")


def environment(folder: Path) -> dict[str, str]:
    """For every process of the cluster and for its driver: the same Python, with the source of this tree."""
    home = java_home()
    return {
        **os.environ,
        **({"JAVA_HOME": home} if home else {}),
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": str(SOURCE),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_LOCAL_DIRS": str(folder / "local"),
    }


@contextlib.contextmanager
def _part(
    folder: Path, name: str, main: str, flags: list[str], variables: dict[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    script = Path(variables["SPARK_HOME"], "bin", "spark-class")
    with (folder / f"{name}.log").open("wb") as log:
        begun = subprocess.Popen(
            [script, f"org.apache.spark.deploy.{main}", *flags],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
        )
    try:
        yield begun
    finally:
        stopped(begun)


def _workers(page: int) -> int | None:
    """How many the master says that it has; None while it does not answer."""
    try:
        with urllib.request.urlopen(f"http://{HOST}:{page}/json/", timeout=5) as answer:
            return int(json.load(answer)["aliveworkers"])
    except OSError:
        return None


def _until(process: subprocess.Popen[bytes], log: Path, ready: Callable[[], bool]) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not ready():
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"Spark did not start:\n{log.read_text(errors='replace')[-4000:]}")
        time.sleep(0.2)
