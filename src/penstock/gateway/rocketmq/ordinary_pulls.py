"""Pulls about which there is nothing to decide: of a consumer that has its seat, for messages that are in memory, or
for the next one to come. What such a pull looks like, `wire.rocketmq.pulls` says; a seat is what the last pull of that
consumer from that queue was checked against, and holds while all of that is there unchanged. Everything else, and
whatever has to be refused, corrected or looked for, goes the way of every request (`routes`, `consume`), which is also
where seats are given and what these lines have to agree with.

Push consumers ask for 32 messages at a time: the eighty calls of the long way cost more than sending them. The
answers of one read are put together once and leave together, up to 128 KB; what there is to note of them is noted when
they have left, while the client is at work on them.
"""

from itertools import islice

from penstock.core.broker import Broker
from penstock.core.fetch import Part, Slices, joined
from penstock.errors import PenstockError
from penstock.gateway.rocketmq.backlog import SEATS_MAX, Backlog, Chance, blocks_of_each, pieces_of_each
from penstock.gateway.rocketmq.connection import LARGE_BYTES, WAITING_BYTES, Connection, Seat, Standing
from penstock.gateway.rocketmq.consume import Consume, found_head, limits
from penstock.gateway.rocketmq.groups import GroupRules
from penstock.model import Action
from penstock.wire.rocketmq.codes import PullFlag, RequestCode
from penstock.wire.rocketmq.frame import JSON, Frame
from penstock.wire.rocketmq.pulls import Asked, front
from penstock.wire.rocketmq.requests import Pull

_COMMIT, _SUSPEND = PullFlag.COMMIT, PullFlag.SUSPEND
_NO_EXT: dict[str, str] = {}
_NO_BODY = memoryview(b"")

_Served = list[tuple[Asked, Slices]]


class OrdinaryPulls:
    def __init__(self, consume: Consume, rules: GroupRules, broker: Broker) -> None:
        self._consume, self._rules = consume, rules
        self._topics, self._groups = broker.topics, broker.groups
        self._offsets, self._resets, self._readers = broker.offsets, broker.resets, broker.readers
        self._traffic, self._authorizer = broker.traffic, broker.authorizer
        self._backlog = Backlog(broker)

    def take(self, view: memoryview, at: int, end: int, connection: Connection) -> int:
        """Serve the pulls from `at` on, up to the first that has to go the long way; where that one begins."""
        if not connection.seats:
            return at
        served: _Served = []
        size_bytes, checked, smooth, lent = 0, None, at < end, self._backlog.keys
        for asked in front(view, at, end) if at < end else ():
            key = asked[3:6]
            seat = connection.seats.get(key)
            if seat is None or not (seat.standing is checked or self._holds(seat.standing, connection)):
                break
            if not self._is_ordinary(asked, seat, connection):
                break
            if key in lent:
                self._backlog.settle(key)
            found = seat.reading.now(asked[6], *limits(asked[7], asked[8]))
            if found is not None:
                served.append((asked, found))
                size_bytes += found.size_bytes
            if found is None or size_bytes >= LARGE_BYTES:  # what is noted of them is noted in their order
                self._leave(served, size_bytes, connection)
                served, size_bytes = [], 0
            smooth = smooth and found is not None
            if found is None and not self._park(asked, seat, connection):
                break
            at, checked = asked[0], seat.standing if served else None
        self._leave(served, size_bytes, connection)
        if self._backlog.is_due(connection, smooth=smooth and at == end):
            self._backlog.lend(connection, lambda: self._chances(connection))
        return at

    def _chances(self, connection: Connection) -> list[Chance]:
        """The seats whose pulls need no look for a while."""
        found: list[Chance] = []
        held: Standing | None = None
        count = min(len(connection.seats), SEATS_MAX)
        bounds = pieces_of_each(count), blocks_of_each(count)
        for key, seat in islice(connection.seats.items(), SEATS_MAX):
            if key in self._backlog.keys or not (seat.standing is held or self._holds(seat.standing, connection)):
                continue
            held = seat.standing
            ahead = None if self._resets.concerns(connection, key) else seat.reading.ahead(*bounds)
            if ahead is not None:
                found.append(Chance(key, seat.reading, held.subscription.version, *ahead))
        return found

    def _is_ordinary(self, asked: Asked, seat: Seat, connection: Connection) -> bool:
        """Whether nothing is to be decided about this pull alone."""
        known = asked[12] <= seat.standing.subscription.version
        return known and not self._resets.concerns(connection, asked[3:6])

    def _park(self, asked: Asked, seat: Seat, connection: Connection) -> bool:
        """Let a pull wait for the next message, if it is at the end and may; False when it has to go the long way."""
        if not asked[9] & _SUSPEND or not seat.reading.is_at_the_end(asked[6]):
            return False
        self._note(asked, connection)
        connection.took(1)
        self._consume.wait(*_as_request(asked), seat, connection)
        return True

    def _leave(self, served: _Served, size_bytes: int, connection: Connection) -> None:
        if not served:
            return
        pieces: list[bytes | Part] = []
        for asked, found in served:
            head = found_head(asked[1], found.next_offset, found.min_offset, found.max_offset, found.size_bytes)
            pieces.append(head)
            pieces += found.parts
        connection.hand_out_now(joined(pieces), size_bytes)
        for asked, found in served:
            self._note(asked, connection)
            self._traffic.got(asked[3], asked[4], found.messages, found.size_bytes)

    def _note(self, asked: Asked, connection: Connection) -> None:
        """Where the consumer is, and how far."""
        _, _, _, group, name, index, offset, _, _, flags, commit, _, _ = asked
        self._readers.at(group, name, index, connection, offset)
        if flags & _COMMIT:
            self._offsets.commit(group, name, index, commit)

    def _holds(self, standing: Standing, connection: Connection) -> bool:
        """Whether a pull needs no other look than the last one had."""
        topic, group, subscription, settings = standing
        return (
            self._topics.find(topic.name) is topic
            and self._groups.find(group.name) is group
            and group.subscriptions.get(topic.name) is subscription
            and not group.refusals
            and not group.broadcast
            and self._rules.standing(group.name) is settings
            and connection.waiting_bytes <= WAITING_BYTES
            and self._may(connection, topic.name)
        )

    def _may(self, connection: Connection, name: str) -> bool:
        try:
            self._authorizer.check(connection.who, Action.CONSUME, name)
        except PenstockError:
            return False
        return True


def _as_request(asked: Asked) -> tuple[Frame, Pull]:
    """As any other pull is written."""
    _, opaque, client, group, name, index, offset, messages_max, bytes_max, flags, commit, wait_ms, version = asked
    frame = Frame(RequestCode.PULL_MESSAGE, opaque, 0, client, "JAVA", "", _NO_EXT, _NO_BODY, JSON)
    pull = Pull(
        group, name, index, offset, messages_max, flags, commit, wait_ms, subVersion=version, maxMsgBytes=bytes_max
    )
    return frame, pull
