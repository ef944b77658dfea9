"""Queues that have come to their end: nothing is published to them any more, and what they hold stays.

An ending is a fact of the catalog and final. It stands behind all that was published before it; from the moment that
somebody asks for it nothing more is taken.
"""

from collections.abc import Sequence

from penstock.core.events import Bus, Event, TopicDeleted
from penstock.store.keeper import Keeper
from penstock.store.store import Store

PREFIX = "ended/"


class Endings:
    """`queues` are the numbers of those that have ended. True when there are any."""

    def __init__(self, store: Store, keeper: Keeper, bus: Bus) -> None:
        self._store, self._keeper = store, keeper
        self.queues = {int(key.removeprefix(PREFIX)) for key, _ in store.catalog.items(PREFIX)}
        bus.listen(self._on_event)

    def __contains__(self, queue: object) -> bool:
        return queue in self.queues

    def __bool__(self) -> bool:
        return bool(self.queues)

    async def end(self, queues: Sequence[int]) -> None:
        """Take nothing more; returns when that, and all that was taken before, is durable."""
        fresh = [queue for queue in queues if queue not in self.queues]
        if fresh:
            self._store.put_facts({_fact(queue): b"" for queue in fresh})
            self.queues.update(fresh)
        await self._keeper.durable(self._store.end_position)

    def _on_event(self, event: Event) -> None:
        """With a topic goes what was known of its queues, whose numbers are not used again."""
        if isinstance(event, TopicDeleted):
            gone = [queue for queue in self.queues if not self._store.has_queue(queue)]
            if gone:
                self._store.put_facts({_fact(queue): None for queue in gone})
                self.queues.difference_update(gone)


def _fact(queue: int) -> str:
    return f"{PREFIX}{queue}"
