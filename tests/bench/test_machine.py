"""A broker that does not have its turn takes nothing from the one that has."""

import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench.machine import family, halted

CHILD = "print('up', flush=True); input()"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {CHILD!r}])"


def stands(pid: int) -> bool:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def soon(pids: list[int], standing: bool) -> bool:
    """A signal takes a moment to be seen."""
    deadline = time.monotonic() + 10
    while any(stands(pid) is not standing for pid in pids):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


@pytest.fixture
def process():
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as started:
        assert started.stdout is not None
        assert started.stdout.readline() == b"up\n"
        yield started
        started.communicate(b"\n", timeout=30)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_what_is_halted_stands_still_with_all_it_has_started_and_goes_on(process):
    everybody = family(process.pid)
    assert len(everybody) == 2
    with halted([process.pid]):
        assert soon(everybody, standing=True)
    assert soon(everybody, standing=False)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs Linux's /proc")
def test_what_was_halted_goes_on_also_when_a_measurement_fails(process):
    def failing() -> None:
        with halted([process.pid]):
            assert soon(family(process.pid), standing=True)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        failing()
    assert soon(family(process.pid), standing=False)
