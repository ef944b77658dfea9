"""Messages of one protocol in the encoding of the other: what both can say comes over, and comes back."""

import base64
import zlib

import lz4.frame
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.cross import is_record, names
from penstock.wire.cross.chunks import chunk_in
from penstock.wire.cross.to_pulsar import BODY_BYTES_MAX, entry_of_record
from penstock.wire.cross.to_rocketmq import OPENED_BYTES_MAX, Origin, part_of, records_of, unreadable
from penstock.wire.pulsar.batch import Message, batch_of, opened_entry, single_of
from penstock.wire.pulsar.commands_pb2 import LZ4, NONE, SNAPPY, ZLIB, ZSTD, EncryptionKeys, MessageMetadata
from penstock.wire.pulsar.entry import metadata_in, packed
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.codes import SysFlag
from penstock.wire.rocketmq.record import Record, length_of, message_in, physical_offset

BORN_MS = 1_700_000_000_000
ORIGIN = Origin(b"orders", 7, 2, bytes((127, 0, 0, 1, 0, 0, 0x2A, 0x9F)), b"CLUSTER\x01c\x02")
METADATA = MessageMetadata(producer_name="p", sequence_id=10, publish_time=BORN_MS)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
PLAIN = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x01\x02"), min_size=1, max_size=20)
OWN = st.one_of(PLAIN, st.sampled_from(sorted(names.ACTING)), TEXT).filter(
    lambda name: name not in (props.KEYS, "CLUSTER")
)
MESSAGES = st.builds(
    Message,
    body=st.binary(max_size=50),
    properties=st.dictionaries(OWN, TEXT, max_size=4),
    key=PLAIN | st.just(""),
    ordering_key=st.binary(max_size=5),
    event_ms=st.integers(0, 2**63 - 1),
    sequence=st.just(0),
)
METHODS = st.sampled_from([NONE, LZ4, ZLIB, ZSTD])


def with_(**more) -> MessageMetadata:
    metadata = MessageMetadata(**more)
    metadata.MergeFrom(METADATA)
    return metadata


def made(body: bytes = b"body", properties: dict[str, str] | None = None, **more) -> memoryview:
    """A record, as it is stored."""
    record = Record(queue=7, length=0, topic=b"orders", body=body, born_ms=BORN_MS, **more)
    record.properties = props.build(properties or {}).encode()
    record.length = length_of(record)
    buffer = bytearray(record.length)
    record.write_into(memoryview(buffer), 0, 7, 40, BORN_MS + 5)
    return memoryview(bytes(buffer))


def over(entry: bytes, base: int = 40, **more) -> list:
    """The messages of an entry as a RocketMQ client decodes them."""
    return [
        record and message_in(memoryview(record)) for record in records_of(memoryview(entry), base, 9, ORIGIN, **more)
    ]


def back(record: memoryview):
    return opened_entry(memoryview(entry_of_record(record)), check=True)


# --- to RocketMQ ------------------------------------------------------------------------------------------------------


@given(st.lists(MESSAGES, min_size=1, max_size=6), METHODS)
def test_a_batch_becomes_a_record_for_each_message(messages, method):
    found = over(batch_of(METADATA, messages, method))
    assert [message.body for message in found] == [message.body for message in messages]
    assert [message.offset for message in found] == list(range(40, 40 + len(messages)))
    assert [message.physical_offset for message in found] == [physical_offset(7, 40 + at) for at in range(len(found))]
    assert {(message.topic, message.queue_index, message.born_ms, message.store_ms) for message in found} == {
        ("orders", 2, BORN_MS, 9)
    }
    assert all(message.sound and message.properties["CLUSTER"] == "c" for message in found)


@given(MESSAGES, METHODS)
def test_what_goes_over_and_back_is_the_same(message, method):
    (record,) = records_of(memoryview(batch_of(METADATA, [message], method)), 40, 9, ORIGIN)
    (again,) = back(memoryview(record)).messages
    assert again.body == message.body
    assert (again.key, again.ordering_key, again.event_ms) == (message.key, message.ordering_key, message.event_ms)
    assert again.properties == message.properties


def test_the_key_is_keys_and_the_tag_a_property():
    message = Message(body=b"b", key="k", ordering_key=b"o", event_ms=5, properties={"TAGS": "t", "a": "1"})
    (found,) = over(batch_of(METADATA, [message]))
    assert found.properties == {
        "TAGS": "t", "a": "1", "KEYS": "k", "__SHARDINGKEY": "o", "PULSAR_EVENT_TIME": "5", "CLUSTER": "c",
    }  # fmt: skip


def test_a_key_beside_keys_is_kept():
    (found,) = over(batch_of(METADATA, [Message(body=b"", key="k", properties={"KEYS": "a b"})]))
    assert (found.properties["KEYS"], found.properties[names.KEY]) == ("a b", "k")


def test_a_null_value_is_an_empty_body_that_says_so():
    (found,) = over(single_of(with_(null_value=True), b""))
    assert (found.body, found.properties[names.NULL_VALUE]) == (b"", "true")
    (record,) = records_of(memoryview(single_of(with_(null_value=True), b"")), 0, 0, ORIGIN)
    assert back(memoryview(record)).metadata.null_value


