"""Topics: what can be asked for, what is refused, and that all of it is there after a restart and after a kill."""

import errno
import itertools

import msgspec
import pytest
from tests.core.conftest import SMALL_STORE

from penstock.core.events import TopicChanged, TopicCreated, TopicDeleted
from penstock.core.topics import READ, WRITE, TopicSettings
from penstock.errors import BadTopicName, BadTopicSettings, DiskFull, QueueNotFound, TopicExists, TopicNotFound
from penstock.model import Durability
from penstock.store.files import LocalFile
from penstock.wire.plain import plain

BACK_AGAIN = pytest.mark.parametrize("back", ["restart", "kill"])


async def back_again(street, how):
    return await getattr(street, how)()


# --- creating ---------------------------------------------------------------------------------------------------------


async def test_a_topic_has_the_defaults_of_the_settings(open_street):
    async with open_street(topic_queues_default=3, retention_ms=5_000, retention_bytes=7_000) as street:
        topic = await street.house.topics.create("orders")
    assert (topic.read_queues, topic.write_queues, len(topic.queues)) == (3, 3, 3)
    assert (topic.retention_ms, topic.retention_bytes) == (5_000, 7_000)
    assert (topic.permissions, topic.durability, topic.system) == (READ | WRITE, Durability.SYNC, False)


async def test_a_topic_has_what_was_asked_for(house, clock):
    asked = TopicSettings(
        read_queues=4,
        write_queues=2,
        permissions=READ,
        durability=Durability.ASYNC,
        retention_ms=1,
        retention_bytes=2,
        attributes={"message.type": "FIFO"},
    )
    topic = await house.topics.create("orders", asked, system=True)
    assert (topic.read_queues, topic.write_queues, len(topic.queues)) == (4, 2, 4)
    assert (topic.permissions, topic.durability) == (READ, Durability.ASYNC)
    assert (topic.retention_ms, topic.retention_bytes) == (1, 2)
    assert (topic.attributes, topic.system, topic.created_ms) == ({"message.type": "FIFO"}, True, clock.now_ms())


@pytest.mark.parametrize("asked", [TopicSettings(read_queues=5), TopicSettings(write_queues=5)])
async def test_one_number_of_queues_stands_for_both(house, asked):
    topic = await house.topics.create("orders", asked)
    assert (topic.read_queues, topic.write_queues) == (5, 5)


async def test_zero_is_a_retention_and_not_the_default(house):
    topic = await house.topics.create("orders", TopicSettings(retention_ms=0, retention_bytes=0))
    assert (topic.retention_ms, topic.retention_bytes) == (0, 0)


async def test_creating_a_topic_is_an_event(house):
    await house.topics.create("orders", TopicSettings(write_queues=2))
    (told,) = house.events(TopicCreated)
    assert (told.topic, told.queues) == ("orders", 2)


async def test_topics_are_listed_by_name(house):
    for name in ("zebra", "apple", "mango"):
        await house.topics.create(name)
    assert [topic.name for topic in house.topics] == ["apple", "mango", "zebra"]
    assert len(house.topics) == 3


async def test_no_two_queues_share_a_number(house):
    one = await house.topics.create("one", TopicSettings(write_queues=3))
    two = await house.topics.create("two", TopicSettings(write_queues=3))
    assert len({*one.queues, *two.queues}) == 6


async def test_a_queue_knows_its_topic_and_its_place_in_it(house):
    await house.topics.create("other")
    topic = await house.topics.create("orders", TopicSettings(write_queues=3))
    owner, index = house.topics.owner(topic.queues[2])
    assert (owner.name, index) == ("orders", 2)


async def test_a_topic_exists_once(house):
    await house.topics.create("orders", TopicSettings(write_queues=2))
    with pytest.raises(TopicExists, match="'orders'"):
        await house.topics.create("orders", TopicSettings(write_queues=5))
    assert house.topics.get("orders").write_queues == 2


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("", "it is empty"),
        ("a/b", "'/'"),
        ("..\\b", r"'\\\\'"),
        ("with space", "' '"),
        ("tab\tbed", r"'\\t'"),
        ("line\nbreak", r"'\\n'"),
        ("nul\0", r"'\\x00'"),
        ("bell\x07", r"'\\x07'"),
        ("wide\u3000space", r"'\\u3000'"),
        ("hidden\u200bjoiner", r"'\\u200b'"),
        ("half\ud800", r"'\\ud800'"),
    ],
)
async def test_a_name_that_cannot_be_is_refused_with_the_reason(house, name, why):
    with pytest.raises(BadTopicName, match=why) as refused:
        await house.topics.create(name)
    assert refused.value.name == name
    assert len(house.topics) == 0


