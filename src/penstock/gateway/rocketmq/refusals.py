"""Which refused pulls are told of as events, besides those with too new a version, which `core.groups` counts: of a
group that does not exist (26), of what its members do not subscribe to (24), of a filter that cannot be read (23).

Clients come again every three seconds or sooner. Each refusal is told once per second, and not all of them when there
are more than somebody could want to look at: an event is written to the log, a refusal costs nothing.
"""

from penstock.clock import Clock
from penstock.core.events import Bus, PullRefused
from penstock.core.groups import Groups
from penstock.gateway.rocketmq.connection import Connection
from penstock.wire.rocketmq.codes import ResponseCode
from penstock.wire.rocketmq.requests import Pull

TOLD = frozenset(
    (
        ResponseCode.SUBSCRIPTION_PARSE_FAILED,
        ResponseCode.SUBSCRIPTION_NOT_EXIST,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
    )
)
AGAIN_MS = 1_000
PER_SECOND_MAX = 100  # of all clients

_Key = tuple[str, str, str, int]  # address, group, topic, code


class Refusals:
    def __init__(self, groups: Groups, clock: Clock, bus: Bus) -> None:
        self._groups, self._clock, self._bus = groups, clock, bus
        self._told: set[_Key] = set()  # in this second
        self._second_over_ms = 0

    def tell(self, asked: Pull, connection: Connection, code: int) -> None:
        """A pull was refused with a code."""
        if code in TOLD and self._is_news((connection.address, asked.consumerGroup, asked.topic, code)):
            group = self._groups.find(asked.consumerGroup)
            member = group.members.get(connection) if group else None
            known = group.subscriptions.get(asked.topic) if group else None
            self._bus.emit(
                PullRefused(
                    at_ms=self._clock.now_ms(),
                    code=code,
                    group=asked.consumerGroup,
                    client_id=member.client_id if member else "",
                    topic=asked.topic,
                    pull_version=asked.subVersion,
                    known_version=known.version if known else 0,
                )
            )

    def _is_news(self, key: _Key) -> bool:
        now_ms = self._clock.monotonic_ms()
        if now_ms >= self._second_over_ms:
            self._told.clear()
            self._second_over_ms = now_ms + AGAIN_MS
        if key in self._told or len(self._told) >= PER_SECOND_MAX:
            return False
        self._told.add(key)
        return True
