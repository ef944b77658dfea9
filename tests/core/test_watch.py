"""How groups fare, minute by minute: how far behind, who reads which queue, who is there twice."""

import pytest

from penstock.core.broadcasts import Broadcasts
from penstock.core.events import LagMinute, MemberDoubled
from penstock.core.group_settings import GroupsSettings
from penstock.core.groups import Groups, Heartbeat, Subscription
from penstock.core.offsets import Offsets
from penstock.core.readers import Readers
from penstock.core.topics import TopicSettings
from penstock.core.traffic import MINUTE_MS
from penstock.core.watch import LOOKS_PER_TICK, Watch, position
from penstock.store.progress import Progress
from penstock.store.store import Bounds
from penstock.wire.plain import plain

GROUP = "readers"


class Line:
    """A connection."""

    def __init__(self, address: str) -> None:
        self.address = address

    def notify_members_changed(self, group: str) -> None: ...

    def abort(self) -> None: ...


class Scene:
    """A topic of four queues with a message each, a group, and what is told of it."""

    def __init__(self, house, progress) -> None:
        self.house, self.clock = house, house.clock
        settings = GroupsSettings(house.store, house.keeper, house.clock, house.bus, house.config)
        self.groups = Groups(house.clock, house.bus, settings, Broadcasts(progress))
        self.offsets = Offsets(progress)
        self.readers = Readers(self.groups)
        self.watch = Watch(house.fetcher, house.topics, self.groups, self.offsets, self.readers, house.clock, house.bus)

    def join(
        self, client_id: str, address: str = "", broadcast: bool = False, start: str = "CONSUME_FROM_FIRST_OFFSET"
    ):
        line = Line(address or client_id)
        self.beat(line, client_id, broadcast, start)
        return line

    def beat(self, line, client_id, broadcast=False, start="CONSUME_FROM_FIRST_OFFSET") -> None:
        wants = [Subscription("orders", version=1)]
        self.groups.heartbeat(line, Heartbeat(GROUP, client_id, "PYTHON", 1, broadcast, "PUSH", start, wants))

    def minute(self, *reads) -> list[LagMinute]:
        """A minute in which these connections are at these queues; what is told at its end."""
        for line, *queues in reads:
            for queue in queues:
                self.readers.at(GROUP, "orders", queue, line)
        self.house.told.clear()
        self.clock.advance(MINUTE_MS)
        self.watch.tick()
        return self.house.events(LagMinute)


@pytest.fixture
async def scene(house, tmp_path):
    topic = await house.topics.create("orders", TopicSettings(write_queues=4))
    await house.publish(*(plain(queue, b"one") for queue in topic.queues))
    progress = Progress(str(tmp_path))
    yield Scene(house, progress)
    progress.close()


@pytest.mark.parametrize(
    ("committed", "is_read", "consume_from", "expected"),
    [
        (7, False, "", 7),
        (3, True, "", 3),  # retention has overtaken it
        (99, True, "", 10),
        (-1, False, "CONSUME_FROM_LAST_OFFSET", 5),
        (-1, True, "CONSUME_FROM_LAST_OFFSET", 10),
        (-1, True, "CONSUME_FROM_FIRST_OFFSET", 5),
    ],
)
def test_where_a_group_is_in_a_queue(committed, is_read, consume_from, expected):
    assert position(committed, Bounds(5, 10, 5, 10), is_read, consume_from) == expected


async def test_a_group_that_is_behind_is_told_of_every_minute(scene):
    a = scene.join("a")
    (first,) = scene.minute((a, 0, 1, 2, 3))
    assert (first.lag, first.produced, first.consumed, first.over_ms, first.members) == (4, 0, 0, 0, 1)
    scene.offsets.commit(GROUP, "orders", 0, 1)
    await scene.house.publish(*(plain(queue, b"two") for queue in scene.house.topics.get("orders").queues))
    (second,) = scene.minute((a, 0, 1, 2, 3))
    assert (second.lag, second.produced, second.consumed, second.over_ms) == (7, 4, 1, MINUTE_MS)
    (third,) = scene.minute((a, 0, 1, 2, 3))
    assert (third.lag, third.produced, third.consumed) == (7, 0, 0)


