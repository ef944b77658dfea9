"""Resetting a group's offsets, and skipping its backlog: decided here, done by the clients, confirmed by their next
pulls.

Cluster groups keep their offsets on the broker: they are set at once, and the first pull of each queue that asks for
anything else is sent to the new offset; until then the offsets that clients commit do not count. Broadcast instances
keep their own: every connection that is there is told, and each has its own pending reset; those that are known and
away are named. Nobody waits for confirmations: an instance counts as told until its next pull asks for the new offset.
Who has not done so after a while is told of once.
"""

import msgspec

from penstock.clock import Clock
from penstock.core.broadcasts import Broadcasts
from penstock.core.events import Bus, ResetAsked, ResetConfirmed, ResetSilent, ResetTold
from penstock.core.groups import Group, Line
from penstock.core.offsets import Offsets
from penstock.errors import GroupNotExist
from penstock.store.store import Bounds

SILENT_AFTER_MS = 120_000  # longer than any pull waits, and than a client takes to begin anew

Key = tuple[str, str, int]  # group, topic, queue


class Instance(msgspec.Struct):
    """What became of a reset at one connection."""

    client_id: str
    address: str
    told_ms: int
    confirmed: set[int] = set()  # queues


class Status(msgspec.Struct):
    """The last reset of a group on a topic."""

    asked_ms: int
    targets: dict[int, int]
    broadcast: bool
    instances: list[Instance] = []
    away: list[str] = []  # ClientIDs of those that broadcast and were not there to be told

    def tell(self, told: Instance) -> None:
        """An instance is told, perhaps once more: what it confirmed of other queues still holds."""
        for number, known in enumerate(self.instances):
            if known.address == told.address:
                told.confirmed = known.confirmed
                self.instances[number] = told
                return
        self.instances.append(told)


def target_offset(bounds: Bounds, at_time: int, committed: int, force: bool, broadcast: bool) -> int:
    """Where a queue is reset to. Only forwards by force; a broadcast group always goes where the time is. A queue
    without an offset of its own counts as at its beginning.
    """
    if force or broadcast:
        return at_time
    return min(at_time, committed if committed >= 0 else bounds.min_offset)


