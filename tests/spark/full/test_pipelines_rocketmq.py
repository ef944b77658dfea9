"""The pipelines on a real RocketMQ 5.5, with nothing changed but the address: archive, traffic, audit; and what health
says where no broker tells of itself.
"""

import time
from collections import Counter
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from tests.compat.conftest import unavailable
from tests.compat.rocketmq import toolchain
from tests.compat.rocketmq.peer import real_rocketmq
from tests.spark.full.test_audit_clients import pub

from penstock.client.message import Message
from penstock.client.positions import FIRST
from penstock.client.sync import Consumer, Producer
from penstock.errors import ConfigError
from penstock.spark.pipelines import archive, audit, health, traffic

DAY_MS = 86_400_000
PATIENT = {"waitTimeMillsInSendQueue": "30000"}  # its own limit of 200 ms is short for a machine that does much else


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory):
    try:
        toolchain.peer_classpath(toolchain.BROKER_5)
    except toolchain.Missing as reason:
        unavailable("a real RocketMQ", reason)
    with real_rocketmq(Path(tmp_path_factory.mktemp("rocketmq")), settings=PATIENT) as peer:
        yield peer.namesrv


@pytest.fixture
def settings(namesrv, tmp_path):
    def settings(pipeline, **more):
        return pipeline.Settings(lake=str(tmp_path / "lake"), service=f"rocketmq://{namesrv}", once=True, **more)

    return settings


def test_s48_archive_takes_each_message_once_and_goes_on(spark, namesrv, settings, new_name):
    topic = new_name("orders")
    chosen = settings(archive, topics=topic)

    def send(numbers):
        with Producer(namesrv, "shop", timeout_ms=30_000) as producer:
            producer.send_batch([Message(topic, b"%d" % number, tags="web", keys=f"k{number}") for number in numbers])

    def archived():
        table = ds.dataset(archive.folder(chosen), format="parquet", partitioning="hive").to_table()
        return Counter(zip(map(int, table["body"].to_pylist()), table["key"].to_pylist(), strict=True))

    send(range(500))
    assert archive.run(chosen, spark=spark).rows == 500
    send(range(500, 600))
    assert archive.run(chosen, spark=spark).rows == 100
    assert archived() == Counter((number, f"k{number}") for number in range(600))


def test_s49_traffic_counts_and_says_what_it_can_do_without(spark, namesrv, settings, new_name):
    topic = new_name("orders")
    with Producer(namesrv, "shop", timeout_ms=30_000) as producer:
        producer.send_batch([Message(topic, b"12345") for _ in range(50)])
    with pytest.raises(ConfigError, match=r"has no topic 'penstock_events'.*--events-topic ''"):
        traffic.run(settings(traffic, topics=topic), spark=spark)
    chosen = settings(traffic, topics=topic, events_topic="")
    traffic.run(chosen, spark=spark)
    rows = spark.read.parquet(str(traffic.folder(chosen) / "queues"))
    assert tuple(rows.selectExpr("sum(messages)", "sum(bytes)", "max(size_max)").first()) == (50, 250, 5)


def test_s50_health_has_nothing_to_look_at(spark, settings):
    with pytest.raises(ConfigError, match=r"a RocketMQ does not; there is nothing for health to look at"):
        health.run(settings(health), spark=spark)


def test_s51_audit_names_what_was_lost(spark, namesrv, settings, new_name):
    topic, group = new_name("orders"), new_name("billing")
    with Producer(namesrv, "shop", timeout_ms=30_000, trace=True) as producer:
        producer.send(Message(topic, b"0", tags="paid"))
        with Consumer(namesrv, group, {topic: "*"}, start=FIRST, trace=True) as consumer:
            assert consumer.receive(60_000) is not None
            producer.send_all([Message(topic, b"%d" % number, tags="paid") for number in range(1, 4)])
            assert [consumer.receive(60_000) is None for _ in range(3)] == [False] * 3
        lost = {producer.send(Message(topic, b"lost", tags="paid")).message_id for _ in range(2)}
    with Producer(namesrv, "tomorrow", timeout_ms=30_000) as producer:  # time goes on
        producer.send(Message("RMQ_SYS_TRACE_TOPIC", pub(int(time.time() * 1000) + DAY_MS).encode()))
    chosen = settings(audit, events_topic="")
    audit.run(chosen, spark=spark)
    rows = spark.read.parquet(str(audit.folder(chosen) / "messages")).where(f"topic = '{topic}'").collect()
    assert {(row["message_id"], row["group"], row["lost"]) for row in rows} == {(one, group, True) for one in lost}
    sums = spark.read.parquet(str(audit.folder(chosen) / "groups")).where(f"topic = '{topic}'")
    totals = sums.selectExpr("sum(produced)", "sum(consumed)", "sum(lost)", "sum(duplicated)", "sum(late)").first()
    assert tuple(totals) == (6, 4, 2, 0, 0)
