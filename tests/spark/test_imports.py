"""What a query loads: Spark starts a process for each streaming query, which waits for every module."""

import subprocess
import sys

import pytest

LATER = [
    "pyarrow.compute",  # columns are made on executors
    "pyarrow.json",
    "penstock.spark.values",
    "penstock.spark.sink",
    "penstock.spark.pulsar",
    "penstock.admin.rocketmq",
    "penstock.client.consumer.push",
    "penstock.client.producer",
]


@pytest.fixture(scope="module")
def loaded():
    asked = "import sys, penstock.spark.source; print(*sys.modules)"
    return subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True).stdout.split()


@pytest.mark.parametrize("name", LATER)
def test_the_source_does_not_load_what_it_may_not_need(loaded, name):
    assert "penstock.spark.stream" in loaded
    assert name not in loaded
