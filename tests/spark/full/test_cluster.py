"""The source on a Spark cluster: a real master and worker, and a program that was not written for it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.spark.standalone import standalone

from penstock.client.message import Message
from penstock.client.sync import Producer

PROGRAM = Path(__file__).with_name("program.py")
MESSAGES = 1_000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with standalone(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def test_s47_a_program_reads_batch_and_stream_on_a_cluster(cluster, penstock, service, new_name, tmp_path):
    topic = new_name("orders")
    with Producer(penstock.addresses["namesrv"], "tests") as producer:
        sent = producer.send_all([Message(topic, b"%d" % number) for number in range(MESSAGES)])
    wanted = sorted([one.queue.queue, one.offset, str(number)] for number, one in enumerate(sent))
    done = subprocess.run(
        [sys.executable, PROGRAM, cluster.master, service, topic, str(tmp_path)],
        env=cluster.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=400,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    read = json.loads(done.stdout.splitlines()[-1])
    assert sorted(read["batch"]) == wanted
    assert sorted(read["stream"]) == wanted
    assert read["tasks"] == 4
    assert list(cluster.executors.glob("app-*/0")), "an executor of the cluster has read it"
