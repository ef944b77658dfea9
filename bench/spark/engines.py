"""Both engines as Spark sees them: the same questions, each in its own words. Kafka's connector is tuned."""

import itertools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from bench.spark import messages
from penstock.spark.link import Link
from penstock.wire.rocketmq.codes import RequestCode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

OFFSETS_PER_TRIGGER = 1_000_000
MICRO_ROWS, MICRO_BATCHES = 80, 12
TUNED = {"kafka.max.poll.records": "10000", "kafka.fetch.max.wait.ms": "10"}
WAIT_S = 600


class Engine(Protocol):
    """What is asked of both."""

    spark: "SparkSession"

    def read(self, topic: str, columns: str) -> "DataFrame": ...

    def stream(self, topic: str, **options: str) -> "DataFrame": ...

    def write(self, frame: "DataFrame", topic: str) -> None: ...

    def send_few(self, topic: str, count: int) -> None: ...


class Penstock:
    def __init__(self, spark: "SparkSession", namesrv: str, address: str) -> None:
        self.spark, self._service, self.address = spark, f"rocketmq://{namesrv}", address

    def read(self, topic: str, columns: str) -> "DataFrame":
        asked = self.spark.read.format("penstock").option("service", self._service).option("topic", topic)
        if columns == "two":
            asked = asked.schema("`offset` long, body binary")
        return asked.option("includeProperties", str(columns == "all").lower()).load()

    def stream(self, topic: str, **options: str) -> "DataFrame":
        asked = self.spark.readStream.format("penstock").option("service", self._service).option("topic", topic)
        return asked.options(**options).load()

    def write(self, frame: "DataFrame", topic: str) -> None:
        rows = frame.selectExpr("key", "value as body")
        asked = rows.write.format("penstock").option("service", self._service).option("topic", topic)
        asked.mode("append").save()

    def send_few(self, topic: str, count: int) -> None:
        messages.fill(self.address, topic, 0, count)


class Kafka:
    def __init__(self, spark: "SparkSession", servers: str) -> None:
        self.spark, self._servers = spark, servers
        self._producer = self._made_producer()

    def _made_producer(self) -> Any:
        jvm: Any = self.spark._jvm
        settings = jvm.java.util.HashMap()
        settings.put("bootstrap.servers", self._servers)
        for part in ("key", "value"):
            settings.put(f"{part}.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer")
        return jvm.org.apache.kafka.clients.producer.KafkaProducer(settings)

    def read(self, topic: str, columns: str) -> "DataFrame":
        asked = self.spark.read.format("kafka").option("kafka.bootstrap.servers", self._servers).options(**TUNED)
        rows = asked.option("subscribe", topic).option("includeHeaders", str(columns == "all").lower()).load()
        return rows.select("offset", "value") if columns == "two" else rows

    def stream(self, topic: str, **options: str) -> "DataFrame":
        asked = self.spark.readStream.format("kafka").option("kafka.bootstrap.servers", self._servers)
        return asked.options(**TUNED, **options).option("subscribe", topic).load()

    def write(self, frame: "DataFrame", topic: str) -> None:
        rows = frame.select("key", "value")
        rows.write.format("kafka").option("kafka.bootstrap.servers", self._servers).option("topic", topic).save()

    def create_topic(self, topic: str) -> None:
        jvm: Any = self.spark._jvm
        settings = jvm.java.util.HashMap()
        settings.put("bootstrap.servers", self._servers)
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
        one = jvm.org.apache.kafka.clients.admin.NewTopic(topic, messages.QUEUES, 1)
        admin.createTopics(jvm.java.util.Collections.singleton(one)).all().get()
        admin.close()

    def fill(self, topic: str, first: int, until: int) -> None:
        rows = messages.frame(self.spark, first, until)
        asked = rows.write.format("kafka").option("kafka.bootstrap.servers", self._servers)
        asked.option("includeHeaders", "true").option("topic", topic).save()

    def send_few(self, topic: str, count: int) -> None:
        jvm: Any = self.spark._jvm
        kind = jvm.org.apache.kafka.clients.producer.ProducerRecord
        for number in range(count):
            body = b"%0100d" % number
            self._producer.send(kind(topic, number % messages.QUEUES, b"key", body))
        self._producer.flush()

    def close(self) -> None:
        self._producer.close()


