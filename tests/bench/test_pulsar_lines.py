"""What `bench.pulsar` asks of Penstock: at least as good as Pulsar on every line. Nothing is started here."""

import pytest
from bench.pulsar.lines import FIGURES, RACE
from bench.sides.lines import MEMORY, START, Result


def measured(line: str, flush: str, name: str, ours: float, theirs: float) -> list[Result]:
    return [Result(flush, line, broker, {name: value}) for broker, value in (("penstock", ours), ("pulsar", theirs))]


@pytest.mark.parametrize("flush", ["async", "sync"])
@pytest.mark.parametrize("key", RACE.orders)
def test_every_figure_of_every_line_is_to_be_as_good_as_pulsar_s(key: str, flush: str):
    for name in RACE.orders[key].figures:
        (same,) = RACE.table(measured(key, flush, name, 100, 100))
        (worse,) = RACE.table(measured(key, flush, name, *((99, 100) if FIGURES[name].least else (101, 100))))
        assert (same.goal, same.reached, worse.reached) == (1, True, False)


@pytest.mark.parametrize(("line", "name", "goal"), [(START, "first_s", 15), (MEMORY, "idle_mb", 6)])
def test_start_and_idle_memory_are_to_be_many_times_as_small(line: str, name: str, goal: float):
    (good,) = RACE.table(measured(line, "sync", name, 10, 10.0 * goal))
    (bad,) = RACE.table(measured(line, "sync", name, 10, 9.0 * goal))
    assert (good.value, good.reached, bad.reached) == (goal, True, False)


def test_every_line_has_a_title_and_says_whether_producers_make_batches():
    assert set(RACE.keys) == set(RACE.titles) >= set(RACE.orders)
    assert RACE.heat in RACE.orders
    assert "batched" in RACE.message
