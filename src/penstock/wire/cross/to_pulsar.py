"""A RocketMQ record as a Pulsar entry: one message that is in no batch.

Keys become the message's key, the sharding key its ordering key, the time when it was born its publish time, and all
properties are properties, but for those that RocketMQ's clients and brokers mean for each other. A compressed body is
opened; where that cannot be done it stays as it is, and a property says so.
"""

import base64
import binascii

import msgspec

from penstock.wire.cross import names
from penstock.wire.pulsar.commands_pb2 import KeyValue, MessageMetadata
from penstock.wire.pulsar.entry import packed
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.compression import method_of, opened
from penstock.wire.rocketmq.record import Message, message_in

PRODUCER = "rocketmq"
BODY_BYTES_MAX = 4 << 20  # what a client takes for sure: larger ones stay compressed
_TIME_MAX = (1 << 63) - 1
_TRUE = "true"

_more = msgspec.json.Decoder(dict[str, str])


def entry_of_record(record: memoryview) -> bytes:
    """The bytes that a Pulsar consumer gets. StoreError when it is no record."""
    message = message_in(record)
    properties = {name: value for name, value in message.properties.items() if name not in names.TRANSPORT}
    body = _body(message, properties)
    if message.flag:
        properties[names.FLAG] = str(message.flag)
    metadata = MessageMetadata(
        producer_name=PRODUCER, sequence_id=max(message.offset, 0), publish_time=max(message.born_ms, 0)
    )
    _take_keys(properties, metadata)
    _take_facts(properties, metadata, bool(body))
    _take_more(properties)
    metadata.properties.extend([KeyValue(key=name, value=value) for name, value in properties.items()])
    return packed(metadata, body)


def _body(message: Message, properties: dict[str, str]) -> bytes:
    method = method_of(message.sys_flag)
    if not method:
        return message.body
    try:
        body = opened(message.body, message.sys_flag)
    except ValueError as error:
        why = str(error)
    else:
        if len(body) <= BODY_BYTES_MAX:
            return body
        why = f"it has {len(body)} bytes when opened, at most {BODY_BYTES_MAX} are opened"
    properties[names.COMPRESSED], properties[names.WHY] = method, why
    return message.body


def _take_keys(properties: dict[str, str], metadata: MessageMetadata) -> None:
    """A key and an ordering key out of the properties that stand for them."""
    key = properties.pop(names.KEY, "") or properties.pop(props.KEYS, "")
    if key:
        metadata.partition_key = key
        if properties.pop(names.KEY_BASE64, "") == _TRUE:
            metadata.partition_key_b64_encoded = True
    ordering = properties.pop(names.SHARDING_KEY, "")
    if ordering:
        metadata.ordering_key = ordering.encode()
    elif names.ORDERING_KEY in properties:
        try:
            metadata.ordering_key = base64.b64decode(properties[names.ORDERING_KEY], validate=True)
        except (binascii.Error, ValueError):
            return  # somebody else's: it stays a property
        del properties[names.ORDERING_KEY]


def _take_facts(properties: dict[str, str], metadata: MessageMetadata, has_body: bool) -> None:
    time = properties.get(names.EVENT_TIME, "")
    if time.isascii() and time.isdecimal() and len(time) < 20 and int(time) <= _TIME_MAX:
        metadata.event_time = int(time)
        del properties[names.EVENT_TIME]
    if not has_body and properties.get(names.NULL_VALUE) == _TRUE:
        metadata.null_value = True
        del properties[names.NULL_VALUE]


def _take_more(properties: dict[str, str]) -> None:
    """Properties that RocketMQ could not hold come back as they were."""
    text = properties.get(names.PROPERTIES)
    if text is None:
        return
    try:
        found = _more.decode(text)
    except msgspec.DecodeError:
        return  # somebody else's: it stays a property
    del properties[names.PROPERTIES]
    properties.update(found)