# --- what is done with them -------------------------------------------------------------------------------------------


def count(engine: Engine, topic: str, rows: int) -> float | None:
    _expect(engine.read(topic, "most").count(), rows)
    return None


def two(engine: Engine, topic: str, rows: int) -> float | None:
    engine.read(topic, "two").write.format("noop").mode("overwrite").save()
    return None


def parquet(engine: Engine, topic: str, rows: int) -> float | None:
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        engine.read(topic, "all").write.mode("overwrite").parquet(f"{folder}/all")
    return None


def stream(engine: Engine, topic: str, rows: int) -> float | None:
    limits = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": str(OFFSETS_PER_TRIGGER)}
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        query = _started(engine.stream(topic, **limits), folder, {"availableNow": True})
        query.awaitTermination(WAIT_S)
        _expect(sum(progress.numInputRows for progress in query.recentProgress), rows)
    return None


def micro(engine: Engine, topic: str, rows: int) -> float | None:
    """The time of a batch from its trigger to its end, as Spark says it; the first ones do not count."""
    folder = tempfile.mkdtemp(prefix="penstock-bench-")
    query = _started(engine.stream(topic, startingOffsets="latest"), folder, {"processingTime": "0 seconds"})
    try:
        _until(lambda: query.lastProgress is not None or not query.isActive, query)
        took: list[float] = []
        for _ in range(MICRO_BATCHES):
            before = _batches(query)
            engine.send_few(topic, MICRO_ROWS)
            _until(lambda before=before: sum(_batches(query).values()) >= sum(before.values()) + MICRO_ROWS, query)
            new = [each for each in query.recentProgress if each.numInputRows and each.batchId not in before]
            took.append(sum(each.durationMs["triggerExecution"] for each in new) / len(new))
    finally:
        query.stop()
        shutil.rmtree(folder, ignore_errors=True)
    kept = sorted(took[2:])
    return kept[len(kept) // 2] / 1000


def sink(engine: Engine, topic: str, rows: int) -> float | None:
    engine.write(messages.frame(engine.spark, 0, rows), f"{topic}-written")
    return None


WORK: dict[str, Callable[[Engine, str, int], float | None]] = {
    "count": count,
    "two": two,
    "parquet": parquet,
    "stream": stream,
    "micro": micro,
    "sink": sink,
}

_names = itertools.count()


def _started(frame: "DataFrame", folder: str, trigger: dict[str, Any]) -> "StreamingQuery":
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(Path(folder) / "state"))
    return writer.queryName(f"bench_{next(_names)}").trigger(**trigger).start()


def _batches(query: "StreamingQuery") -> dict[int, int]:
    return {each.batchId: each.numInputRows for each in query.recentProgress if each.numInputRows}


def _until(there: Callable[[], bool], query: "StreamingQuery") -> None:
    """Progress is told to listeners in the JVM only: from here it has to be looked at."""
    import time

    deadline = time.monotonic() + WAIT_S
    while not there():
        if not query.isActive or time.monotonic() > deadline:
            raise RuntimeError(f"a stream stopped, or took too long: {query.exception()}")
        time.sleep(0.005)


def _expect(found: int, rows: int) -> None:
    if found != rows:
        raise RuntimeError(f"{found:,} rows were read, and {rows:,} are there")


def broker_address(namesrv: str) -> str:
    """Of the broker that a name server knows."""
    with Link(namesrv) as link:
        answer = link.ask(RequestCode.GET_BROKER_CLUSTER_INFO, {})
    import msgspec

    found = msgspec.json.decode(answer.body)["brokerAddrTable"]
    return str(next(iter(found.values()))["brokerAddrs"]["0"])
