"""Records for tests of staging, made one by one: slow, and by other code than the writers' own."""

import numpy as np

from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.heads import v6_flags
from penstock.wire.rocketmq.record import Record, java_hash, length_of
from penstock.wire.rocketmq.staged import columns_of


class Host:
    """What a broker told about staging."""

    def __init__(self, ext: dict[str, str]) -> None:
        self.born, self.store = bytes.fromhex(ext["bornHost"]), bytes.fromhex(ext["storeHost"])
        self.added = ext["properties"]


def record(host: Host, topic: str, queue: int, body: bytes, properties: dict[str, str] | None = None) -> Record:
    found = Record(
        queue=0,
        length=0,
        tag=java_hash((properties or {}).get(props.TAGS, "")),
        topic=topic.encode(),
        queue_index=queue,
        body=body,
        properties=(props.build(properties or {}) + host.added).encode(),
        sys_flag=v6_flags(host.born, host.store),
        born_ms=1_700_000_000_000,
        born_host=host.born,
        store_host=host.store,
    )
    found.length = length_of(found)
    return found


def packed(records: list[Record], marks: list[int] | None = None) -> bytes:
    """The body of a request."""
    buffer = bytearray(sum(record.length for record in records))
    at = 0
    for each in records:
        each.write_into(memoryview(buffer), at, 0, 0, 0)
        at += each.length
    lengths = np.array([each.length for each in records], dtype=np.int64)
    tags = np.array(marks or [each.tag for each in records], dtype=np.int64)
    return columns_of(lengths, tags) + bytes(buffer)
