"""MurmurHash3 (32 bits, seed 0): which consumer a key belongs to, the same on every machine."""

from functools import lru_cache

_MASK = 0xFFFFFFFF
_C1, _C2 = 0xCC9E2D51, 0x1B873593


def _scrambled(block: int) -> int:
    block = block * _C1 & _MASK
    block = (block << 15 | block >> 17) & _MASK
    return block * _C2 & _MASK


@lru_cache(maxsize=65_536)
def key_hash(key: bytes) -> int:
    """31 bits. Cached, since few keys make most of the traffic."""
    value, whole = 0, len(key) & ~3
    for at in range(0, whole, 4):
        value ^= _scrambled(int.from_bytes(key[at : at + 4], "little"))
        value = (value << 13 | value >> 19) & _MASK
        value = (value * 5 + 0xE6546B64) & _MASK
    if len(key) > whole:
        value ^= _scrambled(int.from_bytes(key[whole:], "little"))
    value ^= len(key)
    value = (value ^ value >> 16) * 0x85EBCA6B & _MASK
    value = (value ^ value >> 13) * 0xC2B2AE35 & _MASK
    return (value ^ value >> 16) & 0x7FFFFFFF
