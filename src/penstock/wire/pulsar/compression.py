"""Bodies that producers have compressed: opened with a bound, and made.

The block formats are bare: LZ4 and Snappy without a frame around, so that the length when opened has to be told, as
the metadata does. lz4 and zstandard are extras: who opens such bodies needs them (`pip install penstock[client]`).
"""

import zlib
from collections.abc import Callable

from penstock.wire.pulsar import snappy
from penstock.wire.pulsar.commands_pb2 import LZ4, NONE, SNAPPY, ZLIB, ZSTD
from penstock.wire.pulsar.entry import PayloadError

OPENED_BYTES_MAX = 64 << 20  # as large as a body may become


def opened(body: bytes, compression: int, plain_bytes: int) -> bytes:
    """A body as it was before it was compressed, which has `plain_bytes`."""
    if compression == NONE:
        return body
    if plain_bytes > OPENED_BYTES_MAX:
        raise PayloadError(f"a body of {plain_bytes} bytes when opened: at most {OPENED_BYTES_MAX} are opened")
    opener = _OPENERS.get(compression)
    if opener is None:
        raise PayloadError(f"compression {compression} is not known")
    found = opener(body, plain_bytes)
    if len(found) != plain_bytes:
        raise PayloadError(f"a body has {len(found)} bytes when opened, and not {plain_bytes} as its metadata says")
    return found


def _from_zlib(body: bytes, plain_bytes: int) -> bytes:
    try:
        return zlib.decompressobj().decompress(body, plain_bytes + 1)
    except zlib.error as error:
        raise PayloadError(f"a zlib body cannot be opened: {error}") from None


def _from_lz4(body: bytes, plain_bytes: int) -> bytes:
    import lz4.block  # an extra: only who opens such bodies needs it

    try:
        found: bytes = lz4.block.decompress(body, uncompressed_size=plain_bytes)
    except lz4.block.LZ4BlockError as error:
        raise PayloadError(f"an LZ4 body cannot be opened: {error}") from None
    return found


def _from_zstd(body: bytes, plain_bytes: int) -> bytes:
    import zstandard

    try:
        with zstandard.ZstdDecompressor(max_window_size=OPENED_BYTES_MAX).stream_reader(body) as reader:
            found: bytes = reader.read(plain_bytes + 1)
    except zstandard.ZstdError as error:
        raise PayloadError(f"a Zstandard body cannot be opened: {error}") from None
    return found


def _from_snappy(body: bytes, plain_bytes: int) -> bytes:
    try:
        return snappy.opened(body, plain_bytes)
    except snappy.SnappyError as error:
        raise PayloadError(f"a Snappy body cannot be opened: {error}") from None


_OPENERS: dict[int, Callable[[bytes, int], bytes]] = {
    ZLIB: _from_zlib,
    LZ4: _from_lz4,
    ZSTD: _from_zstd,
    SNAPPY: _from_snappy,
}


def compressed(body: bytes, compression: int) -> bytes:
    """A body as a producer compresses it. Snappy is only read here."""
    maker = _MAKERS.get(compression)
    if maker is None:
        raise PayloadError(f"nothing is compressed with method {compression} here")
    return maker(body)


def _as_lz4(body: bytes) -> bytes:
    import lz4.block

    made: bytes = lz4.block.compress(body, store_size=False)
    return made


def _as_zstd(body: bytes) -> bytes:
    import zstandard

    made: bytes = zstandard.ZstdCompressor().compress(body)
    return made


_MAKERS: dict[int, Callable[[bytes], bytes]] = {NONE: bytes, ZLIB: zlib.compress, LZ4: _as_lz4, ZSTD: _as_zstd}
