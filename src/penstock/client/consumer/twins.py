"""Two instances with one ClientID.

A broker lists the members of a group once per connection, so the ClientID of both stands there twice. Both find the
same place in the list and take the same share: its queues are read twice, and those of the second place by nobody. No
broker can mend that; an instance can, since it sees its own ClientID twice.

The first time it says so, once for each topic: the addresses, the queues, and what has piled up in those that nobody
reads. A connection that was lost leaves a twin behind for a while, so only one that is still there two rebalances later
is taken for real: then this instance takes a fresh ClientID and joins again, and says how far the backlog has grown.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import msgspec

from penstock import logs
from penstock.client import positions
from penstock.client.allocate import Strategy
from penstock.client.cluster import Cluster
from penstock.client.consumer.settings import RETRY_PREFIX
from penstock.client.errors import ClientError
from penstock.client.routes import MessageQueue
from penstock.clock import Clock
from penstock.wire.rocketmq.codes import RequestCode

log = logs.get(__name__)

REBALANCES = 2
_DOUBLED = "two instances of this group have the same ClientID: some queues are read twice, others by nobody"
_ONE_FILE = "two instances of this group have the same ClientID: they keep their offsets in one file"
_ASKED_MAX = 64  # queues: of more, the backlog is not asked for


class Found(NamedTuple):
    """What two instances with one ClientID do to a topic."""

    client_id: str
    instances: int
    read_twice: list[MessageQueue]
    by_nobody: list[MessageQueue]


class Twins:
    """What this instance has seen of a twin. `keeps_id`: it only warns."""

    def __init__(
        self, group: str, strategy: Strategy, clock: Clock, interval_ms: int, keeps_id: bool, broadcast: bool = False
    ) -> None:
        self._broadcast = broadcast
        self._group, self._strategy, self._clock = group, strategy, clock
        self._interval_ms, self._keeps_id = interval_ms, keeps_id
        self._since_ms: int | None = None
        self._warned: set[str] = set()  # topics, since then
        self.piled_up: dict[MessageQueue, int] = {}  # messages in queues that nobody reads, when that was said

    def look(self, client_id: str, queues: Sequence[MessageQueue], ids: Sequence[str]) -> Found | None:
        """The queues of a topic and the members of the group, as a rebalance finds them; what is to be said of it."""
        topic = queues[0].topic
        if ids.count(client_id) < 2:
            self.renamed()
            return None
        if self._since_ms is None:
            self._since_ms = self._clock.monotonic_ms()
        if topic in self._warned or topic.startswith(RETRY_PREFIX):
            return None
        self._warned.add(topic)
        if self._broadcast:
            return Found(client_id, ids.count(client_id), [], [])
        shares = {one: self._strategy.allocate(self._group, one, queues, ids) for one in set(ids)}
        read = {queue for share in shares.values() for queue in share}
        by_nobody = [queue for queue in queues if queue not in read]
        return Found(client_id, ids.count(client_id), shares[client_id], by_nobody)

    @property
    def must_rename(self) -> bool:
        """The twin has outlived two rebalances."""
        if self._since_ms is None or self._keeps_id:
            return False
        return self._clock.monotonic_ms() - self._since_ms >= REBALANCES * self._interval_ms

    def renamed(self) -> None:
        """There is no twin any more."""
        self._since_ms = None
        self._warned.clear()
        self.piled_up.clear()

    def say(self, found: Found, addresses: Sequence[str], backlog: dict[MessageQueue, int]) -> None:
        self.piled_up |= backlog
        log.warning(
            _ONE_FILE if self._broadcast else _DOUBLED,
            group=self._group,
            client_id=found.client_id,
            instances=found.instances,
            addresses=", ".join(addresses) or "not known",
            read_twice=_texts(found.read_twice),
            read_by_nobody=_texts(found.by_nobody),
            backlog=sum(backlog.values()),
            what_to_do="give each a ClientID of its own"
            if self._keeps_id
            else "this one takes a fresh ClientID if it lasts; better give each its own",
        )

    async def say_growth(self, backlog: Callable[[Sequence[MessageQueue]], Awaitable[dict[MessageQueue, int]]]) -> None:
        """What has piled up since, in queues that nobody reads."""
        before = self.piled_up
        if not before:
            return
        now = await backlog(list(before))
        log.warning(
            "queues that nobody reads have filled up",
            group=self._group,
            queues=_texts(list(before)),
            backlog=sum(now.values()),
            growth=sum(count - before[queue] for queue, count in now.items()),
        )


def _texts(queues: Sequence[MessageQueue]) -> str:
    return ", ".join(map(str, queues)) or "none"


# --- what brokers know ------------------------------------------------------------------------------------------------


class _Connection(msgspec.Struct, rename="camel"):
    client_id: str = ""
    client_addr: str = ""


class _Connections(msgspec.Struct, rename="camel"):
    connection_set: list[_Connection] = []


async def addresses_of(cluster: Cluster, broker: str, group: str, client_id: str) -> list[str]:
    """Where a broker sees the instances with a ClientID; empty when it does not say."""
    try:
        code, ext = RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": group}
        answer = await cluster.get(cluster.address(broker), code, ext)
        there = msgspec.json.decode(answer.body, type=_Connections)
    except (ClientError, msgspec.DecodeError) as error:
        log.debug("the addresses of members are not told", group=group, error=str(error))
        return []
    return sorted(one.client_addr for one in there.connection_set if one.client_id == client_id)


async def backlog_of(cluster: Cluster, group: str, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int]:
    """How many messages wait for a group in each queue; those that nobody can tell are left out."""

    async def one(queue: MessageQueue) -> int:
        ends = await positions.bounds(cluster, queue)
        done = await positions.committed(cluster, group, queue)
        return ends.max_offset - max(done or 0, ends.min_offset)

    asked = queues[:_ASKED_MAX]
    found = await asyncio.gather(*map(one, asked), return_exceptions=True)
    return {queue: count for queue, count in zip(asked, found, strict=True) if isinstance(count, int)}
