"""The pipelines that come with Penstock, by name.

A pipeline is a module of its name with

    class Settings(running.Settings)                                      what it can be told; each field is a flag too
    def start(spark: SparkSession, settings: Settings) -> Started         starts its queries, and returns at once
    def run(settings: Settings, ...) -> Outcome                           starts them, watches them, ends with them

and reads as the question that it answers. What they share is in `running.py` (state, triggers, watching) and `lake.py`
(Parquet tables that take each batch once). Adding one adds a line here and a file.
"""

import importlib
from types import ModuleType
from typing import NamedTuple

from penstock.errors import ConfigError


class Pipeline(NamedTuple):
    name: str
    about: str
    streams: bool = True  # goes on and on unless it is told to run once

    @property
    def module(self) -> ModuleType:
        """Imported when it is asked for: they need Spark."""
        try:
            return importlib.import_module(f"penstock.spark.pipelines.{self.name}")
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] in ("pyspark", "pyarrow"):
                raise ConfigError("Spark is not installed: pip install penstock[spark]") from None
            raise


_ALL = (
    Pipeline("archive", "keep what is in topics: Parquet by topic and day, each message once"),
    Pipeline("traffic", "how much went through, by minute: queues, producers, consumer groups"),
    Pipeline("health", "what was wrong with consumer groups: from when to when, with whom, and why"),
    Pipeline("audit", "produced against consumed, by message: lost, duplicated, late"),
    Pipeline("replay", "put a time span of the archive back into a topic", streams=False),
    Pipeline("etl", "topic to topic, or topic to lake, as one SQL file says"),
)
PIPELINES = {pipeline.name: pipeline for pipeline in _ALL}


def pipeline(name: str) -> Pipeline:
    if name not in PIPELINES:
        raise ConfigError(f"there is no pipeline {name[:60]!r}: there are {', '.join(PIPELINES)}")
    return PIPELINES[name]