def test_an_empty_body_is_a_space_for_who_cannot_have_it():
    payload = memoryview(batch_of(METADATA, [Message(body=b""), Message(body=b"x")]))
    origin = Origin(b"orders", 7, 2, ORIGIN.store_host, b"", fills=True)
    empty, other = (message_in(memoryview(record)) for record in records_of(payload, 40, 9, origin))
    assert (empty.body, empty.properties) == (b" ", {names.EMPTY: "true"})
    assert (other.body, other.properties) == (b"x", {})


def test_properties_that_would_act_or_cannot_be_held_are_kept_aside():
    message = Message(body=b"", properties={"DELAY": "3", "empty": "", "a\x01b": "c\x02"})
    (found,) = over(batch_of(METADATA, [message]))
    assert set(found.properties) == {names.PROPERTIES, "CLUSTER"}


def test_more_properties_than_a_record_holds_are_counted():
    properties = {f"name-{number}": "x" * 1_000 for number in range(100)}
    (found,) = over(single_of(with_(properties=[{"key": k, "value": v} for k, v in properties.items()]), b"body"))
    kept = {name for name in found.properties if name in properties}
    assert found.body == b"body"
    assert 25 < len(kept) < 33
    assert int(found.properties[names.LEFT_OUT]) == 100 - len(kept)


def test_an_encrypted_batch_is_one_record_as_it_was_sent():
    metadata = with_(encryption_keys=[EncryptionKeys(key="k", value=b"v")], num_messages_in_batch=3)
    first, second, third = over(packed(metadata, b"secret"))
    assert (second, third) == (None, None)
    assert first.body == b"secret"
    assert (first.properties[names.ENCRYPTED], first.properties[names.MESSAGES]) == ("true", "3")
    again = MessageMetadata.FromString(base64.b64decode(first.properties[names.METADATA]))
    assert again.encryption_keys[0].value == b"v"


@pytest.mark.parametrize(
    ("metadata", "body", "why"),
    [
        (with_(compression=ZLIB, uncompressed_size=4), b"no zlib", "zlib"),
        (with_(compression=ZLIB, uncompressed_size=OPENED_BYTES_MAX + 1), b"", "at most"),
        (with_(compression=ZSTD, uncompressed_size=4), zlib.compress(b"body"), "Zstandard"),
        (with_(num_messages_in_batch=1), b"\xff\xff\xff\xff", "metadata"),
    ],
)
def test_what_cannot_be_opened_says_so(metadata, body, why):
    (found,) = over(packed(metadata, body))
    assert found.body == body
    assert why in found.properties[names.UNOPENED]


def test_a_codec_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "lz4.block", None)
    (found,) = over(packed(with_(compression=LZ4, uncompressed_size=4), b"12345"))
    assert "lz4" in found.properties[names.UNOPENED]


ODD = st.builds(
    MessageMetadata,
    producer_name=st.just("p"),
    sequence_id=st.integers(0, 2**64 - 1),
    publish_time=st.integers(0, 2**64 - 1),
    partition_key=TEXT,
    partition_key_b64_encoded=st.booleans(),
    compression=st.sampled_from([NONE, LZ4, ZLIB, ZSTD, SNAPPY]),
    uncompressed_size=st.integers(0, 2_000),
    num_messages_in_batch=st.integers(1, 40) | st.none(),
    event_time=st.integers(0, 2**64 - 1),
    null_value=st.booleans(),
    schema_version=st.binary(max_size=8),
    ordering_key=st.binary(max_size=8),
    deliver_at_time=st.integers(-(2**63), 2**63 - 1),
    uuid=TEXT,
    num_chunks_from_msg=st.integers(-(2**31), 2**31 - 1),
    total_chunk_msg_size=st.integers(-(2**31), 2**31 - 1),
    chunk_id=st.integers(-(2**31), 2**31 - 1),
)


@given(ODD, st.binary(max_size=200))
def test_whatever_a_producer_sends_becomes_records(metadata, body):
    """One for each of its offsets, or none there; and each can be read."""
    entry = memoryview(packed(metadata, body))
    for made_of_it in (records_of(entry, 40, 9, ORIGIN), part_of(entry, 40, 9, ORIGIN)):
        found = [message_in(memoryview(record)) for record in made_of_it if record is not None]
        assert [message.offset for message in found] == sorted(message.offset for message in found)
        assert all(message.sound and 40 <= message.offset < 80 for message in found)
    assert len(records_of(entry, 40, 9, ORIGIN)) == metadata.num_messages_in_batch
    chunk_in(metadata)


def test_what_is_no_entry_says_so():
    (record,) = unreadable(memoryview(b"nothing"), 40, 9, ORIGIN, "it is nothing")
    found = message_in(memoryview(record))
    assert (found.body, found.properties[names.UNOPENED]) == (b"nothing", "it is nothing")


