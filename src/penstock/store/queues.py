"""Which queues there are, as facts of the catalog: `queue/<id>` says how durable it is and what retention took from its
front.
"""

from typing import NamedTuple

import msgspec

from penstock.model import Durability

PREFIX = "queue/"


class QueueFact(NamedTuple):
    durability: Durability
    min_row: int = 0
    min_offset: int = 0


_decoder = msgspec.msgpack.Decoder(QueueFact)


def queue_key(queue: int) -> str:
    return f"{PREFIX}{queue}"


def queue_of(key: str) -> int:
    return int(key[len(PREFIX) :])


def pack_queue(fact: QueueFact) -> bytes:
    return msgspec.msgpack.encode(fact)


def unpack_queue(data: bytes) -> QueueFact:
    return _decoder.decode(data)
