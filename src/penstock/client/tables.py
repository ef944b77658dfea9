"""What brokers tell operators, as values: decoded from bodies that have objects as keys. Pure.

Whatever is missing has a default, since versions differ; what cannot be read at all raises FastjsonError or
msgspec.ValidationError.
"""

import msgspec

from penstock.client.routes import BrokerData, MessageQueue
from penstock.wire.rocketmq import fastjson


class ClusterInfo(msgspec.Struct, rename="camel"):
    """Which brokers there are."""

    broker_addr_table: dict[str, BrokerData] = {}
    cluster_addr_table: dict[str, list[str]] = {}


class TopicConfig(msgspec.Struct, rename="camel"):
    """A topic on one broker."""

    topic_name: str
    read_queue_nums: int = 0
    write_queue_nums: int = 0
    perm: int = 6
    order: bool = False
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: int = 0


class QueueStats(msgspec.Struct, rename="camel"):
    """How full a queue is."""

    min_offset: int = 0
    max_offset: int = 0
    last_update_timestamp: int = 0


class GroupStats(msgspec.Struct, rename="camel"):
    """How far a group is in a queue."""

    broker_offset: int = 0
    consumer_offset: int = 0
    last_timestamp: int = 0


class Connection(msgspec.Struct, rename="camel"):
    """A client that is connected to a broker."""

    client_id: str = ""
    client_addr: str = ""
    language: str = ""
    version: int = 0


class Subscription(msgspec.Struct, rename="camel"):
    topic: str = ""
    sub_string: str = ""
    expression_type: str | None = "TAG"
    sub_version: int = 0


class Connections(msgspec.Struct, rename="camel"):
    """The members of a group that are online, at one broker."""

    connection_set: list[Connection] = []
    subscription_table: dict[str, Subscription] = {}
    consume_type: str = ""
    message_model: str = ""
    consume_from_where: str = ""


class GroupConfig(msgspec.Struct, rename="camel"):
    """What is set for a group."""

    group_name: str
    consume_enable: bool = True
    consume_broadcast_enable: bool = True
    retry_queue_nums: int = 1
    retry_max_times: int = 16


class ResetInstance(msgspec.Struct, rename="camel"):
    """What became of a reset at one instance."""

    client_id: str
    address: str
    told_ms: int = 0
    confirmed: list[int] = []  # queues


class ResetState(msgspec.Struct, rename="camel"):
    """The last reset of a group on a topic, as Penstock keeps it."""

    asked_ms: int = 0
    targets: dict[int, int] = {}
    broadcast: bool = False
    instances: list[ResetInstance] = []
    away: list[str] = []  # ClientIDs of those that broadcast, and were not there to be told


class ClientOffsets(msgspec.Struct):
    """How far the instances of a group say that they are, by ClientID; and the last reset where the broker keeps it.
    `broadcast`: it is known to broadcast, though nobody of it may be online.
    """

    offsets: dict[str, dict[MessageQueue, int]] = {}
    reset: ResetState | None = None
    broadcast: bool = False


def queue_in(key: str) -> MessageQueue:
    """A queue that is the key of a table."""
    found = fastjson.loads(key.encode())
    if not isinstance(found, dict):
        raise fastjson.FastjsonError(f"{key[:100]!r} is not a queue")
    return MessageQueue(str(found.get("topic")), str(found.get("brokerName")), int(found.get("queueId", 0)))


def topic_stats_in(body: memoryview) -> dict[MessageQueue, QueueStats]:
    found = fastjson.table(fastjson.loads(body), "offsetTable")
    return {queue_in(key): msgspec.convert(value, QueueStats, strict=False) for key, value in found.items()}


def group_stats_in(body: memoryview) -> dict[MessageQueue, GroupStats]:
    found = fastjson.table(fastjson.loads(body), "offsetTable")
    return {queue_in(key): msgspec.convert(value, GroupStats, strict=False) for key, value in found.items()}


def offsets_in(body: memoryview) -> dict[MessageQueue, int]:
    return _offsets(fastjson.table(fastjson.loads(body), "offsetTable"))


def owned_in(body: memoryview) -> list[MessageQueue]:
    """The queues that a consumer has, as it says itself."""
    return sorted(queue_in(key) for key in fastjson.table(fastjson.loads(body), "mqTable"))


def client_offsets_in(body: memoryview) -> ClientOffsets:
    found = fastjson.loads(body)
    by_client = fastjson.table(found, "consumerTable")
    offsets = {client: _offsets(table) for client, table in by_client.items() if isinstance(table, dict)}
    more = found if isinstance(found, dict) else {}
    reset = msgspec.convert(more["reset"], ResetState, strict=False) if more.get("reset") else None
    return ClientOffsets(offsets, reset, more.get("broadcast") is True)


def _offsets(table: dict[str, object]) -> dict[MessageQueue, int]:
    return {queue_in(key): int(value) for key, value in table.items() if isinstance(value, int)}
