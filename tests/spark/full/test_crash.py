"""S47, S48: driver, workers and broker are killed at random while a topic is copied into another and into a lake.

The journal of acknowledgements is kept by this process. In the end the topic, its copy and the lake hold the same
messages, each once, and all that were acknowledged. `make crash-spark ROUNDS=20` does more of it.
"""

import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from tests.spark.full.actors import (
    AHEAD,
    BrokerProcess,
    Process,
    Producer,
    executors_below,
    kill_a_worker,
    kill_one,
)
from tests.spark.full.ledger import Ledger
from tests.spark.standalone import Cluster, standalone
from tests.spark.stored import stored

ROUNDS = int(os.environ.get("PENSTOCK_CRASH_ROUNDS", "3"))
SEED = int(os.environ.get("PENSTOCK_CRASH_SEED", "1"))
PATIENCE_S = 420  # for a batch: a Spark that starts takes its time
PROGRESS = 40  # messages that are copied before the next kill


class Scene:
    """What is running, and what may happen to it."""

    def __init__(self, folder: Path, cluster: Cluster | None = None) -> None:
        self.folder, self.ledger, self.cluster = folder, Ledger(), cluster
        self.broker = BrokerProcess(folder)
        what = [
            "--service",
            f"rocketmq://{self.broker.namesrv}",
            "--folder",
            str(folder),
            "--topic",
            "in",
            "--to",
            "out",
        ]
        variables = {}
        if cluster:
            what += ["--master", cluster.master]
            variables = {name: cluster.environment[name] for name in ("SPARK_LOCAL_IP", "SPARK_LOCAL_DIRS")}
        self.application = Process(folder / "spark.log", "tests.spark.full.copying", *what, variables=variables)
        self.producer = Producer(self.broker.broker, "in", self.ledger)

    def start(self) -> None:
        self.broker.start()
        self.producer.start()
        self.application.start()

    def close(self) -> None:
        self.producer.finish()
        self.application.kill()
        self.broker.kill()

    def until(self, what: Callable[[], bool], why: str) -> None:
        """Whatever ends by itself is started again meanwhile: a query may fail when its broker is killed."""
        deadline = time.monotonic() + PATIENCE_S
        while not what():
            if not self.application.runs:
                self.application.start()
            assert time.monotonic() < deadline, f"{why}\n{self.application.says()[-3_000:]}"
            time.sleep(0.05)

    def copied(self) -> int:
        count = self.broker.messages("out")
        self.producer.limit = max(self.producer.limit, count + AHEAD)
        return count

    def until_copied(self, more: int) -> None:
        goal = self.copied() + more
        self.until(lambda: self.copied() >= goal, f"no {more} more messages are copied")

    # --- what may happen ----------------------------------------------------------------------------------------------

    def kill_driver(self, choose: random.Random) -> None:
        """Spark, with all of its processes: at any moment, or as soon as a commit is seen, when Spark itself has not
        written down yet that the batch is done.
        """
        if choose.random() < 0.7:
            before = self.copied()
            self.until(lambda: self.copied() > before, "nothing is copied")
        else:
            time.sleep(choose.random() * 2)
        self.application.kill()

    def kill_worker(self, choose: random.Random) -> None:
        self.until(lambda: kill_a_worker(self.application, choose), "no worker is there")

    def kill_executor(self, choose: random.Random) -> None:
        """Of a cluster, with the tasks that it has; the worker starts another."""
        assert self.cluster
        worker = self.cluster.pids["worker"]
        time.sleep(choose.random() * 2)
        self.until(lambda: kill_one(executors_below(worker), choose), "no executor is there")

    def kill_broker(self, choose: random.Random) -> None:
        time.sleep(choose.random())
        self.broker.kill()
        time.sleep(choose.random() * 2)
        self.broker.start()

    # --- the end ------------------------------------------------------------------------------------------------------

    def complaints(self) -> list[str]:
        self.producer.finish()
        whole = self.numbers("in")
        assert len(whole) > PROGRESS
        everything = len(whole)
        self.until(lambda: self.copied() >= everything, "the copy does not become complete")
        self.until(lambda: len(self.lake()) >= everything, "the lake does not become complete")
        self.application.kill()
        told = self.ledger.complaints("the topic", whole)
        told += self.ledger.complaints("the copy", self.numbers("out"), whole)
        return told + self.ledger.complaints("the lake", self.lake(), whole)

    def numbers(self, topic: str) -> list[int]:
        return [int(message.body) for message in stored(self.broker.broker, topic)]

    def lake(self) -> list[int]:
        folder = self.folder / "lake" / "archive"
        if not folder.exists():
            return []
        found = ds.dataset(folder, format="parquet", partitioning="hive")
        if not found.files:  # its folders are made first
            return []
        return [int(body) for body in found.to_table(columns=["body"])["body"].to_pylist()]


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    scene = Scene(tmp_path)
    try:
        scene.start()
        yield scene
    finally:
        scene.close()


