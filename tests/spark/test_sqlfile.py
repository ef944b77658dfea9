"""What an ETL file says, and what is wrong with those that say it badly."""

from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.spark.pipelines.sqlfile import Input, Target, parsed

EXAMPLES = Path(__file__).parents[2] / "examples"
GOOD = """
-- Large orders, for the fraud desk.
--
-- source: eu-orders as orders
--   valueFormat: json
--   valueSchema: id BIGINT, note STRING COMMENT 'a: b'
-- table: customers
-- target: lake large
--   partitionBy: day, country

/* with a comment: here */
SELECT * FROM orders -- source: not this one
;
"""


def test_a_file_says_where_rows_come_from_and_go():
    job = parsed(GOOD)
    options = {"valueFormat": "json", "valueSchema": "id BIGINT, note STRING COMMENT 'a: b'"}
    assert job.sources == (Input("eu-orders", "orders", options),)
    assert job.tables == (Input("customers", "customers"),)
    assert job.target == Target("lake", "large", "append", ("day", "country"))
    assert job.query == "SELECT * FROM orders -- source: not this one"


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.sql")), ids=lambda path: path.name)
def test_the_examples_are_files_of_this_kind(example):
    assert parsed(example.read_text(encoding="utf-8")).sources


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("SELECT 1", "names no source"),
        ("-- source: a\nSELECT 1", "names no targets"),
        ("-- source: a\n-- target: topic b\n-- target: topic c\nSELECT 1", "names 2 targets"),
        ("-- sauce: a\nSELECT 1", "did you mean source?"),
        ("-- source: a as b as c\n-- target: topic b\nSELECT 1", "is no input"),
        ("-- source: a\n-- source: a\n-- target: topic b\nSELECT 1", "two inputs named a"),
        ("-- source: a\n-- target: b\nSELECT 1", "is no target"),
        ("-- source: a\n-- target: lake ../b\nSELECT 1", "no name for a table"),
        ("-- source: a\n-- target: lake _state\nSELECT 1", "no name for a table"),
        ("-- source: a\n-- target: lake b\n--  mode: complete\nSELECT 1", "it can be append"),
        ("-- source: a\n-- target: topic b\n--  key: x\nSELECT 1", "key is not known of a target"),
        ("-- source: a\n-- target: topic b\n", "has no query"),
        ("-- source: a\n-- target: topic b\nINSERT INTO x SELECT 1", "has no query"),
    ],
)
def test_what_is_wrong_is_said(text, words):
    with pytest.raises(ConfigError, match=words):
        parsed(text)
