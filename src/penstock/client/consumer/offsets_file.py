"""Where a broadcasting consumer keeps its offsets: the Java client's file, so that an instance can change language.

    <folder>/<ClientID>/<group>/offsets.json, and offsets.json.bak, the one before it

    {
        "offsetTable":{{
                "brokerName":"broker-a",
                "queueId":1,
                "topic":"TopicTest"
            }:6
        }
    }

(with tabs). It has objects as keys, as Java writes it; whatever Java has written since 4.9, with spaces or without, is
read.

Invariants:
- A crash at any moment leaves the file as it was or as it is to be: both it and the .bak are written beside, synced and
  renamed, the .bak first.
- Nothing that was saved is lost to another one who saves: what stands in the file is read, added to and written under
  a lock that holds between processes.
- A file that cannot be read never becomes the .bak.

Syncing takes a while: `offsets.FileOffsets` calls it in a thread.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from penstock import logs
from penstock.client.errors import ClientError
from penstock.client.routes import MessageQueue, in_order
from penstock.wire.rocketmq import fastjson
from penstock.wire.rocketmq.bodies import QueueName

log = logs.get(__name__)

NAME_BYTES_MAX = 255
FILE_BYTES_MAX = fastjson.BYTES_MAX


class OffsetsUnreadable(ClientError):
    """Neither the file nor its .bak can be read."""


def default_folder() -> Path:
    """Where Java has it."""
    return Path.home() / ".rocketmq_offsets"


class OffsetsFile:
    def __init__(self, folder: Path, client_id: str, group: str) -> None:
        self.path = folder / _checked("ClientID", client_id) / _checked("group", group) / "offsets.json"

    def load(self) -> dict[MessageQueue, int]:
        """What was saved; empty when nothing was. OffsetsUnreadable when both files are spoilt."""
        return self._read()[0]

    def save(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Add these to what stands in the file. OSError when the disk does not take it: the file is as it was then."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked():
            known, text = self._read()
            if text:
                _replace(self._beside(".bak"), text)
            _replace(self.path, pretty(known | dict(offsets)))
            _sync_folder(self.path.parent)

    def _beside(self, suffix: str) -> Path:
        return self.path.with_name(self.path.name + suffix)

    def _read(self) -> tuple[dict[MessageQueue, int], bytes]:
        """The offsets, and the text of the file if it is sound: the one that may become the .bak."""
        text = _text(self.path)
        if text:
            try:
                return offsets_in(text), text
            except ValueError as error:
                log.warning("an offsets file cannot be read, the .bak is taken", file=self.path, error=str(error))
        older = _text(self._beside(".bak"))
        try:
            return offsets_in(older) if older else {}, b""
        except ValueError as error:
            raise OffsetsUnreadable(
                f"neither {self.path} nor its .bak can be read ({error}): mend one, or remove both to begin anew"
            ) from None

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone, among all processes of this machine. The lock ends with its holder, however that ends."""
        lock = os.open(self._beside(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)


def _checked(what: str, name: str) -> str:
    """A name that may stand in a path: it stays in its folder."""
    if not name or name in (".", "..") or not name.isprintable() or any(mark in name for mark in "/\\"):
        raise ValueError(f"{what} {name!r} cannot be the name of a folder, and offsets are kept in one of that name")
    if len(name.encode("utf-8", "replace")) > NAME_BYTES_MAX:
        raise ValueError(
            f"{what} {name[:40]!r}... is too long for the name of a folder: at most {NAME_BYTES_MAX} bytes"
        )
    return name


# --- the text ---------------------------------------------------------------------------------------------------------


def offsets_in(text: bytes) -> dict[MessageQueue, int]:
    """The offsets in a file's text. ValueError when it is not one."""
    table = fastjson.table(fastjson.loads(text), "offsetTable")
    try:
        return {_queue_in(key): msgspec.convert(offset, int, strict=False) for key, offset in table.items()}
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from None


def _queue_in(key: str) -> MessageQueue:
    name = msgspec.json.decode(key, type=QueueName)
    return MessageQueue(name.topic, name.broker_name, name.queue_id)


def pretty(offsets: Mapping[MessageQueue, int]) -> bytes:
    """The text for some offsets, as Java 4.9 and 5.3 write it."""
    entries = b",".join(b"%b:%d" % (_key(queue), offsets[queue]) for queue in in_order(offsets))
    return b'{\n\t"offsetTable":{%b}\n}' % (entries + b"\n\t" if entries else b"")


def _key(queue: MessageQueue) -> bytes:
    fields = {"brokerName": queue.broker, "queueId": queue.queue, "topic": queue.topic}
    lines = (b'\n\t\t\t"%b":%b' % (name.encode(), msgspec.json.encode(value)) for name, value in fields.items())
    return b"{" + b",".join(lines) + b"\n\t\t}"


# --- the disk ---------------------------------------------------------------------------------------------------------


def _text(file: Path) -> bytes:
    """All of a file; nothing when there is none."""
    try:
        with file.open("rb") as opened:
            return opened.read(FILE_BYTES_MAX + 1)  # one too many is refused by whoever decodes it
    except FileNotFoundError:
        return b""


def _replace(file: Path, text: bytes) -> None:
    """Put a text in the place of a file: all of it or nothing. Under the lock, so there is one who writes beside it."""
    beside = file.with_name(file.name + ".tmp")
    _write_synced(beside, text)
    os.replace(beside, file)


def _write_synced(file: Path, text: bytes) -> None:
    with file.open("wb") as opened:
        opened.write(text)
        opened.flush()
        os.fsync(opened.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the renames last."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
