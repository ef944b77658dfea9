"""Options: what is understood, what is refused, and with which words."""

import time
from pathlib import Path

import pytest

from penstock.errors import ConfigError
from penstock.spark import columns
from penstock.spark.options import BATCH, READ, READ_OPTIONS, STREAM, Edge, read_options

DOCS = Path(__file__).parents[2] / "docs" / "spark.md"
NEEDED = {"service": "rocketmq://127.0.0.1:9876", "topic": "orders"}


def options(kind=BATCH, **given):
    return read_options({**NEEDED, **given}, kind)


def refused(kind=BATCH, **given):
    with pytest.raises(ConfigError) as told:
        options(kind, **given)
    assert "\n" not in str(told.value)
    return str(told.value)


def test_the_case_of_names_does_not_count():
    assert read_options({"SERVICE": "a:1", "Topic": "x", "failondataloss": "FALSE"}, BATCH).fail_on_data_loss is False


def test_a_batch_begins_at_the_earliest_and_a_stream_at_the_latest():
    assert options(BATCH).starting.word == "earliest"
    assert options(BATCH).ending.word == "latest"
    assert options(STREAM).starting.word == "latest"


@pytest.mark.parametrize(
    ("given", "service"),
    [
        ("rocketmq://10.0.0.1:9876", "10.0.0.1:9876"),
        ("10.0.0.1", "10.0.0.1:9876"),
        ("rocketmq://a:1;b:2", "a:1;b:2"),
    ],
)
def test_a_service_may_be_several_name_servers(given, service):
    assert options(service=given).service == service


@pytest.mark.parametrize("given", ["", "kafka://a:1", "a:port", "a:0", "a:99999", ";"])
def test_what_is_no_service(given):
    assert "service" in refused(service=given)


def test_topics_are_one_or_several():
    assert options(topic=" a, b ,a").topics == ("a", "b")
    assert "comma" in refused(topic=",")
    assert "topic" in refused(topic="no spaces")


def test_topics_or_a_pattern_but_not_both_and_not_none():
    assert "topicPattern" in refused(topicPattern="a.*")
    with pytest.raises(ConfigError, match="topicPattern"):
        read_options({"service": "a:1"}, BATCH)
    with pytest.raises(ConfigError, match="service is missing"):
        read_options({"topic": "a"}, BATCH)
    with pytest.raises(ConfigError, match="regular expression"):
        read_options({"service": "a:1", "topicPattern": "("}, READ)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("startingOffset", "did you mean startingOffsets?"),
        ("maxOffsetPerTrigger", "did you mean maxOffsetsPerTrigger?"),
        ("failOnDataLos", "did you mean failOnDataLoss?"),
        ("subscribe", "here it is topic"),
        ("kafka.bootstrap.servers", "here it is service"),
        ("zzz", "there are service, topic"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest_one(wrong, right):
    told = refused(**{wrong: "1"})
    assert wrong in told
    assert right in told


def test_what_spark_adds_by_itself_is_passed_over():
    assert options(path="x", checkpointLocation="y").topics == ("orders",)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name):
    assert "no meaning in a stream query" in refused(STREAM, **{name: "1"})


@pytest.mark.parametrize("name", ["maxOffsetsPerTrigger", "commitGroup"])
def test_a_batch_has_no_triggers(name):
    assert "no meaning in a batch query" in refused(BATCH, **{name: "1"})


def test_before_the_kind_is_known_all_names_will_do():
    assert options(READ, maxOffsetsPerTrigger="5", endingOffsets="latest").offsets_per_trigger_max == 5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("startingOffsets", "first"),
        ("startingOffsets", "{"),
        ("startingOffsets", '{"orders": {"0": "x"}}'),
        ("startingOffsets", '{"orders": {"0": -3}}'),
        ("startingOffsets", '{"orders": {"0": 99999999999999999999}}'),
        ("startingOffsets", "latest"),
        ("startingOffsets", '{"orders": {"0": -1}}'),
        ("endingOffsets", "earliest"),
        ("endingOffsets", '{"orders": {"0": -2}}'),
        ("startingTimestamp", "yesterday"),
        ("startingTimestamp", "999999999999999"),
        ("startingOffsetsByTimestamp", '{"orders": {"0": -1}}'),
        ("startingOffsetsByTimestampStrategy", "guess"),
        ("minPartitions", "0"),
        ("minPartitions", "1000000"),
        ("failOnDataLoss", "maybe"),
        ("groupIdPrefix", "a b"),
        ("includeProperties", "1"),
        ("valueFormat", "xml"),
    ],
)
def test_a_value_that_makes_no_sense_is_one_sentence(name, value):
    refused(BATCH, **{name: value})


def test_a_time_goes_before_offsets_by_time_and_these_before_offsets():
    all_of_them = {
        "startingOffsets": '{"orders": {"0": 7}}',
        "startingOffsetsByTimestamp": '{"orders": {"0": 1000}}',
        "startingTimestamp": "2000",
    }
    assert options(**all_of_them).starting == Edge(time_ms=2000, option="startingTimestamp")
    del all_of_them["startingTimestamp"]
    assert options(**all_of_them).starting == Edge(times={"orders": {"0": 1000}}, option="startingOffsetsByTimestamp")
    del all_of_them["startingOffsetsByTimestamp"]
    assert options(**all_of_them).starting == Edge(offsets={"orders": {"0": 7}}, option="startingOffsets")


def test_times_are_written_as_people_do():
    assert options(startingTimestamp="2026-01-31T12:00Z").starting.time_ms == 1_769_860_800_000
    ago = options(startingTimestamp="15m").starting.time_ms
    assert 0 <= time.time() * 1000 - 15 * 60_000 - ago < 60_000


def test_an_end_before_the_start_is_refused():
    assert "endingTimestamp" in refused(startingTimestamp="2000", endingTimestamp="1000")


def test_the_group_of_pulls_has_the_prefix_and_fits():
    assert options(groupIdPrefix="lake").group_of("orders") == "lake-orders"
    assert len(options().group_of("x" * 200)) == 120


def test_tags_that_select_all_are_no_filter():
    assert options(tags=" * ").tags == "*"
    assert options(tags="a || b").tags == "a || b"


def test_every_option_has_a_name_of_its_own():
    names = [option.name.lower() for option in READ_OPTIONS]
    assert len(names) == len(set(names))


def test_the_docs_list_every_option_and_no_other():
    table = DOCS.read_text(encoding="utf-8").partition("### Options")[2].partition("**Queues in JSON.**")[0]
    listed = [line.split("`")[1] for line in table.splitlines() if line.startswith("| `")]
    assert sorted(listed) == sorted(option.name for option in READ_OPTIONS)


def test_the_docs_list_every_column_with_its_type():
    table = DOCS.read_text(encoding="utf-8").partition("### Columns")[2].partition("### Options")[0]
    listed = dict(line.split(" | ")[:2] for line in table.splitlines() if line.startswith("| `"))
    types = {"bigint": "long"}  # what Spark calls it, and what its users do
    assert listed == {
        f"| `{name}`": types.get(kind.simpleString(), kind.simpleString()) for name, kind in columns.COLUMNS.items()
    }
