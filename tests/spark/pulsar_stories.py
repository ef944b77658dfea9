"""What is told of the source on a Pulsar: the same on a Penstock and on a real one."""

import json
import secrets
import urllib.request

import pulsar
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from penstock.spark import columns
from penstock.spark.batch import BatchReader
from penstock.spark.options import BATCH, STREAM, read_options
from penstock.spark.stream import StreamReader

ALL = ReadAllAvailable()
QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)


class Story:
    """A topic with some partitions, a producer for each, and readers as Spark has them."""

    def __init__(self, service: str, http: str, partitions: int) -> None:
        self.service, self.http, self.partitions = service, http, partitions
        self.topic = f"orders_{secrets.token_hex(4)}"
        self.client = pulsar.Client(service, logger=QUIET)
        self._readers: list[StreamReader] = []
        self._producers: dict[tuple[int, bool], pulsar.Producer] = {}
        self.admin("PUT", f"{self.topic}/partitions", partitions)

    def admin(self, method: str, path: str, body: object = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.http}/admin/v2/persistent/public/default/{path}", data, method=method)
        if data is not None:
            request.add_header("Content-Type", "application/json")
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.read()

    def close(self) -> None:
        for reader in self._readers:
            reader.stop()
        self.client.close()

    def send(self, partition: int, *bodies: bytes, batched: bool = False, **about: object) -> None:
        key = (partition, batched)
        if key not in self._producers:
            name = f"{self.topic}-partition-{partition}"
            self._producers[key] = self.client.create_producer(
                name, batching_enabled=batched, batching_max_publish_delay_ms=10_000
            )
        producer = self._producers[key]
        for body in bodies:
            producer.send_async(body, lambda *_: None, **about)
        producer.flush()

    def options(self, kind: str, **more: object) -> object:
        given = {"service": self.service, "topic": self.topic, "startingOffsets": "earliest", **more}
        return read_options({name: str(value) for name, value in given.items() if value is not None}, kind)

    def stream(self, **more: object) -> StreamReader:
        reader = StreamReader(self.options(STREAM, **more), columns.schema(properties=True))
        self._readers.append(reader)
        return reader

    def batch(self, **more: object) -> BatchReader:
        return BatchReader(self.options(BATCH, **more), columns.schema(properties=True))


def rows_of(reader, partitions) -> list[dict[str, object]]:
    return [row for one in partitions for batch in reader.read(one) for row in batch.to_pylist()]


def bodies_of(reader, partitions) -> list[bytes]:
    return [row["body"] for row in rows_of(reader, partitions)]


def rows_between(stream, start, end):
    return bodies_of(stream, stream.partitions(start, end))


# --- what is told -----------------------------------------------------------------------------------------------------


def everything_is_read_with_its_columns(story):
    story.send(0, b"a", b"b", batched=True, partition_key="k", properties={"TAGS": "web", "x": "1"})
    story.send(1, b"c", event_timestamp=1_700_000_000_000)
    reader = story.batch()
    first, second, third = rows_of(reader, reader.partitions())
    everything = story.batch(includeProperties="all")
    assert dict(rows_of(everything, everything.partitions())[0]["properties"]) == {"TAGS": "web", "x": "1"}
    assert [first["body"], second["body"], third["body"]] == [b"a", b"b", b"c"]
    assert (first["topic"], first["queue"], first["key"], first["tags"]) == (story.topic, 0, "k", "web")
    assert dict(first["properties"]) == {"x": "1"}, "tags have a column"
    assert (third["key"], third["tags"], third["broker"]) == (None, None, "pulsar")
    assert dict(third["properties"]) == {"PULSAR_EVENT_TIME": "1700000000000"}
    assert first["offset"] + 1 == second["offset"]
    assert first["store_time"] == first["born_time"]
    ledger, entry, partition, index = first["message_id"].split(":")
    assert second["message_id"] == f"{ledger}:{entry}:{partition}:{int(index) + 1}"
    assert len(third["message_id"].split(":")) == 3
    assert third["queue"] == 1


def a_stream_goes_on_where_it_stopped(story):
    story.send(0, b"a", b"b", batched=True)
    stream = story.stream()
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    assert start == {story.topic: {"pulsar:0": "0:0:0", "pulsar:1": "0:0:0"}}
    assert rows_between(stream, start, end) == [b"a", b"b"]
    assert stream.latestOffset(end, ALL) == end
    assert stream.reportLatestOffset() == end
    story.send(0, b"c")
    story.send(1, b"d")
    again = story.stream()  # as after a restart: a new process has the checkpoint and nothing else
    assert rows_between(again, start, end) == [b"a", b"b"]
    behind = again.latestOffset(end, ALL)
    assert rows_between(again, end, behind) == [b"c", b"d"]


