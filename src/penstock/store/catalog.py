"""Small facts that must agree with the log: which queues there are, what was trimmed, and what the core keeps there
(topics, commit keys).

A fact is a key and some bytes. It is changed by appending to queue 0 of the log, so that a change is as durable as a
message, costs the same one sync, and can stand in one group with messages: both happen or neither. In memory it is a
plain dict. When too many rows are superseded, all facts are appended once more and the rows before them are trimmed.
"""

from collections.abc import Iterator, Mapping
from typing import ClassVar

import msgspec

from penstock.model import Entry

CATALOG_QUEUE = 0
ENCODING = 0
FACTS_PER_ENTRY = 1_000

Facts = Mapping[str, bytes | None]
_decoder = msgspec.msgpack.Decoder(dict[str, bytes | None])


class FactEntry(Entry):
    """Changed facts as one entry."""

    encoding: ClassVar[int] = ENCODING

    data: bytes = b""

    def write_into(self, buffer: memoryview, at: int, queue_id: int, offset: int, store_ms: int) -> None:
        buffer[at : at + self.length] = self.data


def fact_entry(facts: Facts) -> FactEntry:
    data = msgspec.msgpack.encode(facts)
    return FactEntry(queue=CATALOG_QUEUE, length=len(data), data=data)


def in_parts(facts: Mapping[str, bytes], bytes_max: int) -> Iterator[dict[str, bytes | None]]:
    """Facts as they stand in entries: neither too many in one, nor too large together."""
    part: dict[str, bytes | None] = {}
    part_bytes = 0
    for key, value in facts.items():
        fact_bytes = len(key) + len(value)
        if len(part) >= FACTS_PER_ENTRY or (part and part_bytes + fact_bytes > bytes_max):
            yield part
            part, part_bytes = {}, 0
        part[key] = value
        part_bytes += fact_bytes
    yield part


class Catalog:
    """The facts in memory. `Store.put_facts` changes them."""

    def __init__(self, facts: dict[str, bytes] | None = None) -> None:
        self._facts: dict[str, bytes] = dict(facts or {})

    def get(self, key: str) -> bytes | None:
        return self._facts.get(key)

    def items(self, prefix: str) -> list[tuple[str, bytes]]:
        return [(key, value) for key, value in self._facts.items() if key.startswith(prefix)]

    def all(self) -> dict[str, bytes]:
        return dict(self._facts)

    def __len__(self) -> int:
        return len(self._facts)

    def apply(self, facts: Facts) -> None:
        for key, value in facts.items():
            if value is None:
                self._facts.pop(key, None)
            else:
                self._facts[key] = value

    def replay(self, payload: memoryview) -> Facts:
        """Apply what an entry says; what it said."""
        facts = _decoder.decode(payload)
        self.apply(facts)
        return facts
