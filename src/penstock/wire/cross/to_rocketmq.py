"""A Pulsar entry as RocketMQ records: one for each of its messages, at the offsets that the entry takes.

The key becomes KEYS, the ordering key the sharding key, the publish time the time when the message was born. What has
no place in a record is a property (`names`). An entry that cannot be opened (it is encrypted, or compressed with what
is not installed here, or too large when opened) is one record with the body as it was sent, the metadata as a property,
and another that says why: nothing is passed over in silence.
"""

import base64
from collections.abc import Iterator

import msgspec

from penstock.wire.cross import names
from penstock.wire.pulsar.batch import Message, is_encrypted, messages_in
from penstock.wire.pulsar.commands_pb2 import MessageMetadata
from penstock.wire.pulsar.compression import opened
from penstock.wire.pulsar.entry import PayloadError, metadata_in
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.heads import v6_flags
from penstock.wire.rocketmq.record import Record, length_of

OPENED_BYTES_MAX = 14 << 20  # of an entry, or of a message that was joined: clients take frames of 16 MiB
NOBODY = bytes(8)  # the address of who sent it: a Pulsar message does not have it
_TIME_MAX = (1 << 63) - 1
_TRUE = "true"
_SPECIAL = (props.NAME_END, props.VALUE_END)

Records = list[bytearray | memoryview | None]  # None: no message stands at this offset


class Origin(msgspec.Struct, frozen=True):
    """What records say of where they are: all but the offset. `added` is what all of them get, as it is stored. With
    `fills` an empty body is a space: RocketMQ's producers send none, and older consumers break over it.
    """

    topic: bytes
    queue: int
    queue_index: int
    store_host: bytes
    added: bytes = b""
    fills: bool = False


def records_of(payload: memoryview, base: int, store_ms: int, origin: Origin, joined: bytes | None = None) -> Records:
    """The records of an entry whose first offset is `base`. `joined`: what the parts of a message in chunks are
    together, where this is the last of them. PayloadError when it is no entry.
    """
    metadata, body_at = metadata_in(payload, check=False)
    body = bytes(payload[body_at:]) if joined is None else joined
    try:
        messages = list(_messages(metadata, body))
    except ImportError as error:
        messages = [_closed(metadata, body, f"{error.name} is not installed at the broker")]
    except PayloadError as error:
        messages = [_closed(metadata, body, str(error))]
    made: Records = [
        None if message.compacted_out else _record(message, metadata, base + index, store_ms, origin)
        for index, message in enumerate(messages)
    ]
    return made + [None] * (metadata.num_messages_in_batch - len(made))


def part_of(payload: memoryview, base: int, store_ms: int, origin: Origin) -> Records:
    """A part of a message in chunks that cannot be joined, as it is."""
    metadata, body_at = metadata_in(payload, check=False)
    message = _closed(metadata, bytes(payload[body_at:]), "it is a part of a message whose parts are not joined here")
    message.properties[names.CHUNK] = f"{metadata.chunk_id + 1}/{metadata.num_chunks_from_msg}"
    message.properties[names.CHUNK_OF] = _plain(metadata.uuid)
    return [_record(message, metadata, base, store_ms, origin)]


def unreadable(payload: memoryview, base: int, store_ms: int, origin: Origin, why: str) -> Records:
    """What is no entry, as it is: whoever gets it is told, and can go on behind it."""
    message = Message(body=bytes(payload), properties={names.UNOPENED: why})
    return [_record(message, MessageMetadata(), base, store_ms, origin)]


def _messages(metadata: MessageMetadata, body: bytes) -> Iterator[Message]:
    if is_encrypted(metadata):
        raise PayloadError("it is encrypted, and only its consumer has the key")
    size = max(metadata.uncompressed_size, len(body))
    if size > OPENED_BYTES_MAX:
        raise PayloadError(f"it has {size} bytes when opened, at most {OPENED_BYTES_MAX} are opened")
    return messages_in(opened(body, metadata.compression, metadata.uncompressed_size), metadata)


