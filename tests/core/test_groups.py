"""Who is in a group and for how long, and what is remembered of groups that broadcast."""

import pytest

from penstock.core import broadcasts
from penstock.core.broadcasts import AWAY_MS_MAX, CLIENT_ID_CHARS_MAX, REFRESH_MS, Broadcasts
from penstock.core.events import GroupGone, MemberLeft
from penstock.core.group_settings import GroupsSettings
from penstock.core.groups import Groups, Heartbeat, Subscription
from penstock.store.progress import Progress

GROUP = "readers"


class Line:
    """A connection."""

    def __init__(self, address: str) -> None:
        self.address, self.aborted = address, False

    def notify_members_changed(self, group: str) -> None: ...

    def abort(self) -> None:
        self.aborted = True


class Scene:
    """Groups on a clock that stands still, and a progress database that can be opened again."""

    def __init__(self, house, folder) -> None:
        self._house, self._folder, self.clock = house, str(folder), house.clock
        self.progress = Progress(self._folder)
        self.broadcasts = Broadcasts(self.progress)
        settings = GroupsSettings(house.store, house.keeper, house.clock, house.bus, house.config)
        self.groups = Groups(house.clock, house.bus, settings, self.broadcasts)

    def beat(self, line: Line, client_id: str = "", group: str = GROUP, broadcast: bool = False) -> None:
        wants = [Subscription("orders", version=1)]
        client_id = client_id or line.address
        beat = Heartbeat(group, client_id, "JAVA", 1, broadcast, "PUSH", "CONSUME_FROM_LAST_OFFSET", wants)
        self.groups.heartbeat(line, beat)

    def away(self, group: str = GROUP) -> list[str]:
        return self.broadcasts.instances(group, self.clock.now_ms())

    def restart(self) -> None:
        self.progress.close()
        self.progress = Progress(self._folder)
        self.broadcasts = Broadcasts(self.progress)


@pytest.fixture
async def scene(house, tmp_path):
    scene = Scene(house, tmp_path)
    yield scene
    scene.progress.close()


# --- coming and going -------------------------------------------------------------------------------------------------


async def test_a_member_that_is_silent_for_two_minutes_is_no_member_any_more(scene, house):
    silent, lively = Line("1:1"), Line("2:2")
    for line in (silent, lively):
        scene.beat(line)
    scene.clock.advance(60_000)
    scene.beat(lively)
    scene.clock.advance(60_000)
    scene.groups.expire()
    assert list(scene.groups.find(GROUP).members) == [silent, lively]  # two minutes to the millisecond
    scene.clock.advance(1)
    scene.groups.expire()
    assert list(scene.groups.find(GROUP).members) == [lively]
    assert (silent.aborted, lively.aborted) == (True, False)
    assert [(left.client_id, left.why) for left in house.events(MemberLeft)] == [("1:1", "silent")]


async def test_a_group_goes_with_its_last_member(scene, house):
    scene.beat(Line("1:1"))
    scene.clock.advance(120_001)
    scene.groups.expire()
    assert scene.groups.find(GROUP) is None
    assert [gone.group for gone in house.events(GroupGone)] == [GROUP]


async def test_the_groups_of_a_connection(scene):
    one = Line("1:1")
    for group in ("a", "b"):
        scene.beat(one, group=group)
    assert scene.groups.of_line(one) == {"a", "b"}
    scene.groups.leave(one, "a")
    assert scene.groups.of_line(one) == {"b"}
    scene.groups.lost(one)
    assert scene.groups.of_line(one) == set()


# --- groups that broadcast --------------------------------------------------------------------------------------------


async def test_a_group_that_broadcasts_is_remembered_when_nobody_is_there(scene):
    a, b = Line("1:1"), Line("2:2")
    scene.beat(a, "a", broadcast=True)
    scene.beat(b, "b", broadcast=True)
    for line in (a, b):
        scene.groups.lost(line)
    scene.beat(Line("3:3"), "c", group="sharing")
    assert (GROUP in scene.broadcasts, "sharing" in scene.broadcasts) == (True, False)
    assert (scene.away(), scene.away("sharing"), scene.away("read")) == (["a", "b"], [], [])


async def test_it_is_remembered_over_a_restart(scene):
    scene.beat(Line("1:1"), "a", broadcast=True)
    scene.restart()
    assert GROUP in scene.broadcasts
    assert scene.away() == ["a"]


async def test_it_is_as_its_last_heartbeat_says(scene):
    scene.beat(Line("1:1"), "a", broadcast=True)
    scene.beat(Line("2:2"), "b")
    assert GROUP not in scene.broadcasts
    scene.restart()
    assert GROUP not in scene.broadcasts


async def test_an_instance_is_remembered_for_a_week_from_its_last_heartbeat_on(scene):
    line = Line("1:1")
    scene.beat(line, "a", broadcast=True)
    for _ in range(10):
        scene.clock.advance(24 * 3_600_000)
        scene.beat(line, "a", broadcast=True)
    scene.clock.advance(7 * 24 * 3_600_000)
    assert scene.away() == ["a"]
    scene.clock.advance(1)
    assert scene.away() == []
    assert GROUP in scene.broadcasts  # that does not go with time
    assert AWAY_MS_MAX > REFRESH_MS


async def test_heartbeats_write_only_once_an_hour(scene):
    line = Line("1:1")
    scene.beat(line, "a", broadcast=True)
    assert len(scene.progress.take_changes()) == 2
    scene.clock.advance(REFRESH_MS - 1)
    scene.beat(line, "a", broadcast=True)
    assert scene.progress.take_changes() == []
    scene.clock.advance(1)
    scene.beat(line, "a", broadcast=True)
    assert len(scene.progress.take_changes()) == 2


async def test_so_many_are_remembered_and_the_oldest_go_first(tmp_path, monkeypatch):
    monkeypatch.setattr(broadcasts, "GROUPS_MAX", 2)
    monkeypatch.setattr(broadcasts, "INSTANCES_MAX", 3)
    progress = Progress(str(tmp_path))
    known = Broadcasts(progress)
    for at_ms, group in enumerate(("a", "b", "a", "c")):
        known.seen(group, f"i{at_ms}", at_ms * REFRESH_MS)
    assert [group for group in "abc" if group in known] == ["a", "c"]
    assert [known.instances(group, 0) for group in "abc"] == [["i2"], ["i1"], ["i3"]]
    assert (len(progress.all("broadcast")), len(progress.all("broadcaster"))) == (2, 3)
    progress.close()


@pytest.mark.parametrize("client_id", ["x" * (CLIENT_ID_CHARS_MAX + 1), "a\nb", "a\0", "\ud800"], ids=range(4))
async def test_a_client_id_that_nobody_could_read_is_not_kept(scene, client_id):
    scene.beat(Line("1:1"), client_id, broadcast=True)
    assert GROUP in scene.broadcasts
    assert scene.away() == []
