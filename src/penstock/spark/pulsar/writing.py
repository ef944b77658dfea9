"""Rows into topics of a Pulsar, through its own client, batched. At least once: a task that is tried again sends again.

A row goes to the partition that its queue, or its key, says, by the partition's own name; so the rules are those of the
sink. Tags are the property `TAGS`.
"""

import datetime as dt
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.client.errors import ClientError, NoRoute
from penstock.client.routes import MessageQueue
from penstock.spark.pulsar.clients import library, new_client, sentences
from penstock.spark.pulsar.options import full, servers
from penstock.spark.pulsar.questions import Questions
from penstock.spark.pulsar.ranges import BROKER
from penstock.spark.pulsar.reading import TAGS
from penstock.spark.rows import BadRows, Rows
from penstock.spark.targets import Target
from penstock.wire.rocketmq import properties as props

if TYPE_CHECKING:
    import pulsar

PREFIX = "penstock-spark"
PENDING = 1_000  # messages of a producer that are under way


def target(service: str, topic: str) -> Target:
    """The partitions of a topic. One that does not exist is made by who writes to it first, where that is allowed."""
    questions = Questions(servers(service), PREFIX)
    try:
        names = questions.partitions(full(topic))
    except NoRoute:
        names = [full(topic)]
    finally:
        questions.close()
    queues = [MessageQueue(topic, BROKER, number) for number in range(len(names))]
    return Target(queues, {str(number): name for number, name in enumerate(names)})


class PulsarOutlet:
    """Where a task's rows go. Failures are heard of by a thread of the client's, and told when all is sent."""

    stage = ""

    def __init__(self, service: str) -> None:
        self._service, self._client = service, new_client(service)
        self._producers: dict[str, pulsar.Producer] = {}
        self._failed, self._lock = list[str](), threading.Lock()

    def put(self, where: Target, rows: Rows) -> None:
        with sentences(self._service):
            for partition, body, about in _messages(rows):
                self._to(where.addresses[str(partition)]).send_async(body, self._heard, **about)

    def finish(self) -> None:
        with sentences(self._service):
            for producer in self._producers.values():
                producer.flush()
        if self._failed:
            raise ClientError(f"{self._service} has not taken {len(self._failed)} messages: {self._failed[0]}")

    def close(self) -> None:
        self._client.close()

    def _to(self, name: str) -> "pulsar.Producer":
        if name not in self._producers:
            self._producers[name] = self._client.create_producer(
                name, batching_enabled=True, block_if_queue_full=True, max_pending_messages=PENDING
            )
        return self._producers[name]

    def _heard(self, result: Any, id: Any) -> None:
        if result != library().Result.Ok:
            with self._lock:
                self._failed.append(str(result))


def _messages(rows: Rows) -> Iterator[tuple[int, bytes, dict[str, Any]]]:
    """Each row: its partition, its body, and what else it carries."""
    nothing = [None] * len(rows)
    keys = rows.key.to_pylist() if rows.key is not None else nothing
    tags = rows.tags.to_pylist() if rows.tags is not None else nothing
    more = rows.properties.to_pylist() if rows.properties is not None else nothing
    delays = rows.delay_ms.tolist() if rows.delay_ms is not None else nothing
    for partition, body, key, tag, packed, delay_ms in zip(
        rows.queue.tolist(), rows.body.to_pylist(), keys, tags, more, delays, strict=True
    ):
        about: dict[str, Any] = {}
        properties = props.parse(packed.decode()) if packed else {}
        if tag:
            properties[TAGS] = _text(tag)
        if properties:
            about["properties"] = properties
        if key:
            about["partition_key"] = _text(key)
        if delay_ms:
            about["deliver_after"] = dt.timedelta(milliseconds=delay_ms)
        yield partition, body, about


def _text(octets: bytes) -> str:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        raise BadRows(f"a key or tag is not UTF-8, as Pulsar wants it: {octets[:50]!r}") from None