def a_limit_is_kept_within_batches_too(story):
    story.send(0, *[b"0/%d" % number for number in range(25)], batched=True)
    story.send(1, *[b"1/%d" % number for number in range(5)])
    stream = story.stream(maxOffsetsPerTrigger=12)
    assert stream.getDefaultReadLimit() == ReadMaxRows(12)
    at, found = stream.initialOffset(), []
    while (end := stream.latestOffset(at, ReadMaxRows(12))) != at:
        some = rows_between(stream, at, end)
        assert 0 < len(some) <= 12
        found += some
        at = end
    assert sorted(found) == sorted([b"0/%d" % n for n in range(25)] + [b"1/%d" % n for n in range(5)])
    assert at == stream.reportLatestOffset()


def available_now_ends_with_what_there_was(story):
    story.send(0, b"a")
    stream = story.stream()
    start = stream.initialOffset()
    stream.prepareForTriggerAvailableNow()
    story.send(0, b"b")
    end = stream.latestOffset(start, ALL)
    assert rows_between(stream, start, end) == [b"a"]


def a_time_is_found(story, now_ms):
    story.send(0, b"a", b"b", batched=True)
    between = now_ms()
    story.send(0, b"c")
    reader = story.batch(startingTimestamp=between, startingOffsetsByTimestampStrategy="latest")
    assert bodies_of(reader, reader.partitions()) == [b"c"]
    reader = story.batch(endingTimestamp=between)
    assert bodies_of(reader, reader.partitions()) == [b"a", b"b"]
    assert story.stream(startingTimestamp=0).latestOffset is not None


def offsets_can_be_named(story):
    story.send(0, b"a", b"b", b"c", batched=True)
    reader = story.batch()
    rows = rows_of(reader, reader.partitions())
    ledger, entry, *_ = rows[1]["message_id"].split(":")
    for named in (f"{ledger}:{entry}:1", rows[1]["offset"]):
        options = {"startingOffsets": json.dumps({story.topic: {"0": named, "1": -2}})}
        reader = story.batch(**options)
        assert bodies_of(reader, reader.partitions()) == [b"b", b"c"]
        reader = story.batch(endingOffsets=json.dumps({story.topic: {"0": named, "1": -1}}))
        assert bodies_of(reader, reader.partitions()) == [b"a"]
    stream = story.stream(startingOffsets="latest")
    assert stream.initialOffset()[story.topic] == {"pulsar:0": f"{ledger}:{entry}:3", "pulsar:1": "0:0:0"}


def tags_are_a_property(story):
    story.send(0, b"a", properties={"TAGS": "web"})
    story.send(0, b"b", properties={"TAGS": "shop"})
    story.send(0, b"c")
    reader = story.batch(tags="shop || other")
    assert bodies_of(reader, reader.partitions()) == [b"b"]


def a_partition_that_is_added_is_read_from_its_beginning(story):
    story.send(0, b"a")
    stream = story.stream()
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    story.admin("POST", f"{story.topic}/partitions", story.partitions + 1)
    story.send(story.partitions, b"new")
    behind = stream.latestOffset(end, ALL)
    assert rows_between(stream, end, behind) == [b"new"]


def chunks_become_one_message(story):
    producer = story.client.create_producer(f"{story.topic}-partition-0", chunking_enabled=True)
    large = secrets.token_bytes(11 << 20)
    producer.send(large)
    stream = story.stream()
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    assert rows_between(stream, start, end) == [large]
    story.send(0, b"small")
    rest = stream.latestOffset(end, ALL)
    assert rows_between(stream, end, rest) == [b"small"]
    ledger, entry, _ = end[story.topic]["pulsar:0"].split(":")  # of the last chunk
    middle = {story.topic: {**end[story.topic], "pulsar:0": f"{ledger}:{int(entry) - 1}:1"}}
    assert rows_between(stream, start, middle) == []
    assert rows_between(stream, middle, rest) == [large, b"small"]  # it belongs to where its last chunk is


def a_subscription_follows_and_keeps_what_was_not_read(story):
    group = f"lake_{story.topic}"
    story.send(0, b"a", b"b", b"c")
    stream = story.stream(commitGroup=group)
    end = stream.latestOffset(stream.initialOffset(), ALL)
    assert backlog(story, group) == 3
    stream.latestOffset(end, ALL)
    assert backlog(story, group) == 1  # the last one that was read stays


def backlog(story, group):
    stats = json.loads(story.admin("GET", f"{story.topic}/partitioned-stats?perPartition=true&getPreciseBacklog=true"))
    return stats["subscriptions"][group]["msgBacklog"]