async def test_a_name_is_as_long_as_the_limit_and_no_longer(open_street):
    async with open_street(topic_name_chars_max=10) as street:
        await street.house.topics.create("a" * 10)
        with pytest.raises(BadTopicName, match="11 characters, at most 10"):
            await street.house.topics.create("a" * 11)


async def test_a_very_long_name_does_not_make_a_very_long_sentence(house):
    with pytest.raises(BadTopicName) as refused:
        await house.topics.create("x" * 100_000)
    assert len(str(refused.value)) < 400


@BACK_AGAIN
@pytest.mark.parametrize("name", ["%RETRY%group", "naïve-名前", "..", "a" * 255, "persistent:public"])
async def test_an_unusual_name_comes_back_as_it_was(street, name, back):
    await street.house.topics.create(name)
    house = await back_again(street, back)
    assert house.topics.get(name).name == name


# --- settings that cannot be ------------------------------------------------------------------------------------------

REFUSED = [
    (TopicSettings(read_queues=1, write_queues=17), "17 write queues, it must be 0 to 16"),
    (TopicSettings(read_queues=-1, write_queues=1), "-1 read queues"),
    (TopicSettings(read_queues=0, write_queues=0), "at least one queue"),
    (TopicSettings(permissions=8), "permissions 8"),
    (TopicSettings(permissions=-1), "permissions -1"),
    (TopicSettings(retention_ms=-1), "retention cannot be negative"),
    (TopicSettings(retention_bytes=-1), "retention cannot be negative"),
]


@pytest.mark.parametrize(("asked", "why"), REFUSED)
async def test_bad_settings_are_refused_and_no_topic_comes_of_it(open_street, asked, why):
    async with open_street(topic_queues_max=16) as street:
        end = street.house.store.end_position
        with pytest.raises(BadTopicSettings, match=f"'orders'.*{why}"):
            await street.house.topics.create("orders", asked)
        assert street.house.topics.find("orders") is None
        assert street.house.store.end_position == end


@pytest.mark.parametrize(("asked", "why"), REFUSED)
async def test_bad_settings_leave_a_topic_as_it_is(open_street, asked, why):
    async with open_street(topic_queues_max=16) as street:
        before = await street.house.topics.create("orders", TopicSettings(write_queues=2))
        with pytest.raises(BadTopicSettings, match=f"'orders'.*{why}"):
            await street.house.topics.alter("orders", asked)
        assert street.house.topics.get("orders") == before
        assert (await street.kill()).topics.get("orders") == before


async def test_there_are_as_many_topics_as_the_limit_and_no_more(open_street):
    async with open_street(topics_max=2) as street:
        topics = street.house.topics
        await topics.create("one")
        await topics.create("two")
        with pytest.raises(BadTopicSettings, match=r"'three'.*2 topics already.*topics_max"):
            await topics.create("three")
        await topics.delete("one")
        await topics.create("three")


async def test_a_topic_that_is_not_there_is_named(house):
    with pytest.raises(TopicNotFound, match="'ordres' does not exist") as missing:
        house.topics.get("ordres")
    assert missing.value.name == "ordres"
    with pytest.raises(TopicNotFound, match="'ordres' does not exist"):
        await house.topics.alter("ordres", TopicSettings(write_queues=1))
    with pytest.raises(TopicNotFound, match="'ordres' does not exist"):
        await house.topics.delete("ordres")
    assert house.topics.find("ordres") is None


@pytest.mark.parametrize("index", [-1, 2, 1_000])
async def test_a_queue_that_a_topic_has_not_is_named(house, index):
    topic = await house.topics.create("orders", TopicSettings(write_queues=2))
    with pytest.raises(QueueNotFound, match=f"{index} of topic 'orders', which has 2"):
        topic.queue(index)


# --- changing ---------------------------------------------------------------------------------------------------------


async def test_changing_one_setting_leaves_the_others(house):
    before = await house.topics.create("orders", TopicSettings(write_queues=2, attributes={"a": "b"}))
    after = await house.topics.alter("orders", TopicSettings(permissions=READ))
    assert after.permissions == READ
    assert (after.queues, after.write_queues, after.attributes) == (before.queues, 2, {"a": "b"})
    assert after.created_ms == before.created_ms


