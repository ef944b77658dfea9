"""What an executor is told to read: a run of one queue's offsets, and where the broker is that has it. Values only.

Spark pickles them on their way to the executors: nothing in here may be more than plain values.
"""

import msgspec


class Range(msgspec.Struct, frozen=True):
    """The messages of one queue from `start` up to, and without, `end`."""

    topic: str
    broker: str
    address: str  # host:port of the broker
    queue: int
    start: int
    end: int

    @property
    def messages(self) -> int:
        return self.end - self.start

    def cut(self, pieces: int) -> "list[Range]":
        """So many ranges of about the same number of messages; fewer when there are not enough."""
        edges = [self.start + self.messages * piece // pieces for piece in range(pieces + 1)]
        return [
            msgspec.structs.replace(self, start=edges[piece], end=edges[piece + 1])
            for piece in range(pieces)
            if edges[piece] < edges[piece + 1]
        ]

    def __str__(self) -> str:
        return f"{self.topic}/{self.broker}/{self.queue} from {self.start} to {self.end}"
