"""The Prometheus text format."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.metrics import Metric
from penstock.gateway.http.exposition import rendered


def sample(name="penstock_x", value=1, kind="gauge", about="Help.", **labels):
    return Metric(name, kind, about, value, labels)


def lines(*metrics):
    return rendered(metrics).decode().split("\n")


def test_nothing_is_nothing():
    assert rendered([]) == b""


def test_samples_of_one_name_stand_together_below_one_head():
    text = lines(sample("penstock_a", 1, topic="x"), sample("penstock_b", 2), sample("penstock_a", 3, topic="y"))
    assert text == [
        "# HELP penstock_a Help.",
        "# TYPE penstock_a gauge",
        'penstock_a{topic="x"} 1',
        'penstock_a{topic="y"} 3',
        "# HELP penstock_b Help.",
        "# TYPE penstock_b gauge",
        "penstock_b 2",
        "",
    ]


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0, "0"),
        (2**60, str(2**60)),
        (0.25, "0.25"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
        (float("nan"), "NaN"),
    ],
)
def test_numbers(value, told):
    assert lines(sample(value=value))[2] == f"penstock_x {told}"


def test_help_is_escaped():
    assert lines(sample(about='a\\b\n"c"'))[0] == '# HELP penstock_x a\\\\b\\n"c"'


UNESCAPED = {r"\\": "\\", r"\n": "\n", r"\"": '"'}


@given(st.text())
def test_a_label_comes_back_as_it_was(value):
    line = rendered([sample(topic=value, queue="1")]).decode()
    found = re.search(r'^penstock_x\{topic="((?:[^"\\\n]|\\.)*)",queue="1"\} 1$', line, re.MULTILINE)
    assert found
    told = re.sub(r"\\.", lambda match: UNESCAPED[match[0]], found[1])
    assert told == value.encode(errors="replace").decode()
