"""The sink on a real Spark and a real broker: what is written is there once, or refused in a sentence."""

import time
from collections import Counter

import pytest
from pyspark.errors import PySparkException
from tests.spark.stored import stored

from penstock.core.events import StageCommitted

COLUMNS = (
    "topic string, key string, tags string, body binary, properties map<string,string>, queue int, delay_ms bigint"
)


@pytest.fixture
def topic(new_name):
    return new_name("out")


@pytest.fixture
def messages(penstock):
    """All messages of a topic."""
    return lambda topic: stored(penstock.addresses["broker"], topic)


@pytest.fixture
def commits(penstock):
    """The keys that are committed from now on."""
    heard: list[str] = []
    penstock.server.broker.bus.listen(
        lambda event: heard.append(event.key) if isinstance(event, StageCommitted) else None
    )
    return heard


def write(frame, service: str, **options: object) -> None:
    frame.write.format("penstock").option("service", service).options(**options).mode("append").save()


# --- a batch ----------------------------------------------------------------------------------------------------------


def test_rows_become_messages(spark, penstock, service, topic, messages):
    rows = [
        (topic, "k1", "red", b"one", {"colour": "red"}, 1, None),
        (topic, None, None, b"two", None, None, 0),
        (topic + "_2", "k3", None, b"three", {}, 3, None),
        (topic, "k4", "late", b"four", {"n": "1"}, 2, 1_000),
    ]
    began_ms = time.time_ns() // 1_000_000
    write(spark.createDataFrame(rows, COLUMNS), service)
    found = {message.body: message for message in messages(topic)}
    assert set(found) >= {b"one", b"two"}
    one = found[b"one"]
    assert (one.queue_index, one.properties["KEYS"], one.properties["TAGS"], one.properties["colour"]) == (
        1, "k1", "red", "red",
    )  # fmt: skip
    assert began_ms <= one.born_ms <= one.store_ms
    assert all(message.sound for message in found.values())
    assert [message.body for message in messages(topic + "_2")] == [b"three"]
    deadline = time.monotonic() + 60
    while len(late := [message for message in messages(topic) if message.body == b"four"]) == 0:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert (late[0].queue_index, late[0].properties["KEYS"], late[0].properties["n"]) == (2, "k4", "1")
    assert late[0].store_ms - one.store_ms >= 1_000


def test_many_rows_are_one_commit(spark, service, topic, messages, commits, penstock):
    frame = spark.range(30_000).selectExpr("concat('key-', id) as key", "cast(id as string) as body").repartition(3)
    write(frame, service, topic=topic)
    found = messages(topic)
    assert Counter(message.body for message in found) == Counter(b"%d" % number for number in range(30_000))
    assert (len(commits), len(penstock.server.broker.staging)) == (1, 0)
    assert len({message.queue_index for message in found}) == 4


def test_a_write_with_a_key_of_its_own_happens_once(spark, service, topic, messages):
    frame = spark.createDataFrame([("a",), ("b",)], "body string")
    for _ in range(2):
        write(frame, service, topic=topic, commitKey=f"nightly-{topic}")
    assert sorted(message.body for message in messages(topic)) == [b"a", b"b"]
    write(frame, service, topic=topic)
    assert len(messages(topic)) == 4


def test_a_task_that_fails_publishes_nothing_and_leaves_no_stage(spark, service, topic, messages, penstock):
    """One of two tasks fails after the other has staged its rows."""
    frame = spark.range(0, 2_000, 1, 2).selectExpr("if(id = 1999, null, cast(id as string)) as body")
    with pytest.raises(PySparkException, match="null for its body"):
        write(frame, service, topic=topic)
    assert messages(topic) == []
    assert len(penstock.server.broker.staging) == 0


# --- refusals ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("columns", "options", "why"),
    [
        ("key string", {}, "there is no column body, of type string or binary"),
        ("body int", {}, "it has to be string or binary"),
        ("body string", {"topc": "x"}, "did you mean topic?"),
        ("body string", {"queue": "99"}, "has queues 0 to 3, not 99"),
    ],
)
def test_what_cannot_be_written_is_refused_on_the_driver(spark, service, topic, columns, options, why):
    with pytest.raises(PySparkException) as refused:
        write(spark.createDataFrame([], columns), service, topic=topic, **options)
    assert why in str(refused.value)


def test_nobody_at_the_service(spark, topic):
    with pytest.raises(PySparkException, match=r"127\.0\.0\.1:1 cannot be reached"):
        write(spark.createDataFrame([], "body string"), "rocketmq://127.0.0.1:1", topic=topic)


def test_a_topic_is_not_overwritten(spark, service, topic):
    frame = spark.createDataFrame([], "body string").write.format("penstock").option("service", service)
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        frame.option("topic", topic).mode("overwrite").save()


# --- a stream ---------------------------------------------------------------------------------------------------------


def run_once(frame, service: str, topic: str, checkpoint) -> None:
    query = frame.writeStream.format("penstock").option("service", service).option("topic", topic)
    query = query.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)


def test_a_stream_writes_each_batch_once(spark, service, topic, messages, commits, tmp_path):
    source = tmp_path / "in"
    for part in range(2):
        spark.range(part * 10, part * 10 + 10).selectExpr("cast(id as string) body").write.mode("append").text(
            str(source)
        )
        stream = spark.readStream.schema("value string").text(str(source)).selectExpr("value as body")
        run_once(stream, service, topic, tmp_path / "checkpoint")
    assert sorted(int(message.body) for message in messages(topic)) == list(range(20))
    queries = {key.split("/")[1] for key in commits}
    assert (len(commits), len(queries)) == (2, 1)


def test_a_batch_that_spark_does_again_is_not_published_again(spark, service, topic, messages, commits, tmp_path):
    """As after a crash between the sink's commit and the checkpoint's."""
    source, checkpoint = tmp_path / "in", tmp_path / "checkpoint"
    spark.range(10).selectExpr("cast(id as string) body").write.text(str(source))
    stream = spark.readStream.schema("value string").text(str(source)).selectExpr("value as body")
    run_once(stream, service, topic, checkpoint)
    for name in ("0", ".0.crc"):
        (checkpoint / "commits" / name).unlink()
    run_once(stream, service, topic, checkpoint)
    assert sorted(int(message.body) for message in messages(topic)) == list(range(10))
    assert len(commits) == 1
    assert (checkpoint / "commits" / "0").exists()


def test_a_stream_from_topic_to_topic(spark, service, new_name, messages, tmp_path):
    one, two = new_name("one"), new_name("two")
    write(spark.range(100).selectExpr("cast(id as string) as key", "cast(id as string) as body"), service, topic=one)
    read = spark.readStream.format("penstock").option("service", service).option("topic", one)
    read = read.option("startingOffsets", "earliest").option("includeProperties", "true").load()
    run_once(read, service, two, tmp_path / "checkpoint")
    assert Counter(message.body for message in messages(two)) == Counter(message.body for message in messages(one))
    assert Counter(message.queue_index for message in messages(two)) == Counter(
        message.queue_index for message in messages(one)
    )
