"""Resets: of groups that are away, and who stays silent after one."""

import pytest

from penstock.core.broadcasts import Broadcasts
from penstock.core.events import Bus, ResetAsked, ResetSilent, ResetTold
from penstock.core.groups import Group, Member
from penstock.core.offsets import Offsets
from penstock.core.resets import Resets
from penstock.errors import GroupNotExist
from penstock.store.progress import Progress

GROUP, TOPIC = "readers", "orders"
TWO_MINUTES_MS = 120_000


class Line:
    """A connection."""

    def __init__(self, address: str) -> None:
        self.address = address

    def notify_members_changed(self, group: str) -> None: ...

    def abort(self) -> None: ...


class Scene:
    """Resets of one group, on a clock that stands still, and what is told of them."""

    def __init__(self, progress, clock) -> None:
        self.clock, bus = clock, Bus(1_000)
        self.told = []
        bus.listen(self.told.append)
        self.offsets, self.broadcasts = Offsets(progress), Broadcasts(progress)
        self.resets = Resets(self.offsets, self.broadcasts, clock, bus)

    def group(self, *client_ids: str, broadcast: bool = False) -> Group:
        now_ms = self.clock.now_ms()
        members = {Line(name): Member(name, "JAVA", 1, now_ms, now_ms) for name in client_ids}
        for name in client_ids if broadcast else ():
            self.broadcasts.seen(GROUP, name, now_ms)
        return Group(GROUP, members, broadcast=broadcast)

    def silent(self) -> list[tuple[str, bool]]:
        """Who is told of as silent by now."""
        self.told.clear()
        self.resets.tell_silent()
        return [(event.client_id, event.told) for event in self.told if isinstance(event, ResetSilent)]


@pytest.fixture
def scene(tmp_path, clock):
    progress = Progress(str(tmp_path))
    yield Scene(progress, clock)
    progress.close()


def line_of(group: Group, client_id: str) -> Line:
    return next(line for line, member in group.members.items() if member.client_id == client_id)


# --- nobody is there --------------------------------------------------------------------------------------------------


def test_s20_a_broadcast_group_that_is_away_is_reset_all_the_same(scene):
    scene.group("a", "b", broadcast=True)
    status = scene.resets.ask(GROUP, TOPIC, {0: 5}, None)
    assert (status.broadcast, status.instances, status.away) == (True, [], ["a", "b"])
    assert [(event.broadcast, event.targets) for event in scene.told] == [(True, {"0": "5"})]
    assert scene.offsets.of(GROUP, TOPIC) == {}  # they keep their own


def test_s25_a_broadcast_instance_that_comes_later_has_no_reset_pending(scene):
    scene.group("a", broadcast=True)
    scene.resets.ask(GROUP, TOPIC, {0: 5}, None)
    late = line_of(scene.group("a", broadcast=True), "a")
    assert scene.resets.pulled(late, GROUP, TOPIC, 0, 3) is None


def test_s25_a_broadcast_group_that_is_partly_there(scene):
    scene.group("a", "b", broadcast=True)
    status = scene.resets.ask(GROUP, TOPIC, {0: 5}, scene.group("b", broadcast=True))
    assert ([one.client_id for one in status.instances], status.away) == (["b"], ["a"])
    assert [event.client_id for event in scene.told if isinstance(event, ResetTold)] == ["b"]


def test_what_was_pending_for_the_group_ends_when_it_broadcasts(scene):
    scene.offsets.commit(GROUP, TOPIC, 0, 9)
    scene.resets.ask(GROUP, TOPIC, {0: 1}, None)
    group = scene.group("a", broadcast=True)
    scene.resets.ask(GROUP, TOPIC, {0: 5}, group)
    line = line_of(group, "a")
    assert scene.resets.pulled(line, GROUP, TOPIC, 0, 1) == 5
    assert scene.resets.pulled(line_of(scene.group("b", broadcast=True), "b"), GROUP, TOPIC, 0, 9) is None


def test_s19_a_group_that_shares_has_to_have_an_offset(scene):
    with pytest.raises(GroupNotExist):
        scene.resets.ask(GROUP, TOPIC, {0: 5}, None)
    scene.group("a", broadcast=True)
    scene.broadcasts.over(GROUP)
    with pytest.raises(GroupNotExist):
        scene.resets.ask(GROUP, TOPIC, {0: 5}, None)
    assert scene.told == []


