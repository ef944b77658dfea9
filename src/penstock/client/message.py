"""Messages: what an application sends, and what it gets."""

import zlib
from collections.abc import Callable, Mapping

import msgspec

from penstock.client.routes import MessageQueue
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq import record
from penstock.wire.rocketmq.codes import SysFlag
from penstock.wire.rocketmq.properties import NAME_END, VALUE_END

COMPRESS_FROM_BYTES = 4_096
OPENED_BYTES_MAX = 64 << 20
_COMPRESSION_SHIFT, _COMPRESSION_MASK = 8, 7
_LZ4, _ZSTD = 1, 2
_WINDOW_BYTES_MAX = 64 << 20  # the memory that zstd may take
_PIECE_BYTES = 256  # of zstd at once: even these can become megabytes
RETRY_TOPIC, ORIGIN_ID = "RETRY_TOPIC", "ORIGIN_MESSAGE_ID"


class Message(msgspec.Struct):
    """A message to send. `keys` are for finding it, `tags` for filtering; other properties are the application's."""

    topic: str
    body: bytes
    tags: str = ""
    keys: str = ""  # several with spaces between
    properties: dict[str, str] = {}
    flag: int = 0
    delay_level: int = 0  # 1 to 18
    deliver_at_ms: int = 0  # a time of its own: RocketMQ 5 and Penstock
    delay_ms: int = 0

    def all_properties(self, unique_key: str) -> dict[str, str]:
        """As they go over the wire. ValueError when a name or value cannot."""
        found = {**self.properties, props.WAIT: "true", props.UNIQ_KEY: unique_key}
        if self.tags:
            found[props.TAGS] = self.tags
        if self.keys:
            found[props.KEYS] = self.keys
        if self.delay_level or self.deliver_at_ms or self.delay_ms:
            found |= self._delay()
        _check(found)
        return found

    def _delay(self) -> dict[str, str]:
        wanted = {
            props.DELAY: self.delay_level,
            "TIMER_DELIVER_MS": self.deliver_at_ms,
            "TIMER_DELAY_MS": self.delay_ms,
        }
        found = {name: str(value) for name, value in wanted.items() if value}
        if len(found) > 1:
            raise ValueError("a message is delayed by a level, by a time or until a time: by one of them")
        return found


def _check(properties: Mapping[str, str]) -> None:
    for name, value in properties.items():
        if not name or not value:
            raise ValueError(f"property {name!r}: neither its name nor its value may be empty")
        if NAME_END in name or VALUE_END in name or NAME_END in value or VALUE_END in value:
            raise ValueError(f"property {name!r}: the characters 0x01 and 0x02 separate properties")


class Sent(msgspec.Struct, frozen=True):
    """Where a message has gone."""

    message_id: str  # the unique key that this client gave it
    offset_id: str  # the id that the broker gave it: where it is
    queue: MessageQueue
    offset: int
    code: int = 0  # 10, 11 or 12: stored, but not flushed or copied as the broker is set to
    transaction_id: str = ""


class Received(msgspec.Struct):
    """A message as it came."""

    topic: str  # also of a retry: the topic that it was sent to
    body: bytes
    tags: str
    keys: str
    properties: dict[str, str]
    queue: MessageQueue  # where it came from: of a retry, a queue of the retry topic
    offset: int
    message_id: str
    offset_id: str
    physical_offset: int
    born_ms: int
    store_ms: int
    reconsume_times: int
    flag: int
    sys_flag: int
    broker_address: str = ""


def received(found: record.Message, queue: MessageQueue) -> Received:
    """A decoded record as an application sees it."""
    properties = found.properties
    return Received(
        topic=properties.get(RETRY_TOPIC, found.topic) if found.topic.startswith("%RETRY%") else found.topic,
        body=opened(found.body, found.sys_flag),
        tags=properties.get(props.TAGS, ""),
        keys=properties.get(props.KEYS, ""),
        properties=properties,
        queue=queue,
        offset=found.offset,
        message_id=found.message_id,
        offset_id=record.message_id(found.store_host, found.physical_offset),
        physical_offset=found.physical_offset,
        born_ms=found.born_ms,
        store_ms=found.store_ms,
        reconsume_times=found.reconsume_times,
        flag=found.flag,
        sys_flag=found.sys_flag,
    )


def compressed(body: bytes, sys_flag: int, from_bytes: int) -> tuple[bytes, int]:
    """A body as it is sent: smaller, if it is worth it."""
    if len(body) < from_bytes:
        return body, sys_flag
    smaller = zlib.compress(body, 5)
    return (smaller, sys_flag | SysFlag.COMPRESSED) if len(smaller) < len(body) else (body, sys_flag)


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
