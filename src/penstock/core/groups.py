"""Consumer groups: who is in them, what they subscribe to, and which version of that the broker knows.

Members are kept by connection, so two connections with one ClientID stand in the list twice; that is an event, since
both then take the same share of the queues and another share has no reader.

A subscription has a version, which a client takes anew when it subscribes and when a rebalance changes what it owns.
Heartbeats carry it and the newest per topic counts. A pull with a newer version than the broker's is refused: its
sender has moved on to other queues, and somebody else may still read them. Every refusal is kept with who, when and
which versions.
"""

from collections import Counter
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Protocol

import msgspec

from penstock.clock import Clock
from penstock.core.broadcasts import Broadcasts
from penstock.core.events import (
    Bus,
    GroupGone,
    MemberDoubled,
    MemberJoined,
    MemberLeft,
    PullRefused,
    RebalanceSeen,
    RefusalsOver,
    SubscriptionChanged,
)
from penstock.core.group_settings import GroupsSettings
from penstock.errors import GroupNotOnline, NotSubscribed, SubscriptionNotLatest

EXPIRY_MS = 120_000


class Line(Protocol):
    """A member's connection, as far as a group needs to know it."""

    @property
    def address(self) -> str: ...

    def notify_members_changed(self, group: str) -> None: ...

    def abort(self) -> None: ...


class Subscription(msgspec.Struct):
    topic: str
    expression: str = "*"
    kind: str = "TAG"
    version: int = 0
    codes: frozenset[int] = frozenset()  # tag hashes; empty for all

    @property
    def means(self) -> tuple[str, str]:
        """What it asks for, without the version."""
        return self.kind, self.expression


class Member(msgspec.Struct):
    client_id: str
    language: str
    version: int
    seen_ms: int
    joined_ms: int
    versions: dict[str, int] = {}  # of its subscriptions, by topic, as its last heartbeat had them


class Refusals(msgspec.Struct):
    """An episode of refused pulls of one member for one topic."""

    client_id: str
    topic: str
    first_ms: int
    last_ms: int
    count: int
    pull_version: int
    known_version: int


class Heartbeat(msgspec.Struct):
    """What a member says of one group."""

    group: str
    client_id: str
    language: str
    client_version: int
    broadcast: bool
    consume_type: str
    consume_from: str
    subscriptions: list[Subscription]


class Group(msgspec.Struct):
    name: str
    members: dict[Line, Member] = {}
    subscriptions: dict[str, Subscription] = {}
    broadcast: bool = False
    consume_type: str = "CONSUME_PASSIVELY"
    consume_from: str = "CONSUME_FROM_LAST_OFFSET"
    refusals: dict[tuple[str, str], Refusals] = {}

    @property
    def client_ids(self) -> list[str]:
        """Once per connection."""
        return [member.client_id for member in self.members.values()]

    @property
    def doubled(self) -> list[str]:
        return sorted(client_id for client_id, count in Counter(self.client_ids).items() if count > 1)

    def addresses(self, client_id: str) -> list[str]:
        return [line.address for line, member in self.members.items() if member.client_id == client_id]


