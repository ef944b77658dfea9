"""What a consumer counts, and the rates that are made of it."""

import pytest

from penstock.client.consumer.figures import STEP_MS, Figures

HOUR_MS = 3_600_000


def worked(figures: Figures, since_s: int, for_s: int, failures_per_s: int = 0) -> None:
    """Each second a pull of 8 messages that took 100 ms, and 8 handlers that took 5 ms each."""
    for second in range(since_s, since_s + for_s):
        figures.found(second * 1_000, second * 1_000 + 100, 8)
        for number in range(8):
            figures.handled(5, number >= failures_per_s)


def test_rates_are_those_of_the_last_minute():
    figures = Figures(0)
    worked(figures, 0, 600, failures_per_s=8)
    worked(figures, 600, 120, failures_per_s=2)
    found = figures.status(720_000)
    assert found["pullRT"] == 100
    assert found["consumeRT"] == 5
    assert found["pullTPS"] == pytest.approx(8, rel=0.05)
    assert (found["consumeOKTPS"], found["consumeFailedTPS"]) == (
        pytest.approx(6, rel=0.05),
        pytest.approx(2, rel=0.05),
    )


def test_a_consumer_that_has_just_begun_says_what_it_has_done():
    figures = Figures(1_000)
    worked(figures, 1, 2)
    assert figures.status(3_000)["pullTPS"] == 8


def test_nothing_is_nothing():
    assert set(Figures(5).status(5).values()) == {0}


def test_one_that_stands_still_comes_to_rest():
    """No pull sets a mark then: the rate is that of the time since the last one."""
    figures = Figures(0)
    worked(figures, 0, 60)
    assert figures.status(60_000 + HOUR_MS)["consumeOKTPS"] < 0.1


def test_failures_are_those_of_an_hour():
    figures = Figures(0)
    worked(figures, 0, 600, failures_per_s=1)
    assert figures.status(600_000)["consumeFailedMsgs"] == 600
    worked(figures, 600, 1_800)
    assert figures.status(2_400_000)["consumeFailedMsgs"] == 600
    worked(figures, 2_400, 3_600)
    assert figures.status(6_000_000)["consumeFailedMsgs"] == 0


def test_memory_does_not_grow():
    figures = Figures(0)
    for number in range(10_000):
        figures.found(number * STEP_MS, number * STEP_MS, 1)
    assert (len(figures._minute), len(figures._hour)) == (7, 13)
