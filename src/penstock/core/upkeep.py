"""What policies do to backlogs as time goes by: messages expire, and quotas are kept.

A message that is older than its topic's time to live counts as consumed, for every durable subscription: then retention
may take it. A backlog is what the slowest durable subscription of a queue has before it. Above its quota, the oldest
messages count as consumed, or nobody may publish: producers are sent away, and refused while that is so.

The age of a message is counted from when it was stored, on the clock that is passed in.
"""

from typing import NamedTuple

from penstock import logs
from penstock.clock import Clock
from penstock.core.policies import Policies, PolicyBook, Quota, Reaction
from penstock.core.producers import Producers
from penstock.core.subscriptions.registry import Subscriptions
from penstock.core.topics import Topics
from penstock.errors import ProducerBusy, QuotaExceeded, QuotaHolds
from penstock.store.store import Store

log = logs.get(__name__)

EVICT_TO = 0.9  # of a quota of bytes: so that eviction is not needed again with the next message


class Excess(NamedTuple):
    """A quota that is exceeded, and the first row that would be within it."""

    quota: Quota
    row: int
    what: str


class Upkeep:
    def __init__(
        self,
        store: Store,
        topics: Topics,
        policies: PolicyBook,
        subscriptions: Subscriptions,
        producers: Producers,
        clock: Clock,
    ) -> None:
        self._store, self._topics, self._policies, self._clock = store, topics, policies, clock
        self._subscriptions, self._producers = subscriptions, producers

    def tick(self) -> None:
        """Look at every queue of every topic that has such policies."""
        if not self._policies:
            return
        for topic in self._topics:
            policies = self._policies.applied(topic.name)
            if policies.ttl_s or policies.size_quota or policies.age_quota:
                for queue in topic.queues:
                    self._expire(queue, policies)
                    self._keep_quotas(queue, policies)

    def _expire(self, queue: int, policies: Policies) -> None:
        if policies.ttl_s:
            table = self._store.table(queue)
            row = table.row_at_time(self._clock.now_ms() - 1_000 * policies.ttl_s)
            self._pass_over(queue, min(row, table.visible_row), "older than the time to live")

    def _pass_over(self, queue: int, row: int, why: str) -> None:
        rows = self._subscriptions.pass_over(queue, row)
        if rows:
            topic, index = self._topics.owner(queue)
            log.info("a backlog was shortened", topic=topic.name, queue=index, entries=rows, why=why)

    # --- quotas -------------------------------------------------------------------------------------------------------

    def _keep_quotas(self, queue: int, policies: Policies) -> None:
        for excess in self.excesses(queue, policies):
            if excess.quota.reaction is Reaction.EVICT:
                self._pass_over(queue, excess.row, f"above its quota of {excess.what}")
            else:
                self._producers.send_away(queue, _refusal(excess))

    def admit(self, queue: int) -> None:
        """Whether one more may publish to a queue now: raises when not."""
        policies = self._policies.at(queue)
        if policies.producers_max and len(self._producers.at(queue)) >= policies.producers_max:
            raise ProducerBusy(f"Topic reached max producers limit, which is {policies.producers_max}")
        for excess in self.excesses(queue, policies):
            if excess.quota.reaction is not Reaction.EVICT:
                raise _refusal(excess)

    def excesses(self, queue: int, policies: Policies) -> list[Excess]:
        size, age = policies.size_quota, policies.age_quota
        first = self._subscriptions.first_unacked(queue) if size or age else None
        if first is None:
            return []
        table, found = self._store.table(queue), list[Excess]()
        if size is not None and size.limit >= 0 and table.bytes_from(first, size.limit) > size.limit:
            row = table.row_for_bytes(int(size.limit * EVICT_TO))
            found.append(Excess(size, min(row, table.visible_row), f"{size.limit} bytes"))
        if age is not None and age.limit > 0:
            row = min(table.row_at_time(self._clock.now_ms() - 1_000 * age.limit), table.visible_row)
            if first < row:
                found.append(Excess(age, row, f"{age.limit} seconds"))
        return found


def _refusal(excess: Excess) -> QuotaExceeded:
    return (QuotaHolds if excess.quota.reaction is Reaction.HOLD else QuotaExceeded)(excess.what)
