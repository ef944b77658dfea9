"""Which messages survive compaction, and what is left of batches: against a plain model, in one pass and in many."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.pulsar import compacting
from penstock.wire.pulsar.batch import Message, batch_of, opened_entry, single_of
from penstock.wire.pulsar.commands_pb2 import LZ4, NONE, SNAPPY, ZLIB, ZSTD, EncryptionKeys, MessageMetadata
from penstock.wire.pulsar.compacting import Compactor
from penstock.wire.pulsar.entry import metadata_in
from penstock.wire.pulsar.entry import packed as entry_packed

MESSAGES = st.builds(
    Message,
    body=st.sampled_from([b"", b"a", b"bb", b"c" * 100]),
    key=st.sampled_from(["", "k1", "k2", "k3", "k4", "k5"]),
    null_value=st.sampled_from([False, False, False, True]),
    properties=st.dictionaries(st.sampled_from(["p", "q"]), st.just("v")),
)
SINGLE = MESSAGES.map(lambda message: (False, [message]))
BATCH = st.lists(MESSAGES, min_size=1, max_size=5).map(lambda several: (True, several))


def metadata(**more):
    return MessageMetadata(producer_name="p", sequence_id=7, publish_time=1, **more)


def single(key, body, compression=NONE, **more):
    if key:
        more["partition_key"] = key
    return single_of(metadata(**more), body, compression)


def packed(is_batch, messages, compression=NONE):
    if is_batch:
        return batch_of(metadata(), messages, compression)
    (message,) = messages
    more = {"null_value": True} if message.null_value else {}
    return single(message.key, message.body, compression, **more)


def compacted(payloads, keys_max=100, offsets=None):
    """What is left of each, and in how many passes that was found."""
    if offsets is None:
        offsets, at = [], 0
        for payload in payloads:
            offsets.append(at)
            at += opened_entry(memoryview(payload)).metadata.num_messages_in_batch
    compactor, passes, more = Compactor(keys_max), 0, True
    while more:
        compactor.begin()
        for offset, payload in zip(offsets, payloads, strict=True):
            compactor.look([offset], [payload])
        more, passes = compactor.end(), passes + 1
    kept = compactor.kept(offsets, payloads)
    assert all(told(payload, bits) for payload, bits in kept)
    return [payload for payload, _ in kept], passes


def told(payload, bits):
    """The bits beside an entry say what the marks in it do."""
    if not bits:
        return True
    several = opened_entry(memoryview(payload)).messages
    living = [index for index, message in enumerate(several) if not message.compacted_out]
    return [index for index in range(len(several)) if int.from_bytes(bits, "little") >> index & 1] == living


def living(payload):
    """Index, key and body of what a consumer sees of an entry."""
    if not payload:
        return []
    several = opened_entry(memoryview(payload), check=True).messages
    return [(index, each.key, each.body) for index, each in enumerate(several) if not each.compacted_out]


def expected(entries):
    """By entry and index: the last of each key, if it has a value."""
    last = {}
    for number, (_, messages) in enumerate(entries):
        for index, message in enumerate(messages):
            if message.key:
                has_value = message.body and not message.null_value
                last[message.key] = (number, index, message.key, message.body) if has_value else None
    return sorted(each for each in last.values() if each)


@given(st.lists(SINGLE | BATCH, max_size=12), st.sampled_from([NONE, ZLIB, LZ4, ZSTD]), st.sampled_from([1, 2, 100]))
def test_the_last_of_each_key_survives_in_its_place(entries, compression, keys_max):
    payloads = [packed(is_batch, messages, compression) for is_batch, messages in entries]
    left, passes = compacted(payloads, keys_max)
    seen = [(number, *each) for number, payload in enumerate(left) for each in living(payload)]
    assert seen == expected(entries)
    assert passes == 1 or keys_max < 5
    # Again, on what is left: nothing changes.
    offsets = [sum(len(messages) for _, messages in entries[:number]) for number in range(len(entries))]
    rest = [(offset, payload) for offset, payload in zip(offsets, left, strict=True) if payload]
    again, _ = compacted([payload for _, payload in rest], keys_max, [offset for offset, _ in rest])
    assert again == [payload for _, payload in rest]


def test_what_survives_of_a_batch_keeps_every_byte():
    messages = [Message(body=b"1", key="a", event_ms=5), Message(body=b"2", key="b", properties={"p": "q"}, sequence=9)]
    batch = batch_of(metadata(), messages, ZLIB)
    ((kept, _), _) = compacted([batch, single("a", b"3")])
    opened = opened_entry(memoryview(kept), check=True)
    assert (opened.metadata.num_messages_in_batch, opened.metadata.compression) == (2, ZLIB)
    assert opened.messages[0].compacted_out
    assert opened.messages[1] == opened_entry(memoryview(batch)).messages[1]


def test_a_batch_that_survives_whole_is_not_touched():
    batch = batch_of(metadata(), [Message(body=b"1", key="a"), Message(body=b"2", key="b")])
    assert compacted([batch])[0] == [batch]


def test_many_keys_take_several_passes_and_bounded_memory():
    payloads = [single(f"k{number % 300}", b"%d" % number) for number in range(900)]
    left, passes = compacted(payloads, 50)
    assert [living(payload)[0][2] for payload in left if payload] == [b"%d" % number for number in range(600, 900)]
    assert passes > 300 // 50


def test_an_encrypted_message_goes_by_its_key_and_an_encrypted_batch_stays():
    keys = [EncryptionKeys(key="k", value=b"v")]
    batch = batch_of(metadata(encryption_keys=keys), [Message(body=b"x", key="a"), Message(body=b"y", key="a")])
    old, new = (single("a", body, encryption_keys=keys) for body in (b"?", b"!"))
    left, _ = compacted([batch, old, new], offsets=[0, 2, 3])
    assert left == [batch, b"", new]


@pytest.mark.parametrize("missing", [ImportError, compacting.PayloadError])
def test_what_cannot_be_opened_stays_whole(monkeypatch, missing):
    def opened(*_):
        raise missing("no")

    batch = batch_of(metadata(), [Message(body=b"x", key="a")], ZSTD)
    monkeypatch.setattr(compacting, "opened", opened)
    assert compacted([batch, single("a", b"y")], offsets=[0, 1])[0] == [batch, single("a", b"y")]


def test_a_batch_that_came_with_snappy_is_left_plain(monkeypatch):
    """Nothing is compressed so here: what the client has made is stood in for."""
    batch = memoryview(batch_of(metadata(), [Message(body=b"x", key="a"), Message(body=b"y", key="b")]))
    plain = bytes(batch[metadata_in(batch)[1] :])
    monkeypatch.setattr(compacting, "opened", lambda body, method, size: plain)
    said = entry_packed(metadata(num_messages_in_batch=2, compression=SNAPPY, uncompressed_size=len(plain)), b"?")
    ((made, _), _) = compacted([said, single("a", b"z")], offsets=[0, 2])
    assert opened_entry(memoryview(made), check=True).metadata.compression == NONE
    assert living(made) == [(1, "b", b"y")]


def chunk(uuid, number, count, key="k"):
    return single(key, b"part", uuid=uuid, chunk_id=number, num_chunks_from_msg=count)


def test_the_chunks_of_a_message_survive_together_or_not_at_all():
    old = [chunk("old", number, 3) for number in range(3)]
    new = [chunk("new", number, 2) for number in range(2)]
    assert compacted([*old, *new])[0] == [b"", b"", b"", *new]
    assert compacted([*new, single("k", b"")])[0] == [b"", b"", b""]


def test_chunks_of_a_message_that_is_not_complete_wait_for_the_rest(monkeypatch):
    begun = chunk("begun", 0, 2)
    assert compacted([single("k", b"x"), begun])[0] == [single("k", b"x"), begun]
    monkeypatch.setattr(compacting, "CHUNKED_MAX", 1)
    several = [chunk(uuid, 0, 2, uuid) for uuid in "abc"]
    assert compacted(several)[0] == several
