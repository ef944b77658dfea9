"""Pipelines on a broker: what was produced is in the lake, and a second run goes on."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.conftest import environment

from penstock.client.message import Message
from penstock.client.sync import Producer
from penstock.errors import ConfigError
from penstock.spark.pipelines import archive, etl, running, status


@pytest.fixture
def produce(penstock):
    with Producer(penstock.addresses["namesrv"], "tests") as producer:
        yield lambda topic, *bodies: producer.send_all([Message(topic, body.encode(), tags="t") for body in bodies])


@pytest.fixture
def lake(tmp_path):
    return tmp_path / "lake"


def bodies(lake, table):
    """As any tool reads the folder."""
    columns, rows = status.rows(lake, table, limit=10_000)
    return sorted(bytes(row[columns.index("body")]).decode() for row in rows)


def test_topics_are_archived_and_the_next_run_goes_on(spark, service, produce, lake, new_name):
    one, other = new_name("orders"), new_name("payments")
    settings = archive.Settings(lake=str(lake), service=service, topics=f"{one},{other}", once=True)
    produce(one, *(f"order {number}" for number in range(50)), "order 7")  # sent twice: two messages
    produce(other, "payment")
    shown = []
    outcome = archive.run(settings, spark=spark, show=shown.append)
    assert (outcome.rows, outcome.behind, shown[-1].query) == (52, 0, "archive")
    assert bodies(lake, "archive") == sorted([*(f"order {number}" for number in range(50)), "order 7", "payment"])

    produce(one, "after")
    (found,) = told(lake, service)
    assert (found.behind, found.rows) == (1, 52)
    assert archive.run(settings, spark=spark).rows == 1
    assert bodies(lake, "archive").count("after") == 1
    (found,) = told(lake, service)
    assert (found.behind, found.rows, found.pipeline, found.query) == (0, 53, "archive", "main")
    days = {
        row.topic: row.n
        for row in spark.read.parquet(str(lake / "archive"))
        .groupBy("topic")
        .agg({"*": "count"})
        .toDF("topic", "n")
        .collect()
    }
    assert days == {one: 52, other: 1}


def told(lake, service):
    found = status.queries(lake)
    status.compare(found, service)
    return found


def test_one_sql_file_brings_a_topic_into_the_lake(spark, service, produce, lake, new_name, tmp_path):
    topic = new_name("orders")
    file = tmp_path / "large.sql"
    file.write_text(
        f"-- source: {topic} as orders\n-- target: lake large\n--   partitionBy: tags\n"
        "WITH parsed AS (SELECT tags, from_json(string(body), 'id BIGINT, amount DOUBLE') AS v FROM orders)\n"
        "SELECT tags, v.id, v.amount FROM parsed WHERE v.amount > 10;"
    )
    settings = etl.Settings(lake=str(lake), service=service, sql=str(file), once=True)
    produce(topic, *(json.dumps({"id": number, "amount": number / 2}) for number in range(40)))
    etl.run(settings, spark=spark)
    produce(topic, '{"id": 99, "amount": 11}', '{"id": 3, "amount": 1}')
    etl.run(settings, spark=spark)
    columns, rows = status.rows(lake, "large", limit=1000)
    assert columns == ["id", "amount", "tags"]
    assert sorted(row[0] for row in rows) == [*range(21, 40), 99]


def test_rows_without_a_body_become_json(spark):
    rows = spark.sql("SELECT 'k' AS key, 1 AS id, CAST(NULL AS STRING) AS note")
    (row,) = etl.as_messages(rows).collect()
    assert (row.key, json.loads(row.body)) == ("k", {"id": 1, "note": None})
    with pytest.raises(ConfigError, match="no column for the body"):
        etl.as_messages(rows.select("key"))


def test_what_cannot_be_read_is_one_sentence(spark, service, lake, new_name):
    settings = archive.Settings(lake=str(lake), service=service, topics=new_name("nowhere"), once=True)
    with pytest.raises(running.PipelineFailed) as failed:
        archive.run(settings, spark=spark)
    assert settings.topics in str(failed.value)
    assert "\n" not in str(failed.value)


# --- the command line -------------------------------------------------------------------------------------------------


@pytest.fixture
def command(service):
    """Runs `penstock pipeline` to its end: exit code, stdout, stderr."""

    def command(*arguments: object) -> tuple[int, str, str]:
        done = subprocess.run(
            [sys.executable, "-m", "penstock", "pipeline", *map(str, arguments)],
            env=environment(PENSTOCK_ENGINE=service, PYTHONPATH=str(Path(__file__).parents[2] / "src")),
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr

    return command


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["status", "archiv"], "there is no pipeline 'archiv'"),
        (["status", "--lake", "/nowhere"], "there is no folder /nowhere"),
        (["run", "etl", "--lake", "x", "--sql", "/nowhere.sql"], "/nowhere.sql cannot be read"),
        (["run", "archive", "--lake", "x", "--conf", "a=b"], "no setting of Spark's"),
        (["replay", "--lake", "x", "--topic", "t", "--since", "2h", "--until", "1h", "--into", "u"], "is no span"),
    ],
)
def test_what_cannot_be_done_is_said(command, arguments, words):
    code, out, err = command(*arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert len(err.splitlines()) <= 2
