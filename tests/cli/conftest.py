"""Real processes of the `penstock` command."""

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

PENSTOCK = (sys.executable, "-m", "penstock")
PORTS = ("--namesrv-port=0", "--broker-port=0", "--pulsar-port=0", "--http-port=0")


def environment(**variables: str) -> dict[str, str]:
    """This one without settings of Penstock, and without colours and line widths of somebody's terminal."""
    left_out = ("PENSTOCK_", "COLUMNS", "FORCE_COLOR")
    return {name: value for name, value in os.environ.items() if not name.startswith(left_out)} | variables


class Serving:
    """A `penstock serve` that is under way; its log is read as it comes."""

    def __init__(self, process: subprocess.Popen[str], ready_file: Path) -> None:
        self.process, self.ready_file = process, ready_file
        self.lines: list[str] = []

    def logged(self, words: str) -> str:
        """Wait for a line of the log; fails when the process ends without it."""
        for line in self.process.stderr:
            self.lines.append(line)
            if words in line:
                return line
        raise AssertionError(f"ended without saying {words!r}:\n{''.join(self.lines)}")

    @property
    def ready(self) -> dict[str, object]:
        return json.loads(self.ready_file.read_text(encoding="utf-8"))

    @property
    def http(self) -> str:
        return f"http://{self.ready['http']}"

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def exit_code(self) -> int:
        self.lines.extend(self.process.stderr)
        return self.process.wait()


@pytest.fixture
def serve(tmp_path):
    """Starts brokers, each waited for until it is ready; kills what is left of them."""
    with contextlib.ExitStack() as stack:

        def start(*flags: str, command=(*PENSTOCK, "serve"), until="ready", **variables: str) -> Serving:
            ready_file = tmp_path / "ready.json"
            settings = (f"--data={tmp_path / 'data'}", f"--ready-file={ready_file}", *PORTS)
            process = stack.enter_context(
                subprocess.Popen(
                    [*command, *settings, *flags],
                    stdin=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    text=True,
                    env=environment(**variables),
                )
            )
            stack.callback(process.kill)
            serving = Serving(process, ready_file)
            serving.logged(until)
            return serving

        yield start


@pytest.fixture
def penstock():
    """Runs a command to its end."""

    def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*PENSTOCK, *map(str, arguments)], capture_output=True, text=True, env=environment(**variables), check=False
        )

    return run


@pytest.fixture
def refused(penstock):
    """Runs a command that cannot be done: one sentence on stderr, exit code 2, no stack."""

    def run(*arguments: str, **variables: str) -> str:
        done = penstock(*arguments, **variables)
        assert (done.returncode, done.stdout) == (2, ""), done
        assert done.stderr.startswith("penstock: ")
        assert done.stderr.count("\n") == 1
        return done.stderr

    return run
