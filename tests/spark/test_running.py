"""What pipelines share: progress in numbers, errors in a sentence, and what they are told."""

import subprocess
import sys

import pytest

from penstock.errors import ConfigError
from penstock.spark.pipelines import PIPELINES, pipeline, running
from penstock.spark.pipelines.offsets import behind, distance

HERE = '{"orders": {"a:0": 5, "a:1": 7}}'
TOLD = {
    "name": "archive",
    "batchId": 3,
    "numInputRows": 10,
    "processedRowsPerSecond": 4.5,
    "durationMs": {"addBatch": 2000, "triggerExecution": 2200},
    "sources": [{"endOffset": HERE, "latestOffset": '{"orders": {"a:0": 6, "a:1": 7, "a:2": 4}}'}],
}


def test_progress_says_how_far_behind_the_batch_was():
    assert running.progress_of(TOLD) == running.Progress("archive", 3, 10, 4.5, 2200, behind=5)


@pytest.mark.parametrize(
    ("reached", "latest", "messages"),
    [
        (HERE, HERE, 0),
        ({"orders": {"0": 1}}, {"orders": {"0": 4}}, 3),
        ({"orders": {"0": 9}}, {"orders": {"0": 4}}, 0),  # told a moment apart
        (None, HERE, None),
        ("1:2", HERE, None),  # no JSON at all
        (True, HERE, None),
    ],
)
def test_the_distance_between_two_places(reached, latest, messages):
    assert distance(reached, latest) == messages


def test_a_source_that_does_not_say_is_left_out():
    assert behind([{"endOffset": None}, TOLD["sources"][0]]) == 5
    assert behind([{"endOffset": None}]) is None


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            (
                "[STREAM_FAILED] Query [id = 1] terminated with exception: Traceback\n  File x\n"
                "penstock.errors.TopicNotFound: topic 'x' does not exist: create it first\n\tat java.base/Thread.run"
            ),
            "topic 'x' does not exist: create it first",
        ),
        (
            "[PATH_NOT_FOUND] Path does not exist: /x. SQLSTATE: 42K03;\n'Relation",
            "[PATH_NOT_FOUND] Path does not exist: /x.",
        ),
        ("", "Exception"),
    ],
)
def test_an_error_of_spark_in_one_sentence(text, sentence):
    assert running.sentence_of(Exception(text)) == sentence


def test_a_lake_is_a_folder():
    with pytest.raises(ConfigError, match="mount it"):
        _ = running.Settings(lake="s3a://bucket/lake").folder


def test_a_pipeline_that_is_not_there():
    with pytest.raises(ConfigError, match="there are archive"):
        pipeline("archiv")


@pytest.mark.parametrize("name", PIPELINES)
def test_every_pipeline_has_what_the_command_line_asks_for(name):
    module = PIPELINES[name].module
    assert issubclass(module.Settings, running.Settings)
    assert callable(module.start)
    assert callable(module.run)


STORM = """
import random, signal
from penstock.spark.pipelines.running import Stop
for _ in range(3_000):
    stop = Stop()
    signal.signal(signal.SIGALRM, lambda *_: stop.set())
    signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 1e-3))
    while not stop.wait(0.0002):
        pass
    assert stop.is_set()
"""


def test_a_signal_stops_a_run_wherever_it_is_in_its_wait():
    """With an Event its handler waited for the lock that the wait had taken: Ctrl-C was for ever."""
    subprocess.run([sys.executable, "-c", STORM], check=True, timeout=60)
