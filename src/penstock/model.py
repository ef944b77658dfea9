"""The words that all layers share: what an entry is, how durable, which actions there are. No behaviour.

An **entry** is what the log appends under one header. `wire/` subclasses it per encoding; the store asks it to write
itself into the append buffer and knows nothing else about it. Hot objects: one per message on the produce path, so they
are msgspec structs without garbage-collector tracking (0.1 us to build; a slots dataclass takes 0.3, a frozen one 1.5).
"""

import enum
from typing import ClassVar, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt


class Durability(enum.StrEnum):
    """When a message counts as stored."""

    SYNC = "sync"  # after fdatasync: survives a power cut
    ASYNC = "async"  # from the page cache: survives a killed process, not a power cut


class SchemaStrategy(enum.StrEnum):
    """Which schemas may follow those that a topic has. BACKWARD: what was written before can be read with the new one;
    FORWARD: what is written with the new one can be read as before; TRANSITIVE: with all that there were, not only the
    last.
    """

    UNDEFINED = "UNDEFINED"  # what holds for the broker
    ALWAYS_INCOMPATIBLE = "ALWAYS_INCOMPATIBLE"
    ALWAYS_COMPATIBLE = "ALWAYS_COMPATIBLE"
    BACKWARD = "BACKWARD"
    FORWARD = "FORWARD"
    FULL = "FULL"
    BACKWARD_TRANSITIVE = "BACKWARD_TRANSITIVE"
    FORWARD_TRANSITIVE = "FORWARD_TRANSITIVE"
    FULL_TRANSITIVE = "FULL_TRANSITIVE"


class Action(enum.StrEnum):
    """What somebody wants to do. Every route names the one that it needs."""

    PRODUCE = "produce"
    CONSUME = "consume"
    LOOKUP = "look up"
    ADMIN = "administer"
    MONITOR = "monitor"


class Spans(NamedTuple):
    """Where the messages of a run lie in its payload: one element per message."""

    starts: npt.NDArray[np.int64]  # from the payload's first byte
    lengths: npt.NDArray[np.int64]
    tags: npt.NDArray[np.int64]  # hash of the tag, 0 for none


class Entry(msgspec.Struct, gc=False):
    """One append: a message, a run of messages for one queue, or a closed batch.

    `count` messages take `count` offsets. A *run* (class variable) gets a row in the queue table per message; any other
    entry gets one row. `offset` and `row` are set by the store when it appends.
    """

    encoding: ClassVar[int] = 0
    run: ClassVar[bool] = False
    verbatim: ClassVar[bool] = False  # `write_into` would copy its field `payload`: a long one is written from there

    queue: int
    length: int  # bytes of payload that write_into will write
    count: int = 1
    tag: int = 0  # hash of the tag, for the queue table
    producer: int = 0  # 0: not deduplicated
    sequence: int = -1  # below 0: not deduplicated
    offset: int = -1
    row: int = -1

    def write_into(self, buffer: memoryview, at: int, queue_id: int, offset: int, store_ms: int) -> None:
        """Write exactly `length` bytes at `at`. Called once, when the offset and the time are known."""
        raise TypeError(f"{type(self).__name__} does not say how it is written")

    def spans(self) -> Spans:
        """Where the messages of this run lie; only asked of runs."""
        raise TypeError(f"{type(self).__name__} is not a run")