# --- who stays silent -------------------------------------------------------------------------------------------------


def test_s25_who_has_not_confirmed_after_two_minutes_is_told_of_once(scene):
    group = scene.group("a", "b", broadcast=True)
    asked_ms = scene.clock.now_ms()
    scene.resets.ask(GROUP, TOPIC, {0: 5, 1: 5}, group)
    scene.resets.pulled(line_of(group, "a"), GROUP, TOPIC, 0, 5)
    scene.clock.advance(TWO_MINUTES_MS - 1)
    assert scene.silent() == []
    scene.clock.advance(1)
    assert scene.silent() == [("b", True)]
    event = scene.told[0]
    assert (event.group, event.topic, event.address, event.asked_ms) == (GROUP, TOPIC, "b", asked_ms)
    scene.clock.advance(TWO_MINUTES_MS)
    assert scene.silent() == []


def test_s25_who_was_told_and_lost_its_connection_is_silent_too(scene):
    group = scene.group("a", broadcast=True)
    scene.resets.ask(GROUP, TOPIC, {0: 5}, group)
    scene.resets.lost(line_of(group, "a"))
    scene.clock.advance(TWO_MINUTES_MS)
    assert scene.silent() == [("a", True)]


def test_s25_who_was_away_is_told_of_as_not_told(scene):
    scene.group("a", "b", broadcast=True)
    scene.resets.ask(GROUP, TOPIC, {0: 5}, scene.group("b", broadcast=True))
    scene.clock.advance(TWO_MINUTES_MS)
    assert scene.silent() == [("b", True), ("a", False)]


def test_a_group_that_shares_is_silent_while_a_queue_waits(scene):
    scene.offsets.commit(GROUP, TOPIC, 0, 9)
    for confirmed, expected in (((0,), [("b", True)]), ((0, 1), [])):  # b may own no queue at all
        group = scene.group("a", "b")
        scene.resets.ask(GROUP, TOPIC, {0: 5, 1: 5}, group)
        for queue in confirmed:
            scene.resets.pulled(line_of(group, "a"), GROUP, TOPIC, queue, 5)
        scene.clock.advance(TWO_MINUTES_MS)
        assert scene.silent() == expected


def test_of_two_resets_the_last_one_counts(scene):
    group = scene.group("a", broadcast=True)
    for queue in (0, 1):  # one by one
        scene.resets.ask(GROUP, TOPIC, {queue: 5}, group)
        scene.clock.advance(TWO_MINUTES_MS // 2)
    assert scene.silent() == []
    scene.clock.advance(TWO_MINUTES_MS // 2)
    assert scene.silent() == [("a", True)]


def test_each_reset_has_its_own_two_minutes(scene):
    for topic in ("one", "two"):
        scene.resets.ask(GROUP, topic, {0: 5}, scene.group("a", broadcast=True))
        scene.clock.advance(TWO_MINUTES_MS // 2)
    assert scene.silent() == [("a", True)]
    assert [event.topic for event in scene.told] == ["one"]
    scene.clock.advance(TWO_MINUTES_MS // 2)
    assert scene.silent() == [("a", True)]
    assert [event.topic for event in scene.told] == ["two"]


def test_a_reset_that_is_asked_for_again_does_not_hold_others_up(scene):
    for topic in ("one", "two", "one"):
        scene.resets.ask(GROUP, topic, {0: 5}, scene.group("a", broadcast=True))
        scene.clock.advance(TWO_MINUTES_MS // 2)
    scene.clock.advance(TWO_MINUTES_MS // 4)
    assert scene.silent() == [("a", True)]
    assert [event.topic for event in scene.told] == ["two"]


def test_a_reset_that_was_refused_is_not_looked_at(scene):
    with pytest.raises(GroupNotExist):
        scene.resets.ask(GROUP, TOPIC, {0: 5}, scene.group("a"))
    scene.clock.advance(TWO_MINUTES_MS)
    assert scene.silent() == []
    assert not [event for event in scene.told if isinstance(event, ResetAsked)]
