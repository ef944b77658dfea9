"""Queues that have ended: nothing more is taken, through restarts and crashes, and what was taken before stays."""

import pytest

from penstock.core.endings import Endings
from penstock.core.producers import Access, Producers, Seat
from penstock.core.publish import Publisher
from penstock.core.topics import TopicSettings
from penstock.errors import TopicTerminated
from penstock.wire.plain import plain


def endings_of(house):
    endings = Endings(house.store, house.keeper, house.bus)
    house.publisher = Publisher(house.store, house.keeper, house.waits, house.config, endings)
    return endings


async def test_nothing_is_published_to_a_queue_that_has_ended(street):
    house = street.house
    endings = endings_of(house)
    topic = await house.topics.create("t", TopicSettings(write_queues=2))
    first, second = topic.queues
    await house.publish(plain(first, b"a"))
    assert not endings
    await endings.end([first])
    assert (first in endings, second in endings) == (True, False)
    for entries in ([plain(first, b"b")], [plain(second, b"c"), plain(first, b"d")]):
        with pytest.raises(TopicTerminated):
            house.publisher.publish(entries, lambda error: None)
    await house.publish(plain(second, b"e"))
    assert (house.bodies(first), house.bodies(second)) == ([b"a"], [b"e"])


async def test_no_producer_is_seated_there(street):
    house = street.house
    endings = endings_of(house)
    queue = (await house.topics.create("t", TopicSettings(write_queues=1))).queue(0)
    producers = Producers(house.store, house.keeper, endings)
    await endings.end([queue])
    with pytest.raises(TopicTerminated):
        await producers.take(Seat(queue, "p", Access.SHARED, None))
    assert producers.at(queue) == []


async def test_an_ending_is_there_after_a_crash_and_gone_with_its_topic(street):
    queue = (await street.house.topics.create("t", TopicSettings(write_queues=1))).queue(0)
    await endings_of(street.house).end([queue])
    house = await street.kill()
    endings = endings_of(house)
    assert queue in endings
    await house.topics.delete("t")
    assert queue not in endings
    assert not Endings((await street.restart()).store, street.house.keeper, street.house.bus)
