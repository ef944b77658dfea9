"""What a broker has told of itself, as rows: the topic `penstock_events`, one column per field that a pipeline looks
at.

A kind or field that is not here is left alone; `docs/events.md` has all of them. What is no event (somebody else wrote
to the topic) gives no row.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from penstock.errors import ConfigError
from penstock.spark.options import SCHEME
from penstock.spark.places import Places

EVENTS_TOPIC = "penstock_events"
WITHOUT_EVENTS = "give --events-topic '' to go without it"
FIELDS = """
    kind STRING, at_ms BIGINT, topic STRING, `group` STRING, queue INT, messages BIGINT, bytes BIGINT, sent_back BIGINT,
    client_id STRING, address STRING, addresses ARRAY<STRING>, members INT,
    lag BIGINT, produced BIGINT, consumed BIGINT, over_ms BIGINT, unread ARRAY<INT>, read_twice ARRAY<INT>,
    since_ms BIGINT, refusals BIGINT, code INT, asked_offset BIGINT, corrected_offset BIGINT,
    targets MAP<STRING, STRING>, before STRING, after STRING,
    producer_group STRING, message_id STRING
"""
WHERE = ["broker", "queue", "offset"]  # a message of a topic: what is read again is the same


def events(messages: DataFrame) -> DataFrame:
    """Messages of the topic as events, each once, with `at` as a time."""
    once = messages.dropDuplicates(WHERE) if not messages.isStreaming else messages
    told = once.select("broker", "offset", f.from_json(f.col("body").cast("string"), FIELDS).alias("event"))
    told = told.select("broker", "offset", "event.*").where("kind IS NOT NULL AND at_ms IS NOT NULL")
    return told.withColumn("at", f.timestamp_millis("at_ms"))


def check_told(service: str, topic: str, without: str) -> None:
    """ConfigError when the service has no such topic, with what can be done without it."""
    if service.startswith(SCHEME):
        raise ConfigError(f"a broker's events are read by rocketmq://, not from {service}: {without}")
    with Places(service) as places:
        if not places.existing([topic]):
            raise ConfigError(
                f"{service} has no topic {topic!r}: a Penstock tells of itself there, a RocketMQ does not; {without}"
            )


def of(told: DataFrame, *kinds: str) -> DataFrame:
    return told.where(f.col("kind").isin(*kinds))


def millis(column: str) -> Column:
    return f.unix_millis(f.col(column))
