"""JSON bodies as RocketMQ writes them: objects may have objects as keys. That is no JSON, but all its clients read it.

    {"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:{"maxOffset":9,"minOffset":0}}}

Compact, with no spaces: one client takes such text apart by hand.
"""

from collections.abc import Iterable

import msgspec


class QueueName(msgspec.Struct, frozen=True, rename="camel"):
    """A queue as it stands in bodies. The order of the fields is the one that Java writes."""

    broker_name: str
    queue_id: int
    topic: str


def table(pairs: Iterable[tuple[QueueName, object]]) -> bytes:
    """A table from queues to whatever."""
    encode = msgspec.json.encode
    return b"{" + b",".join(encode(key) + b":" + encode(value) for key, value in pairs) + b"}"


def with_table(name: str, pairs: Iterable[tuple[QueueName, object]], **others: object) -> bytes:
    """An object whose field `name` is such a table."""
    rest = b"".join(b",%b:%b" % (msgspec.json.encode(key), msgspec.json.encode(value)) for key, value in others.items())
    return b"{%b:%b%b}" % (msgspec.json.encode(name), table(pairs), rest)
