"""Messages on their way: compressed and opened, delayed, and what they cannot carry."""

import io
import os
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.message import Message, compressed, opened
from penstock.wire.rocketmq import compression

PLAIN = b"penstock " * 2_000
ZLIB, LZ4, ZSTD = 0x001, 0x101, 0x201
JAVA_ZLIB = 0x301


def with_lz4(body: bytes) -> bytes:
    return pytest.importorskip("lz4.frame").compress(body)


def with_zstd(body: bytes) -> bytes:
    """As Java does: in a stream, so its beginning does not say how large it becomes."""
    zstandard, out = pytest.importorskip("zstandard"), io.BytesIO()
    with zstandard.ZstdCompressor().stream_writer(out, closefd=False) as writer:
        writer.write(body)
    return out.getvalue()


KINDS = [(zlib.compress, ZLIB), (zlib.compress, JAVA_ZLIB), (with_lz4, LZ4), (with_zstd, ZSTD)]
of_each_kind = pytest.mark.parametrize(("pack", "flag"), KINDS, ids=["zlib", "zlib as Java 5", "lz4", "zstd"])


@of_each_kind
@pytest.mark.parametrize("body", [b"", b"x", PLAIN, os.urandom(10_000)], ids=["empty", "one", "plain", "random"])
def test_what_was_compressed_is_opened(pack, flag, body):
    assert opened(pack(body), flag) == body


@of_each_kind
def test_what_is_cut_off_is_an_error(pack, flag):
    whole = pack(PLAIN)
    for length in (0, 1, len(whole) // 2, len(whole) - 1):
        with pytest.raises(ValueError, match=r"cut off|cannot be opened"):
            opened(whole[:length], flag)


@of_each_kind
def test_garbage_is_an_error(pack, flag):
    pack(b"")
    with pytest.raises(ValueError, match="cannot be opened"):
        opened(b"no such thing", flag)


@of_each_kind
def test_a_bomb_is_not_opened(pack, flag, monkeypatch):
    monkeypatch.setattr(compression, "OPENED_BYTES_MAX", 1 << 20)
    assert len(opened(pack(bytes(1 << 19)), flag)) == 1 << 19
    with pytest.raises(ValueError, match="larger than 1048576 bytes"):
        opened(pack(bytes(64 << 20)), flag)


@pytest.mark.parametrize(("flag", "name"), [(LZ4, "lz4"), (ZSTD, "zstandard")])
def test_what_is_missing_is_named(flag, name, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, name, None)
    with pytest.raises(ValueError, match=f"compressed with {name}: pip install"):
        opened(b"x", flag)


def test_what_was_not_compressed_is_left_alone():
    assert opened(b"\x01\x02", 0x100) == b"\x01\x02"


@given(st.binary(max_size=200), st.integers(0, 50))
def test_a_body_comes_back_as_it_was(body, from_bytes):
    packed, flag = compressed(body, 0, from_bytes)
    assert opened(packed, flag) == body
    assert len(packed) <= len(body)
    assert bool(flag) == (packed != body)


def test_what_is_sent_small_stays_as_it_is():
    assert compressed(b"x" * 100, 4, 101) == (b"x" * 100, 4)
    assert compressed(b"x" * 100, 4, 100)[1] == 5


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"delay_level": 3}, {"DELAY": "3"}),
        ({"delay_ms": 1_500}, {"TIMER_DELAY_MS": "1500"}),
        ({"deliver_at_ms": 1_700_000_000_000}, {"TIMER_DELIVER_MS": "1700000000000"}),
    ],
)
def test_a_delay_is_a_property(how, expected):
    found = Message("t", b"", **how).all_properties("id")
    assert found == expected | {"UNIQ_KEY": "id", "WAIT": "true"}


def test_two_delays_at_once_are_refused():
    with pytest.raises(ValueError, match="by one of them"):
        Message("t", b"", delay_level=1, delay_ms=1).all_properties("id")
