"""Bodies that producers have compressed, opened with a bound: zlib, or by bits of sysFlag LZ4 (frames) or Zstandard.

lz4 and zstandard are extras: who opens such bodies needs them (`pip install penstock[client]`).
"""

import zlib
from collections.abc import Callable

from penstock.wire.rocketmq.codes import SysFlag

OPENED_BYTES_MAX = 64 << 20
_COMPRESSION_SHIFT, _COMPRESSION_MASK = 8, 7
_LZ4, _ZSTD = 1, 2
_NAMES = {_LZ4: "lz4", _ZSTD: "zstd"}
_WINDOW_BYTES_MAX = 64 << 20  # the memory that zstd may take
_PIECE_BYTES = 256  # of zstd at once: even these can become megabytes


def method_of(sys_flag: int) -> str:
    """How a body is compressed, in a word; empty when it is not."""
    if not sys_flag & SysFlag.COMPRESSED:
        return ""
    return _NAMES.get(sys_flag >> _COMPRESSION_SHIFT & _COMPRESSION_MASK, "zlib")


def opened(body: bytes, sys_flag: int) -> bytes:
    """A body as it was before it was compressed. ValueError when it cannot be had back."""
    if not sys_flag & SysFlag.COMPRESSED:
        return body
    kind = sys_flag >> _COMPRESSION_SHIFT & _COMPRESSION_MASK
    try:
        return _OPENERS.get(kind, _inflated)(body)
    except ImportError as error:
        name = (error.name or "what is not installed").partition(".")[0]
        raise ValueError(f"the body was compressed with {name}: pip install 'penstock[client]'") from None
    except (zlib.error, RuntimeError, EOFError) as error:
        raise ValueError(f"the compressed body cannot be opened: {error}") from None


def _inflated(body: bytes) -> bytes:
    inflater = zlib.decompressobj()
    found = inflater.decompress(body, OPENED_BYTES_MAX)
    _check_whole(inflater.eof, len(found))
    return found


def _from_lz4(body: bytes) -> bytes:
    import lz4.frame  # an extra: only who gets such messages needs it

    opener = lz4.frame.LZ4FrameDecompressor()
    found = bytes(opener.decompress(body, max_length=OPENED_BYTES_MAX))
    _check_whole(opener.eof, len(found))
    return found


def _from_zstd(body: bytes) -> bytes:
    """In pieces: Java does not say how large it becomes."""
    import zstandard

    opener, found, at = zstandard.ZstdDecompressor(max_window_size=_WINDOW_BYTES_MAX).decompressobj(), bytearray(), 0
    try:
        while at < len(body) and not opener.eof and len(found) <= OPENED_BYTES_MAX:
            found += opener.decompress(body[at : at + _PIECE_BYTES])
            at += _PIECE_BYTES
    except zstandard.ZstdError as error:
        raise ValueError(f"the compressed body cannot be opened: {error}") from None
    _check_whole(opener.eof and len(found) <= OPENED_BYTES_MAX, len(found))
    return bytes(found)


def _check_whole(whole: bool, found_bytes: int) -> None:
    if not whole and found_bytes >= OPENED_BYTES_MAX:
        raise ValueError(f"the compressed body would be larger than {OPENED_BYTES_MAX} bytes")
    if not whole:
        raise ValueError("the compressed body is cut off")


_OPENERS: dict[int, Callable[[bytes], bytes]] = {_LZ4: _from_lz4, _ZSTD: _from_zstd}
