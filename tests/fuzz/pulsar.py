"""The decoders of Pulsar's protocol as fuzz targets."""

from google.protobuf.message import Message
from tests.fuzz.checks import check, piecemeal

from penstock.core.schemas import avro, compatibility
from penstock.core.schemas.model import OF_AVRO, Kind, Schema
from penstock.core.schemas.resolution import TooComplex, can_read
from penstock.errors import BadTopicName, SchemaInvalid
from penstock.model import SchemaStrategy
from penstock.wire.framing import FrameError
from penstock.wire.pulsar import snappy
from penstock.wire.pulsar.batch import opened_entry
from penstock.wire.pulsar.commands_pb2 import BaseCommand, CommandSend
from penstock.wire.pulsar.entry import BATCHED_BYTES_MIN, PayloadError, entry_of, metadata_in
from penstock.wire.pulsar.frame import Frame, command, frames_in, pack_head
from penstock.wire.pulsar.patterns import Pattern, PatternError
from penstock.wire.pulsar.topics import NAME_CHARS_MAX, from_own, topic_name

FRAME_BYTES_MAX = OPENED_BYTES_MAX = 1 << 20

KINDS = [Kind.AVRO, Kind.JSON, Kind.KEY_VALUE, Kind.PROTOBUF_NATIVE]
PAIRED = {"key.schema.type": "AVRO", "value.schema.type": "JSON"}
SOME = Schema(Kind.AVRO, b'{"type": "record", "name": "R", "fields": [{"name": "a", "type": ["null", "R"]}]}')

Whole = tuple[int, bytes, bytes]  # type, command, payload


def _read(view: memoryview, end: int) -> tuple[list[Whole], int]:
    frames, used = frames_in(view, end, FRAME_BYTES_MAX)
    return [(each.type, each.body.SerializeToString(), bytes(each.payload)) for each in frames], used


def frame(data: bytes) -> None:
    """Frames one behind the other; cut anywhere they are the same, and so they are when they are written again."""
    try:
        whole, used = _read(memoryview(data), len(data))
    except FrameError:
        return
    check(used <= len(data), "more was used than there is")
    check(list(piecemeal(data, _read)) == whole, "cut into pieces it is something else")
    frames, _ = frames_in(memoryview(data), len(data), FRAME_BYTES_MAX)
    heads = [pack_head(command(each.type, _body(each)), len(each.payload)) + bytes(each.payload) for each in frames]
    packed = b"".join(heads)
    check(_read(memoryview(packed), len(packed)) == (whole, len(packed)), "what was written is not what was read")


def _body(found: Frame) -> Message:
    """A send is read as a message of another type, of the same bytes."""
    if found.type != BaseCommand.SEND:
        return found.body
    return CommandSend.FromString(found.body.SerializeToString())


def entry(data: bytes) -> None:
    """What is taken is complete, whatever it claims."""
    view = memoryview(data)
    try:
        metadata, body_at = metadata_in(view)
        found, _ = entry_of(1, view, metadata.num_messages_in_batch)
    except PayloadError:
        return
    check(metadata.IsInitialized(), "incomplete metadata was taken")
    check(body_at <= len(data) == found.length, "it is longer than it is")
    plain_bytes = metadata.uncompressed_size if metadata.compression else len(data) - body_at
    check(1 <= found.count <= max(1, plain_bytes // BATCHED_BYTES_MIN), "more messages than there is room for")


def batch(data: bytes) -> None:
    try:
        found = opened_entry(memoryview(data))
    except PayloadError:
        return
    check(len(found.messages) == found.metadata.num_messages_in_batch or not found.batched, "messages were lost")
    for message in found.messages:
        check(isinstance(message.key, str), "a key is no text")
        check(all(isinstance(text, str) for pair in message.properties.items() for text in pair), "properties")


def snappy_block(data: bytes) -> None:
    try:
        check(len(snappy.opened(data, OPENED_BYTES_MAX)) <= OPENED_BYTES_MAX, "it became larger than allowed")
    except snappy.SnappyError:
        return


def topic(data: bytes) -> None:
    text = data.decode(errors="ignore")
    try:
        name = topic_name(text)
    except BadTopicName:
        return
    if len(name.full) <= NAME_CHARS_MAX:
        check(topic_name(name.full) == name, "the whole name is another")
    if name.domain == "persistent" and name.partition < 0:
        check(from_own(name.own_name) == name, "what it is called here is another topic")


def pattern(data: bytes) -> None:
    text = data.decode(errors="ignore")
    try:
        found = Pattern(text)
    except PatternError:
        return
    for name in ("", "a", "public/default/orders-1", "x.y"):
        check(found.matches(name) in (True, False), "neither yes nor no")


def schema(data: bytes) -> None:
    """The first byte says of which kind; what is a schema can read itself."""
    kind = KINDS[data[0] % len(KINDS)] if data else Kind.AVRO
    found = Schema(kind, data[1:], PAIRED if kind is Kind.KEY_VALUE else {})
    try:
        compatibility.check(found)
    except SchemaInvalid:
        return
    again = Schema(kind, data[1:] + b" ", found.properties) if kind in OF_AVRO else found
    check(compatibility.same(found, again), "it is not the same as itself")
    for strategy in (SchemaStrategy.FULL_TRANSITIVE, SchemaStrategy.BACKWARD):
        why = compatibility.why_not(found, [again, SOME], strategy)
        check(all(isinstance(each, str) for each in why), "a reason is no text")
    if kind in OF_AVRO and kind is not Kind.JSON:
        one = avro.parsed(found.data)
        try:
            check(can_read(one, one) == [], "it cannot read itself")
        except TooComplex:
            return


TARGETS = {
    "pulsar_schema": schema,
    "pulsar_frame": frame,
    "pulsar_entry": entry,
    "pulsar_batch": batch,
    "pulsar_snappy": snappy_block,
    "pulsar_topic": topic,
    "pulsar_pattern": pattern,
}