def test_times_that_no_record_can_hold_do_not_harm():
    metadata = MessageMetadata(producer_name="p", sequence_id=0, publish_time=2**64 - 1)
    (found,) = over(packed(metadata, b""))
    assert found.born_ms == 2**63 - 1


def test_parts_that_are_not_joined_say_what_they_are():
    metadata = with_(uuid="u", num_chunks_from_msg=3, chunk_id=1, total_chunk_msg_size=9)
    (record,) = part_of(memoryview(packed(metadata, b"mid")), 5, 9, ORIGIN)
    found = message_in(memoryview(record))
    assert (found.body, found.properties[names.CHUNK], found.properties[names.CHUNK_OF]) == (b"mid", "2/3", "u")


def test_parts_that_are_joined_are_opened():
    body = zlib.compress(b"all of it")
    metadata = with_(
        uuid="u",
        num_chunks_from_msg=2,
        chunk_id=1,
        total_chunk_msg_size=len(body),
        compression=ZLIB,
        uncompressed_size=9,
    )
    (found,) = over(packed(metadata, body[5:]), joined=body)
    assert found.body == b"all of it"


@pytest.mark.parametrize(
    ("more", "joinable"),
    [
        ({"total_chunk_msg_size": 9}, True),
        ({"total_chunk_msg_size": OPENED_BYTES_MAX + 1}, False),
        ({"total_chunk_msg_size": 9, "chunk_id": 3}, False),
        ({"total_chunk_msg_size": 9, "num_chunks_from_msg": 2_000_000}, False),
        ({"total_chunk_msg_size": 9, "encryption_keys": [{"key": "k", "value": b"v"}]}, False),
    ],
)
def test_which_parts_are_joined(more, joinable):
    chunk = chunk_in(with_(**({"uuid": "u", "num_chunks_from_msg": 3, "chunk_id": 0} | more)))
    assert chunk is not None
    assert chunk.joinable == joinable


# --- to Pulsar --------------------------------------------------------------------------------------------------------


@given(st.binary(max_size=100), st.dictionaries(PLAIN.filter(lambda name: not name.startswith("PULSAR_")), PLAIN))
def test_a_record_becomes_a_message(body, properties):
    found = back(made(body, properties))
    (message,) = found.messages
    assert not found.batched
    assert (message.body, message.sequence, found.metadata.publish_time) == (body, 40, BORN_MS)
    apart = {props.KEYS, names.SHARDING_KEY} | names.TRANSPORT
    assert message.properties == {name: value for name, value in properties.items() if name not in apart}


def test_keys_are_the_key_and_the_sharding_key_the_ordering_key():
    properties = {"KEYS": "a b", "__SHARDINGKEY": "s", "TAGS": "t", "UNIQ_KEY": "u", "WAIT": "true"}
    (message,) = back(made(properties=properties, flag=3)).messages
    assert (message.key, message.ordering_key) == ("a b", b"s")
    assert message.properties == {"TAGS": "t", "UNIQ_KEY": "u", names.FLAG: "3"}


@pytest.mark.parametrize(
    ("press", "flag"),
    [(zlib.compress, 0), (lz4.frame.compress, 1 << 8), (zstandard.ZstdCompressor().compress, 2 << 8)],
)
def test_compressed_bodies_are_opened(press, flag):
    (message,) = back(made(press(b"x" * 5_000), sys_flag=SysFlag.COMPRESSED | flag)).messages
    assert message.body == b"x" * 5_000


@pytest.mark.parametrize("body", [b"no zlib", zlib.compress(bytes(BODY_BYTES_MAX + 1))])
def test_bodies_that_cannot_be_opened_say_so(body):
    (message,) = back(made(body, sys_flag=SysFlag.COMPRESSED)).messages
    assert (message.body, message.properties[names.COMPRESSED]) == (body, "zlib")
    assert message.properties[names.WHY]


@pytest.mark.parametrize(
    "properties",
    [
        {names.EVENT_TIME: "soon"},
        {names.EVENT_TIME: "9" * 30},
        {names.ORDERING_KEY: "?"},
        {names.PROPERTIES: "[1]"},
        {names.PROPERTIES: "{"},
        {names.NULL_VALUE: "true"},
    ],
)
def test_names_of_ours_in_somebody_elses_message_stay_properties(properties):
    (message,) = back(made(b"body", properties)).messages
    assert message.properties == properties


# --- which is which ---------------------------------------------------------------------------------------------------


@given(st.lists(MESSAGES, min_size=1, max_size=3), st.binary(max_size=40))
def test_records_and_entries_are_told_apart(messages, body):
    entry = batch_of(METADATA, messages)
    assert not is_record(memoryview(entry))
    assert not is_record(memoryview(entry)[6:])  # without a checksum in front
    assert is_record(made(body))
    assert metadata_in(memoryview(entry))


def test_no_entry_can_pass_for_a_record():
    """Its metadata would have to be as long as the whole, and it would not have been taken."""
    forged = made(b"")
    with pytest.raises(Exception, match="metadata"):
        metadata_in(forged)
