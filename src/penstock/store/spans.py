"""Which bytes of the log a read of neighbouring rows brings: the shortest way from rows to what is sent, for who hands
messages on as they are.

`_spans.c` has both functions compiled. A pull of 32 messages asked numpy eight small questions, 3 us each, where one
walk over the rows answers them all; and a slice of the mapping for each message, to be joined a moment later, costs
more than the copy of its bytes.
"""

import msgspec

from penstock.compiled import compiled
from penstock.store.rowfiles import ROW, ROW_BYTES

Part = tuple[memoryview, int, list[int]]  # a segment, where it begins in the log, and positions and lengths in turn


class Slices(msgspec.Struct, gc=False):
    """Messages as they lie in the log. Good for this turn of the loop: nothing keeps their segments there."""

    parts: list[Part]
    messages: int
    size_bytes: int
    next_offset: int
    min_offset: int  # from where to where their queue holds something, as consumers see it
    max_offset: int

    def behind(self, head: bytes) -> bytes:
        """All of them, behind some bytes of the caller's."""
        return joined([head, *self.parts])


Spans = tuple[int, int, int, int, int, int, list[int]]


def spans_in_python(
    view: memoryview, at: int, rows: int, first: int, messages_max: int, bytes_max: int
) -> Spans | None:
    """Of `rows` rows that lie at `at`, as many as both limits allow, but at least one. How many, messages, bytes, the
    next offset, between which positions all of it lies, and where: positions and lengths in turn, of what touches in
    the log. None when there is nothing, a row is lost, or the first does not begin with the offset `first` (any does
    for -1): then it takes a closer look.
    """
    if at < 0 or rows < 0 or at + rows * ROW_BYTES > len(view):
        raise ValueError("no such rows")
    used = messages = size_bytes = next_offset = high = 0
    low = -1
    places: list[int] = []
    for place in range(at, at + rows * ROW_BYTES, ROW_BYTES):
        position, base, _, _, length, count, _, _ = ROW.unpack_from(view, place)
        if position < 0 or length < 0 or (not used and first >= 0 and (base != first or count <= 0)):
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


def joined_in_python(pieces: list[bytes | Part]) -> bytes:
    """One behind the other: bytes as they are, and what lies in the log at the places of a part. ValueError for a place
    outside of its segment.
    """
    found: list[bytes | memoryview] = []
    for piece in pieces:
        if isinstance(piece, bytes):
            found.append(piece)
            continue
        view, base, places = piece
        for position, length in zip(places[::2], places[1::2], strict=True):
            at = position - base
            if at < 0 or length < 0 or at + length > len(view):
                raise ValueError("a place outside of its segment")
            found.append(view[at : at + length])
    return b"".join(found)


_COMPILED = "penstock.store._spans"
spans = compiled(_COMPILED, spans_in_python)
joined = compiled(_COMPILED, joined_in_python)
