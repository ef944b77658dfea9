"""Somebody who remembers what a store promised, so that a store opened after a crash can be held to it.

A `Witness` stands between a test and a store: every change goes through it. It knows of each message whether it was
acknowledged, of each queue how far consumers have seen, of each group what belongs together. `after` begins anew with
what a recovered store shows.

Not here: what follows from that memory (`verdict.py`).
"""

import dataclasses
from collections.abc import Mapping, Sequence

from penstock.errors import QueueNotFound
from penstock.model import Durability, Entry
from penstock.store.store import Store
from penstock.wire.plain import Plain, PlainRun, message_in

READ_MESSAGES = 64
READ_BYTES = 1 << 20


@dataclasses.dataclass(slots=True)
class Sent:
    """One message (or closed batch) that went to a queue. `offset` is None while the append is under way."""

    queue: int
    body: bytes
    group: int  # 0: none
    producer: int = 0
    sequence: int = -1
    offset: int | None = None
    acked: bool = False


@dataclasses.dataclass(slots=True)
class Fact:
    """A change that a flush makes durable: `done` once the store said yes, `safe` once it is on the medium."""

    value: bytes | None = None
    group: int = 0  # the messages that it stands and falls with
    done: bool = False
    safe: bool = False

    def holds(self, killed: bool) -> bool:
        return self.done if killed else self.safe


@dataclasses.dataclass(slots=True)
class Queue:
    durability: Durability
    created: Fact
    sent: list[Sent] = dataclasses.field(default_factory=list)
    trims: dict[int, Fact] = dataclasses.field(default_factory=dict)
    dropped: Fact | None = None
    seen_offset: int = 0  # consumers have been shown everything below

    @property
    def trim_asked(self) -> int:
        return max(self.trims, default=0)

    def trim_kept(self, killed: bool) -> int:
        return max((offset for offset, fact in self.trims.items() if fact.holds(killed)), default=0)


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """What a queue of a store shows."""

    min_offset: int
    max_offset: int
    bodies: dict[int, bytes]  # by offset
    producers: dict[int, int]  # the highest sequence by producer


class Witness:
    def __init__(self) -> None:
        self.queues: dict[int, Queue] = {}
        self.catalog: dict[str, list[Fact]] = {}
        self.bodies: dict[bytes, Sent] = {}
        self._groups = 0

    def after(self, store: Store) -> "Witness":
        """A witness that begins with what a recovered store shows: all of it counts as kept from now on."""
        witness = Witness()
        for queue_id, queue in self.queues.items():
            found = look(store, queue_id)
            if found is not None:
                witness._adopt(queue_id, queue.durability, found)
        for key in self.catalog:
            witness.catalog[key] = [_kept(store.catalog.get(key))]
        return witness

    def _adopt(self, queue_id: int, durability: Durability, found: Found) -> None:
        queue = self.queues[queue_id] = Queue(durability, _kept(), seen_offset=found.max_offset)
        queue.trims[found.min_offset] = _kept()
        for offset, body in found.bodies.items():
            self._remember(Sent(queue_id, body, 0, offset=offset, acked=True))

    def _remember(self, sent: Sent) -> Sent:
        self.queues[sent.queue].sent.append(sent)
        self.bodies[sent.body] = sent
        return sent

    # --- acting -------------------------------------------------------------------------------------------------------

    @property
    def live_queues(self) -> list[int]:
        return [queue_id for queue_id, queue in self.queues.items() if queue.dropped is None]

    def create(self, store: Store, queue_id: int, durability: Durability) -> None:
        queue = self.queues[queue_id] = Queue(durability, Fact())
        queue.dropped = queue.created  # so long as the store has not said yes, nobody uses it
        store.create_queue(queue_id, durability)
        queue.dropped = None
        _done(store, queue.created)

    def drop(self, store: Store, queue_id: int) -> None:
        self.queues[queue_id].dropped = fact = Fact()
        store.drop_queue(queue_id)
        _done(store, fact)

    def trim(self, store: Store, queue_id: int, offset: int) -> None:
        """A trim into a closed batch keeps the whole batch, so what counts is where the queue begins then."""
        trims = self.queues[queue_id].trims
        asked = trims.setdefault(offset, Fact())
        store.trim(queue_id, offset)
        reached = store.bounds(queue_id).min_offset
        if reached != offset and not asked.done:
            del trims[offset]
        _done(store, trims.setdefault(reached, Fact()))

    def put(self, store: Store, key: str, value: bytes | None) -> None:
        fact = self._try_fact(key, value, group=0)
        store.put_facts({key: value})
        _done(store, fact)

    def append(
        self,
        store: Store,
        entries: Sequence[Plain | PlainRun],
        group: bool = False,
        facts: Mapping[str, bytes | None] | None = None,
    ) -> list[Sent]:
        """Append; what was refused with an error is known to have been tried. `facts` make it a group."""
        self._groups += 1
        number = self._groups if group or facts else 0
        sent = [[self._try(entry, message, number) for message in _messages(entry)] for entry in entries]
        changed = [self._try_fact(key, value, number) for key, value in (facts or {}).items()]
        position = store.append(entries, group=group, facts=facts)
        for entry, ours in zip(entries, sent, strict=True):
            for index, each in enumerate(ours):
                each.offset = entry.offset + index
        whole = [each for ours in sent for each in ours]
        store.when_durable(position, lambda error: _ack(whole) if error is None else None)
        for fact in changed:
            _done(store, fact)
        return whole

    def _try(self, entry: Entry, message: Plain, group: int) -> Sent:
        return self._remember(Sent(entry.queue, bytes(message.body), group, entry.producer, entry.sequence))

    def _try_fact(self, key: str, value: bytes | None, group: int) -> Fact:
        fact = Fact(value, group)
        self.catalog.setdefault(key, []).append(fact)
        return fact

    def flush(self, store: Store) -> None:
        store.flush()
        self.see(store)

    def see(self, store: Store) -> None:
        """Be a consumer: what is visible now must stay."""
        for queue_id in self.live_queues:
            queue = self.queues[queue_id]
            queue.seen_offset = max(queue.seen_offset, store.bounds(queue_id).max_offset)


def look(store: Store, queue_id: int) -> Found | None:
    """Read a whole queue, or None when there is no such queue."""
    try:
        bounds = store.bounds(queue_id)
    except QueueNotFound:
        return None
    bodies: dict[int, bytes] = {}
    offset = bounds.min_offset
    while offset < bounds.max_offset:
        batch = store.read(queue_id, offset, READ_MESSAGES, READ_BYTES)
        for payload, base in zip(batch.payloads, batch.rows["base"].tolist(), strict=True):
            message = message_in(payload)
            if message.offset != base:
                raise AssertionError(f"queue {queue_id} serves the record of offset {message.offset} at {base}")
            bodies[base] = message.body
        if batch.next_offset <= offset:
            raise AssertionError(f"queue {queue_id} does not get beyond offset {offset} of {bounds}")
        offset = batch.next_offset
    return Found(bounds.min_offset, bounds.max_offset, bodies, dict(store.table(queue_id).producers))


def _messages(entry: Entry) -> Sequence[Plain]:
    return entry.messages if isinstance(entry, PlainRun) else [entry]  # type: ignore[list-item]


def _ack(sent: Sequence[Sent]) -> None:
    for each in sent:
        each.acked = True


def _kept(value: bytes | None = None) -> Fact:
    return Fact(value, done=True, safe=True)


def _done(store: Store, fact: Fact) -> None:
    def then(error: Exception | None) -> None:
        fact.safe = fact.safe or error is None

    fact.done = True
    store.when_durable(store.end_position, then)
