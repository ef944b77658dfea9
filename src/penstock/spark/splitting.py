"""From a batch of a DataFrame to rows of one topic, each with its queue: what options and columns say, put together.
Pure.
"""

from collections.abc import Callable, Iterator

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from penstock.spark.rows import BadRows, Numbers, Rows, keyed_queues, octets, packed_properties
from penstock.spark.sink_options import DELAY_MS_MAX, SinkOptions

QueuesOf = Callable[[str], int]  # how many queues a topic has

NO_QUEUE = -1


def rows_in(batch: pa.RecordBatch, options: SinkOptions, queues_of: QueuesOf, turn: int) -> Iterator[Rows]:
    """The rows of a batch, by topic and sorted by queue; those that are delayed for themselves."""
    columns = _columns(batch, options)
    for topic, places in _topics(batch, options):
        queues = queues_of(topic)
        some = {
            name: column if column is None or places is None else column.take(places)
            for name, column in columns.items()
        }
        queue = _queues(_column(batch, "queue", places), some, options, topic, queues, turn)
        delays = _delays(_column(batch, "delay_ms", places), options, len(queue))
        rows = Rows(topic, queue, some["body"], some["key"], some["tags"], some["properties"])
        yield from (part.by_queue() for part in _by_delay(rows, delays))


def _column(batch: pa.RecordBatch, name: str, places: pa.Array | None) -> pa.Array | None:
    if name not in batch.schema.names:
        return None
    column = batch.column(name)
    return column if places is None else column.take(places)


def _columns(batch: pa.RecordBatch, options: SinkOptions) -> dict[str, pa.Array | None]:
    """What messages are made of, as bytes."""
    body = octets(batch.column("body"))
    if body.null_count:
        raise BadRows("a row has null for its body: every message needs one; filter such rows out, or fill them in")
    found: dict[str, pa.Array | None] = {"body": body, "properties": None}
    for name, fixed in (("key", options.key), ("tags", options.tags)):
        column = _column(batch, name, None)
        if fixed:
            column = pa.repeat(pa.scalar(fixed.encode(), pa.binary()), len(batch))
        found[name] = None if column is None else octets(column)
    properties = _column(batch, "properties", None)
    if properties is not None:
        found["properties"] = packed_properties(properties)
    return found


def _topics(batch: pa.RecordBatch, options: SinkOptions) -> Iterator[tuple[str, pa.Array | None]]:
    """The topics, and the places of their rows; None for all rows."""
    if options.topic:
        if len(batch):
            yield options.topic, None
        return
    column = batch.column("topic")
    if column.null_count:
        raise BadRows("a row has null for its topic: fill it in, or name one topic for all by the option topic")
    encoded = column.dictionary_encode()
    for number, topic in enumerate(encoded.dictionary.to_pylist()):
        places = np.flatnonzero(encoded.indices.to_numpy() == number)
        yield topic, pa.array(places)


def _queues(
    column: pa.Array | None,
    columns: dict[str, pa.Array | None],
    options: SinkOptions,
    topic: str,
    queues: int,
    turn: int,
) -> Numbers:
    """By the option or the column; where neither says one, by the key; and without a key all in turn."""
    body = columns["body"]
    count = len(body) if body is not None else 0
    if options.queue is not None:
        given = np.full(count, options.queue, dtype=np.int64)
    elif column is not None:
        given = pc.fill_null(column.cast(pa.int64()), NO_QUEUE).to_numpy()
    else:
        return keyed_queues(columns["key"], count, queues, turn)
    outside = given[(given < 0) | (given >= queues)]
    if options.queue is None and column is not None and column.null_count:
        outside = outside[outside != NO_QUEUE]
    if len(outside):
        raise BadRows(f"topic {topic!r} has queues 0 to {queues - 1}, not {int(outside[0])}")
    if (given >= 0).all():
        return given
    return np.where(given >= 0, given, keyed_queues(columns["key"], count, queues, turn))


def _delays(column: pa.Array | None, options: SinkOptions, count: int) -> Numbers | None:
    if options.delay_ms:
        return np.full(count, options.delay_ms, dtype=np.int64)
    if column is None:
        return None
    found: Numbers = pc.fill_null(column.cast(pa.int64()), 0).to_numpy()
    if len(found) and found.max() > DELAY_MS_MAX:
        raise BadRows(f"a row has a delay_ms of {found.max()}: {DELAY_MS_MAX} are the most there can be")
    return found


def _by_delay(rows: Rows, delays: Numbers | None) -> Iterator[Rows]:
    """Those without a delay, and those with one."""
    if delays is None or not (delays > 0).any():
        yield rows
        return
    for late in (False, True):
        places = np.flatnonzero((delays > 0) == late)
        if len(places):
            some = rows.take(places)
            yield msgspec.structs.replace(some, delay_ms=delays[places]) if late else some
