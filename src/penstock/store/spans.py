"""Which bytes of the log a read of neighbouring rows brings: the shortest way from rows to what is sent, for who hands
messages on as they are.

`_spans.c` is `spans_in_python`, compiled: a pull of 32 messages asked numpy eight small questions, 3 us each, where one
walk over the rows answers them all.
"""

from typing import NamedTuple

from penstock.compiled import compiled
from penstock.store.rowfiles import ROW, ROW_BYTES


class Slices(NamedTuple):
    """Messages as they lie in the log; those that touch there are one payload."""

    payloads: list[memoryview]
    messages: int
    size_bytes: int
    next_offset: int


Spans = tuple[int, int, int, int, int, int, list[int]]


def spans_in_python(view: memoryview, at: int, rows: int, messages_max: int, bytes_max: int) -> Spans | None:
    """Of `rows` rows that lie at `at`, as many as both limits allow, but at least one. How many, messages, bytes, the
    next offset, between which positions all of it lies, and where: positions and lengths in turn, of what touches in
    the log. None when there is nothing, or a row is lost: then it takes a closer look.
    """
    if at < 0 or rows < 0 or at + rows * ROW_BYTES > len(view):
        raise ValueError("no such rows")
    used = messages = size_bytes = next_offset = high = 0
    low = -1
    places: list[int] = []
    for place in range(at, at + rows * ROW_BYTES, ROW_BYTES):
        position, base, _, _, length, count, _, _ = ROW.unpack_from(view, place)
        if position < 0 or length < 0:
            return None
        if used and (size_bytes + length > bytes_max or messages + count > messages_max):
            break
        if used and places[-2] + places[-1] == position:
            places[-1] += length
        else:
            places += [position, length]
        low, high = position if low < 0 else min(low, position), max(high, position + length)
        used, messages, size_bytes, next_offset = used + 1, messages + count, size_bytes + length, base + count
    return (used, messages, size_bytes, next_offset, low, high, places) if used else None


spans = compiled("penstock.store._spans", spans_in_python)
