"""Messages whose answers are known, as the source gives them: from lists, or as a stream that comes in parts."""

import itertools
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from penstock.core.events import Event

MESSAGES = """
    topic STRING, queue INT, offset BIGINT, key STRING, tags STRING, body BINARY, born_time TIMESTAMP,
    store_time TIMESTAMP, message_id STRING, broker STRING
"""
T0_MS = 1_700_000_040_000  # a full minute, not a full hour
MINUTE_MS = 60_000


def at(ms: int) -> datetime:
    """A time so many ms after the beginning of a story."""
    return datetime.fromtimestamp((T0_MS + ms) / 1000, UTC)


def naive(ms: int) -> datetime:
    """The same as Spark gives it back: without a zone, and in that of this machine."""
    return naive_ms(T0_MS + ms)


def naive_ms(ms: int) -> datetime:
    """A time since 1970 as Spark gives it back."""
    return datetime.fromtimestamp(ms / 1000, UTC).astimezone().replace(tzinfo=None)


class Story:
    """Messages of one broker; offsets count up by themselves."""

    def __init__(self) -> None:
        self._offsets = itertools.count()

    def message(self, body: bytes, topic="orders", queue=0, ms=0, born_ms=None, offset=None, broker="b") -> tuple:
        number = next(self._offsets) if offset is None else offset
        born = at(ms if born_ms is None else born_ms)
        return (topic, queue, number, None, None, body, born, at(ms), f"id{number}", broker)

    def events(self, told: Iterable[Event]) -> list[tuple]:
        return [
            self.message(msgspec.json.encode(event), "penstock_events", 0, event.at_ms - T0_MS, broker="penstock")
            for event in told
        ]


def frame(spark, rows):
    return spark.createDataFrame(list(rows), MESSAGES)


class Parts:
    """A stream whose next part a test writes: files in a folder."""

    def __init__(self, spark, folder: Path) -> None:
        self._spark, self._folder, self._written = spark, folder, 0
        folder.mkdir()

    def add(self, rows) -> None:
        aside = self._folder.with_name(f"{self._folder.name}-aside-{self._written}")
        frame(self._spark, rows).coalesce(1).write.parquet(str(aside))
        (file,) = aside.glob("*.parquet")
        self._written += 1
        file.rename(self._folder / f"{self._written:04}.parquet")

    @property
    def stream(self):
        reader = self._spark.readStream.schema(MESSAGES).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self._folder))
