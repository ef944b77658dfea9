"""The source on a real RocketMQ 5.5: two brokers under one name server, messages by tags, compressed ones among them.

Where there is no RocketMQ to be had, the tests are skipped with the reason; PENSTOCK_REQUIRE_INTEROP=1 makes that a
failure.
"""

import asyncio
import json

import pytest
from tests.compat.conftest import unavailable
from tests.compat.rocketmq import peer, toolchain

from penstock.admin.engine import opened
from penstock.client.message import Message
from penstock.client.operator import Operator
from penstock.client.sync import Producer

BROKERS = ("broker-a", "broker-b")
QUEUES = 2  # on each broker
LARGE = b"compressed " * 1_000  # the client compresses from 4 KB on
MESSAGES = 400
PATIENT = {"waitTimeMillsInSendQueue": "30000"}  # its own limit of 200 ms is short for a machine that does much else


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory):
    try:
        classpath = toolchain.peer_classpath(toolchain.BROKER_5)
    except toolchain.Missing as reason:
        unavailable(f"a real RocketMQ {toolchain.BROKER_5}", reason)
    folder = tmp_path_factory.mktemp("rocketmq")
    with peer.real_rocketmq(folder, settings=PATIENT) as first:
        settings = peer.broker_settings(folder / "second" / "store", first.namesrv, peer.free_broker_port())
        second = peer.configured(folder / "second", settings | PATIENT | {"brokerName": BROKERS[1]})
        with peer.process(classpath, peer.BROKER, second) as process:
            peer.wait_for(process, lambda: set(masters(first.namesrv)) == set(BROKERS), second.parent / "output")
            yield first.namesrv


def masters(namesrv):
    async def ask():
        async with Operator(namesrv) as operator:
            return await operator.masters()

    return asyncio.run(ask())


@pytest.fixture
def operate(namesrv):
    def operate(act):
        async def there():
            async with opened(f"rocketmq://{namesrv}") as engine:
                return await act(engine)

        return asyncio.run(there())

    return operate


@pytest.fixture(scope="module")
def producer(namesrv):
    with Producer(namesrv, "tests") as producer:
        yield producer


@pytest.fixture
def sent(operate, producer, new_name):
    """A topic, and what is in it: id, broker, queue, offset, tag, and the body."""
    topic = new_name("orders")
    operate(lambda engine: engine.create_topic(topic, QUEUES, "rw"))
    messages = [
        Message(topic, LARGE if number % 50 == 0 else b"body %d" % number, tags=f"t{number % 4}", keys=f"k{number}")
        for number in range(MESSAGES)
    ]
    stored = producer.send_all(messages)
    return topic, [
        (one.message_id, one.queue.broker, one.queue.queue, one.offset, message.tags, message.body)
        for message, one in zip(messages, stored, strict=True)
    ]


@pytest.fixture
def options(namesrv):
    return lambda topic, **more: {"service": f"rocketmq://{namesrv}", "topic": topic, **more}


def rows(frame):
    found = frame.select("message_id", "broker", "queue", "offset", "tags", "body").collect()
    return sorted((row[0], row[1], row[2], row[3], row[4], bytes(row[5])) for row in found)


def test_s47_all_of_it_from_both_brokers(spark, options, sent):
    topic, messages = sent
    assert {broker for _, broker, *_ in messages} == set(BROKERS)
    assert rows(spark.read.format("penstock").options(**options(topic)).load()) == sorted(messages)


def test_tags_offsets_and_a_where(spark, options, sent):
    topic, messages = sent
    edges = {topic: {f"{broker}:{queue}": 10 + queue for broker in BROKERS for queue in range(QUEUES)}}
    read = spark.read.format("penstock").options(**options(topic, tags="t1 || t3", startingOffsets=json.dumps(edges)))
    wanted = [one for one in messages if one[4] in ("t1", "t3") and one[3] >= 10 + one[2]]
    assert rows(read.load()) == sorted(wanted)
    of_one = read.load().where("broker = 'broker-b' and queue = 1 and offset < 50")
    assert rows(of_one) == sorted(one for one in wanted if one[1:3] == ("broker-b", 1) and one[3] < 50)


def test_a_time_finds_its_offsets(spark, options, producer, sent):
    topic, _ = sent

    def load(**more):
        return spark.read.format("penstock").options(**options(topic, **more)).load()

    last = load().selectExpr("max(unix_millis(store_time)) t").collect()[0].t
    later = producer.send_all([Message(topic, b"later") for _ in range(40)])
    found = load(startingTimestamp=str(last + 1))
    assert {row.message_id for row in found.collect()} == {one.message_id for one in later}
    assert load(endingTimestamp=str(last + 1)).count() == MESSAGES


def test_a_stream_with_a_limit_and_a_group_that_follows_it(spark, options, operate, producer, sent, new_name, tmp_path):
    topic, messages = sent
    group = new_name("lake")

    def run():
        given = options(topic, startingOffsets="earliest", maxOffsetsPerTrigger="250", commitGroup=group)
        query = (
            spark.readStream.format("penstock")
            .options(**given)
            .load()
            .writeStream.format("parquet")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start(str(tmp_path / "lake"))
        )
        query.awaitTermination()
        return [batch["numInputRows"] for batch in query.recentProgress]

    counts = run()
    assert sum(counts) == MESSAGES
    assert len([count for count in counts if count]) == 2
    producer.send_all([Message(topic, b"later") for _ in range(40)])
    assert sum(run()) == 40
    lake = rows(spark.read.parquet(str(tmp_path / "lake")))
    assert [one[0] for one in lake if one[5] != b"later"] == sorted(one[0] for one in messages)
    lines = operate(lambda engine: engine.lag(group, topic))
    assert sum(line.committed for line in lines) == MESSAGES + 40
    assert sum(line.lag for line in lines) == 0