def _closed(metadata: MessageMetadata, body: bytes, why: str) -> Message:
    properties = {names.UNOPENED: why, names.METADATA: base64.b64encode(metadata.SerializeToString()).decode()}
    if metadata.num_messages_in_batch != 1:
        properties[names.MESSAGES] = str(metadata.num_messages_in_batch)
    if is_encrypted(metadata):
        properties[names.ENCRYPTED] = _TRUE
    return Message(body=body, properties=properties)


def _record(message: Message, metadata: MessageMetadata, offset: int, store_ms: int, origin: Origin) -> bytearray:
    if origin.fills and not message.body:
        message.body, message.properties[names.EMPTY] = b" ", _TRUE
    record = Record(
        queue=origin.queue,
        length=0,
        topic=origin.topic,
        queue_index=origin.queue_index,
        body=message.body,
        properties=_properties(message, metadata, len(origin.added)) + origin.added,
        sys_flag=v6_flags(NOBODY, origin.store_host),
        born_ms=min(metadata.publish_time, _TIME_MAX),
        born_host=NOBODY,
        store_host=origin.store_host,
    )
    record.length = length_of(record)
    made = bytearray(record.length)
    record.write_into(memoryview(made), 0, origin.queue, offset, store_ms)
    return made


# --- properties -------------------------------------------------------------------------------------------------------


def _properties(message: Message, metadata: MessageMetadata, reserved_bytes: int) -> bytes:
    found: dict[str, str] = {}
    odd: dict[str, str] = {}
    for name, value in message.properties.items():
        fits = name and value and name not in names.ACTING and not _is_special(name) and not _is_special(value)
        (found if fits else odd)[name] = value
    _add_keys(message, found)
    if message.event_ms:
        found[names.EVENT_TIME] = str(message.event_ms)
    if message.null_value:
        found[names.NULL_VALUE] = _TRUE
    if metadata.schema_version:
        found[names.SCHEMA_VERSION] = metadata.schema_version.hex()
    if odd:
        found[names.PROPERTIES] = _in_json(odd)
    built = props.build(found).encode()
    room = props.BYTES_MAX - reserved_bytes
    return built if len(built) <= room else _what_fits(found, room)


def _add_keys(message: Message, found: dict[str, str]) -> None:
    key = _plain(message.key)
    if key:
        found[names.KEY if found.get(props.KEYS, key) != key else props.KEYS] = key
        if message.key_is_base64:
            found[names.KEY_BASE64] = _TRUE
    if message.ordering_key:
        try:
            text = message.ordering_key.decode()
        except UnicodeDecodeError:
            text = ""
        if text and not _is_special(text):
            found[names.SHARDING_KEY] = text
        else:
            found[names.ORDERING_KEY] = base64.b64encode(message.ordering_key).decode()


def _is_special(text: str) -> bool:
    """Whether RocketMQ's properties could not be told apart any more."""
    return _SPECIAL[0] in text or _SPECIAL[1] in text


def _plain(text: str | bytes) -> str:
    """Without what a property cannot hold."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    return text.replace(_SPECIAL[0], "\ufffd").replace(_SPECIAL[1], "\ufffd") if _is_special(text) else text


def _in_json(properties: dict[str, str]) -> str:
    """Control characters come out escaped."""
    return msgspec.json.encode(properties).decode()


def _what_fits(properties: dict[str, str], room: int) -> bytes:
    """RocketMQ holds less than Pulsar: the smallest ones stay, and one says how many did not."""
    pairs = sorted(properties.items(), key=lambda pair: len(pair[0].encode()) + len(pair[1].encode()))
    room -= len(props.build({names.LEFT_OUT: str(len(pairs))}).encode())
    kept: dict[str, str] = {}
    for name, value in pairs:
        room -= len(props.build({name: value}).encode())
        if room < 0:
            break
        kept[name] = value
    kept[names.LEFT_OUT] = str(len(pairs) - len(kept))
    return props.build(kept).encode()
