"""Which Python Spark's processes are started with, and where it takes Spark's modules from."""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
import pytest

from penstock.spark import python

SPARK = Path(pyspark.__file__).parent


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "with 'spaces'"))
    monkeypatch.delenv("SPARK_HOME", raising=False)
    return tmp_path


def told(executable, *more):
    """As Spark starts it: with its archives in front."""
    archives = [*sorted((SPARK / "python" / "lib").glob("*.zip")), *(SPARK / "jars").glob("spark-core_*.jar")]
    path = os.pathsep.join([*map(str, archives), *more])
    asked = "import pyspark, sys; print(pyspark.__file__, *sys.path, *sys.argv[1:], sep='\\n')"
    command = [executable, "-c", asked, "a b", "*"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path})
    return done.stdout.splitlines()


def test_modules_are_taken_as_they_are_installed():
    assert python.worker_python() != sys.executable
    where, *path = told(python.worker_python(), "/one *", "/two")
    assert where == pyspark.__file__
    assert not [part for part in path if part.endswith((".jar", "pyspark.zip"))]
    assert path[1:3] == ["/one *", "/two"], "what else is on the path stays"
    assert path[-2:] == ["a b", "*"]


def test_without_the_script_they_come_from_an_archive():
    """Once this fails, the script is no longer needed."""
    where, *_ = told(sys.executable)
    assert python.ARCHIVE in where


@pytest.mark.parametrize(("given", "told"), [({}, "1"), ({"OMP_NUM_THREADS": "3"}, "3")])
def test_numpy_starts_no_threads_unless_it_is_told_to(given: dict[str, str], told: str):
    asked = "import os; print(os.environ['OMP_NUM_THREADS'])"
    others = {name: value for name, value in os.environ.items() if name != "OMP_NUM_THREADS"}
    command = [python.worker_python(), "-c", asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**others, **given})
    assert done.stdout.split() == [told]


def test_another_spark_has_its_own_modules(monkeypatch):
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    assert python.worker_python() == sys.executable


def test_without_a_cache_it_is_this_python_as_it_is(cache, monkeypatch):
    (cache / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache / "file"))
    assert python.worker_python() == sys.executable
