"""Events: the bus, the minutes, and that the documentation knows every kind and every field."""

import re
from pathlib import Path

import msgspec
import pytest

from penstock.core import events
from penstock.core.events import Bus, Event, QueueMinute, TopicDeleted
from penstock.core.minutes import Minutes
from penstock.core.topics import TopicSettings
from penstock.core.traffic import Traffic
from penstock.wire.plain import plain, plain_run

KINDS = sorted(Event.__subclasses__(), key=lambda kind: kind.__name__)
DOCUMENTATION = (Path(__file__).parents[2] / "docs" / "events.md").read_text(encoding="utf-8")
TYPES = {
    int: "integer",
    str: "text",
    bool: "boolean",
    dict[str, str]: "object of texts",
    list[str]: "list of texts",
    list[int]: "list of integers",
}


def gone(topic: str) -> Event:
    return TopicDeleted(at_ms=1, topic=topic)


# --- the bus ----------------------------------------------------------------------------------------------------------


def test_every_listener_is_told_and_what_is_told_can_be_taken_once():
    bus, one, two = Bus(10), [], []
    bus.listen(one.append)
    bus.listen(two.append)
    bus.emit(gone("a"))
    assert one == two == [gone("a")]
    assert bus.take() == [gone("a")]
    assert bus.take() == []


def test_a_listener_that_fails_does_not_stop_the_others(caplog):
    bus, told = Bus(10), []

    def fails(event: Event) -> None:
        raise RuntimeError("cannot bear it")

    bus.listen(fails)
    bus.listen(told.append)
    bus.emit(gone("a"))
    assert told == [gone("a")]
    assert bus.take() == [gone("a")]
    assert "a listener failed" in caplog.text


def test_whoever_stops_listening_is_not_told():
    bus, told = Bus(10), []
    stop = bus.listen(told.append)
    stop()
    bus.emit(gone("a"))
    assert told == []


def test_a_listener_may_stop_while_it_is_told():
    bus, told = Bus(10), []
    stop = bus.listen(lambda event: stop())
    bus.listen(told.append)
    bus.emit(gone("a"))
    assert told == [gone("a")]


def test_surplus_is_counted_and_still_told_to_listeners():
    bus, told = Bus(2), []
    bus.listen(told.append)
    for name in ("a", "b", "c"):
        bus.emit(gone(name))
    assert bus.take() == [gone("a"), gone("b")]
    assert (len(told), bus.dropped) == (3, 1)


def test_what_could_not_be_appended_comes_first_the_next_time_as_far_as_there_is_room():
    bus = Bus(3)
    for name in ("a", "b"):
        bus.emit(gone(name))
    pending = bus.take()
    for name in ("c", "d"):
        bus.emit(gone(name))
    bus.put_back(pending)
    assert bus.take() == [gone("a"), gone("c"), gone("d")]
    assert bus.dropped == 1


# --- the minutes ------------------------------------------------------------------------------------------------------


async def counted(house, queues: int = 1):
    topic = await house.topics.create("orders", TopicSettings(write_queues=queues))
    return topic, Minutes(house.store, house.topics, Traffic(house.clock, 100), house.clock, house.bus, 100)


def minutes(house) -> list[tuple[int, int, int, int]]:
    return [(told.queue, told.messages, told.bytes, told.max_offset) for told in house.events(QueueMinute)]


async def test_a_minute_tells_what_was_published_in_it_by_queue(house, clock):
    topic, counter = await counted(house, queues=3)
    one, _, three = topic.queues
    closed = plain(three, b"closed")
    closed.count = 4
    await house.publish(plain(one, b"a"), plain(one, b"bb"), closed)
    counter.tick()
    assert minutes(house) == []
    clock.advance(60_000)
    counter.tick()
    length = plain(one, b"").length
    assert minutes(house) == [(0, 2, 2 * length + 3, 2), (2, 4, closed.length, 4)]
    assert {told.topic for told in house.events(QueueMinute)} == {"orders"}
    assert {told.at_ms % 60_000 for told in house.events(QueueMinute)} == {0}


