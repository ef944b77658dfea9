"""Tables that change: what a batch says takes the place of what was said before.

Spark may give a batch again after a crash, so both ways here come to the same when they are repeated. `Snapshots` keeps
what a pipeline remembers from batch to batch: batch N is worked out from the newest snapshot before N, however often.
`replace` and `upsert` put whole files in place of others: a reader sees the old one or the new one. One process writes
a table: take its lock (`lake.py`) first.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from penstock.spark.pipelines.files import Written, parquet_files, synced
from penstock.spark.pipelines.lake import LakeError

FILE = "rows.parquet"


class Snapshots:
    """Of one table, by the number of the batch that they are of. The last two are kept."""

    def __init__(self, folder: Path, schema: str) -> None:
        self._folder, self._schema = folder, schema

    def before(self, spark: SparkSession, number: int) -> DataFrame:
        """What was known before a batch; nothing at first."""
        numbers = self._numbers()
        if max(numbers, default=-1) > number:
            raise LakeError(
                f"{self._folder} is ahead of its checkpoint (batch {max(numbers)}, not {number}): restore that, or "
                "delete the state and the table to begin anew"
            )
        older = [one for one in numbers if one < number]
        return self.of(spark, max(older)) if older else spark.createDataFrame([], self._schema)

    def of(self, spark: SparkSession, number: int) -> DataFrame:
        return spark.read.schema(self._schema).parquet(str(self._place(number)))

    def write(self, rows: DataFrame, number: int) -> DataFrame:
        """What is known with a batch, to be read from now on."""
        aside = self._folder / "aside"
        rows.write.mode("overwrite").parquet(str(aside))
        synced(aside, parquet_files(aside))
        shutil.rmtree(self._place(number), ignore_errors=True)
        os.rename(aside, self._place(number))
        synced(self._folder, ())
        for old in sorted(self._numbers())[:-2]:
            shutil.rmtree(self._place(old))
        return self.of(rows.sparkSession, number)

    def _numbers(self) -> list[int]:
        return [int(one.name) for one in self._folder.glob("[0-9]*")]

    def _place(self, number: int) -> Path:
        return self._folder / f"{number:010}"


def replace(rows: DataFrame, folder: Path, aside: Path) -> None:
    """A small table, whole: one file."""
    rows.coalesce(1).write.mode("overwrite").parquet(str(aside))
    _put_in_place(aside, folder)


def upsert(rows: DataFrame, folder: Path, aside: Path, keys: Sequence[str], time: str) -> None:
    """Rows take the place of those with the same keys. One file for each hour of `time` (UTC), by day and hour."""
    second = f.unix_seconds(time)
    new = rows.withColumn("day", f.date_from_unix_date(f.floor(second / 86_400).cast("int")))
    new = new.withColumn("hour", (f.floor(second / 3_600) % 24).cast("int")).persist()
    try:
        hours = [(row["day"], row["hour"]) for row in new.select("day", "hour").distinct().collect()]
        if hours:
            known = [place for day, hour in hours if (place := folder / f"day={day}" / f"hour={hour}").exists()]
            parts = _over(new, folder, known, keys).repartition(len(hours), "day", "hour").sortWithinPartitions(*keys)
            parts.write.partitionBy("day", "hour").mode("overwrite").parquet(str(aside))
            _put_in_place(aside, folder)
    finally:
        new.unpersist()


def _over(new: DataFrame, folder: Path, known: Sequence[Path], keys: Sequence[str]) -> DataFrame:
    """New rows, and those of the known folders that they do not replace."""
    if not known:
        return new
    reader = new.sparkSession.read.schema(new.schema).option("basePath", str(folder))
    old = reader.parquet(*map(str, known))
    return new.unionByName(old.join(new.select(*keys), list(keys), "left_anti"))


def _put_in_place(aside: Path, folder: Path) -> None:
    """Each folder below `aside` has one file; it goes where the other of its folder is."""
    names = [path.relative_to(aside) for path in sorted(aside.rglob("*.parquet"))]
    files = [Written(str(name), str(name.with_name(FILE)), 0, 0) for name in names]
    synced(aside, files)
    for one in files:
        (folder / one.target).parent.mkdir(parents=True, exist_ok=True)
        os.replace(aside / one.source, folder / one.target)
    folder.mkdir(parents=True, exist_ok=True)
    synced(folder, [one.moved for one in files], contents=False)
    shutil.rmtree(aside)
