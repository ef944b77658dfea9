"""Delay lines: delivered when due, in order, and once, whatever happens."""

import pytest

from penstock.core.delays import Delays
from penstock.core.topics import TopicSettings
from penstock.wire.plain import message_in, plain

MINUTE_MS, HOUR_MS = 60_000, 3_600_000


class Lines:
    """Two lines, of a minute and of an hour, that deliver to one queue."""

    def __init__(self, street) -> None:
        self._street = street

    @property
    def house(self):
        return self._street.house

    async def open(self) -> None:
        topics = self.house.topics
        if topics.find("held") is None:
            await topics.create("held", TopicSettings(write_queues=2, retention_ms=0))
            await topics.create("real", TopicSettings(write_queues=1))
        self.minute, self.hour = topics.get("held").queues
        self.real = topics.get("real").queue(0)
        house = self.house
        lines = {self.minute: MINUTE_MS, self.hour: HOUR_MS}
        self.delays = Delays(house.store, house.fetcher, house.publisher, house.clock, lines, self._revive)

    def _revive(self, payload):
        body = message_in(payload).body
        return None if body == b"nowhere" else plain(self.real, body)

    async def hold(self, queue, *bodies: bytes) -> None:
        await self.house.publish(*(plain(queue, body) for body in bodies))

    async def after(self, passed_ms: int) -> list[bytes]:
        self.house.clock.advance(passed_ms)
        await self.delays.tick()
        await self.house.keeper.durable(self.house.store.end_position)
        return self.house.bodies(self.real)


@pytest.fixture
async def lines(open_street):
    async with open_street() as street:
        lines = Lines(street)
        await lines.open()
        yield lines


async def test_a_message_comes_when_it_is_due_and_not_before(lines):
    await lines.hold(lines.minute, b"later")
    assert await lines.after(MINUTE_MS - 1) == []
    assert await lines.after(1) == [b"later"]
    assert await lines.after(HOUR_MS) == [b"later"]


async def test_each_line_has_its_own_time(lines):
    await lines.hold(lines.hour, b"long")
    await lines.hold(lines.minute, b"short")
    assert await lines.after(MINUTE_MS) == [b"short"]
    assert await lines.after(HOUR_MS) == [b"short", b"long"]


async def test_order_is_kept_and_many_come_in_several_batches(lines):
    bodies = [b"%d" % number for number in range(1_500)]
    await lines.hold(lines.minute, *bodies)
    assert await lines.after(MINUTE_MS) == bodies
    assert lines.house.store.bounds(lines.minute).min_offset >= 1_000  # what was delivered has been trimmed


async def test_what_has_nowhere_to_go_does_not_stop_the_others(lines):
    await lines.hold(lines.minute, b"one", b"nowhere", b"two")
    assert await lines.after(MINUTE_MS) == [b"one", b"two"]


@pytest.mark.parametrize("end", ["restart", "kill"])
async def test_what_was_delivered_is_not_delivered_again(lines, end):
    await lines.hold(lines.minute, b"first")
    assert await lines.after(MINUTE_MS) == [b"first"]
    await lines.hold(lines.minute, b"second")
    await getattr(lines._street, end)()
    await lines.open()
    assert await lines.after(0) == [b"first"]
    assert await lines.after(MINUTE_MS) == [b"first", b"second"]


async def test_what_fell_due_while_nobody_was_there_comes_at_once(lines):
    await lines.hold(lines.minute, b"late")
    lines.house.clock.advance(HOUR_MS)
    await lines._street.kill()
    await lines.open()
    assert await lines.after(0) == [b"late"]
