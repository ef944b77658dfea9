"""What operators ask of a client, passed on by the broker: how it is (307), and to consume one message now (309).

The client's answer is passed back byte for byte: code, remark and body are the client's own.
"""

import msgspec

from penstock.core.groups import Groups
from penstock.gateway.rocketmq.connection import Connection
from penstock.gateway.rocketmq.house import BROKER
from penstock.gateway.rocketmq.later import Later
from penstock.gateway.rocketmq.records import Records
from penstock.gateway.rocketmq.routes import Refused, Route, Routes, ext_as
from penstock.model import Action
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import Frame

TIMEOUT_MS = 10_000
VERSION_MIN = 62  # older clients do not know these questions
_ID_CHARS = (32, 56)  # with a short or a long address
_OFFSET_CHARS = 16


class _Of(msgspec.Struct):
    consumerGroup: str  # noqa: N815  # the wire's names
    clientId: str = ""  # noqa: N815
    msgId: str = ""  # noqa: N815


class Relay:
    def __init__(self, groups: Groups, records: Records) -> None:
        self._groups, self._records, self._later = groups, records, Later()

    def routes(self) -> Routes:
        return {
            RequestCode.GET_CONSUMER_RUNNING_INFO: Route(self.running_info, Action.MONITOR, "consumerGroup"),
            RequestCode.CONSUME_MESSAGE_DIRECTLY: Route(self.consume_directly, Action.ADMIN, "consumerGroup"),
        }

    def running_info(self, frame: Frame, connection: Connection) -> None:
        """What a consumer says of itself."""
        line = self._line(ext_as(_Of, frame))
        self._later.relay(frame, connection, self._asked(line, frame, b""))

    def consume_directly(self, frame: Frame, connection: Connection) -> None:
        """One consumer is given one message, outside of its turn, and says what came of it."""
        asked = ext_as(_Of, frame)
        line, physical = self._line(asked), physical_in(asked.msgId)
        self._later.relay(frame, connection, self._consumed(line, frame, physical))

    async def _consumed(self, line: Connection, frame: Frame, physical: int) -> Frame:
        record = await self._records.at(physical)
        frame.ext["brokerName"] = BROKER
        return await self._asked(line, frame, record)

    def _line(self, asked: _Of) -> Connection:
        """The connection of a client in a group; the first one when no client is named."""
        group = self._groups.find(asked.consumerGroup)
        for line, member in group.members.items() if group else ():
            if asked.clientId in ("", member.client_id) and isinstance(line, Connection):
                if member.version < VERSION_MIN:
                    why = f"{member.client_id!r} is a client of version {member.version}, too old to be asked this"
                    raise Refused(ResponseCode.SYSTEM_ERROR, why)
                return line
        why = f"no consumer {asked.clientId!r} of group {asked.consumerGroup!r} is connected"
        raise Refused(ResponseCode.CONSUMER_NOT_ONLINE, why)

    async def _asked(self, line: Connection, frame: Frame, body: bytes) -> Frame:
        try:
            return await line.ask(frame.code, frame.ext, body, TIMEOUT_MS)
        except (TimeoutError, ConnectionError):
            why = f"{line.address} did not answer in {TIMEOUT_MS // 1000} seconds"
            raise Refused(ResponseCode.CONSUME_MSG_TIMEOUT, why) from None


def physical_in(message_id: str) -> int:
    """Where a message is, as its id has it: the hex digits of an address, and of the offset."""
    try:
        if len(message_id) in _ID_CHARS:
            return int(message_id[-_OFFSET_CHARS:], 16)
    except ValueError:
        pass
    raise Refused(ResponseCode.SYSTEM_ERROR, f"{message_id[:60]!r} is not the id of a message: 32 or 56 hex digits")
