"""What RocketMQ's clients trace, as rows: who sent which message, who was given it, and whether that went well.

Clients with tracing on send texts to the topic `RMQ_SYS_TRACE_TOPIC`: records with \\x02 behind each, fields with \\x01
between them, the first one the kind. Clients of different languages and ages write more or fewer fields at the end.
What does not parse gives no row, or an empty field.

    Pub             a producer sent a message, or a batch of them (their ids with commas between)
    SubBefore       a group was given a message
    SubAfter        it is done with it; old clients leave out who and when: SubBefore has that, under the same request
    EndTransaction  a producer has committed a half message, or rolled it back
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

TRACE_TOPIC = "RMQ_SYS_TRACE_TOPIC"
HALF, DELAYED = 1, 3  # kinds of messages, as Java counts them
WHERE = ["broker", "queue", "offset"]  # a message of a topic: what is read again is the same
SCHEMA = """
    kind STRING, message_id STRING, topic STRING, tags STRING, `group` STRING, at TIMESTAMP, good BOOLEAN, type INT,
    request STRING
"""


def _text(at: int) -> str:
    """Java writes null for what is not there, Go nothing."""
    return f"nullif(nullif(get(field, {at}), 'null'), '')"


def _number(at: int, kind: str = "INT") -> str:
    return f"try_cast(get(field, {at}) AS {kind})"


def _time(at: int) -> str:
    return f"timestamp_millis({_number(at, 'BIGINT')})"


_NOTHING = dict.fromkeys(("ids", "topic", "tags", "group", "at", "good", "type", "request"), "NULL")
_KINDS: Mapping[str, Mapping[str, str]] = {
    "Pub": {
        "at": _time(1), "group": _text(3), "topic": _text(4), "ids": _text(5), "tags": _text(6), "type": _number(11),
        "good": "lower(get(field, if(size(field) > 13, 13, 12))) = 'true'",  # old ones have no id by place before it
    },
    "SubBefore": {"at": _time(1), "group": _text(3), "request": _text(4), "ids": _text(5)},
    "SubAfter": {
        "request": _text(1), "ids": _text(2), "good": "lower(get(field, 4)) = 'true'",
        "at": _time(7), "group": _text(8),
    },
    "EndTransaction": {
        "at": _time(1), "group": _text(3), "topic": _text(4), "ids": _text(5), "tags": _text(6), "type": _number(9),
        "good": "get(field, 11) = 'COMMIT_MESSAGE'",
    },
}  # fmt: skip


def traces(messages: DataFrame) -> DataFrame:
    """Facts about messages, each once."""
    once = messages.dropDuplicates(WHERE).select(f.expr("explode(split(CAST(body AS STRING), '\x02')) AS text"))
    records = once.select(f.expr("split(text, '\x01') AS field"))
    found = [_of_kind(records, kind, columns) for kind, columns in _KINDS.items()]
    facts = found[0]
    for one in found[1:]:
        facts = facts.unionByName(one)
    named = facts.select("kind", f.expr("explode(split(ids, ',')) AS message_id"), *list(_NOTHING)[1:])
    return named.where("message_id != ''").distinct()


def _of_kind(records: DataFrame, kind: str, columns: Mapping[str, str]) -> DataFrame:
    wanted = {**_NOTHING, **columns}
    types = {"at": "TIMESTAMP", "good": "BOOLEAN", "type": "INT"}
    rows = records.where(f"get(field, 0) = '{kind}'")
    casts = [f"CAST({value} AS {types.get(name, 'STRING')}) AS `{name}`" for name, value in wanted.items()]
    return rows.selectExpr(f"'{kind}' AS kind", *casts)
