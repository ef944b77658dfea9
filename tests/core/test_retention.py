"""Retention: what is too old or too much goes from the front, and nothing else does."""

import pytest

from penstock.core.events import QueueTrimmed
from penstock.core.retention import apply_retention
from penstock.core.topics import TopicSettings
from penstock.errors import OffsetOutOfRange
from penstock.model import Durability
from penstock.wire.plain import plain

BACK_AGAIN = pytest.mark.parametrize("back", ["restart", "kill"])


def retain(house) -> None:
    apply_retention(house.store, house.topics, house.clock, house.bus)


async def published_over_time(house, settings: TopicSettings, messages: int = 5) -> int:
    """A message a second, in a topic of one queue; the queue."""
    topic = await house.topics.create("orders", settings)
    queue = topic.queue(0)
    for number in range(messages):
        await house.publish(plain(queue, b"%d" % number))
        house.clock.advance(1_000)
    return queue


async def test_messages_older_than_the_retention_go(house):
    queue = await published_over_time(house, TopicSettings(write_queues=1, retention_ms=3_000))
    retain(house)
    assert house.bodies(queue) == [b"2", b"3", b"4"]
    assert house.store.bounds(queue).min_offset == 2


async def test_reading_what_has_gone_tells_where_the_queue_begins(house):
    queue = await published_over_time(house, TopicSettings(write_queues=1, retention_ms=3_000))
    retain(house)
    with pytest.raises(OffsetOutOfRange) as outside:
        house.read(queue, 0)
    assert (outside.value.minimum, outside.value.maximum) == (2, 5)


async def test_an_idle_queue_ends_up_empty_and_its_offsets_go_on(house):
    queue = await published_over_time(house, TopicSettings(write_queues=1, retention_ms=3_000))
    house.clock.advance(60_000)
    retain(house)
    assert house.store.bounds(queue)[:2] == (5, 5)
    entry = plain(queue, b"next")
    await house.publish(entry)
    assert entry.offset == 5


async def test_bytes_beyond_the_retention_go_oldest_first(house):
    length = plain(1, b"0").length
    settings = TopicSettings(write_queues=1, retention_ms=0, retention_bytes=2 * length)
    queue = await published_over_time(house, settings)
    retain(house)
    assert house.bodies(queue) == [b"3", b"4"]
    assert house.store.table(queue).live_bytes == 2 * length


async def test_one_byte_too_few_costs_a_whole_message(house):
    length = plain(1, b"0").length
    settings = TopicSettings(write_queues=1, retention_ms=0, retention_bytes=2 * length - 1)
    queue = await published_over_time(house, settings)
    retain(house)
    assert house.bodies(queue) == [b"4"]


@pytest.mark.parametrize(("kept_ms", "kept_messages", "left"), [(4_000, 2, 2), (2_000, 4, 2)])
async def test_the_stricter_of_both_counts(house, kept_ms, kept_messages, left):
    kept_bytes = kept_messages * plain(1, b"0").length
    settings = TopicSettings(write_queues=1, retention_ms=kept_ms, retention_bytes=kept_bytes)
    queue = await published_over_time(house, settings)
    retain(house)
    assert len(house.bodies(queue)) == left


async def test_without_retention_nothing_goes(house):
    queue = await published_over_time(house, TopicSettings(write_queues=1, retention_ms=0, retention_bytes=0))
    house.clock.advance(10 * 365 * 86_400_000)
    retain(house)
    assert len(house.bodies(queue)) == 5
    assert house.events(QueueTrimmed) == []


async def test_retention_holds_per_queue_and_takes_hidden_queues_along(house):
    topic = await house.topics.create("orders", TopicSettings(write_queues=3, retention_ms=3_000))
    await house.publish(*(plain(queue, b"old") for queue in topic.queues))
    await house.topics.alter("orders", TopicSettings(read_queues=2, write_queues=2))
    house.clock.advance(5_000)
    await house.publish(plain(topic.queues[1], b"new"))
    retain(house)
    assert [house.bodies(queue) for queue in topic.queues] == [[], [b"new"], []]


async def test_a_shorter_retention_takes_effect_at_the_next_look(house):
    queue = await published_over_time(house, TopicSettings(write_queues=1, retention_ms=60_000))
    retain(house)
    assert len(house.bodies(queue)) == 5
    await house.topics.alter("orders", TopicSettings(retention_ms=3_000))
    retain(house)
    assert len(house.bodies(queue)) == 3


async def test_a_trim_is_an_event_that_says_what_went(house):
    queue = await published_over_time(house, TopicSettings(write_queues=1, retention_ms=3_000))
    retain(house)
    retain(house)  # nothing more to take: nothing more to tell
    (told,) = house.events(QueueTrimmed)
    assert (told.topic, told.queue, told.from_offset, told.to_offset) == ("orders", 0, 0, 2)
    assert house.store.bounds(queue).min_offset == told.to_offset


async def test_what_nobody_could_see_yet_is_not_taken(still_house, clock):
    topic = still_house.topic_now("orders", durability=Durability.SYNC)
    still_house.publisher.publish([plain(topic.queue(0), b"not durable")], lambda error: None)
    clock.advance(10 * 365 * 86_400_000)
    retain(still_house)
    still_house.store.flush()
    assert still_house.bodies(topic.queue(0)) == [b"not durable"]
    assert still_house.events(QueueTrimmed) == []


@BACK_AGAIN
async def test_what_retention_took_stays_away(street, back):
    queue = await published_over_time(street.house, TopicSettings(write_queues=1, retention_ms=3_000))
    retain(street.house)
    house = await getattr(street, back)()
    assert house.store.bounds(queue)[:2] == (2, 5)
    assert house.bodies(queue) == [b"2", b"3", b"4"]


async def test_the_space_comes_back(street):
    """What retention took leaves the disk once the cleaner and a checkpoint have passed."""
    house = street.house
    topic = await house.topics.create("orders", TopicSettings(write_queues=1, retention_ms=3_000))
    for _ in range(30):
        await house.publish(plain(topic.queue(0), bytes(10_000)))
    segments = len(house.disk.list("log"))
    house.clock.advance(60_000)
    retain(house)
    house.store.clean()
    assert len(house.disk.list("log")) < segments
