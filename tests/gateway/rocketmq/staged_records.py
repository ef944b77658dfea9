"""Messages for tests of staging, made one by one: slow, and by other code than the writers' own."""

import zlib
from collections.abc import Sequence

import numpy as np

from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.record import Record, java_hash, length_of
from penstock.wire.rocketmq.staged import columns_of

BORN_MS = 1_700_000_000_000


def record(topic: str, queue: int, body: bytes, properties: dict[str, str] | None = None) -> Record:
    found = Record(
        queue=0,
        length=0,
        tag=java_hash((properties or {}).get(props.TAGS, "")),
        topic=topic.encode(),
        queue_index=queue,
        body=body,
        properties=props.build(properties or {}).encode(),
        born_ms=BORN_MS,
        born_host=b"\x7f\0\0\1\0\0\0\1",
        store_host=b"\x7f\0\0\1\0\0\0\2",
    )
    found.length = length_of(found)
    return found


def packed(records: Sequence[Record], marks: list[int] | None = None) -> bytes:
    """The body of a request."""
    columns = (
        [each.queue_index for each in records],
        [len(each.body) for each in records],
        [len(each.properties) for each in records],
        [zlib.crc32(each.body) & 0x7FFFFFFF for each in records],
        marks or [each.tag for each in records],
    )
    front = columns_of(BORN_MS, [np.array(column, dtype=np.int64) for column in columns])
    return b"".join((front, *(each.body for each in records), *(each.properties for each in records)))