async def test_a_topic_of_the_brokers_own_is_neither_changed_nor_deleted(house):
    before = await house.topics.create("own", TopicSettings(write_queues=1), system=True)
    with pytest.raises(BadTopicSettings, match="cannot be changed"):
        await house.topics.alter("own", TopicSettings(write_queues=2))
    with pytest.raises(BadTopicSettings, match="cannot be deleted"):
        await house.topics.delete("own")
    assert house.topics.get("own") is before


async def test_a_change_is_an_event_that_says_what_changed(house):
    await house.topics.create("orders", TopicSettings(write_queues=2))
    await house.topics.alter("orders", TopicSettings(permissions=READ, retention_ms=5))
    (told,) = house.events(TopicChanged)
    assert (told.topic, told.changes) == ("orders", {"permissions": "4", "retention_ms": "5"})


async def test_fewer_queues_hide_the_surplus_and_more_bring_it_back_first(house):
    topic = await house.topics.create("orders", TopicSettings(write_queues=3))
    numbers = list(topic.queues)
    await house.publish(*(plain(queue, b"in %d" % queue) for queue in numbers))
    await house.topics.alter("orders", TopicSettings(read_queues=1, write_queues=1))
    with pytest.raises(QueueNotFound):
        house.topics.get("orders").queue(1)
    topic = await house.topics.alter("orders", TopicSettings(read_queues=4, write_queues=4))
    assert [topic.queue(index) for index in range(3)] == numbers
    assert topic.queue(3) not in numbers
    assert [house.bodies(queue) for queue in numbers] == [[b"in %d" % queue] for queue in numbers]


@BACK_AGAIN
async def test_no_message_is_lost_by_changing_a_number_back_and_forth(street, back):
    topic = await street.house.topics.create("orders", TopicSettings(write_queues=3))
    await street.house.publish(*(plain(queue, b"in %d" % queue) for queue in topic.queues))
    for queues in (1, 5, 2):
        house = await back_again(street, back)
        await house.topics.alter("orders", TopicSettings(read_queues=queues, write_queues=queues))
    house = await back_again(street, back)
    after = await house.topics.alter("orders", TopicSettings(read_queues=3, write_queues=3))
    assert after.queues[:3] == topic.queues
    assert [house.bodies(queue) for queue in topic.queues] == [[b"in %d" % queue] for queue in topic.queues]


async def test_queues_that_are_written_may_be_fewer_than_those_that_are_read(house):
    await house.topics.create("orders", TopicSettings(write_queues=4))
    topic = await house.topics.alter("orders", TopicSettings(write_queues=1))
    assert (topic.read_queues, topic.write_queues, topic.queue_count) == (4, 1, 4)
    assert house.topics.owner(topic.queue(3)) == (topic, 3)


@BACK_AGAIN
async def test_a_change_of_durability_holds_for_what_is_published_next(street, back):
    topic = await street.house.topics.create("orders", TopicSettings(write_queues=1))
    await street.house.topics.alter("orders", TopicSettings(durability=Durability.ASYNC))
    house = await back_again(street, back)
    queue = topic.queues[0]
    assert house.topics.get("orders").durability is Durability.ASYNC
    told = []
    house.publisher.publish([plain(queue, b"seen at once")], told.append)
    assert told == [None]
    assert house.bodies(queue) == [b"seen at once"]
    await house.topics.alter("orders", TopicSettings(durability=Durability.SYNC))
    house.publisher.publish([plain(queue, b"seen when durable")], told.append)
    assert told == [None]


async def test_topics_follow_the_broker_when_its_durability_is_changed(open_street):
    """What is acknowledged is as durable as the broker is set to; who asked for something else keeps that."""
    loose = msgspec.structs.replace(SMALL_STORE, durability=Durability.ASYNC)
    async with open_street(loose) as street:
        mine = await street.house.topics.create("mine", TopicSettings(durability=Durability.ASYNC))
        await street.house.topics.create("changed")
        await street.house.topics.alter("changed", TopicSettings(durability=Durability.ASYNC))
        topic = await street.house.topics.create("orders", TopicSettings(write_queues=2))
        assert street.house.topics.follow() == 0
        street.house.store_config = SMALL_STORE
        house = await street.restart()
        told = []
        house.publisher.publish([plain(topic.queues[0], b"before it follows")], told.append)
        assert told == [None]
        house.told.clear()
        assert house.topics.follow() == 1
        assert house.told == []  # thousands of topics would fill the bus
        house.publisher.publish([plain(topic.queues[1], b"acknowledged when durable")], told.append)
        assert told == [None]
        assert {house.store.table(queue).durability for queue in topic.queues} == {Durability.SYNC}
        assert {house.topics.get(name).durability for name in ("mine", "changed")} == {Durability.ASYNC}
        house.publisher.publish([plain(mine.queues[0], b"at once")], told.append)
        assert told == [None, None]
        house = await street.kill()
        assert house.topics.get("orders").durability is Durability.SYNC
        assert house.topics.follow() == 0


