"""Waiting for messages: woken by what comes, or by the clock, once, and never for ever."""

import asyncio
import contextlib

import pytest

from penstock.core.topics import TopicSettings
from penstock.core.waits import Waits
from penstock.errors import TooManyWaiting
from penstock.wire.plain import plain

LONG_MS = 3_600_000
QUEUE, OTHER = 1, 2


@pytest.fixture
async def waits():
    return Waits(waiters_max=3)


async def test_all_who_wait_at_a_queue_are_woken_once_in_their_order(waits):
    woken = []
    for name in ("a", "b"):
        waits.park(QUEUE, LONG_MS, lambda there, name=name: woken.append((name, there)))
    waits.wake([QUEUE])
    waits.wake([QUEUE])
    assert woken == [("a", True), ("b", True)]
    assert len(waits) == 0


async def test_another_queue_wakes_nobody(waits):
    woken = []
    waits.park(QUEUE, LONG_MS, woken.append)
    waits.wake([OTHER])
    assert (woken, len(waits)) == ([], 1)


async def test_time_up_is_told_once(waits):
    time_up = asyncio.get_running_loop().create_future()
    waits.park(QUEUE, 1, time_up.set_result)
    assert await time_up is False
    waits.wake([QUEUE])  # would raise in set_result
    assert len(waits) == 0


async def test_who_was_woken_is_not_timed_out_as_well(waits):
    woken, other = [], asyncio.get_running_loop().create_future()
    waits.park(QUEUE, 1, woken.append)
    waits.park(OTHER, 2, other.set_result)
    waits.wake([QUEUE])
    await other
    assert woken == [True]


async def test_a_wait_taken_back_is_over(waits):
    woken = []
    wait = waits.park(QUEUE, LONG_MS, woken.append)
    wait.cancel()
    wait.cancel()
    waits.wake([QUEUE])
    assert (woken, len(waits)) == ([], 0)


async def test_a_wait_taken_back_by_whoever_is_woken_before_it_is_over(waits):
    """A consumer that waits at several queues and gets what it wants at the first."""
    woken = []
    waits.park(QUEUE, LONG_MS, lambda there: second.cancel())
    second = waits.park(QUEUE, LONG_MS, woken.append)
    waits.wake([QUEUE])
    assert (woken, len(waits)) == ([], 0)


async def test_a_woken_one_may_wait_again_at_once(waits):
    woken = []

    def again(there: bool) -> None:
        woken.append(there)
        waits.park(QUEUE, LONG_MS, again)

    waits.park(QUEUE, LONG_MS, again)
    waits.wake([QUEUE])
    assert (woken, len(waits)) == ([True], 1)


async def test_one_that_fails_when_woken_does_not_keep_the_others_asleep(waits):
    woken = []

    def fails(there: bool) -> None:
        raise RuntimeError("the connection of this one is gone")

    waits.park(QUEUE, LONG_MS, fails)
    waits.park(QUEUE, LONG_MS, woken.append)
    waits.park(OTHER, LONG_MS, woken.append)
    with contextlib.suppress(RuntimeError):  # logged or raised: the others are told
        waits.wake([QUEUE, OTHER])
    assert (woken, len(waits)) == ([True, True], 0)


async def test_as_many_may_wait_as_the_limit_and_no_more(waits):
    parked = [waits.park(queue, LONG_MS, lambda there: None) for queue in (QUEUE, QUEUE, OTHER)]
    with pytest.raises(TooManyWaiting, match="3 consumers wait"):
        waits.park(OTHER, LONG_MS, lambda there: None)
    parked[0].cancel()
    waits.park(OTHER, LONG_MS, lambda there: None)
    assert len(waits) == 3


