"""What processes and the machine use, from /proc (Linux)."""

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


def family(pid: int) -> list[int]:
    """A process and all that it has started."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):  # a thread that has just ended
            for child in task.read_text().split():
                found += family(int(child))
    return found


@contextlib.contextmanager
def halted(pids: Sequence[int]) -> Iterator[None]:
    """None of these processes, nor what they have started, runs meanwhile; they are not told, and go on afterwards."""
    everybody = [member for pid in pids for member in family(pid)]
    try:
        _signal(everybody, signal.SIGSTOP)
        yield
    finally:
        _signal(everybody, signal.SIGCONT)


def _signal(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def cpu_s(pid: int) -> float:
    """utime and stime of all threads; 0 when it has ended."""
    with contextlib.suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS
    return 0.0


def machine_cpu_s() -> float:
    """What all processes and the kernel have used on all cores."""
    user, nice, system, _idle, _iowait, irq, softirq, steal = (
        int(ticks) for ticks in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return (user + nice + system + irq + softirq + steal) / _TICKS


def memory_mb(pid: int, field: str) -> float:
    """VmRSS is all that is resident, RssAnon what of it is not page cache; 0 when the process has ended."""
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return sum(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1024
    return 0.0


def free_bytes() -> int:
    """Memory that nobody uses, not even the page cache."""
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    return int(fields["MemFree"].split()[0]) * 1024
