"""A Spark session that knows the source: what the pipelines, the demo and the tests start.

A session of the user's own needs none of this: `format("penstock")` is found wherever the package is installed, as long
as the workers run the same Python (`PYSPARK_PYTHON`).

Rows come from Python to the JVM by a Unix socket where there are any: by TCP, Spark's default, it takes about a tenth
more of both. There each value of each row is read from Arrow's buffers, which by default look twice whether it is there
and whether the buffer is still open: a tenth of the JVM's time. Spark asks for nulls itself, and reads texts by their
addresses, which nothing looks at anyway; so these looks are left out.
"""

import os
import socket
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.errors import ConfigError
from penstock.spark.java import java_home
from penstock.spark.python import worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL = "local[*]"
UNCHECKED = "-Darrow.enable_unsafe_memory_access=true -Darrow.enable_null_check_for_get=false"
DEFAULTS = {
    "spark.sql.shuffle.partitions": "8",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.python.filterPushdown.enabled": "true",
    **({"spark.python.unix.domain.socket.enabled": "true"} if hasattr(socket, "AF_UNIX") else {}),
    "spark.driver.defaultJavaOptions": UNCHECKED,
    "spark.executor.defaultJavaOptions": UNCHECKED,
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}


def session(name: str, master: str = LOCAL, settings: Mapping[str, str] | None = None) -> "SparkSession":
    """A new session, or the one that runs in this process already."""
    home = java_home()
    if home:
        os.environ["JAVA_HOME"] = home
    if "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = worker_python() if _is_here(master) else sys.executable
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise ConfigError("Spark is not installed: pip install penstock[spark]") from None
    builder = SparkSession.builder.appName(name).master(master)
    for key, value in {**DEFAULTS, **_nearby(master), **(settings or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _is_here(master: str) -> bool:
    """Whether all of this Spark is on this machine."""
    return master == "local" or "local[" in master


def _nearby(master: str) -> dict[str, str]:
    """A Spark on this machine alone does not listen to the network."""
    return {"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} if _is_here(master) else {}
