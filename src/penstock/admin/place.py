"""A place in a queue, as people write it: earliest, latest, an offset, or a time. Pure.

earliest          the first message that is still there
latest            behind the last one
1234              that offset
15m               fifteen minutes ago (s, m, h, d)
2026-01-31T12:00  that time, of this machine's zone unless one is given (2026-01-31T12:00Z, ...+02:00)
@1769860800000    that time, in milliseconds since 1970
"""

import datetime as dt
import re

import msgspec

from penstock.admin.errors import BadPlace

EARLIEST, LATEST, OFFSET, TIME = "earliest", "latest", "offset", "time"
_AGO = re.compile(r"(\d{1,9})([smhd])", re.ASCII)
_DIGITS = re.compile(r"\d{1,18}", re.ASCII)
_UNIT_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
TIME_MS_MAX = 253_402_300_799_999  # the end of the year 9999
HELP = "earliest, latest, an offset, 15m (ago; s, m, h, d), 2026-01-31T12:00[Z], or @milliseconds"


class Place(msgspec.Struct, frozen=True):
    """`value` is an offset, or a time in ms."""

    kind: str
    value: int = 0

    def __str__(self) -> str:
        if self.kind == TIME:
            return dt.datetime.fromtimestamp(self.value / 1000, dt.UTC).isoformat(timespec="milliseconds")
        return f"offset {self.value}" if self.kind == OFFSET else self.kind


def place(text: str, now_ms: int) -> Place:
    """BadPlace when it is none."""
    word = text.strip().lower()
    if word in (EARLIEST, LATEST):
        return Place(word)
    if _DIGITS.fullmatch(word):
        return Place(OFFSET, int(word))
    if ago := _AGO.fullmatch(word):
        return Place(TIME, max(now_ms - int(ago[1]) * _UNIT_MS[ago[2]], 0))
    if word.startswith("@") and _DIGITS.fullmatch(word[1:]) and int(word[1:]) <= TIME_MS_MAX:
        return Place(TIME, int(word[1:]))
    return Place(TIME, _time_ms(text.strip()))


def _time_ms(text: str) -> int:
    try:
        found = dt.datetime.fromisoformat(text)
        return max(int(found.timestamp() * 1000), 0)  # without a zone it is this machine's
    except (ValueError, OverflowError, OSError):
        raise BadPlace(f"{text[:60]!r} is no place in a queue: give {HELP}") from None
