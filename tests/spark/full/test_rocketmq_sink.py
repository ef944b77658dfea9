"""What a task writes to a real RocketMQ: by batches, at least once, with all that a message has. Without Spark."""

import asyncio

import pyarrow as pa
import pytest
from tests.compat.conftest import unavailable
from tests.compat.rocketmq import peer, toolchain

from penstock.admin.engine import opened
from penstock.client.pull import PullConsumer
from penstock.spark.sink import job_for
from penstock.spark.sink_options import SinkOptions
from penstock.spark.writing import write
from penstock.wire.rocketmq.record import java_hash

QUEUES, ROWS = 4, 3_000


@pytest.fixture(scope="module")
def namesrv(tmp_path_factory):
    try:
        toolchain.peer_classpath(toolchain.BROKER_5)
    except toolchain.Missing as reason:
        unavailable(f"a real RocketMQ {toolchain.BROKER_5}", reason)
    with peer.real_rocketmq(tmp_path_factory.mktemp("rocketmq")) as running:
        yield running.namesrv


@pytest.fixture
def topic(namesrv, new_name):
    async def create(name: str) -> str:
        async with opened(f"rocketmq://{namesrv}") as engine:
            await engine.create_topic(name, QUEUES, "rw")
        return name

    return asyncio.run(create(new_name("out")))


def received(namesrv: str, topic: str, count: int):
    """Messages, until there are so many different ones: at least once is what is promised."""

    async def all_of_it():
        async with PullConsumer(namesrv, "nobody") as consumer:
            await consumer.assign(await consumer.queues(topic))
            for queue in consumer.assigned:
                await consumer.seek_to_begin(queue)
            found = []
            while len({message.body for message in found}) < count:
                found += await consumer.poll(timeout_ms=10_000)
            return found

    return asyncio.run(asyncio.wait_for(all_of_it(), 120))


def table(**columns: pa.Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def test_rows_are_messages_of_rocketmq(namesrv, topic):
    job = job_for(SinkOptions(service=namesrv, topic=topic))
    assert job.address == ""  # it knows nothing of staging
    rows = table(
        body=pa.array([f"body {number}" * 20 for number in range(ROWS)]),
        key=pa.array([f"k{number}" for number in range(ROWS)]),
        tags=pa.array([None if number % 3 else "t" for number in range(ROWS)]),
        properties=pa.array([[("n", str(number))] for number in range(ROWS)], pa.map_(pa.string(), pa.string())),
    )
    assert write([rows], job).rows == ROWS
    found = received(namesrv, topic, ROWS)
    assert {message.body for message in found} == {value.encode() for value in rows["body"].to_pylist()}
    one = next(message for message in found if message.properties["n"] == "33")
    assert (one.properties["KEYS"], one.properties["TAGS"]) == ("k33", "t")
    assert one.queue.queue == abs(java_hash("k33")) % QUEUES


def test_a_delay_is_a_timer_of_rocketmq(namesrv, topic):
    job = job_for(SinkOptions(service=namesrv, topic=topic, delay_ms=2_000, tags="late"))
    write([table(body=pa.array(["a", "b"]))], job)
    found = received(namesrv, topic, 2)
    assert sorted(message.body for message in found) == [b"a", b"b"]
    assert all(message.store_ms - message.born_ms >= 1_000 for message in found)
