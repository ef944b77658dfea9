"""Work in a process of its own: calls, failures, and its end."""

import asyncio
import os

import pytest

from penstock.core.aside import Aside, AsideFailed


class Worker:
    """What is called there."""

    def __init__(self, start=0):
        self.sum = start

    def add(self, numbers):
        self.sum += sum(numbers)
        return self.sum

    def pid(self):
        return os.getpid()

    def fail(self):
        raise ValueError("no")

    def leave(self):
        os._exit(3)


@pytest.fixture
async def aside():
    aside = Aside("tests.core.test_aside:Worker", 5)
    yield aside
    await aside.stop()


async def test_calls_are_made_in_another_process_which_remembers(aside):
    assert await aside.call("add", [1, 2]) == 8
    assert await aside.call("add", [3]) == 11
    assert await aside.call("pid") != os.getpid()


async def test_a_failure_is_told_and_is_not_the_end(aside):
    with pytest.raises(AsideFailed, match="ValueError: no"):
        await aside.call("fail")
    with pytest.raises(AsideFailed, match="AttributeError"):
        await aside.call("nothing")
    assert await aside.call("add", []) == 5


async def test_a_process_that_is_gone_is_an_error(aside):
    with pytest.raises(AsideFailed, match="is gone"):
        await aside.call("leave")
    with pytest.raises(AsideFailed, match="is gone"):
        await aside.call("add", [1])


async def test_the_loop_goes_on_meanwhile_and_large_things_pass(aside):
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    ticking = asyncio.ensure_future(tick())
    assert await aside.call("add", list(range(300_000))) == 5 + sum(range(300_000))
    ticking.cancel()
    assert ticks > 1


async def test_it_ends_when_the_broker_is_gone():
    aside = Aside("tests.core.test_aside:Worker")
    await aside.call("add", [1])
    aside._process.stdin.close()
    assert await asyncio.to_thread(aside._process.wait, 30) == 0
    await aside.stop()