@pytest.mark.timeout(1_200 + 600 * ROUNDS)
def test_each_message_is_copied_once_whoever_is_killed(scene: Scene) -> None:
    choose = random.Random(SEED)
    kinds = [scene.kill_driver, scene.kill_worker, scene.kill_broker]
    for number in range(ROUNDS):
        scene.until_copied(PROGRESS)
        kind = kinds[number % 3] if number < 3 else choose.choice(kinds)  # each at least once
        sys.stdout.write(f"round {number}, seed {SEED}: {kind.__name__} after {scene.copied()} messages\n")
        kind(choose)
    scene.until_copied(PROGRESS)
    assert scene.complaints() == [], f"seed {SEED}"
    assert len(scene.ledger.acknowledged) > ROUNDS * PROGRESS


@pytest.mark.timeout(1_200 + 600 * ROUNDS)
def test_s48_each_message_is_copied_once_when_executors_of_a_cluster_are_killed(tmp_path: Path) -> None:
    choose = random.Random(SEED)
    with standalone(tmp_path) as cluster:
        scene = Scene(tmp_path, cluster)
        try:
            scene.start()
            for _ in range(max(ROUNDS - 1, 1)):
                scene.until_copied(PROGRESS)
                scene.kill_executor(choose)
            scene.until_copied(PROGRESS)
            assert scene.complaints() == [], f"seed {SEED}"
        finally:
            scene.close()
    started = [folder.name for folder in cluster.executors.glob("app-*/*")]
    assert len(started) >= ROUNDS, "the cluster has replaced those that were killed"


# --- the test of the test ---------------------------------------------------------------------------------------------


def test_the_ledger_finds_what_is_wrong():
    ledger = Ledger()
    ledger.acknowledged = {ledger.next(), ledger.next(), ledger.next()} - {3}
    assert ledger.complaints("it", [1, 2]) == []
    assert ledger.complaints("it", [1, 2, 3], [1, 2, 3]) == []
    assert ledger.complaints("it", [1]) == ["it: 1 acknowledged are missing, such as [2]"]
    assert ledger.complaints("it", [1, 2, 2]) == ["it: 1 are there twice, such as [2]"]
    assert ledger.complaints("it", [1, 2, 4]) == ["it: 1 were never sent, such as [4]"]
    assert ledger.complaints("it", [1, 2], [1, 2, 3]) == ["it: 1 differ from the topic, such as [3]"]


@pytest.mark.parametrize("keyed", [True, False])
def test_without_a_key_for_the_batch_the_same_check_finds_duplicates(
    spark, penstock, service, new_name, tmp_path, keyed
):
    """The negative control: a stream whose every attempt has a commit key of its own, and a crash between its commit
    and Spark's. With the key of the batch the same crash does no harm.
    """
    topic, ledger = new_name("out"), Ledger()
    source, checkpoint = str(tmp_path / "in"), tmp_path / "checkpoint"
    ledger.acknowledged = {ledger.next() for _ in range(100)}
    spark.range(1, 101).selectExpr("cast(id as string)").write.text(source)

    def write(batch, number: int) -> None:
        writer = batch.selectExpr("value as body").write.format("penstock").mode("append")
        writer = writer.option("service", service).option("topic", topic)
        (writer.option("commitKey", f"{topic}/{number}") if keyed else writer).save()

    for _ in range(2):
        query = spark.readStream.schema("value string").text(source).writeStream.foreachBatch(write)
        query = query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        assert query.awaitTermination(300)
        for name in ("0", ".0.crc"):
            (checkpoint / "commits" / name).unlink()
    found = [int(message.body) for message in stored(penstock.addresses["broker"], topic)]
    told = ledger.complaints("the copy", found)
    assert told == ([] if keyed else ["the copy: 100 are there twice, such as [1, 2, 3, 4, 5]"])
