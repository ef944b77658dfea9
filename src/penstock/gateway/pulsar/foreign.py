"""What RocketMQ's clients wrote, as Pulsar's clients get it.

`as_entries` runs in a worker thread, on what one turn of a subscription has read: it stops when it has made enough, so
that bodies that are small while they are compressed do not fill the memory.
"""

from collections.abc import Sequence

from penstock import logs
from penstock.errors import StoreError
from penstock.wire.cross import is_record
from penstock.wire.cross.to_pulsar import entry_of_record
from penstock.wire.pulsar.batch import single_of
from penstock.wire.pulsar.commands_pb2 import KeyValue, MessageMetadata
from penstock.wire.pulsar.entry import PULSAR

log = logs.get(__name__)

MINE = 1 << PULSAR
TURN_BYTES_MAX = 8 << 20
UNREADABLE = "PENSTOCK_UNREADABLE"


def as_entries(payloads: Sequence[memoryview]) -> list[memoryview]:
    """The first of them as entries, at least one."""
    made: list[memoryview] = []
    size = 0
    for payload in payloads:
        made.append(as_entry(payload))
        size += len(made[-1])
        if size >= TURN_BYTES_MAX:
            break
    return made


def as_entry(payload: memoryview) -> memoryview:
    if not is_record(payload):
        return payload
    try:
        return memoryview(entry_of_record(payload))
    except StoreError as error:  # it was written so: nobody can read it, but it is not passed over in silence
        log.error("a record cannot be read: it is handed on as it is", error=str(error))
        why = KeyValue(key=UNREADABLE, value=str(error))
        metadata = MessageMetadata(producer_name="rocketmq", sequence_id=0, publish_time=0, properties=[why])
        return memoryview(single_of(metadata, bytes(payload)))
