"""Topic to topic, or topic to lake, as one SQL file says; each message counts once, through any kill.

The file names where rows come from and where they go in its leading comments (see `sqlfile.py`), and has one query of
Spark SQL, with windows, joins and `WATERMARK` as Spark has them. A job is known by the name of its file: its state is
`<lake>/_state/etl/<name>`. Rows for a topic that have no `body` become JSON: `key`, `tags`, `topic`, `queue`,
`properties` and `delay_ms` are the message's, all other columns are in the body.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from penstock.errors import ConfigError
from penstock.spark.pipelines import PIPELINES, running, sqlfile
from penstock.spark.pipelines.lake import Table
from penstock.spark.pipelines.merging import merge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

NAME = "etl"
OF_A_MESSAGE = ("topic", "key", "tags", "queue", "properties", "delay_ms")
SQL_BYTES_MAX = 1 << 20


class Settings(running.Settings, frozen=True, kw_only=True):
    sql: Annotated[str, msgspec.Meta(description="The file.")]

    @property
    def job(self) -> str:
        return Path(self.sql).stem

    def check(self) -> None:
        super().check()
        read(self)


def start(spark: "SparkSession", settings: Settings) -> running.Started:
    job = read(settings)
    for source in job.sources:
        options = {} if "topicPattern" in source.options else {"topic": source.name}
        stream = running.messages(spark, settings, **options, **source.options)
        stream.createOrReplaceTempView(f"`{source.view}`")
    for table in job.tables:
        spark.read.parquet(str(settings.folder / table.name)).createOrReplaceTempView(f"`{table.view}`")
    return [written(spark.sql(job.query), job.target, settings)]


def run(settings: Settings, **how: Any) -> running.Outcome:
    return running.run(start, settings, **how)


def read(settings: Settings) -> sqlfile.Job:
    """The file, checked before Spark is asked for anything."""
    try:
        text = Path(settings.sql).read_bytes()[: SQL_BYTES_MAX + 1].decode()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the SQL file {settings.sql} cannot be read: {error}") from None
    if len(text) > SQL_BYTES_MAX:
        raise ConfigError(f"the SQL file {settings.sql} is larger than {SQL_BYTES_MAX} bytes")
    job = sqlfile.parsed(text)
    if job.target.kind == sqlfile.LAKE and job.target.name in PIPELINES:
        raise ConfigError(f"the table {job.target.name} belongs to the pipeline of that name: give the target another")
    return job


# --- writing ----------------------------------------------------------------------------------------------------------


def written(rows: "DataFrame", target: sqlfile.Target, settings: Settings) -> "StreamingQuery":
    if not rows.isStreaming:
        raise ConfigError("the query reads none of its sources: name one in its FROM")
    return (_to_topic if target.kind == sqlfile.TOPIC else _to_lake)(rows, target, settings)


def as_messages(rows: "DataFrame") -> "DataFrame":
    """Columns of messages; what is none of them goes into the body as JSON."""
    from pyspark.sql import functions as f

    if "body" in rows.columns:
        return rows
    values = [name for name in rows.columns if name not in OF_A_MESSAGE]
    if not values:
        raise ConfigError("the query gives no column for the body of its messages: name one `body`, or any other")
    return rows.select(
        *(name for name in rows.columns if name in OF_A_MESSAGE),
        f.to_json(f.struct(*values), {"ignoreNullFields": "false"}).alias("body"),
    )


def _to_topic(rows: "DataFrame", target: sqlfile.Target, settings: Settings) -> "StreamingQuery":
    writer = as_messages(rows).writeStream.format("penstock").outputMode(target.mode)
    writer = writer.option("service", settings.service).option("topic", target.name)
    return running.started(writer, settings, NAME, settings.job)


def _to_lake(rows: "DataFrame", target: sqlfile.Target, settings: Settings) -> "StreamingQuery":
    state = running.state_folder(settings, NAME, settings.job)
    table = Table(settings.folder / target.name, state)

    def write(batch: "DataFrame", number: int) -> None:
        for touched in table.append(batch, number, target.by):
            merge(batch.sparkSession, touched, state / "merging")

    return running.started(rows.writeStream.foreachBatch(write).outputMode(target.mode), settings, NAME, settings.job)
