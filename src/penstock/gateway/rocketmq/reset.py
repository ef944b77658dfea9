"""Reset by time: 222 from the operator, 220 to the clients, and 21 to their next pulls; 223 and 221 ask how far clients
are.

The answer to 222 comes at once. Java sleeps ten seconds over a 220 and its tools wait five for an answer, so nothing
here waits for a client, except 223, which asks them, and also tells who has confirmed the last reset.

A 220 is for those who need one: instances that keep their offsets themselves, and clients from before 5.0. Java's newer
ones sleep over it in the threads that hand out all answers, as many as there are cores: two in a row, and the client
gives up its connection, comes with another, and counts as two. Their next pull tells them, sooner, and a pull that
waits is ended for that.
"""

import asyncio
from weakref import WeakKeyDictionary

import msgspec

from penstock.clock import Clock
from penstock.core.fetch import Fetcher
from penstock.core.groups import Group, Groups, Member
from penstock.core.offsets import Offsets
from penstock.core.resets import Resets, target_offset
from penstock.core.topics import Topics
from penstock.gateway.rocketmq.connection import Connection
from penstock.gateway.rocketmq.house import BROKER
from penstock.gateway.rocketmq.routes import Refused, Route, Routes, ext_as
from penstock.model import Action
from penstock.wire.rocketmq.bodies import QueueName, with_table
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import Frame

STATUS_TIMEOUT_MS = 4_000
NOW = -1  # the time that stands for "skip everything there is"
PULLS_SUFFICE_VERSION = 413  # 5.0
BY_CHARS_MAX = 200
ASLEEP_MS = 15_000  # over a 220: meanwhile its pulls tell a client the rest


class _Reset(msgspec.Struct):
    topic: str
    group: str
    timestamp: int = NOW
    isForce: bool = False  # noqa: N815  # the wire's name
    queueId: int = -1  # noqa: N815
    offset: int | None = None
    by: str = ""  # ours, and only for the record


class _Status(msgspec.Struct):
    topic: str
    group: str
    clientAddr: str | None = None  # noqa: N815


