"""A RocketMQ client of our own, as small as can be: frames over one socket, and no route, group or rebalance.

It sends with several messages under way and reads queue by queue. For the demo, where no real client can be had, and to
make topics.
"""

import contextlib
import itertools
import socket
from collections.abc import Iterator

from penstock.wire.rocketmq.codes import PullFlag, RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import JSON, Frame, frames_in, pack
from penstock.wire.rocketmq.record import messages_in

QUEUES = 4
WINDOW = 32
TIMEOUT_S = 20
PULL_MESSAGES = 32
VERSION = 409
READ_BYTES = 1 << 20


class Connection:
    """Requests out, answers in, in any order."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), TIMEOUT_S)
        self._data = b""
        self._frames: list[Frame] = []

    def tell(self, code: int, opaque: int, ext: dict[str, object], body: bytes = b"") -> None:
        fields = {key: str(value) for key, value in ext.items()}
        self._socket.sendall(pack(code, opaque, 0, VERSION, JSON, "", fields, body))

    def next(self) -> Frame:
        """The next answer."""
        while not self._frames:
            more = self._socket.recv(READ_BYTES)
            if not more:
                raise ConnectionError("the broker has closed the connection")
            data = self._data + more
            self._frames, used = frames_in(memoryview(data), len(data))
            self._data = data[used:]
        return self._frames.pop(0)

    def ask(self, code: int, ext: dict[str, object], body: bytes = b"") -> Frame:
        self.tell(code, 1, ext, body)
        return self.next()

    def close(self) -> None:
        self._socket.close()


def create_topic(address: str, topic: str) -> None:
    """A topic with four queues, on the broker that listens there."""
    ext: dict[str, object] = {"topic": topic, "readQueueNums": QUEUES, "writeQueueNums": QUEUES, "perm": 6}
    with contextlib.closing(Connection(address)) as connection:
        answer = connection.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, {**ext, "defaultTopic": "TBW102"})
    if answer.code != ResponseCode.SUCCESS:
        raise SystemExit(f"the topic {topic} was not made: {answer.remark}")


class OwnFrames:
    """See `visitors`."""

    name = "our own frames"

    @contextlib.contextmanager
    def sending(self, addresses: dict[str, str], topic: str, label: str, count: int) -> Iterator["Sending"]:
        with contextlib.closing(Connection(addresses["broker"])) as connection:
            yield Sending(connection, topic, label, count)

    @contextlib.contextmanager
    def receiving(self, addresses: dict[str, str], topic: str, group: str) -> Iterator["Receiving"]:
        with contextlib.closing(Connection(addresses["broker"])) as connection:
            yield Receiving(connection, topic, group)


class Sending:
    """Messages number 0 to `count`, a window of them under way at a time."""

    def __init__(self, connection: Connection, topic: str, label: str, count: int) -> None:
        self._connection, self._topic, self._label, self._count = connection, topic, label, count
        self._sent = self._answered = 0

    def take(self, count: int) -> list[int]:
        return [self._next() for _ in range(count)]

    def rest(self) -> list[int]:
        """What was acknowledged before the connection broke."""
        found: list[int] = []
        with contextlib.suppress(OSError):
            while self._answered < self._sent:
                found.append(self._acknowledged(self._connection.next()))
        return found

    def _next(self) -> int:
        while self._sent < min(self._count, self._answered + WINDOW):
            self._send(self._sent)
            self._sent += 1
        return self._acknowledged(self._connection.next())

    def _send(self, number: int) -> None:
        queue = number % QUEUES
        ext: dict[str, object] = {"a": "demo", "b": self._topic, "c": "TBW102", "d": QUEUES, "e": queue, "f": 0}
        body = f"{self._label}-{number}".encode()
        self._connection.tell(RequestCode.SEND_MESSAGE_V2, number, {**ext, "g": 1, "h": 0, "i": ""}, body)

    def _acknowledged(self, answer: Frame) -> int:
        self._answered += 1
        if answer.code != ResponseCode.SUCCESS:
            raise SystemExit(f"message {answer.opaque} was not taken: {answer.remark}")
        return answer.opaque


class Receiving:
    """All messages of a topic, queue by queue, from the beginning."""

    def __init__(self, connection: Connection, topic: str, group: str) -> None:
        self._connection, self._topic, self._group = connection, topic, group
        self._bodies = (body for queue in range(QUEUES) for body in self._queue(queue))

    def take(self, count: int) -> list[str]:
        found = list(itertools.islice(self._bodies, count))
        if len(found) < count:
            raise SystemExit(f"{len(found)} of {count} messages came: {found[-3:]} were the last")
        return found

    def _queue(self, queue: int) -> Iterator[str]:
        offset = 0
        while (answer := self._pulled(queue, offset)).code == ResponseCode.SUCCESS:
            yield from (message.body.decode() for message in messages_in(answer.body))
            offset = int(answer.ext["nextBeginOffset"])

    def _pulled(self, queue: int, offset: int) -> Frame:
        where: dict[str, object] = {"consumerGroup": self._group, "topic": self._topic, "queueId": queue}
        what: dict[str, object] = {
            "queueOffset": offset,
            "maxMsgNums": PULL_MESSAGES,
            "commitOffset": 0,
            "subVersion": 0,
        }
        how: dict[str, object] = {"sysFlag": PullFlag.SUBSCRIPTION, "subscription": "*", "suspendTimeoutMillis": 0}
        return self._connection.ask(RequestCode.PULL_MESSAGE, {**where, **what, **how})
