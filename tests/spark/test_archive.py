"""The archive: known messages in, each of them in the lake once; a second run goes on; small files are merged."""

import datetime as dt
import json
import shutil

import msgspec
import pytest

from penstock.errors import ConfigError
from penstock.spark.pipelines import archive, lake, running
from penstock.spark.pipelines.files import Written
from penstock.spark.pipelines.merging import MIB, worth_merging

SCHEMA = "topic string, queue int, offset long, key string, body binary, store_time timestamp, broker string"
DAY1, DAY2 = dt.datetime(2026, 1, 31, 23, 59, 59, tzinfo=dt.UTC), dt.datetime(2026, 2, 1, tzinfo=dt.UTC)


def message(offset, topic="orders", queue=0, stored=DAY1, body="eA=="):
    row = {"topic": topic, "queue": queue, "offset": offset, "body": body, "broker": "a"}
    return row | {"store_time": stored.isoformat()}


class Feed:
    """A folder that Spark reads as a stream: one file, one batch."""

    def __init__(self, spark, folder):
        self.spark, self.folder = spark, folder
        folder.mkdir()
        self.files = 0

    def put(self, *rows):
        self.files += 1
        beside = self.folder / f".{self.files:05}.json"
        beside.write_text("\n".join(map(json.dumps, rows)))
        beside.rename(self.folder / f"{self.files:05}.json")

    @property
    def stream(self):
        return self.spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(self.folder))


@pytest.fixture
def feed(spark, tmp_path):
    return Feed(spark, tmp_path / "feed")


@pytest.fixture
def settings(tmp_path):
    return archive.Settings(lake=str(tmp_path / "lake"), topics="orders", once=True)


def archived(feed, settings):
    return running.watched([archive.archived(feed.stream, settings)])


def kept(spark, settings):
    """What anybody sees who reads the folder as Parquet."""
    rows = spark.read.parquet(str(archive.folder(settings))).select("topic", "queue", "offset", "day").collect()
    return sorted((row.topic, row.queue, row.offset, str(row.day)) for row in rows)


def files_of(settings):
    return sorted(path.name for path in archive.folder(settings).rglob("*") if path.is_file())


def test_each_message_is_there_once_under_its_topic_and_day(spark, feed, settings):
    feed.put(message(1), message(0), message(0, queue=1), message(7, topic="%RETRY%x"))  # out of order
    feed.put(message(2, stored=DAY2), message(3), message(4))  # late: the day before comes behind the next
    outcome = archived(feed, settings)
    assert kept(spark, settings) == [
        ("%RETRY%x", 0, 7, "2026-01-31"),
        ("orders", 0, 0, "2026-01-31"),
        ("orders", 0, 1, "2026-01-31"),
        ("orders", 0, 2, "2026-02-01"),
        ("orders", 0, 3, "2026-01-31"),
        ("orders", 0, 4, "2026-01-31"),
        ("orders", 1, 0, "2026-01-31"),
    ]
    assert (outcome.rows, outcome.batches) == (7, 2)


def test_the_day_is_utc_wherever_the_session_is(spark, feed, settings):
    feed.put(message(0, stored=DAY1), message(1, stored=DAY2))
    spark.conf.set("spark.sql.session.timeZone", "Asia/Shanghai")
    try:
        archived(feed, settings)
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert [day for *_, day in kept(spark, settings)] == ["2026-01-31", "2026-02-01"]


def test_a_second_run_goes_on_where_the_first_stopped(spark, feed, settings):
    feed.put(message(0))
    archived(feed, settings)
    feed.put(message(1))
    assert archived(feed, settings).rows == 1
    assert archived(feed, settings).rows == 0
    assert [offset for _, _, offset, _ in kept(spark, settings)] == [0, 1]


def test_a_batch_that_spark_tries_again_is_there_once(spark, feed, settings):
    merging = msgspec.structs.replace(settings, merge_files=2)
    feed.put(message(0), message(1))
    feed.put(message(2))
    archived(feed, merging)  # its files are merged by now: the second time they would have other names
    feed.put(message(3))
    forget_commit(settings, 1)  # killed behind all that, and before Spark knew
    archived(feed, merging)
    assert [offset for _, _, offset, _ in kept(spark, settings)] == [0, 1, 2, 3]