class Reset:
    def __init__(
        self, topics: Topics, fetcher: Fetcher, groups: Groups, offsets: Offsets, resets: Resets, clock: Clock
    ) -> None:
        self._topics, self._fetcher, self._groups = topics, fetcher, groups
        self._offsets, self._resets, self._clock = offsets, resets, clock
        self._asleep_until_ms: WeakKeyDictionary[Connection, int] = WeakKeyDictionary()
        self._busy: set[asyncio.Task[None]] = set()

    def routes(self) -> Routes:
        return {
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: Route(self.reset, Action.ADMIN),
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: Route(self.status, Action.MONITOR),
        }

    def reset(self, frame: Frame, connection: Connection) -> None:
        asked = ext_as(_Reset, frame)
        group = self._groups.find(asked.group)
        targets = self._targets(asked, group)
        self._resets.ask(asked.group, asked.topic, targets, group, asked.by[:BY_CHARS_MAX])
        body = with_table("offsetTable", [(QueueName(BROKER, q, asked.topic), offset) for q, offset in targets.items()])
        ext = {"topic": asked.topic, "group": asked.group, "timestamp": str(asked.timestamp)}
        ext["isForce"] = "true" if asked.isForce else "false"
        topic = self._topics.get(asked.topic)
        if group is not None:
            self._tell(group, {topic.queue(index) for index in targets}, ext, body)
        connection.reply(frame, ResponseCode.SUCCESS, body=body)

    def _tell(self, group: Group, queues: set[int], ext: dict[str, str], body: bytes) -> None:
        for line, member in group.members.items():
            if not isinstance(line, Connection):
                continue
            if self._needs_telling(line, member, group):
                line.push(RequestCode.RESET_CONSUMER_CLIENT_OFFSET, ext, body)
            else:
                line.end_waits(queues)

    def _needs_telling(self, line: Connection, member: Member, group: Group) -> bool:
        """Whether an instance gets a 220; else its pulls tell it."""
        if member.version >= PULLS_SUFFICE_VERSION and not group.broadcast:
            return False
        now_ms = self._clock.monotonic_ms()
        if self._asleep_until_ms.get(line, 0) > now_ms:
            return False
        self._asleep_until_ms[line] = now_ms + ASLEEP_MS
        return True

    def _targets(self, asked: _Reset, group: Group | None) -> dict[int, int]:
        topic = self._topics.get(asked.topic)
        broadcast = self._resets.is_broadcast(asked.group, group)
        queues = range(topic.write_queues) if asked.queueId < 0 else (asked.queueId,)
        targets = {}
        for index in queues:
            queue = topic.queue(index)
            bounds = self._fetcher.bounds(queue)
            if asked.offset is not None and asked.queueId >= 0:
                targets[index] = min(max(asked.offset, bounds.min_offset), bounds.max_offset)
                continue
            now = asked.timestamp == NOW
            at_time = bounds.max_offset if now else self._fetcher.offset_at_time(queue, asked.timestamp)
            committed = self._offsets.find(asked.group, asked.topic, index)
            targets[index] = target_offset(bounds, at_time, committed, asked.isForce, broadcast)
        return targets

    def status(self, frame: Frame, connection: Connection) -> None:
        asked = ext_as(_Status, frame)
        group = self._groups.find(asked.group)
        broadcast = self._resets.is_broadcast(asked.group, group)
        if group is None and not broadcast and self._resets.status(asked.group, asked.topic) is None:
            raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, f"no consumer of group {asked.group!r} is connected")
        task = asyncio.ensure_future(self._ask_all(asked, group, frame, connection))
        self._busy.add(task)
        task.add_done_callback(self._busy.discard)

    async def _ask_all(self, asked: _Status, group: Group | None, frame: Frame, connection: Connection) -> None:
        """Each client's own table, relayed as it wrote it."""
        ext = {"topic": asked.topic, "group": asked.group}
        lines = [
            (member.client_id, line)
            for line, member in (group.members.items() if group else ())
            if isinstance(line, Connection) and asked.clientAddr in (None, "", member.client_id, line.address)
        ]
        calls = [
            line.ask(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, ext, timeout_ms=STATUS_TIMEOUT_MS)
            for _, line in lines
        ]
        answers = await asyncio.gather(*calls, return_exceptions=True)
        parts = []
        for (client_id, _), answer in zip(lines, answers, strict=True):
            if isinstance(answer, Frame) and answer.code == ResponseCode.SUCCESS:
                parts.append(msgspec.json.encode(client_id) + b":" + _table_in(bytes(answer.body)))
        ours = self._last(asked) + (b',"broadcast":true' if self._resets.is_broadcast(asked.group, group) else b"")
        body = b'{"consumerTable":{%b}%b}' % (b",".join(parts), ours)
        connection.reply(frame, ResponseCode.SUCCESS, body=body)

    def _last(self, asked: _Status) -> bytes:
        """The group's last reset, who has confirmed it, who was away: more than RocketMQ tells; its tools leave it."""
        status = self._resets.status(asked.group, asked.topic)
        if status is None:
            return b""
        instances = [
            {
                "clientId": one.client_id,
                "address": one.address,
                "toldMs": one.told_ms,
                "confirmed": sorted(one.confirmed),
            }
            for one in status.instances
        ]
        targets = {str(queue): offset for queue, offset in status.targets.items()}
        head = {"askedMs": status.asked_ms, "targets": targets, "broadcast": status.broadcast}
        return b',"reset":' + msgspec.json.encode({**head, "instances": instances, "away": status.away})


def _table_in(body: bytes) -> bytes:
    """The value of messageQueueTable, as text: it has objects as keys and is no JSON."""
    at = body.find(b'"messageQueueTable":')
    start = body.find(b"{", at + len(b'"messageQueueTable":') if at >= 0 else 0)
    if at < 0 or start < 0:
        return b"{}"
    depth, quoted = 0, False
    for place in range(start, len(body)):
        byte = body[place : place + 1]
        if byte == b'"' and body[place - 1 : place] != b"\\\\":
            quoted = not quoted
        elif not quoted and byte in b"{}":
            depth += 1 if byte == b"{" else -1
            if not depth:
                return body[start : place + 1]
    return b"{}"
