"""Which queue is next: in turn, and away from brokers that fail or are slow."""

import pytest

from penstock.client.choice import FAILED_LATENCY_MS, Choice
from penstock.client.routes import MessageQueue
from penstock.clock import ManualClock

QUEUES = [MessageQueue("t", broker, number) for broker in ("a", "b") for number in range(2)]


def brokers(choice: Choice, count: int = 8, **how) -> list[str]:
    return [choice.next(QUEUES, **how).broker for _ in range(count)]


def test_everyone_has_a_turn():
    choice = Choice(ManualClock(), avoid_slow=True)
    assert sorted(choice.next(QUEUES) for _ in range(8)) == sorted(QUEUES * 2)


@pytest.mark.parametrize("avoid_slow", [True, False])
def test_who_just_failed_or_is_down_has_none(avoid_slow):
    choice = Choice(ManualClock(), avoid_slow)
    assert set(brokers(choice, failed="a")) == {"b"}
    assert set(brokers(choice, is_down=lambda broker: broker == "b")) == {"a"}


@pytest.mark.parametrize("avoid_slow", [True, False])
def test_when_all_are_bad_the_turn_goes_on(avoid_slow):
    choice = Choice(ManualClock(), avoid_slow)
    choice.failed("a")
    choice.failed("b")
    assert set(brokers(choice)) == {"a", "b"}
    assert set(brokers(choice, is_down=lambda _: True)) == {"a", "b"}


STEPS = [(49, 0), (99, 0), (549, 0), (550, 2_000), (1_800, 5_000), (3_000, 6_000), (5_000, 10_000), (15_000, 30_000)]


@pytest.mark.parametrize(("took_ms", "out_ms"), STEPS)
def test_the_slower_it_was_the_longer_it_is_left_alone(took_ms, out_ms):
    clock = ManualClock()
    choice = Choice(clock, avoid_slow=True)
    choice.took("a", took_ms)
    assert set(brokers(choice)) == ({"b"} if out_ms else {"a", "b"})
    clock.advance(max(out_ms - 1, 0))
    assert set(brokers(choice)) == ({"b"} if out_ms else {"a", "b"})
    clock.advance(1)
    assert set(brokers(choice)) == {"a", "b"}


def test_a_failure_counts_as_very_slow():
    clock = ManualClock()
    choice = Choice(clock, avoid_slow=True)
    choice.failed("a")
    clock.advance(9_999)
    assert set(brokers(choice)) == {"b"}
    clock.advance(1)
    assert set(brokers(choice)) == {"a", "b"}
    assert FAILED_LATENCY_MS == 10_000


def test_without_being_asked_for_slowness_does_not_count():
    choice = Choice(ManualClock(), avoid_slow=False)
    choice.took("a", 15_000)
    assert set(brokers(choice)) == {"a", "b"}
