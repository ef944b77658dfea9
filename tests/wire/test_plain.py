"""The plain encoding: what goes in comes out, and whatever else comes in is refused and never reaches beyond itself."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import StoreError
from penstock.wire.plain import Message, Plain, message_in, messages_in, plain, plain_run, split, tag_hash

U64 = st.integers(0, 2**64 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
BODY = st.binary(max_size=300)
PROPERTIES = st.dictionaries(TEXT, TEXT, max_size=4)
GUARD = b"\xa5" * 16


@st.composite
def messages(draw: st.DrawFn) -> Message:
    return Message(draw(BODY), draw(TEXT), draw(TEXT), draw(PROPERTIES), draw(U64))


def entry_of(message: Message, queue: int = 1) -> Plain:
    return plain(queue, message.body, message.key, message.tags, message.properties, message.born_ms)


def written(entry, offset: int = 0, store_ms: int = 0) -> memoryview:
    """The entry's payload; what is written beside it is noticed."""
    buffer = bytearray(GUARD + bytes(entry.length) + GUARD)
    entry.write_into(memoryview(buffer), len(GUARD), entry.queue, offset, store_ms)
    assert buffer.startswith(GUARD)
    assert buffer.endswith(GUARD)
    return memoryview(buffer)[len(GUARD) : -len(GUARD)].toreadonly()


# --- there and back ---------------------------------------------------------------------------------------------------


@given(messages(), U64, U64)
def test_a_message_comes_out_as_it_went_in(message, offset, store_ms):
    found = message_in(written(entry_of(message), offset, store_ms))
    message.offset, message.store_ms = offset, store_ms
    assert found == message


@given(st.lists(messages(), min_size=1, max_size=8), st.integers(0, 2**40))
def test_a_run_comes_out_as_it_went_in(contents, offset):
    run = plain_run([entry_of(message) for message in contents])
    found = messages_in(written(run, offset, 17))
    for number, message in enumerate(contents):
        message.offset, message.store_ms = offset + number, 17
    assert found == contents
    assert run.count == len(contents)


@given(st.lists(messages(), min_size=1, max_size=8))
def test_splitting_a_stored_run_finds_what_the_run_said_itself(contents):
    run = plain_run([entry_of(message) for message in contents])
    payload = written(run)
    said, found = run.spans(), split(payload)
    for mine, theirs in zip(said, found, strict=True):
        assert mine.tolist() == theirs.tolist()
    for start, message in zip(found.starts.tolist(), contents, strict=True):
        assert message_in(payload, start).body == message.body


def test_a_view_into_somebody_elses_buffer_is_copied_when_written():
    receive_buffer = bytearray(b"hello")
    payload = bytes(written(plain(1, memoryview(receive_buffer))))
    receive_buffer[:] = b"XXXXX"
    assert message_in(memoryview(payload)).body == b"hello"


def test_a_message_without_anything():
    assert message_in(written(plain(1, b""))) == Message(b"", offset=0)
    assert messages_in(memoryview(b"")) == []


@pytest.mark.parametrize("field", ["key", "tags"])
def test_a_key_or_tag_that_does_not_fit_is_refused(field):
    plain(1, b"", **{field: "x" * 65_535})
    with pytest.raises(ValueError, match="65535"):
        plain(1, b"", **{field: "ä" * 32_768})


# --- tags -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", 0),
        ("a", 97),
        ("TagA", 2598919),
        ("polygenelubricants", -(2**31)),
        ("naïve", 104710475),
        ("\U0001f600", 1772899),
    ],
)
def test_a_tag_is_hashed_as_java_does(text, code):
    assert tag_hash(text) == code


@given(TEXT)
def test_a_hash_fits_where_it_is_kept(text):
    assert -(2**31) <= tag_hash(text) < 2**31


def test_an_entry_carries_its_tags_hash():
    assert (plain(1, b"", tags="TagA").tag, plain(1, b"").tag) == (2598919, 0)


# --- what is not ours -------------------------------------------------------------------------------------------------


def refused_or_inside(payload: bytes) -> None:
    """Each reader either refuses with our error or stays inside what it was given."""
    view = memoryview(payload)
    for reader in (message_in, messages_in):
        try:
            found = reader(view)
        except StoreError:
            continue
        for message in found if isinstance(found, list) else [found]:
            assert message.body in payload
    try:
        spans = split(view)
    except StoreError:
        return
    ends = (spans.starts + spans.lengths).tolist()
    assert ends == [*spans.starts.tolist()[1:], len(payload)][: len(ends)]


@given(st.binary(max_size=200))
def test_garbage(payload):
    refused_or_inside(payload)


@given(st.lists(messages(), min_size=1, max_size=3), st.data())
def test_a_record_cut_off_anywhere_is_refused(contents, data):
    payload = bytes(written(plain_run([entry_of(message) for message in contents])))
    cut = data.draw(st.integers(1, len(payload) - 1))
    refused_or_inside(payload[:cut])
    with pytest.raises(StoreError):
        messages_in(memoryview(payload[: entry_of(contents[0]).length - 1]))


@given(messages(), st.data())
def test_a_wrong_byte_anywhere(message, data):
    payload = bytearray(written(entry_of(message)))
    payload[data.draw(st.integers(0, len(payload) - 1))] ^= data.draw(st.integers(1, 255))
    refused_or_inside(bytes(payload))


HEAD = struct.Struct("<IQQQHHI")


@pytest.mark.parametrize(
    ("length", "keyed", "tagged", "properties"),
    [
        (0, 0, 0, 0),
        (35, 0, 0, 0),
        (37, 0, 0, 0),
        (2**32 - 1, 0, 0, 0),
        (36, 1, 0, 0),
        (36, 0, 1, 0),
        (36, 0, 0, 2**32 - 1),
    ],
)
def test_lengths_that_lie_are_refused(length, keyed, tagged, properties):
    payload = memoryview(HEAD.pack(length, 0, 0, 0, keyed, tagged, properties))
    for reader in (message_in, messages_in, split):
        with pytest.raises(StoreError, match="plain record"):
            reader(payload)


def test_a_record_does_not_read_its_neighbour():
    """Its own length ends it, also where its neighbour's bytes are there to be read."""
    payload = bytearray(written(plain_run([plain(1, b"first"), plain(1, b"second")])))
    struct.pack_into("<H", payload, 28, 6)  # the first claims a key of six bytes, and has a body of five
    with pytest.raises(StoreError):
        messages_in(memoryview(payload))


@pytest.mark.parametrize("field", ["key", "tags"])
def test_text_that_is_none_is_refused(field):
    payload = bytearray(written(plain(1, b"", **{field: "abc"})))
    payload[-1] = 0xFF
    with pytest.raises(StoreError):
        message_in(memoryview(payload))


@pytest.mark.parametrize("properties", [b"nonsense", b'{"a":1}', b"[]", b'{"a"', b"\xff\xff"])
def test_properties_that_are_none_are_refused(properties):
    head = HEAD.pack(HEAD.size + len(properties), 0, 0, 0, 0, 0, len(properties))
    with pytest.raises(StoreError):
        message_in(memoryview(head + properties))
