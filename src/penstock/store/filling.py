"""Filling the append buffer: the hottest code of the store.

Per entry: it writes itself, two checksums, a header, a row. That is why the loop looks as it does: it is one function,
it keeps what it needs in local names, and it makes no object per entry. `_filling.c` is the same, compiled.
"""

from crc32c import crc32c

from penstock.compiled import compiled
from penstock.errors import QueueNotFound
from penstock.model import Durability, Entry
from penstock.store.commit import Shown
from penstock.store.layout import FACTS, HEADER, HEADER_BYTES, MAGIC, RUN, SEED_MASK
from penstock.store.table import Mark, QueueTable

_COMPILED = "penstock.store._filling"
DIRECT_BYTES = 32_768  # from here on a copy costs more than a write of its own


def fill_in_python(
    entries: list[Entry],
    index: int,
    view: memoryview,
    limit: int,
    base: int,
    secret: int,
    synced: int,
    now_ms: int,
    turn: int,
    tables: dict[int, QueueTable],
    touched: list[Mark],
    numbered: list[Entry],
    flags_of: list[int] | None,
) -> tuple[int, int, int, memoryview | bytes | None]:
    """Put entries from `index` on into `view`, whose first byte is `base` in the log, and rows into their tables, until
    one would reach behind `limit`. Which entry that is, how many bytes are used, and how many bytes of payload there
    are. A long payload that needs no change is not put there: it is the last, and returned as what follows.

    Tables that this append has not touched before (their `turn`) are marked in `touched`; entries of producers that
    number their messages go into `numbered`. After an error the caller takes all tables back to their marks.
    """
    pack_facts, pack_header, at, payload_bytes, seed = FACTS.pack, HEADER.pack_into, 0, 0, secret + base
    for number in range(index, len(entries)):
        entry = entries[number]
        queue, length, count, tag = entry.queue, entry.length, entry.count, entry.tag
        payload_at = at + HEADER_BYTES
        if (behind := payload_at + length) > limit:
            return number, at, payload_bytes, None
        if (table := tables.get(queue)) is None:
            raise QueueNotFound(str(queue))
        if table.turn != turn:
            table.turn = turn
            touched.append((table, table.next_row, table.next_offset, table.live_bytes))
        table.encodings |= 1 << entry.encoding
        entry.offset, entry.row = offset, row = table.next_offset, table.next_row
        if direct := entry.verbatim and length >= DIRECT_BYTES:
            payload = _payload_of(entry, length)
        else:
            payload = view[payload_at:behind]
            entry.write_into(view, payload_at, queue, offset, now_ms)
        flags = (flags_of[number] if flags_of else 0) | (RUN if entry.run else 0)
        if entry.run:
            table.add_run(base + payload_at, offset, now_ms, entry.spans(), HEADER_BYTES)
        else:
            table.add(base + payload_at, length, offset, count, now_ms, tag, HEADER_BYTES)
        producer, sequence = entry.producer, entry.sequence
        if producer and sequence >= 0:
            numbered.append(entry)
        facts = pack_facts(
            crc32c(payload), length, queue, count, row, offset, now_ms, synced,
            producer, sequence, entry.encoding, flags, tag,
        )  # fmt: skip
        pack_header(view, at, MAGIC, crc32c(facts, (seed + at) & SEED_MASK), facts)
        payload_bytes += length
        if direct:
            return number + 1, payload_at, payload_bytes, payload
        at = behind
    return len(entries), at, payload_bytes, None


def _payload_of(entry: Entry, length: int) -> memoryview | bytes:
    payload: memoryview | bytes = entry.payload  # type: ignore[attr-defined]
    if len(payload) != length:
        raise ValueError(f"a payload of {len(payload)} bytes is said to have {length}")
    return payload


def reveal_in_python(touched: list[Mark], last_ms: int, sync: Durability) -> list[Shown]:
    """Let what was appended to these tables be seen; those that wait until it is durable are returned instead."""
    hidden: list[Shown] = []
    for table, _, _, _ in touched:
        table.last_ms = last_ms
        if table.durability is sync:
            hidden.append((table, table.next_row, table.next_offset))
        else:
            table.visible_row, table.visible_offset = table.next_row, table.next_offset
    return hidden


fill = compiled(_COMPILED, fill_in_python)
reveal = compiled(_COMPILED, reveal_in_python)
