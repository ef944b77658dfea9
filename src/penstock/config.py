"""Every setting, with its unit in its name.

Plain typed values, no behaviour: `configure.py` fills them from a TOML file, the environment and flags. A section here
is a table there (`[store]`, `[broker]`, ...). Bounds that nobody sets are constants of the modules that keep them.
"""

import msgspec

from penstock.model import Durability, SchemaStrategy

KIB = 1024
MIB = 1024 * KIB


class ServerConfig(msgspec.Struct, forbid_unknown_fields=True):
    """Where the broker listens and what it tells clients."""

    data: str = "data"
    host: str = "127.0.0.1"
    namesrv_port: int = 9876
    broker_port: int = 10911
    pulsar_port: int = 6650
    http_port: int = 8080
    advertise: list[str] = []  # HOST or HOST:PORT; empty: the address the client connected to
    insecure: bool = False  # listen on an address that is not loopback, without authentication
    ready_file: str = ""
    stop_timeout_ms: int = 5_000


class LogConfig(msgspec.Struct, forbid_unknown_fields=True):
    """What is logged, and how: `text` for people, `json` for machines."""

    level: str = "info"
    format: str = "text"


class StoreConfig(msgspec.Struct, forbid_unknown_fields=True):
    """The log on disk."""

    durability: Durability = Durability.SYNC
    segment_bytes: int = 128 * MIB
    flush_interval_ms: int = 500  # async: how often the log is flushed all the same
    fill_step_bytes: int = 1 * MIB  # sync: zeros written ahead at a time: fdatasync is nearly twice as fast then
    fill_ahead_bytes: int = 2 * MIB
    checkpoint_bytes: int = 64 * MIB  # what a restart after a crash has to check at the most, about
    checkpoint_interval_ms: int = 30_000
    hot_bytes: int = 64 * MIB  # the end of the log that is read from the mapping: it was written a moment ago
    entry_bytes_max: int = 16 * MIB
    append_buffer_bytes: int = 1 * MIB
    producers_max: int = 10_000  # remembered per queue, for deduplication
    piece_rows: int = 1_024  # rows of a queue table that lie together
    chunk_pieces: int = 4_096  # pieces per table file
    open_segments_max: int = 128
    catalog_slack_rows: int = 1_000  # superseded facts kept in the catalog's queue before it is written anew
    clean_interval_ms: int = 10_000
    clean_live_share_max: float = 0.25  # an old segment with less than this alive is copied out
    clean_step_bytes: int = 4 * MIB


class BrokerConfig(msgspec.Struct, forbid_unknown_fields=True):
    """Topics, publishing and waiting."""

    message_bytes_max: int = 4 * MIB
    topic_queues_default: int = 8
    topic_queues_max: int = 1_024
    topic_name_chars_max: int = 255
    topics_max: int = 20_000
    groups_max: int = 20_000  # with settings of their own
    young_bytes: int = 8 * 1024 * MIB  # a topic is, as long as the log has not grown by more since its first message
    subscriptions_max: int = 100_000  # durable ones
    schema_bytes_max: int = 256 * KIB  # one, with its properties
    topic_schemas_max: int = 1_000  # versions of a topic
    topic_schemas_bytes_max: int = 4 * MIB
    schemas_bytes_max: int = 64 * MIB  # of all topics: they are held in memory, and in every checkpoint
    retention_ms: int = 72 * 3_600_000  # 0: for ever
    retention_bytes: int = 0  # per queue; 0: no limit
    waiters_max: int = 100_000
    stages_bytes_max: int = 256 * MIB  # held in memory until committed, all stages together
    stage_memory_bytes: int = 8 * MIB  # a stage that is larger goes to the disk
    stages_disk_bytes_max: int = 64 * 1024 * MIB
    commit_step_bytes: int = 16 * MIB  # a commit up to this size is one append; a larger one takes several
    stages_max: int = 10_000
    stage_expiry_ms: int = 3_600_000
    commit_keys_max: int = 100_000
    commit_key_expiry_ms: int = 7 * 24 * 3_600_000
    counters_max: int = 10_000  # of each kind: groups by topic, topics
    chore_interval_ms: int = 1_000
    events_pending_max: int = 10_000
    events_retention_ms: int = 7 * 24 * 3_600_000


class RocketmqConfig(msgspec.Struct, forbid_unknown_fields=True):
    """RocketMQ clients."""

    auto_create_topics: bool = True  # a send to a topic that does not exist creates it
    auto_create_groups: bool = True  # a group that nobody has set may consume
    connections_max: int = 20_000
    receive_bytes_max: int = 512 * MIB  # of large frames that have not come completely, all connections together
    idle_timeout_ms: int = 120_000  # a connection on which nothing comes is closed
    transaction_timeout_ms: int = 6_000  # until a producer is first asked about a half message
    transaction_check_interval_ms: int = 30_000  # and until it is asked again
    transaction_checks_max: int = 15  # then the message is given up
    half_messages_max: int = 100_000  # held at a time
    timer_delay_ms_max: int = 3 * 24 * 3_600_000  # at most 24 days count


class PulsarConfig(msgspec.Struct, forbid_unknown_fields=True):
    """Pulsar clients."""

    auto_create_topics: bool = True  # a producer or consumer of a topic that does not exist creates it
    auto_create_partitions: int = 0  # of a topic that is created so; 0: it is not partitioned
    deduplication: bool = False  # a message that a producer sends again under the same number is stored once
    message_bytes_max: int = 5 * MIB  # told to clients, who keep to it and cut larger messages into chunks
    connections_max: int = 20_000
    receive_bytes_max: int = 512 * MIB  # of large frames that have not come completely, all connections together
    keep_alive_ms: int = 30_000  # a connection on which nothing comes is asked, and closed after the same time again
    liveness_timeout_ms: int = 5_000  # how long the holder of a name has to answer when somebody else wants it
    producers_per_connection_max: int = 10_000
    consumers_per_connection_max: int = 10_000
    watchers_per_connection_max: int = 100  # of topic lists
    schema_compatibility: SchemaStrategy = SchemaStrategy.FULL  # where a namespace sets none
    schema_validation: bool = False  # a producer without a schema is refused where the topic has one
    schema_auto_update: bool = True  # a producer may bring a new schema; else they are registered by HTTP alone
    auto_create_subscriptions: bool = True  # a consumer of a durable subscription that does not exist creates it
    unacked_per_consumer_max: int = 50_000  # messages in the hands of a shared consumer; 0: any number
    unacked_per_subscription_max: int = 200_000  # in the hands of all of them together


class HttpConfig(msgspec.Struct, forbid_unknown_fields=True):
    """The HTTP side: health, metrics, and what the gateways add."""

    connections_max: int = 1_000
    header_bytes_max: int = 16 * KIB
    body_bytes_max: int = 4 * MIB
    idle_timeout_ms: int = 75_000


class Config(msgspec.Struct, forbid_unknown_fields=True):
    server: ServerConfig = msgspec.field(default_factory=ServerConfig)
    log: LogConfig = msgspec.field(default_factory=LogConfig)
    store: StoreConfig = msgspec.field(default_factory=StoreConfig)
    broker: BrokerConfig = msgspec.field(default_factory=BrokerConfig)
    rocketmq: RocketmqConfig = msgspec.field(default_factory=RocketmqConfig)
    pulsar: PulsarConfig = msgspec.field(default_factory=PulsarConfig)
    http: HttpConfig = msgspec.field(default_factory=HttpConfig)
