"""The Python that Spark's processes on this machine run: this one, with Spark's modules as they are installed.

Spark puts archives with its modules before everything else on the path of each Python that it starts, and a jar, whose
thousands of entries Python reads. It keeps no compiled form of what comes out of an archive: every process compiles a
few hundred modules anew, half a second of the start of each streaming query. So Python is started through a script of
ours that takes them off the path; the same modules are installed.

Spark has its workers compute with one thread each (OMP_NUM_THREADS), but says nothing to the process that plans a
stream: there numpy would start one for each core, and they spin for a tenth of a second. So it gets one, too.
"""

import hashlib
import importlib.util
import os
import shlex
import sys
from pathlib import Path

from penstock import logs
from penstock.spark.wrappers import cache, put_script

log = logs.get(__name__)

ARCHIVE = "pyspark.zip"
_WRAPPER = """#!/bin/sh
# Starts {python} without the archives of Spark on its path: the same modules are installed.
set -f
kept=
IFS=:
for part in $PYTHONPATH; do
    case "$part" in
        {spark}/*) ;;
        *) kept="${{kept:+$kept:}}$part" ;;
    esac
done
unset IFS
PYTHONPATH=$kept OMP_NUM_THREADS=${{OMP_NUM_THREADS:-1}} exec {python} "$@"
"""


def worker_python() -> str:
    """What to name in PYSPARK_PYTHON."""
    spark = _installed()
    if spark is None or os.name != "posix":
        return sys.executable
    text = _WRAPPER.format(python=shlex.quote(sys.executable), spark=shlex.quote(str(spark)))
    script = cache() / f"python-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    try:
        put_script(script, text)
    except OSError as error:
        log.info("streaming queries start a little slower", error=str(error))
        return sys.executable
    return str(script)


def _installed() -> Path | None:
    """Where Spark is installed, its archives with it; None where another one is used, or none."""
    found = importlib.util.find_spec("pyspark")
    if found is None or found.origin is None or os.environ.get("SPARK_HOME"):
        return None
    folder = Path(found.origin).parent
    return folder if (folder / "python" / "lib" / ARCHIVE).is_file() else None
