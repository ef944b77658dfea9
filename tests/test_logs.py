"""Log lines, and what cannot be smuggled into them."""

import io
import json
import logging
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import logs
from penstock.config import LogConfig


@pytest.fixture
def written():
    """Sets logging up on a stream of its own, and gives back what was written so far; all is as before afterwards."""
    root, ours = logging.getLogger(), logging.getLogger("penstock")
    before = (root.handlers[:], root.level, ours.level)

    def set_up(**config):
        stream = io.StringIO()
        logs.set_up(LogConfig(**config), stream)
        return stream.getvalue

    yield set_up
    root.handlers[:], root.level = before[0], before[1]
    ours.setLevel(before[2])


def test_text_is_one_line_with_fields(written):
    read = written()
    logs.get("penstock.core.topics").info("topic created", topic="orders", queues=8)
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z INFO    penstock\.core\.topics: "
        r"topic created topic=orders queues=8\n",
        read(),
    )


def test_json_is_one_object_per_line(written):
    read = written(format="json")
    logs.get("penstock.x").warning("odd", topic="a\nb", share=0.5, gone=None, time="noon")
    entry = json.loads(read())
    assert entry["level"] == "warning"
    assert entry["message"] == "odd"
    assert (entry["topic"], entry["share"], entry["gone"]) == ("a\nb", 0.5, None)
    assert entry["time"].endswith("Z")
    assert entry["time_"] == "noon"


def test_levels_hold(written):
    read = written(level="warning")
    log = logs.get("penstock.x")
    log.info("no")
    log.debug("no")
    log.error("yes")
    assert read().count("\n") == 1


def test_other_libraries_are_heard_from_warnings_on(written):
    read = written(level="debug")
    logging.getLogger("asyncio").info("no")
    logging.getLogger("asyncio").warning("slow %s", "loop")
    assert read().endswith("WARNING asyncio: slow loop\n")


def test_a_trace_is_told_apart_from_log_lines(written):
    read = written()
    try:
        raise ValueError("first\n2026-01-01T00:00:00.000Z INFO    penstock: forged")
    except ValueError:
        logs.get("penstock.x").exception("it broke", queue=1)
    head, *trace = read().splitlines()
    assert head.endswith("ERROR   penstock.x: it broke queue=1")
    assert trace
    assert all(line.startswith("    | ") for line in trace)


def text_line(message: str, fields: dict[str, object]) -> str:
    record = logging.LogRecord("penstock", logging.INFO, "", 0, message, (), None)
    record.__dict__["penstock_fields"] = fields
    return logs.TextFormatter().format(record)


WORD = r'(?:[^\s"=\\]+|"(?:[^"\\]|\\.)*")'


@given(key=st.text(max_size=20), value=st.text(max_size=50))
def test_a_value_fakes_neither_a_field_nor_a_line(key, value):
    line = text_line("said", {key: value, "last": 1})
    assert len(line.splitlines()) == 1
    assert line.isprintable()
    fields = re.fullmatch(rf".*penstock: said ({WORD})=({WORD}) last=1", line)
    assert fields
    told = fields[2]
    assert (json.loads(told) if told.startswith('"') else told) == value


@given(message=st.text(max_size=50))
def test_a_message_fakes_no_line(message):
    assert text_line(message, {}).isprintable()


def test_long_values_are_cut():
    assert len(text_line("x", {"body": "b" * 1_000_000})) < logs.VALUE_CHARS_MAX + 200


def test_values_that_json_does_not_know(written):
    read = written(format="json")
    logs.get("penstock.x").info("x", path=b"\xff", ratio=float("inf"), lone="\ud800")
    entry = json.loads(read(), parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert entry["ratio"] == "inf"