class Resets:
    def __init__(self, offsets: Offsets, broadcasts: Broadcasts, clock: Clock, bus: Bus) -> None:
        self._offsets, self._broadcasts, self._clock, self._bus = offsets, broadcasts, clock, bus
        self._of_group: dict[Key, int] = {}
        self._of_line: dict[Line, dict[Key, int]] = {}
        self._status: dict[tuple[str, str], Status] = {}
        self._unheard: dict[tuple[str, str], Status] = {}  # that `tell_silent` has yet to look at, the oldest first

    def is_broadcast(self, name: str, group: Group | None) -> bool:
        """Whether the instances of a group keep their offsets, also when none of them is there."""
        return group.broadcast if group is not None else name in self._broadcasts

    def ask(self, name: str, topic: str, targets: dict[int, int], group: Group | None, by: str = "") -> Status:
        """Begin a reset. `group` is there when some of its members are; `by` is for the record."""
        broadcast = self.is_broadcast(name, group)
        known = self._offsets.of(name, topic)
        if not broadcast and not known:
            raise GroupNotExist(name, topic)
        now_ms = self._clock.now_ms()
        status = self._status[name, topic] = self._begun(name, topic, targets, broadcast, now_ms)
        before = _texts({queue: known[queue] for queue in targets if queue in known})
        asked = ResetAsked(
            at_ms=now_ms, group=name, topic=topic, broadcast=broadcast, targets=_texts(targets), before=before, by=by
        )
        self._bus.emit(asked)
        for queue, offset in targets.items():
            if broadcast:
                self._of_group.pop((name, topic, queue), None)  # from when it shared its messages
            else:
                self._of_group[name, topic, queue] = offset
                self._offsets.commit(name, topic, queue, offset)
        for line, member in group.members.items() if group else ():
            if broadcast:
                pending = self._of_line.setdefault(line, {})
                pending.update({(name, topic, queue): offset for queue, offset in targets.items()})
            status.tell(Instance(member.client_id, line.address, now_ms))
            self._bus.emit(
                ResetTold(at_ms=now_ms, group=name, topic=topic, client_id=member.client_id, address=line.address)
            )
        status.away = self._away(name, group, now_ms) if broadcast else []
        self._unheard.pop((name, topic), None)
        self._unheard[name, topic] = status
        return status

    def _away(self, name: str, group: Group | None, now_ms: int) -> list[str]:
        there = set(group.client_ids) if group is not None else set()
        return [client_id for client_id in self._broadcasts.instances(name, now_ms) if client_id not in there]

    def _begun(self, name: str, topic: str, targets: dict[int, int], broadcast: bool, now_ms: int) -> Status:
        """A new status; when queues are reset one by one, the last one of them all."""
        before = self._status.get((name, topic))
        if before is None or before.targets.keys() <= targets.keys():
            return Status(now_ms, dict(targets), broadcast)
        for instance in before.instances:
            instance.confirmed -= targets.keys()
        return Status(now_ms, {**before.targets, **targets}, broadcast, before.instances)

    def status(self, group: str, topic: str) -> Status | None:
        return self._status.get((group, topic))

    def pending(self, line: Line, group: str, topic: str, queue: int) -> int | None:
        """Where a pull has to go first; None when nothing is pending."""
        key = (group, topic, queue)
        return self._of_line.get(line, {}).get(key, self._of_group.get(key))

    def pulled(self, line: Line, group: str, topic: str, queue: int, offset: int) -> int | None:
        """A pull asks for `offset`: the one it has to go to instead, or None when it may go on."""
        target = self.pending(line, group, topic, queue)
        if target is None or target == offset:
            if target is not None:
                self._confirm(line, (group, topic, queue))
            return None
        return target

    def _confirm(self, line: Line, key: Key) -> None:
        group, topic, queue = key
        self._of_line.get(line, {}).pop(key, None)
        self._of_group.pop(key, None)
        status = self._status.get((group, topic))
        for instance in status.instances if status else ():
            if instance.address == line.address:
                instance.confirmed.add(queue)
        now_ms = self._clock.now_ms()
        self._bus.emit(ResetConfirmed(at_ms=now_ms, group=group, topic=topic, queue=queue, address=line.address))

    def concerns(self, line: Line, key: Key) -> bool:
        """Whether a pull there, or an offset that is committed, may have to do with a reset: then ask."""
        return key in self._of_group or line in self._of_line

    def counts(self, group: str, topic: str, queue: int, offset: int) -> bool:
        """Whether an offset that a client commits is to be taken: not while a reset waits for its first pull."""
        target = self._of_group.get((group, topic, queue))
        return target is None or target == offset

    def lost(self, line: Line) -> None:
        self._of_line.pop(line, None)

    def silent(self, group: str, topic: str) -> list[Instance]:
        """Instances that were told and have confirmed nothing yet."""
        status = self._status.get((group, topic))
        return [instance for instance in status.instances if not instance.confirmed] if status else []

    def tell_silent(self) -> None:
        """Of instances that have had the time to confirm a reset, and did not; of each reset once."""
        now_ms = self._clock.now_ms()
        while self._unheard:
            (name, topic), status = next(iter(self._unheard.items()))
            if now_ms - status.asked_ms < SILENT_AFTER_MS:
                return
            del self._unheard[name, topic]
            if status.broadcast or any((name, topic, queue) in self._of_group for queue in status.targets):
                self._tell_silent(name, topic, status, now_ms)

    def _tell_silent(self, name: str, topic: str, status: Status, now_ms: int) -> None:
        silent = [(one.client_id, one.address, True) for one in self.silent(name, topic)]
        for client_id, address, told in [*silent, *((client_id, "", False) for client_id in status.away)]:
            self._bus.emit(
                ResetSilent(
                    at_ms=now_ms,
                    group=name,
                    topic=topic,
                    client_id=client_id,
                    address=address,
                    told=told,
                    asked_ms=status.asked_ms,
                )
            )


def _texts(targets: dict[int, int]) -> dict[str, str]:
    return {str(queue): str(offset) for queue, offset in targets.items()}
