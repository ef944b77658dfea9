"""Pulls about which there is nothing to decide: of a consumer that has its seat, for messages that are in memory, or
for the next one to come. What such a pull looks like, `wire.rocketmq.pulls` says; a seat is what the last pull of that
consumer from that queue was checked against, and holds while all of that is there unchanged. Everything else, and
whatever has to be refused, corrected or looked for, goes the way of every request (`routes`, `consume`), which is also
where seats are given and what these lines have to agree with.

Push consumers ask for 32 messages at a time: the eighty calls of the long way cost more than sending them.
"""

from penstock.core.broker import Broker
from penstock.errors import PenstockError
from penstock.gateway.rocketmq.connection import WAITING_BYTES, Connection, Seat
from penstock.gateway.rocketmq.consume import Consume, found_head, limits
from penstock.gateway.rocketmq.groups import GroupRules
from penstock.gateway.rocketmq.records import MINE
from penstock.model import Action
from penstock.wire.rocketmq.codes import PullFlag, RequestCode
from penstock.wire.rocketmq.frame import JSON, Frame
from penstock.wire.rocketmq.pulls import Asked, front
from penstock.wire.rocketmq.requests import Pull

_COMMIT, _SUSPEND = PullFlag.COMMIT, PullFlag.SUSPEND
_NO_EXT: dict[str, str] = {}
_NO_BODY = memoryview(b"")


class OrdinaryPulls:
    def __init__(self, consume: Consume, rules: GroupRules, broker: Broker) -> None:
        self._consume, self._rules = consume, rules
        self._topics, self._groups, self._fetcher = broker.topics, broker.groups, broker.fetcher
        self._offsets, self._resets, self._readers = broker.offsets, broker.resets, broker.readers
        self._traffic, self._authorizer = broker.traffic, broker.authorizer

    def take(self, view: memoryview, at: int, end: int, connection: Connection) -> int:
        """Serve the pulls from `at` on, up to the first that has to go the long way; where that one begins."""
        if at < end and connection.seats:
            for asked in front(view, at, end):
                if not self._serve(asked, connection):
                    break
                at = asked[0]
        return at

    def _serve(self, asked: Asked, connection: Connection) -> bool:
        _, opaque, _, group, name, index, offset, messages_max, bytes_max, flags, commit, _, version = asked
        seat = connection.seats.get((group, name, index))
        if seat is None or not self._holds(seat, group, name, index, version, connection):
            return False
        found = self._fetcher.slices_now(seat.queue, offset, *limits(messages_max, bytes_max), MINE)
        if found is None and not (flags & _SUSPEND and offset == self._fetcher.bounds(seat.queue).max_offset):
            return False
        self._readers.at(group, name, index, connection)
        if flags & _COMMIT:
            self._offsets.commit(group, name, index, commit)
        connection.took(1)
        if found is None:
            self._consume.wait(*_as_request(asked), seat.topic, connection)
            return True
        self._traffic.got(group, name, found.messages, found.size_bytes)
        head = found_head(opaque, found.next_offset, found.min_offset, found.max_offset, found.size_bytes)
        connection.hand_out([found.behind(head)], found.size_bytes)
        return True

    def _holds(self, seat: Seat, group: str, name: str, index: int, version: int, connection: Connection) -> bool:
        """Whether a pull needs no other look than the last one had."""
        known, subscription = seat.group, seat.subscription
        return (
            self._topics.find(name) is seat.topic
            and self._groups.find(group) is known
            and known.subscriptions.get(name) is subscription
            and version <= subscription.version
            and not known.refusals
            and not known.broadcast
            and self._rules.standing(group) is seat.settings
            and not self._resets.concerns(connection, (group, name, index))
            and connection.waiting_bytes <= WAITING_BYTES
            and self._may(connection, name)
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
