"""Publishing: many entries at once, each message once.

`publish` is the hot path of the core: one call per read from a socket, one append, one callback when it is durable.
Nothing is made per message. A producer that numbers its messages is deduplicated: an entry whose sequence is not above
the highest of that producer in that queue was stored before, is not stored again, and keeps `offset` -1. Its
acknowledgement waits for everything appended so far, since the first copy may still wait for its sync.
"""

from collections.abc import Callable, Sequence

from penstock.config import BrokerConfig
from penstock.core.endings import Endings
from penstock.core.waits import Waits
from penstock.errors import MessageTooLarge, TopicTerminated
from penstock.model import Entry
from penstock.store.catalog import Facts
from penstock.store.keeper import Keeper
from penstock.store.store import Store

Then = Callable[[Exception | None], None]

# The limit is on what a message says. What is stored of it has a head, a topic and properties besides, and may be
# longer by so much, as in RocketMQ.
SLACK_BYTES = 64 << 10


class Publisher:
    def __init__(
        self, store: Store, keeper: Keeper, waits: Waits, config: BrokerConfig, ended: Endings | None = None
    ) -> None:
        self._store, self._keeper, self._waits, self._ended = store, keeper, waits, ended
        self.body_bytes_max = config.message_bytes_max
        self.entry_bytes_max = store.entry_bytes_max
        self._bytes_max = config.message_bytes_max + SLACK_BYTES
        self.duplicates = 0

    def publish(self, entries: Sequence[Entry], then: Then, bytes_max: int = 0) -> None:
        """Append them; `then(error)` is called once, when they are as durable as their topics ask for, before consumers
        are woken. Raises at once, with nothing stored, when they cannot be appended. `bytes_max`: as large as an entry
        may be, for who has a limit of his own, or has seen to the broker's (`body_bytes_max`) himself; 0 for the
        broker's, with what is stored beside a body.
        """
        if self._ended:
            _check_not_ended(entries, self._ended)
        fresh = self._fresh(entries) if self._are_numbered(entries, bytes_max or self._bytes_max) else entries
        if not fresh:
            self._keeper.when_durable(self._store.end_position, then)
            return
        self._store.append(fresh)
        complete = len(fresh) == len(entries)
        self._acknowledge(fresh, then, self._store.ack_position if complete else self._store.end_position)

    def check_length(self, length: int) -> None:
        """For who has several to publish, and one entry that the log does not take is not to take the others along."""
        if length > self.entry_bytes_max:
            raise MessageTooLarge(length, self.entry_bytes_max)

    def publish_group(self, entries: Sequence[Entry], facts: Facts, then: Then) -> None:
        """As `publish`, but all or nothing even through a crash, and together with facts of the catalog. What comes
        here was taken before, in some form: it is not refused for its size now.
        """
        self._store.append(entries, group=True, facts=facts or None)
        self._acknowledge(entries, then, self._store.ack_position)

    def _are_numbered(self, entries: Sequence[Entry], bytes_max: int) -> bool:
        """Whether one of them has a producer that numbers its messages. One that is too large is refused."""
        numbered = 0
        for entry in entries:
            if entry.length > bytes_max:
                raise MessageTooLarge(entry.length, bytes_max)
            numbered |= entry.producer
        return bool(numbered)

    def _acknowledge(self, entries: Sequence[Entry], then: Then, position: int) -> None:
        waits = self._waits

        def done(error: Exception | None) -> None:
            then(error)
            if error is None and waits:
                waits.wake({entry.queue for entry in entries})

        self._keeper.when_durable(position, done)

    def _fresh(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        """Those that were not stored before."""
        fresh: list[Entry] = []
        highest: dict[tuple[int, int], int] = {}
        for entry in entries:
            if entry.producer and entry.sequence >= 0:
                key = (entry.queue, entry.producer)
                last = highest.get(key, self.last_sequence(*key))
                if entry.sequence <= last:
                    self.duplicates += 1
                    continue
                highest[key] = entry.sequence
            fresh.append(entry)
        return fresh

    def last_sequence(self, queue: int, producer: int) -> int:
        """The highest sequence stored from a producer in a queue; -1 for none."""
        return self._store.table(queue).producers.get(producer, -1)


def _check_not_ended(entries: Sequence[Entry], ended: Endings) -> None:
    if any(entry.queue in ended for entry in entries):
        raise TopicTerminated