async def test_new_queues_of_a_topic_are_as_durable_as_the_old_ones(house):
    await house.topics.create("orders", TopicSettings(write_queues=1, durability=Durability.ASYNC))
    topic = await house.topics.alter("orders", TopicSettings(write_queues=2))
    assert house.store.table(topic.queue(1)).durability is Durability.ASYNC


@pytest.mark.parametrize("failing", [1, 2, 3])
async def test_a_change_refused_for_lack_of_space_has_not_happened(street, monkeypatch, failing):
    """Not even in part, whichever write of it the disk refuses; and not after a restart either."""
    await street.house.topics.create("orders", TopicSettings(write_queues=1, durability=Durability.SYNC))
    calls, write = itertools.count(1), LocalFile.write

    def full(file: LocalFile, data: bytes, at: int) -> None:
        if next(calls) == failing:
            raise OSError(errno.ENOSPC, "No space left on device")
        write(file, data, at)

    with monkeypatch.context() as broken:
        broken.setattr(LocalFile, "write", full)
        asked = TopicSettings(durability=Durability.ASYNC, read_queues=2, write_queues=2)
        changed = await altered_or_refused(street.house, asked)
    for kill in (False, True):
        house = await street.kill() if kill else street.house
        topic = house.topics.get("orders")
        assert (topic.durability, topic.queue_count) == ((Durability.ASYNC, 2) if changed else (Durability.SYNC, 1))
        assert {house.store.table(queue).durability for queue in topic.queues} == {topic.durability}


async def altered_or_refused(house, settings: TopicSettings) -> bool:
    try:
        await house.topics.alter("orders", settings)
    except DiskFull:
        return False
    return True


# --- deleting ---------------------------------------------------------------------------------------------------------


async def test_a_deleted_topic_is_gone_with_its_messages(house):
    topic = await house.topics.create("orders", TopicSettings(write_queues=2))
    await house.publish(plain(topic.queue(0), b"gone"))
    await house.topics.delete("orders")
    assert house.topics.find("orders") is None
    with pytest.raises(QueueNotFound):
        house.store.bounds(topic.queue(0))
    assert [told.topic for told in house.events(TopicDeleted)] == ["orders"]


@BACK_AGAIN
async def test_a_deleted_topic_does_not_come_back(street, back):
    topic = await street.house.topics.create("orders", TopicSettings(write_queues=1))
    await street.house.publish(plain(topic.queue(0), b"gone"))
    await street.house.topics.delete("orders")
    house = await back_again(street, back)
    assert house.topics.find("orders") is None
    with pytest.raises(QueueNotFound):
        house.store.bounds(topic.queue(0))


@BACK_AGAIN
async def test_numbers_of_deleted_queues_are_never_used_again(street, back):
    """Not even when the deleted ones were the highest: an old consumer's offset must not meet new messages."""
    old = await street.house.topics.create("orders", TopicSettings(write_queues=3))
    await street.house.publish(plain(old.queue(2), b"old"))
    await street.house.topics.delete("orders")
    house = await back_again(street, back)
    new = await house.topics.create("orders", TopicSettings(write_queues=3))
    assert not {*old.queues} & {*new.queues}
    assert house.bodies(new.queue(2)) == []


# --- all of it is durable ---------------------------------------------------------------------------------------------


@BACK_AGAIN
async def test_everything_about_topics_survives(street, back):
    house = street.house
    await house.topics.create("one", TopicSettings(write_queues=2, attributes={"k": "v"}), system=True)
    await house.topics.create("two", TopicSettings(permissions=WRITE, durability=Durability.ASYNC))
    await house.topics.alter("two", TopicSettings(retention_ms=9, retention_bytes=8, read_queues=1, write_queues=1))
    before = list(house.topics)
    house = await back_again(street, back)
    assert list(house.topics) == before
    assert house.topics.owner(before[0].queues[1]) == (before[0], 1)
