"""The table of `bench.client`: medians, goals, and the ratio. Nothing is started here."""

import pytest
from bench.client.lines import JAVA, ORDERS, OURS, Result, table


def test_ours_has_a_goal_and_java_stands_beside_it():
    runs = [Result("send", OURS, per_s, 30.0) for per_s in (10_000, 16_000, 20_000)]
    (line,) = table([*runs, Result("send", JAVA, 32_000, 12.0)])
    assert (line.value, line.goal, line.reached) == (16_000, 15_000, True)
    assert "0.50 of Java" in line.beside


@pytest.mark.parametrize(("per_s", "reached"), [(59_999, False), (60_000, True)])
def test_a_goal_that_is_missed_says_so(per_s: float, reached: bool):
    (line,) = table([Result("push", OURS, per_s, 1.0)])
    assert (line.reached, "MISSED" in line.text()) == (reached, not reached)


def test_java_alone_is_no_line():
    assert table([Result(key, JAVA, 1.0, 1.0) for key in ORDERS]) == []
