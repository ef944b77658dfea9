"""Whether a store that was opened after a crash keeps what its predecessor promised to a witness.

`problems` says in sentences what was broken. It changes nothing, so one witness can judge many states of one moment.

What must hold after a power cut: all that was acknowledged, or seen in a sync queue, is there, unless it was trimmed or
dropped since. After a kill: also all that was only written. Always: what is there is what was sent, at its own offset,
in its order; a group is whole or absent, with the facts that belong to it; no offset that was seen in a sync queue is
given away again. What was under way when the crash came may be there or not.

Not here: damage to the medium, after which something may be missing.
"""

from collections.abc import Iterator

from penstock.model import Durability
from penstock.store.store import Store
from penstock.testing.witness import Fact, Found, Queue, Sent, Witness, look


def problems(witness: Witness, store: Store, killed: bool = False) -> list[str]:
    """What the store has not kept. `killed`: the process ended, the machine did not."""
    found = {queue_id: look(store, queue_id) for queue_id in witness.queues}
    groups = _groups_found(witness, found)
    return [
        *(line for queue_id in witness.queues for line in _queue(witness, queue_id, found[queue_id], killed)),
        *(f"group {group} came back in part: {parts}" for group, parts in groups.items() if len(set(parts)) > 1),
        *(line for key, facts in witness.catalog.items() for line in _fact(key, facts, store, groups, killed)),
    ]


def _queue(witness: Witness, queue_id: int, found: Found | None, killed: bool) -> Iterator[str]:
    queue = witness.queues[queue_id]
    if found is None:
        if queue.dropped is None and queue.created.holds(killed):
            yield f"queue {queue_id} is gone"
    elif queue.dropped is not None and queue.dropped.holds(killed):
        yield f"queue {queue_id} was dropped and is back"
    else:
        if queue.created.holds(killed):
            yield from _bounds(queue_id, queue, found, killed)
        yield from (f"queue {queue_id}: {line}" for line in _content(witness, queue_id, found))
        if queue.dropped is None:
            yield from (f"queue {queue_id}: {line}" for line in _losses(queue, found, killed))
            yield from (f"queue {queue_id}: {line}" for line in _producers(queue, found, killed))


def _bounds(queue_id: int, queue: Queue, found: Found, killed: bool) -> Iterator[str]:
    kept, asked = queue.trim_kept(killed), queue.trim_asked
    if not kept <= found.min_offset <= asked:
        yield f"queue {queue_id} begins at {found.min_offset}, was trimmed to {kept} (asked: {asked})"
    if queue.durability is Durability.SYNC and found.max_offset < queue.seen_offset:
        yield f"queue {queue_id} ends at {found.max_offset}, was seen up to {queue.seen_offset}"


def _content(witness: Witness, queue_id: int, found: Found) -> Iterator[str]:
    last = -1
    ranks = {sent.body: rank for rank, sent in enumerate(witness.queues[queue_id].sent)}
    for offset, body in found.bodies.items():
        sent = witness.bodies.get(body)
        if sent is None or sent.queue != queue_id:
            yield f"offset {offset} holds {body[:40]!r}, which was never sent there"
        elif sent.offset not in (None, offset):
            yield f"offset {offset} holds {body[:40]!r}, which was at {sent.offset}"
        elif ranks[body] <= last:
            yield f"offset {offset} holds {body[:40]!r}, out of order"
        else:
            last = ranks[body]


def _losses(queue: Queue, found: Found, killed: bool) -> Iterator[str]:
    for sent in queue.sent:
        if _trimmed(sent, queue) or sent.offset is None or found.bodies.get(sent.offset) == sent.body:
            continue
        seen = queue.durability is Durability.SYNC and sent.offset < queue.seen_offset
        if sent.acked or seen or killed:
            yield f"offset {sent.offset} is lost (acknowledged: {sent.acked}, seen: {seen})"


def _trimmed(sent: Sent, queue: Queue) -> bool:
    return sent.offset is not None and sent.offset < queue.trim_asked


def _producers(queue: Queue, found: Found, killed: bool) -> Iterator[str]:
    """Deduplication: a sequence that was kept is known, one that was lost is not (its producer will send it again)."""
    present = set(found.bodies.values())
    for producer in {sent.producer for sent in queue.sent if sent.producer}:
        theirs = [sent for sent in queue.sent if sent.producer == producer]
        least = max(
            (sent.sequence for sent in theirs if sent.acked or (killed and sent.offset is not None)), default=-1
        )
        most = max((sent.sequence for sent in theirs if sent.body in present or _trimmed(sent, queue)), default=-1)
        known = found.producers.get(producer, -1)
        if not least <= known <= most:
            yield f"sequence {known} is the highest known of producer {producer}, should be {least} to {most}"
        for sent in theirs:
            lost = sent.offset is not None and sent.body not in present and not _trimmed(sent, queue)
            if lost and sent.sequence <= known:
                yield f"sequence {sent.sequence} of producer {producer} is lost, and would be refused as a duplicate"


def _groups_found(witness: Witness, found: dict[int, Found | None]) -> dict[int, list[bool]]:
    """For each group, which of its messages are there, but for those that were trimmed or dropped."""
    groups: dict[int, list[bool]] = {}
    present = {body for theirs in found.values() if theirs for body in theirs.bodies.values()}
    for sent in witness.bodies.values():
        queue = witness.queues[sent.queue]
        if sent.group and queue.dropped is None and found[sent.queue] is not None and not _trimmed(sent, queue):
            groups.setdefault(sent.group, []).append(sent.body in present)
    return groups


def _fact(key: str, facts: list[Fact], store: Store, groups: dict[int, list[bool]], killed: bool) -> Iterator[str]:
    """A key has the last value that was kept, or one of those that came later; a fact comes and goes with its group."""
    certain = -1
    allowed: list[bytes | None] = [None]
    for index, fact in enumerate(facts):
        parts = groups.get(fact.group, [])
        if fact.holds(killed) or (parts and all(parts)):
            certain, allowed = index, [fact.value]
        elif not parts or any(parts):
            allowed.append(fact.value)
    value = store.catalog.get(key)
    if value not in allowed:
        yield f"the catalog has {value!r} for {key!r}, not one of {allowed} (certain up to change {certain})"
