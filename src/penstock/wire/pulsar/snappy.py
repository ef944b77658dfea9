"""Snappy's raw blocks, opened. They are met only where a batch is opened, so this need not be fast.

    varint length when opened | elements: a literal, or a copy of what was opened before

The two low bits of an element's first byte say what it is: 0 a literal, 1 a copy with an 11-bit distance, 2 with 16
bits, 3 with 32 bits.
"""

LENGTH_BYTES_MAX = 5  # of the varint in front


class SnappyError(ValueError):
    """This is no such block, or it would be larger than allowed."""


def opened(block: bytes, bytes_max: int) -> bytes:
    """What is in a block."""
    size, at = _size(block)
    if size > bytes_max:
        raise SnappyError(f"{size} bytes when opened, at most {bytes_max} are taken")
    out = bytearray()
    while at < len(block) and len(out) <= size:
        tag = block[at]
        at = _literal(block, at, out) if tag & 3 == 0 else _copy(block, at, out, size)
    if len(out) != size:
        raise SnappyError(f"{len(out)} bytes when opened, and not {size} as it says")
    return bytes(out)


def _size(block: bytes) -> tuple[int, int]:
    size = 0
    for at, byte in enumerate(block[:LENGTH_BYTES_MAX]):
        size |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            return size, at + 1
    raise SnappyError("it does not say its length")


def _literal(block: bytes, at: int, out: bytearray) -> int:
    length, at = block[at] >> 2, at + 1
    if length >= 60:  # the length stands in the next 1 to 4 bytes
        width = length - 59
        length, at = _number(block, at, width), at + width
    behind = at + length + 1
    if behind > len(block):
        raise SnappyError(f"a literal of {length + 1} bytes is cut off")
    out += block[at:behind]
    return behind


def _copy(block: bytes, at: int, out: bytearray, size: int) -> int:
    tag = block[at]
    if tag & 3 == 1:
        length, width = (tag >> 2 & 7) + 4, 1
        distance = (tag >> 5) << 8 | _number(block, at + 1, 1)
    else:
        length, width = (tag >> 2) + 1, 2 if tag & 3 == 2 else 4
        distance = _number(block, at + 1, width)
    if not 0 < distance <= len(out) or len(out) + length > size:
        raise SnappyError(f"a copy of {length} bytes from {distance} back does not fit")
    start = len(out) - distance
    piece = bytes(out[start : start + length])
    out += (piece * (length // len(piece) + 1))[:length]  # it may overlap with itself: then it repeats
    return at + 1 + width


def _number(block: bytes, at: int, width: int) -> int:
    if at + width > len(block):
        raise SnappyError("it is cut off")
    return int.from_bytes(block[at : at + width], "little")
