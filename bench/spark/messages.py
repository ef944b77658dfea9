"""The messages that both brokers get: the same key, body, tags, id and one more property, 8 queues, in the same order.

Penstock gets them in batches over the wire, Kafka from Spark (its connector is the fastest producer there is here).
A message has about 200 bytes.
"""

import struct
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from penstock.spark.link import Link
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QUEUES = 8
BODY_BYTES = 100
BATCH = 1_000
_UNDER_WAY = 8
_HEAD = struct.Struct(">IiiiI")


def create_topic(address: str, topic: str) -> None:
    """On a broker of RocketMQ's protocol."""
    settings = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": str(QUEUES), "writeQueueNums": str(QUEUES)}
    settings |= {"perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}
    with Link(address) as link:
        answer = link.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, settings)
        if answer.code != ResponseCode.SUCCESS:
            raise RuntimeError(f"the topic could not be made: {answer.remark}")


def fill(address: str, topic: str, first: int, until: int) -> None:
    """The messages with these numbers, number by number to queue after queue."""
    waiting: deque[int] = deque()
    with Link(address) as link:
        for queue, body in _batches(first, until):
            ext = {"a": "fill", "b": topic, "c": "TBW102", "d": str(QUEUES), "e": str(queue), "f": "0", "h": "0"}
            ext |= {"g": "1700000000000", "i": "WAIT\x01true", "j": "0", "m": "true"}
            waiting.append(link.send(RequestCode.SEND_BATCH_MESSAGE, ext, body))
            if len(waiting) == _UNDER_WAY:
                _taken(link, waiting.popleft())
        for opaque in waiting:
            _taken(link, opaque)


def _taken(link: Link, opaque: int) -> None:
    answer = link.answer(opaque)
    if answer.code != ResponseCode.SUCCESS:
        raise RuntimeError(f"a batch was refused: {answer.remark}")


def _batches(first: int, until: int) -> Iterator[tuple[int, bytes]]:
    for base in range(first, until, BATCH * QUEUES):
        for queue in range(QUEUES):
            numbers = range(base + queue, min(base + BATCH * QUEUES, until), QUEUES)
            if numbers:
                yield queue, b"".join(map(_packed, numbers))


def _packed(number: int) -> bytes:
    text = b"%010d" % number
    body = text + b"x" * (BODY_BYTES - len(text))
    properties = b"KEYS\x01key-%s\x02TAGS\x01blue\x02UNIQ_KEY\x01%032d\x02region\x01north\x02" % (text, number)
    length = _HEAD.size + len(body) + 2 + len(properties)
    return _HEAD.pack(length, 0, 0, 0, len(body)) + body + len(properties).to_bytes(2) + properties


def frame(spark: "SparkSession", first: int, until: int) -> "DataFrame":
    """The same as rows for Kafka."""
    headers = (
        "array(struct('tags' as key, binary('blue') as value), struct('id' as key, binary(lpad(n, 32, '0')) as value)"
    )
    headers += ", struct('region' as key, binary('north') as value)) as headers"
    numbers = spark.range(first, until, 1, 2).selectExpr("id", "string(id) as n")
    return numbers.selectExpr(
        "concat('key-', lpad(n, 10, '0')) as key",
        f"binary(rpad(lpad(n, 10, '0'), {BODY_BYTES}, 'x')) as value",
        headers,
        f"int(id % {QUEUES}) as partition",
    )