def forget_commit(settings, batch):
    commits = running.state_folder(settings, "archive") / "checkpoint" / "commits"
    (commits / str(batch)).unlink()
    (commits / f".{batch}.crc").unlink(missing_ok=True)


class Killed(BaseException):
    """What a kill looks like to the code that it hits."""


@pytest.mark.parametrize("step", range(4))
def test_killed_at_any_step_each_row_is_there_once(spark, tmp_path, monkeypatch, step):
    """The steps of a batch: written aside, noted, moved (two files), marked."""
    steps = iter(range(100))

    def dying(real):
        def call(*arguments):
            if next(steps) == step:
                raise Killed
            return real(*arguments)

        return call

    table = lake.Table(tmp_path / "table", tmp_path / "state")
    batch = spark.createDataFrame([(n, n % 2) for n in range(100)], "n int, half int").coalesce(1)
    monkeypatch.setattr(lake, "put_whole", dying(lake.put_whole))
    monkeypatch.setattr(lake.os, "rename", dying(lake.os.rename))
    with pytest.raises(Killed):
        table.append(batch, 0, by=["half"])
    monkeypatch.undo()
    again = lake.Table(tmp_path / "table", tmp_path / "state")
    again.append(batch, 0, by=["half"])
    again.append(spark.createDataFrame([(100, 0)], "n int, half int"), 1, by=["half"])
    found = spark.read.parquet(str(tmp_path / "table"))
    assert sorted(row.n for row in found.collect()) == list(range(101))
    assert again.rows_total == 101


def test_many_small_files_become_one(spark, feed, settings):
    for number in range(9):
        feed.put(message(number))
    archived(feed, settings)
    assert [offset for _, _, offset, _ in kept(spark, settings)] == list(range(9))
    assert len(files_of(settings)) == 2, "eight were merged, and one came after them"


def test_a_table_without_its_state_is_refused(feed, settings):
    feed.put(message(0))
    archived(feed, settings)
    shutil.rmtree(running.state_folder(settings, "archive"))
    with pytest.raises(lake.LakeError, match="written twice"):
        archived(feed, settings)


def test_a_table_of_another_checkpoint_is_refused(feed, settings):
    feed.put(message(0))
    archived(feed, settings)
    shutil.rmtree(running.state_folder(settings, "archive") / "checkpoint")
    with pytest.raises(running.PipelineFailed, match="another checkpoint"):
        archived(feed, settings)


def test_state_without_its_table_is_refused(feed, settings):
    feed.put(message(0))
    archived(feed, settings)
    shutil.rmtree(archive.folder(settings))
    with pytest.raises(lake.LakeError, match="is gone"):
        archived(feed, settings)


@pytest.mark.parametrize(
    ("change", "words"), [({"topics": ""}, "topics or a pattern"), ({"format": "csv"}, "not 'csv'")]
)
def test_what_cannot_be_done_is_said(settings, change, words):
    with pytest.raises(ConfigError, match=words):
        msgspec.structs.replace(settings, **change).check()


def test_delta_that_is_not_there_is_said(feed, settings):
    with pytest.raises(ConfigError, match="Delta is not there"):
        archive.archived(feed.stream, msgspec.structs.replace(settings, format="delta"))


def test_files_are_merged_by_size():
    def sized(*sizes):
        return [Written(f"{n}", f"{n}", 1, size) for n, size in enumerate(sizes)]

    assert worth_merging(sized(*[1000] * 7)) == []
    assert [len(group) for group in worth_merging(sized(*[1000] * 8, 2 * MIB))] == [8]
    assert [len(group) for group in worth_merging(sized(*[2 * MIB] * 9, *[1000] * 8))] == [8, 9]
    assert worth_merging(sized(*[100 * MIB] * 20)) == []
