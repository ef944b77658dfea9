"""Walking the log from entry to entry: what recovery, verification and the cleaner stand on.

At a place where no sound header stands, the walk looks for the next one in the segment. What lies between is damage,
unless nothing sound follows in the newest segment: then it is where the log ends, torn or not.
"""

from collections.abc import Iterator
from typing import NamedTuple

from crc32c import crc32c

from penstock.store.layout import HEADER_BYTES, MAGIC_BYTES, Header, header_in
from penstock.store.plan import Damage
from penstock.store.segments import Segments

_WINDOW_BYTES = 1 << 20
_TORN_BYTES_MAX = 1 << 24


class Found(NamedTuple):
    """An entry with a sound header. `sound` tells whether its payload is too."""

    position: int
    header: Header
    payload: memoryview
    sound: bool

    @property
    def end(self) -> int:
        return self.position + HEADER_BYTES + self.header.length


def scan(segments: Segments, start: int, payloads: bool = True) -> Iterator[Found | Damage]:
    """All entries from `start`, which is where one begins, and the damage between them. Without `payloads` only headers
    are checked.
    """
    for number, begin, end in segments.from_position(start):
        yield from scan_segment(segments, number, begin, end, payloads)


def scan_segment(
    segments: Segments, number: int, begin: int, end: int | None, payloads: bool
) -> Iterator[Found | Damage]:
    view = segments.get(number).view
    base, secret = number * segments.segment_bytes, segments.secret
    limit = min(end if end is not None else len(view), len(view))
    at = begin
    while at < limit:
        header = header_in(view, at, base + at, secret)
        behind = at + HEADER_BYTES + header.length if header else 0
        if header is None or behind > limit:
            quiet = segments.quiet.get(number)
            sound_at = None if quiet == at else _next_header(view, at + 1, limit, base, secret)
            if sound_at is None:
                segments.quiet[number] = at
                if end is not None:  # a sealed segment has entries up to its end
                    yield Damage(base + at, limit - at, "no sound entry up to the end of the segment")
                return
            yield Damage(base + at, sound_at - at, "no sound entry header")
            at = sound_at
            continue
        payload = view[at + HEADER_BYTES : behind]
        yield Found(base + at, header, payload, not payloads or crc32c(payload) == header.payload_crc)
        at = behind


def _next_header(view: memoryview, at: int, limit: int, base: int, secret: int) -> int | None:
    """The place of the next sound header."""
    while at < limit:
        window = bytes(view[at : min(at + _WINDOW_BYTES + len(MAGIC_BYTES) - 1, limit)])
        hit = window.find(MAGIC_BYTES)
        while hit >= 0:
            header = header_in(view, at + hit, base + at + hit, secret)
            if header is not None and at + hit + HEADER_BYTES + header.length <= limit:
                return at + hit
            hit = window.find(MAGIC_BYTES, hit + 1)
        at += _WINDOW_BYTES
    return None


def torn_bytes(segments: Segments, position: int) -> int:
    """How many bytes from a position up to the last one that is not zero, as far as a torn write may reach."""
    segment, place = segments.at(position)
    view, last = segment.view, place
    for at in range(place, min(len(view), place + _TORN_BYTES_MAX), _WINDOW_BYTES):
        window = bytes(view[at : at + _WINDOW_BYTES]).rstrip(b"\0")
        if window:
            last = at + len(window)
    return last - place


def last_synced(segments: Segments, start: int) -> int:
    """What the last sound entry behind `start` says was on the medium when it was written: below that nothing may be
    cut.
    """
    for number in reversed(segments.numbers):
        begin = max(start, segments.first_position(number)) - number * segments.segment_bytes
        if begin >= segments.segment_bytes:
            break
        synced = -1
        for item in scan_segment(segments, number, begin, None, payloads=False):
            if isinstance(item, Found):
                synced = item.header.synced
        if synced >= 0:
            return synced
    return 0
