"""Counters by minute: what was counted, when it is forgotten, and the events that tell of it."""

import pytest

from penstock.clock import ManualClock
from penstock.core.events import GroupMinute, ProducerMinute, QueueMinute
from penstock.core.minutes import Minutes
from penstock.core.traffic import MINUTE_MS, Count, Track, Tracks, Traffic
from penstock.wire.plain import plain

HOUR = 60  # minutes
DAY = 24 * HOUR


def test_a_track_knows_each_minute_of_the_last_hour():
    track = Track(100)
    track.add(100, 1, 10)
    track.add(100, 2, 20)
    track.add(102, 4, 40)
    assert [track.of(minute) for minute in (100, 101, 102)] == [Count(3, 30), Count(0, 0), Count(4, 40)]
    track.add(100 + HOUR, 8, 80)  # the place of minute 100
    assert track.of(100) == Count(0, 0)
    assert track.of(100 + HOUR) == Count(8, 80)


@pytest.mark.parametrize(
    ("later", "minute", "hour", "day"),
    [(0, 3, 3, 3), (1, 3, 3, 3), (2, 0, 3, 3), (HOUR - 1, 0, 3, 3), (HOUR, 0, 0, 3), (DAY + HOUR, 0, 0, 0)],
)
def test_what_is_forgotten_when(later, minute, hour, day):
    track = Track(DAY)
    track.add(DAY, 3, 30)
    sums = track.sums((DAY + later) * MINUTE_MS)
    assert [part.messages for part in sums] == [minute, hour, day]
    assert [part.bytes for part in sums] == [10 * minute, 10 * hour, 10 * day]


def test_the_last_minute_slides():
    track = Track(5)
    track.add(5, 100, 1_000)
    track.add(6, 10, 100)
    assert track.sums(6 * MINUTE_MS + MINUTE_MS // 4).minute == Count(10 + 75, 100 + 750)


def test_a_clock_that_goes_back_loses_nothing():
    track = Track(10)
    track.add(10, 1, 1)
    track.add(7, 1, 1)
    assert track.of(10) == Count(2, 2)


def test_beyond_the_limit_it_is_counted_together():
    tracks = Tracks("", 2)
    for name in ("a", "b", "c", "d", "a"):
        tracks.add(name, 1, 1, 1)
    assert dict(tracks.in_minute(1)) == {"a": Count(2, 2), "b": Count(1, 1), "": Count(2, 2)}


def test_what_is_idle_for_a_day_is_forgotten():
    tracks = Tracks("", 2)
    tracks.add("a", 0, 1, 1)
    tracks.prune((DAY - 1) * MINUTE_MS)
    assert len(tracks) == 1
    tracks.prune((DAY + 1) * MINUTE_MS)
    assert len(tracks) == 0


def test_rates_over_ten_seconds_a_minute_and_ten_minutes():
    clock = ManualClock()
    traffic = Traffic(clock, 10)
    for _ in range(90):  # a quarter of an hour, ten messages a second
        traffic.sent("p", "orders", 100, 0)
        clock.advance(10_000)
        traffic.tick()
    traffic.got("g", "orders", 50, 0)
    clock.advance(5_000)
    rates = traffic.rates()
    assert rates.delivered[0] == pytest.approx(50 / 15)
    assert rates.published[0] == pytest.approx(100 / 15)  # nothing in the last five seconds
    assert rates.published[1] == pytest.approx(600 / 65)
    assert rates.published[2] == pytest.approx(6_000 / 605)


def test_days_begin_at_midnight():
    clock = ManualClock()
    traffic = Traffic(clock, 10)
    to_midnight_ms = DAY * MINUTE_MS - clock.now_ms() % (DAY * MINUTE_MS)
    traffic.sent("p", "orders", 5, 0)
    clock.advance(to_midnight_ms)
    traffic.tick()
    traffic.sent("p", "orders", 2, 0)
    assert traffic.days() == ((0, 0), (5, 0), (7, 0))
    clock.advance(DAY * MINUTE_MS)
    traffic.tick()
    assert traffic.days() == ((5, 0), (7, 0), (7, 0))


# --- as events --------------------------------------------------------------------------------------------------------


@pytest.fixture
async def minutes(house):
    await house.topics.create("orders")
    traffic = Traffic(house.clock, 100)
    return Minutes(house.store, house.topics, traffic, house.clock, house.bus, 100), traffic


async def test_each_minute_is_told_by_queue_producer_and_group(house, minutes):
    minutes, traffic = minutes
    queues = house.topics.get("orders").queues
    await house.publish(plain(queues[0], b"one"), plain(queues[0], b"two"), plain(queues[1], b"three"))
    traffic.sent("makers", "orders", 3, 300)
    traffic.got("readers", "orders", 2, 200)
    traffic.sent_back("readers", "orders", 1, 100)
    traffic.sent_back("others", "orders", 1, 100)
    house.told.clear()
    minutes.tick()
    assert house.told == []  # the minute is not over
    house.clock.advance(MINUTE_MS)
    minutes.tick()
    end_ms = house.clock.now_ms() // MINUTE_MS * MINUTE_MS
    assert {event.at_ms for event in house.told} == {end_ms}
    published = [(event.queue, event.messages) for event in house.told if isinstance(event, QueueMinute)]
    assert published == [(0, 2), (1, 1)]
    assert [event for event in house.told if not isinstance(event, QueueMinute)] == [
        ProducerMinute(at_ms=end_ms, group="makers", topic="orders", messages=3, bytes=300),
        GroupMinute(at_ms=end_ms, group="others", topic="orders", messages=0, bytes=0, sent_back=1),
        GroupMinute(at_ms=end_ms, group="readers", topic="orders", messages=2, bytes=200, sent_back=1),
    ]
    house.told.clear()
    house.clock.advance(MINUTE_MS)
    minutes.tick()
    assert house.told == []


async def test_what_was_published_lately(house, minutes):
    minutes, _ = minutes
    await house.publish(plain(house.topics.get("orders").queues[0], b"one"))
    assert [part.messages for part in minutes.published("orders")] == [1, 1, 1]
    house.clock.advance(3 * MINUTE_MS)
    minutes.tick()
    await house.publish(plain(house.topics.get("orders").queues[3], b"two"))
    assert [part.messages for part in minutes.published("orders")] == [1, 2, 2]
    assert [part.messages for part in minutes.published("nothing")] == [0, 0, 0]
