"""Two instances with one ClientID.

A broker lists the members of a group once per connection, so the ClientID of both stands there twice. Both find the
same place in the list and take the same share: its queues are read twice, and those of the second place by nobody. No
broker can mend that; an instance can, since it sees its own ClientID twice.

The first time it says so, once for each topic, with the queues. A connection that was lost leaves a twin behind for a
while, so only one that is still there two rebalances later is taken for real: then this instance takes a fresh ClientID
and joins again.
"""

from collections.abc import Sequence

from penstock import logs
from penstock.client.allocate import Strategy
from penstock.client.consumer.settings import RETRY_PREFIX
from penstock.client.routes import MessageQueue
from penstock.clock import Clock

log = logs.get(__name__)

REBALANCES = 2


class Twins:
    """What this instance has seen of a twin. `keeps_id`: it only warns."""

    def __init__(self, group: str, strategy: Strategy, clock: Clock, interval_ms: int, keeps_id: bool) -> None:
        self._group, self._strategy, self._clock = group, strategy, clock
        self._interval_ms, self._keeps_id = interval_ms, keeps_id
        self._since_ms: int | None = None
        self._warned: set[str] = set()  # topics, since then

    def look(self, client_id: str, queues: Sequence[MessageQueue], ids: Sequence[str]) -> None:
        """The queues of a topic and the members of the group, as a rebalance finds them."""
        topic = queues[0].topic
        if ids.count(client_id) < 2:
            self.renamed()
            return
        if self._since_ms is None:
            self._since_ms = self._clock.monotonic_ms()
        if topic not in self._warned and not topic.startswith(RETRY_PREFIX):
            self._warned.add(topic)
            self._warn(client_id, queues, ids)

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

    def _warn(self, client_id: str, queues: Sequence[MessageQueue], ids: Sequence[str]) -> None:
        shares = {one: self._strategy.allocate(self._group, one, queues, ids) for one in set(ids)}
        read = {queue for share in shares.values() for queue in share}
        log.warning(
            "two instances of this group have the same ClientID: some queues are read twice, others by nobody",
            group=self._group,
            client_id=client_id,
            instances=ids.count(client_id),
            read_twice=", ".join(map(str, shares[client_id])) or "none",
            read_by_nobody=", ".join(str(queue) for queue in queues if queue not in read) or "none",
            what_to_do="give each a ClientID of its own"
            if self._keeps_id
            else "this one takes a fresh ClientID if it lasts; better give each its own",
        )