async def test_a_group_that_has_caught_up_is_told_of_once(scene):
    a = scene.join("a")
    scene.minute((a, 0, 1, 2, 3))
    for queue in range(4):
        scene.offsets.commit(GROUP, "orders", queue, 1)
    assert [event.lag for event in scene.minute((a, 0, 1, 2, 3))] == [0]
    assert scene.minute((a, 0, 1, 2, 3)) == []


async def test_a_group_that_nobody_is_in_is_told_of_when_its_topic_grows(scene):
    scene.offsets.commit(GROUP, "orders", 0, 1)
    assert [(event.members, event.lag, event.unread) for event in scene.minute()] == [(0, 3, [])]
    assert scene.minute() == []
    await scene.house.publish(plain(scene.house.topics.get("orders").queues[1], b"two"))
    assert [(event.members, event.lag, event.produced) for event in scene.minute()] == [(0, 4, 1)]


async def test_s15_s17_queues_that_twins_read_and_queues_that_nobody_reads(scene):
    one, two, other = scene.join("a", "1:1"), scene.join("a", "2:2"), scene.join("b", "3:3")
    reads = (one, 0, 1), (two, 0, 1), (other, 3)
    scene.minute(*reads)
    assert [event.addresses for event in scene.house.events(MemberDoubled)] == [["1:1", "2:2"]]
    (told,) = scene.minute(*reads)
    assert (told.read_twice, told.unread) == ([0, 1], [2])
    scene.groups.leave(two, GROUP)
    (told,) = scene.minute(*reads)
    assert (told.read_twice, scene.house.events(MemberDoubled)) == ([], [])  # who has left reads nothing any more
    scene.minute((one, 0, 1), (other, 2, 3))
    (told,) = scene.minute((one, 0, 1), (other, 2, 3))
    assert (told.read_twice, told.unread) == ([], [])


async def test_a_queue_that_changes_hands_is_not_read_twice(scene):
    a, b = scene.join("a"), scene.join("b")
    scene.minute((a, 0, 1, 2, 3))
    (told,) = scene.minute((a, 0, 1, 2, 3), (b, 2, 3))
    assert told.read_twice == []
    (told,) = scene.minute((a, 0, 1), (b, 2, 3))
    assert told.read_twice == []


async def test_whoever_is_no_member_reads_nothing(scene):
    scene.join("a")
    stranger = Line("elsewhere")
    scene.minute((stranger, 0, 1, 2, 3))
    (told,) = scene.minute((stranger, 0, 1, 2, 3))
    assert told.unread == [0, 1, 2, 3]


async def test_a_group_whose_members_have_just_come_has_time_to_share_the_queues(scene):
    scene.clock.advance(MINUTE_MS - 1_000 - scene.clock.now_ms() % MINUTE_MS)
    scene.join("a")
    scene.clock.advance(2_000)
    scene.watch.tick()
    assert [told.unread for told in scene.house.events(LagMinute)] == [[]]
    assert [told.unread for told in scene.minute()] == [[0, 1, 2, 3]]


async def test_broadcast_groups_are_not_told_of(scene):
    a = scene.join("a", broadcast=True)
    assert scene.minute((a, 0)) == scene.minute((a, 0)) == []


async def test_many_groups_are_looked_at_in_turns(scene):
    for number in range(LOOKS_PER_TICK + 10):
        scene.offsets.commit(f"group{number}", "orders", 0, 0)
    assert len(scene.minute()) == LOOKS_PER_TICK
    scene.watch.tick()
    assert len(scene.house.events(LagMinute)) == LOOKS_PER_TICK + 10
