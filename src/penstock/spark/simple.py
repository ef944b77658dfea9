"""Reading row by row, by the client's own pulls."""

import asyncio
import datetime as dt
from collections.abc import Callable, Iterator, Sequence

from pyspark.sql.types import (
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from penstock.client.message import Received
from penstock.client.operator import Operator
from penstock.client.reading import Source, Steps, Wanted
from penstock.client.routes import MessageQueue
from penstock.spark.options import Options
from penstock.spark.ranges import Range

COLUMNS: dict[str, DataType] = {
    "topic": StringType(),
    "queue": IntegerType(),
    "offset": LongType(),
    "key": StringType(),
    "tags": StringType(),
    "body": BinaryType(),
    "properties": MapType(StringType(), StringType()),
    "born_time": TimestampType(),
    "store_time": TimestampType(),
    "message_id": StringType(),
    "broker": StringType(),
}


def _time(ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC)


VALUES: dict[str, Callable[[Received], object]] = {
    "topic": lambda message: message.queue.topic,
    "queue": lambda message: message.queue.queue,
    "offset": lambda message: message.offset,
    "key": lambda message: message.properties.get("KEYS"),
    "tags": lambda message: message.properties.get("TAGS"),
    "body": lambda message: message.body,
    "properties": lambda message: message.properties,
    "born_time": lambda message: _time(message.born_ms),
    "store_time": lambda message: _time(message.store_ms),
    "message_id": lambda message: message.message_id,
    "broker": lambda message: message.queue.broker,
}


def schema(properties: bool) -> StructType:
    return StructType([StructField(name, kind) for name, kind in COLUMNS.items() if properties or name != "properties"])


def read(ranges: Sequence[Range], options: Options, wanted: StructType) -> Iterator[tuple[object, ...]]:
    with asyncio.Runner() as runner:
        operator = Operator(options.service)
        try:
            for one in ranges:
                for message in _messages(runner, operator, one, options):
                    yield tuple(VALUES[name](message) for name in wanted.fieldNames())
        finally:
            runner.run(operator.instance.close())


def _messages(runner: asyncio.Runner, operator: Operator, one: Range, options: Options) -> Iterator[Received]:
    runner.run(operator.cluster.route(one.topic))
    source = Source(operator.cluster, options.group_of(one.topic), Steps(messages_max=5_000, wait_ms=1_000))
    queue, offset = MessageQueue(one.topic, one.broker, one.queue), one.start
    while offset < one.end:
        pulled = runner.run(source.pull(queue, offset, Wanted(options.tags)))
        yield from (message for message in pulled.messages if message.offset < one.end)
        offset = pulled.next_offset
