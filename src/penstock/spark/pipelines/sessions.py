"""Marks become sessions: what is about the same, and not further apart than a gap, is one session with a start and an
end.

A mark is a session too, a short one: sessions and marks have the same columns, and merging sessions with new marks
gives what merging all marks at once would. So a session can be kept between two runs and grow in the next, and marks
may come late, in any order, in any number of batches.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

KEYS = ("cause", "group", "topic", "member")
SCHEMA = """
    cause STRING, `group` STRING, topic STRING, member STRING, start TIMESTAMP, end TIMESTAMP, count BIGINT,
    who ARRAY<STRING>, queues ARRAY<INT>, healed BOOLEAN,
    lag_first BIGINT, lag_last BIGINT, lag_peak BIGINT, grew BIGINT, gain_per_minute DOUBLE
"""
WHO_MAX = 1_000  # names that a session keeps
_NOTHING = {
    "group": "`group`", "topic": "''", "member": "''", "start": "at", "count": "1", "who": "array()",
    "queues": "array()", "healed": "false",
    "lag_first": "0", "lag_last": "0", "lag_peak": "0", "grew": "0", "gain_per_minute": "0",
}  # fmt: skip


def mark(cause: str, says: Mapping[str, str]) -> str:
    """A row as a mark of a cause, as SQL for a struct. What is not said is: one mark, at the time of the row."""
    said = {**_NOTHING, **says, "cause": f"'{cause}'"}
    said.setdefault("end", said["start"])
    columns = [f"'{name}', CAST({said[name]} AS {kind})" for name, kind in _fields()]
    return f"named_struct({', '.join(columns)})"


def _fields() -> list[tuple[str, str]]:
    fields = [field.strip().split(" ", 1) for field in SCHEMA.replace("\n", " ").split(",")]
    return [(name.strip("`"), kind) for name, kind in fields]


def merged(marks: DataFrame, gap_s: Mapping[str, int]) -> DataFrame:
    """Sessions of marks and sessions. The gap depends on the cause."""
    gaps = f.create_map(*(f.lit(part) for pair in gap_s.items() for part in pair))
    gap = f.make_interval(secs=gaps[f.col("cause")])
    in_order = Window.partitionBy(*KEYS).orderBy("start", "end")
    reached = f.max("end").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    begins = reached.isNull() | (f.col("start") > reached + gap)
    numbered = marks.withColumn("_begins", begins.cast("int")).withColumn("_number", f.sum("_begins").over(in_order))
    whole = numbered.groupBy(*KEYS, "_number").agg(*(column.alias(name) for name, column in _merged_columns().items()))
    return whole.select(*(f.col(field).cast(kind).alias(field) for field, kind in _fields()))


def _merged_columns() -> dict[str, Column]:
    def all_of(name: str) -> Column:
        return f.slice(f.array_sort(f.array_distinct(f.flatten(f.collect_list(name)))), 1, WHO_MAX)

    def of_the_last(name: str) -> Column:
        return f.max_by(name, f.struct("end", "start", name))

    return {
        "start": f.min("start"),
        "end": f.max("end"),
        "count": f.sum("count"),
        "who": all_of("who"),
        "queues": all_of("queues"),
        "healed": f.max_by("healed", f.struct("end", "healed")),  # in the millisecond of the last refusal: after it
        "lag_first": f.min_by("lag_first", f.struct("start", "end", "lag_first")),
        "lag_last": of_the_last("lag_last"),
        "lag_peak": f.max("lag_peak"),
        "grew": f.sum("grew"),
        "gain_per_minute": of_the_last("gain_per_minute"),
    }