@pytest.mark.parametrize("timeout_ms", [0, 1, 63, 64, 1_000, 15_000, 30_000, LONG_MS])
async def test_the_time_is_never_up_too_early_and_hardly_too_late(monkeypatch, timeout_ms):
    loop, timers = asyncio.get_running_loop(), []
    monkeypatch.setattr(loop, "call_at", lambda when, call, *given: timers.append(when))
    for now_s in (5.0, 5.001, 5.999, 77.7777):
        monkeypatch.setattr(loop, "time", lambda now_s=now_s: now_s)
        for exact, late_ms in ((False, max(timeout_ms / 64, 1)), (True, 1)):
            Waits(waiters_max=1).park(QUEUE, timeout_ms, lambda there: None, exact)
            took_ms = round((timers.pop() - now_s) * 1000, 3)
            assert timeout_ms <= took_ms <= timeout_ms + late_ms


async def test_who_waits_for_about_as_long_shares_a_timer(waits, monkeypatch):
    """A message at a time, and the next pull parks again at once."""
    loop, timers = asyncio.get_running_loop(), []
    monkeypatch.setattr(loop, "call_at", lambda when, call, *given: timers.append(when))
    for number in range(1_000):
        monkeypatch.setattr(loop, "time", lambda number=number: 1_000.0 + number / 500)
        waits.park(QUEUE, 15_000, lambda there: None)
        waits.wake([QUEUE])
    assert len(timers) <= 2_000 / (15_000 / 128) + 2


async def test_only_those_whose_time_is_up_are_told(waits):
    woken, last = [], asyncio.get_running_loop().create_future()
    waits.park(QUEUE, LONG_MS, woken.append)
    waits.park(QUEUE, 1, lambda there: waits.wake([OTHER]))
    waits.park(OTHER, 1, last.set_result)  # woken by the one before it, or told that its time is up: once
    await last
    assert (woken, len(waits)) == ([], 1)


# --- waiting for a message --------------------------------------------------------------------------------------------


async def a_queue(house) -> int:
    topic = await house.topics.create("orders", TopicSettings(write_queues=1))
    return topic.queue(0)


async def test_waiting_ends_at_once_when_there_is_something(house):
    queue = await a_queue(house)
    await house.publish(plain(queue, b"a"))
    assert await house.fetcher.wait(queue, 0, LONG_MS) is True
    assert len(house.waits) == 0


async def test_waiting_ends_when_something_comes(house):
    queue = await a_queue(house)
    waiting = asyncio.ensure_future(house.fetcher.wait(queue, 0, LONG_MS))
    await asyncio.sleep(0)
    assert not waiting.done()
    await house.publish(plain(queue, b"a"))
    assert await waiting is True
    assert house.bodies(queue) == [b"a"]


async def test_waiting_ends_when_the_time_is_up(house):
    queue = await a_queue(house)
    assert await house.fetcher.wait(queue, 0, 1) is False
    assert len(house.waits) == 0


async def test_a_message_that_is_not_durable_wakes_nobody(still_house):
    queue = still_house.topic_now("orders").queue(0)
    waiting = asyncio.ensure_future(still_house.fetcher.wait(queue, 0, LONG_MS))
    await asyncio.sleep(0)
    still_house.publisher.publish([plain(queue, b"a")], lambda error: None)
    await asyncio.sleep(0)
    assert not waiting.done()
    still_house.store.flush()
    assert await waiting is True


async def test_whoever_stops_waiting_leaves_nothing_behind(house):
    queue = await a_queue(house)
    waiting = asyncio.ensure_future(house.fetcher.wait(queue, 0, LONG_MS))
    await asyncio.sleep(0)
    assert len(house.waits) == 1
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert len(house.waits) == 0


async def test_a_thousand_who_wait_get_the_same_message(house):
    queue = await a_queue(house)
    waiting = [asyncio.ensure_future(house.fetcher.wait(queue, 0, LONG_MS)) for _ in range(1_000)]
    await asyncio.sleep(0)
    await house.publish(plain(queue, b"a"))
    assert set(await asyncio.gather(*waiting)) == {True}
