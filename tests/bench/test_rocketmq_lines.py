"""The table of `bench.rocketmq`: medians, ratios the right way round, goals by flush. Nothing is started here."""

import pytest
from bench.rocketmq.lines import RACE
from bench.sides.lines import Result


def measured(line: str, flush: str, name: str, ours: list[float], theirs: list[float]) -> list[Result]:
    brokers = (("penstock", ours), ("rocketmq", theirs))
    return [Result(flush, line, broker, {name: value}) for broker, values in brokers for value in values]


def test_a_ratio_is_of_medians():
    (line,) = RACE.table(measured("sync-send", "async", "per_s", [100, 900, 150], [100, 90, 5]))
    assert line.value == pytest.approx(150 / 90)
    assert line.reached


@pytest.mark.parametrize(("ours", "reached"), [(145, False), (151, True)])
def test_throughput_is_to_be_large(ours: float, reached: bool):
    (line,) = RACE.table(measured("async-send", "async", "per_s", [ours], [100]))
    assert (line.goal, line.reached) == (1.5, reached)


def test_the_goal_is_the_flush_s_own():
    (line,) = RACE.table(measured("async-send", "sync", "per_s", [145], [100]))
    assert (line.goal, line.reached) == (1.4, True)


@pytest.mark.parametrize(("ours", "reached"), [(41, False), (39, True)])
def test_cpu_is_to_be_small(ours: float, reached: bool):
    (line,) = RACE.table(measured("async-send", "async", "cpu_us", [ours], [100]))
    assert line.reached is reached


@pytest.mark.parametrize(("line", "name", "goal"), [("start", "first_s", 18), ("memory", "idle_mb", 7)])
def test_start_and_memory_say_how_many_times_as_small(line: str, name: str, goal: float):
    (good,) = RACE.table(measured(line, "async", name, [10], [10.0 * goal]))
    (bad,) = RACE.table(measured(line, "async", name, [10], [9.0 * goal]))
    assert (good.value, good.reached, bad.reached) == (goal, True, False)


def test_one_broker_alone_has_its_figure_and_no_goal():
    (line,) = RACE.table(measured("sync-send", "async", "per_s", [123], []))
    assert (line.value, line.unit, line.goal) == (123, "msg/s", None)


def test_a_figure_that_a_line_is_not_about_is_left_out():
    assert RACE.table(measured("consume", "async", "p99_ms", [1], [2])) == []


def test_every_line_has_a_title():
    assert set(RACE.keys) == set(RACE.titles) >= set(RACE.orders)
    assert RACE.heat in RACE.orders
