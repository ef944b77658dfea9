"""`penstock pipeline` as a process: it runs one to its end, and stops in peace when it is asked to."""

import contextlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import environment

from penstock.client.message import Message
from penstock.client.sync import Producer
from penstock.spark.pipelines import status

PIPELINE = (sys.executable, "-m", "penstock", "pipeline")


@pytest.fixture
def produce(penstock):
    with Producer(penstock.addresses["namesrv"], "tests") as producer:
        yield lambda topic, *bodies: producer.send_all([Message(topic, body.encode()) for body in bodies])


@pytest.fixture
def variables(service):
    return environment(PENSTOCK_ENGINE=service, PYTHONPATH=str(Path(__file__).parents[3] / "src"))


@pytest.fixture
def command(variables):
    """Runs `penstock pipeline` to its end: exit code, stdout, what it says of itself on stderr."""

    def command(*arguments: object) -> tuple[int, str, list[str]]:
        done = subprocess.run(
            [*PIPELINE, *map(str, arguments)], env=variables, capture_output=True, text=True, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout, [line for line in done.stderr.splitlines() if not from_java(line)]

    return command


def from_java(line):
    """Java says so before anybody can tell it not to."""
    return line.startswith("WARNING: Using incubator modules")


def test_the_command_runs_one_and_tells_of_it(command, produce, tmp_path, new_name):
    topic, lake = new_name("orders"), tmp_path / "lake"
    produce(topic, "a", "b")
    code, out, said = command("run", "archive", "--lake", lake, "--topics", topic, "--once", "--master", "local[1]")
    assert (code, out) == (0, "archive: done; 2 messages in 1 batches\n"), said
    assert [line.split(",")[0] for line in said] == ["archive: starting Spark on local[1]", "archive: batch 0"]
    produce(topic, "c")
    assert command("status", "--lake", lake, "--max", "1")[0] == 0
    code, out, _ = command("status", "archive", "--lake", lake, "--max", "0", "--json")
    found = json.loads(out)
    assert (code, found["queries"][0]["behind"], found["tables"][0]["files"]) == (1, 1, 1)
    code, out, _ = command("show", "archive", "--lake", lake, "--json")
    assert sorted(json.loads(line)["body"] for line in out.splitlines()) == ["a", "b"]


def test_what_fails_on_spark_is_one_sentence(command, tmp_path, new_name):
    topic = new_name("nowhere")
    code, out, said = command("run", "archive", "--lake", tmp_path / "lake", "--topics", topic, "--once")
    assert (code, out, len(said)) == (2, "", 2), said
    assert said[1].startswith("penstock: ")
    assert topic in said[1]


def test_it_stops_when_it_is_asked_to(variables, produce, tmp_path, new_name):
    topic, lake = new_name("orders"), tmp_path / "lake"
    produce(topic, "a")
    arguments = ("run", "archive", "--lake", str(lake), "--topics", topic, "--every-s", "1", "--json")
    with contextlib.ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen([*PIPELINE, *arguments], env=variables, stdout=subprocess.PIPE, text=True)
        )
        stack.callback(process.kill)
        assert json.loads(process.stdout.readline())["rows"] == 1
        produce(topic, "b")
        assert json.loads(process.stdout.readline())["rows"] == 1
        process.send_signal(signal.SIGINT)
        assert json.loads(process.stdout.read()) == {"done": "archive", "batches": 2, "rows": 2, "behind": 0}
        assert process.wait() == 0
    (found,) = status.queries(lake)
    assert (found.batch, found.begun, found.rows) == (1, 1, 2)
