"""What the framings of the protocols here have in common: a frame begins with the length of what follows, 32 bits,
big-endian.
"""

import struct

_LENGTH = struct.Struct(">I")


class FrameError(Exception):
    """The framing is lost: what follows cannot be understood."""


def missing_bytes(view: memoryview, end: int) -> int:
    """How many more bytes the frame at the start needs, as far as is known."""
    if end < 4:
        return 4 - end
    (length,) = _LENGTH.unpack_from(view)
    return max(0, 4 + int(length) - end)