async def test_each_minute_counts_anew(house, clock):
    topic, counter = await counted(house)
    queue = topic.queue(0)
    for messages in (3, 0, 2):
        await house.publish(*(plain(queue, b"x") for _ in range(messages)))
        clock.advance(60_000)
        counter.tick()
    length = plain(queue, b"x").length
    assert minutes(house) == [(0, 3, 3 * length, 3), (0, 2, 2 * length, 5)]


async def test_a_minute_is_not_confused_by_retention(house, clock):
    topic, counter = await counted(house)
    queue = topic.queue(0)
    await house.publish(plain_run([plain(queue, b"x") for _ in range(20)]))
    house.store.trim(queue, 15)
    clock.advance(60_000)
    counter.tick()
    assert minutes(house) == [(0, 20, 20 * plain(queue, b"x").length, 20)]


async def test_a_topic_of_this_minute_counts_and_one_that_is_gone_does_not(house, clock):
    topic, counter = await counted(house)
    await house.publish(plain(topic.queue(0), b"x"))
    await house.topics.delete("orders")
    young = await house.topics.create("young", TopicSettings(write_queues=1))
    await house.publish(plain(young.queue(0), b"x"))
    clock.advance(60_000)
    counter.tick()
    assert [told.topic for told in house.events(QueueMinute)] == ["young"]


async def test_a_minute_does_not_tell_of_the_events_themselves(house, clock):
    topic = await house.topics.create(events.EVENTS_TOPIC, TopicSettings(write_queues=1), system=True)
    counter = Minutes(house.store, house.topics, Traffic(clock, 100), clock, house.bus, 100)
    await house.publish(plain(topic.queue(0), b"{}"))
    clock.advance(60_000)
    counter.tick()
    assert minutes(house) == []


async def test_a_start_does_not_tell_of_what_was_published_before(street, clock):
    topic, _ = await counted(street.house)
    await street.house.publish(plain(topic.queue(0), b"x"))
    house = await street.restart()
    counter = Minutes(house.store, house.topics, Traffic(clock, 100), clock, house.bus, 100)
    await house.publish(plain(topic.queue(0), b"y"))
    clock.advance(60_000)
    counter.tick()
    assert minutes(house) == [(0, 1, plain(0, b"y").length, 2)]


# --- as JSON, and in the documentation --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_event_can_be_read_back_from_its_json(kind):
    examples = {int: 7, str: "text", bool: True, dict[str, str]: {"a": "b"}, list[str]: ["a", "b"], list[int]: [1, 2]}
    event = kind(**{field.name: examples[field.type] for field in msgspec.structs.fields(kind)})
    data = msgspec.json.encode(event)
    assert msgspec.json.decode(data)["kind"] == kind.__name__
    assert msgspec.json.decode(data, type=kind) == event


def documented(kind: str) -> dict[str, str]:
    """The fields that the documentation has for a kind, and their types."""
    _, found, rest = DOCUMENTATION.partition(f"\n### `{kind}`\n")
    assert found, f"docs/events.md has no section on {kind}"
    section = re.split(r"\n##+ ", rest)[0]
    return dict(re.findall(r"^\| `(\w+)` \| ([\w ]+) \| \S.*\|$", section, re.MULTILINE))


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_is_documented_with_all_its_fields(kind):
    own = [field for field in msgspec.structs.fields(kind) if field.name != "at_ms"]
    assert documented(kind.__name__) == {field.name: TYPES[field.type] for field in own}


def test_the_documentation_knows_no_kind_that_does_not_exist():
    assert sorted(re.findall(r"^### `(\w+)`$", DOCUMENTATION, re.MULTILINE)) == [kind.__name__ for kind in KINDS]