class Groups:
    def __init__(self, clock: Clock, bus: Bus, settings: GroupsSettings, broadcasts: Broadcasts) -> None:
        self._clock, self._bus, self._settings, self._broadcasts = clock, bus, settings, broadcasts
        self._groups: dict[str, Group] = {}
        self._of_line: dict[Line, set[str]] = {}

    def find(self, name: str) -> Group | None:
        return self._groups.get(name)

    def of_line(self, line: Line) -> AbstractSet[str]:
        """The groups that a connection is in, as they come and go."""
        return self._of_line.get(line, frozenset())

    def __iter__(self) -> Iterator[Group]:
        return iter(list(self._groups.values()))

    # --- coming and going ---------------------------------------------------------------------------------------------

    def heartbeat(self, line: Line, beat: Heartbeat) -> None:
        """A member is there, and subscribes to this."""
        now_ms = self._clock.now_ms()
        group = self._groups.get(beat.group)
        if group is None:
            group = self._groups[beat.group] = Group(beat.group)
        group.broadcast, group.consume_type, group.consume_from = beat.broadcast, beat.consume_type, beat.consume_from
        if beat.broadcast:
            self._broadcasts.seen(beat.group, beat.client_id, now_ms)
        else:
            self._broadcasts.over(beat.group)
        joined = self._seen(group, line, beat, now_ms)
        self._tell_rebalances(group, group.members[line], beat, now_ms)
        changed = self._subscribed(group, beat, now_ms)
        if joined or changed:
            self._notify(group)

    def _seen(self, group: Group, line: Line, beat: Heartbeat, now_ms: int) -> bool:
        member = group.members.get(line)
        if member is not None:
            member.seen_ms, member.client_id, member.version = now_ms, beat.client_id, beat.client_version
            return False
        twins = group.addresses(beat.client_id)
        group.members[line] = Member(beat.client_id, beat.language, beat.client_version, now_ms, now_ms)
        self._of_line.setdefault(line, set()).add(group.name)
        name, client_id = group.name, beat.client_id
        self._bus.emit(
            MemberJoined(
                at_ms=now_ms,
                group=name,
                client_id=client_id,
                address=line.address,
                language=beat.language,
                members=len(group.members),
            )
        )
        if twins:
            addresses = [*twins, line.address]
            self._bus.emit(MemberDoubled(at_ms=now_ms, group=name, client_id=client_id, addresses=addresses))
        return True

    def tell_doubled(self) -> None:
        """ClientIDs that are still there more than once."""
        now_ms = self._clock.now_ms()
        for group in self._groups.values():
            for client_id in group.doubled:
                addresses = group.addresses(client_id)
                self._bus.emit(MemberDoubled(at_ms=now_ms, group=group.name, client_id=client_id, addresses=addresses))

    def _tell_rebalances(self, group: Group, member: Member, beat: Heartbeat, now_ms: int) -> None:
        """Newer versions of what the member subscribed to before; one that asks for something else is no rebalance."""
        before = member.versions
        for new in beat.subscriptions:
            old, known = before.get(new.topic), group.subscriptions.get(new.topic)
            if old is not None and old < new.version and known is not None and known.means == new.means:
                self._bus.emit(
                    RebalanceSeen(
                        at_ms=now_ms,
                        group=group.name,
                        client_id=beat.client_id,
                        topic=new.topic,
                        version_before=old,
                        version=new.version,
                    )
                )
        member.versions = {new.topic: new.version for new in beat.subscriptions}

    def _subscribed(self, group: Group, beat: Heartbeat, now_ms: int) -> bool:
        """The newest version of each topic counts. A newer version alone is no change; other topics are."""
        changed = False
        for subscription in beat.subscriptions:
            known = group.subscriptions.get(subscription.topic)
            if known is None:
                changed = True
                group.subscriptions[subscription.topic] = subscription
                self._tell_change(group, beat, subscription.topic, "", subscription.expression, now_ms)
            elif subscription.version > known.version:
                group.subscriptions[subscription.topic] = subscription
                if subscription.means != known.means:
                    topic = subscription.topic
                    self._tell_change(group, beat, topic, known.expression, subscription.expression, now_ms)
        wanted = {subscription.topic for subscription in beat.subscriptions}
        for topic in [topic for topic in group.subscriptions if topic not in wanted]:
            changed = True
            gone = group.subscriptions.pop(topic)
            self._tell_change(group, beat, topic, gone.expression, "", now_ms)
        return changed

    def _tell_change(self, group: Group, beat: Heartbeat, topic: str, before: str, after: str, now_ms: int) -> None:
        self._bus.emit(
            SubscriptionChanged(
                at_ms=now_ms, group=group.name, client_id=beat.client_id, topic=topic, before=before, after=after
            )
        )

    def leave(self, line: Line, name: str, why: str = "unregistered") -> None:
        """One connection is no longer in a group."""
        group = self._groups.get(name)
        member = group.members.pop(line, None) if group else None
        self._of_line.get(line, set()).discard(name)
        if group is None or member is None:
            return
        for key in [key for key in group.refusals if key[0] == member.client_id]:
            del group.refusals[key]
        now_ms = self._clock.now_ms()
        left = MemberLeft(at_ms=now_ms, group=name, client_id=member.client_id, why=why, members=len(group.members))
        self._bus.emit(left)
        if group.members:
            self._notify(group)
        else:
            del self._groups[name]
            self._bus.emit(GroupGone(at_ms=now_ms, group=name))

    def lost(self, line: Line) -> None:
        """A connection is gone: from all its groups."""
        for name in sorted(self._of_line.get(line, ())):
            self.leave(line, name, "connection lost")
        self._of_line.pop(line, None)

    def expire(self) -> None:
        """Members that have not been heard of for two minutes."""
        now_ms = self._clock.now_ms()
        silent = [
            (line, group.name)
            for group in self._groups.values()
            for line, member in group.members.items()
            if now_ms - member.seen_ms > EXPIRY_MS
        ]
        for line, name in silent:
            self.leave(line, name, "silent")
            line.abort()

    def _notify(self, group: Group) -> None:
        for line in group.members if self._settings.of(group.name).notify else ():
            line.notify_members_changed(group.name)

    # --- pulling ------------------------------------------------------------------------------------------------------

    def subscription_for(self, name: str, topic: str, version: int, line: Line) -> Subscription:
        """What a pull may have; raises when the group is not there, may not broadcast, does not subscribe, or when the
        pull is newer.
        """
        group = self._groups.get(name)
        if group is None:
            raise GroupNotOnline(name)
        if group.broadcast:
            self._settings.check_broadcast(name)
        known = group.subscriptions.get(topic)
        if known is None:
            raise NotSubscribed(name, topic)
        member = group.members.get(line)
        client_id = member.client_id if member else ""
        if known.version < version:
            self._refused(group, client_id, topic, version, known.version)
            raise SubscriptionNotLatest(name, topic, version, known.version)
        over = group.refusals.pop((client_id, topic), None)
        if over is not None:
            self._tell_over(name, over)
        return known

    def _tell_over(self, name: str, over: Refusals) -> None:
        self._bus.emit(
            RefusalsOver(
                at_ms=self._clock.now_ms(),
                group=name,
                client_id=over.client_id,
                topic=over.topic,
                since_ms=over.first_ms,
                refusals=over.count,
            )
        )

    def _refused(self, group: Group, client_id: str, topic: str, version: int, known: int) -> None:
        now_ms = self._clock.now_ms()
        episode = group.refusals.get((client_id, topic))
        if episode is None:
            group.refusals[client_id, topic] = Refusals(client_id, topic, now_ms, now_ms, 1, version, known)
        else:
            episode.last_ms, episode.count = now_ms, episode.count + 1
            episode.pull_version, episode.known_version = version, known
        self._bus.emit(
            PullRefused(
                at_ms=now_ms,
                group=group.name,
                client_id=client_id,
                topic=topic,
                pull_version=version,
                known_version=known,
            )
        )
