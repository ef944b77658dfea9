"""Request and reply: a consumer answers a message (codes 324 and 325), and the broker passes the answer on (code 326).

The request itself is an ordinary message. Its answer names in REPLY_TO_CLIENT the client that asked; it is pushed over
the connection of that client, and the one who answered hears whether it got there. Answers are passed on and not
stored: one that finds nobody is refused, and the one who asked runs into its timeout.
"""

from penstock.clock import Clock
from penstock.core.topics import Topics, TopicSettings
from penstock.gateway.rocketmq.connection import Connection
from penstock.gateway.rocketmq.house import CLUSTER, House
from penstock.gateway.rocketmq.later import Later
from penstock.gateway.rocketmq.members import Members
from penstock.gateway.rocketmq.routes import Refused, Route, Routes, ext_as
from penstock.model import Action
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import Frame
from penstock.wire.rocketmq.requests import Send, SendV2

REPLY_TOPIC = f"{CLUSTER}_REPLY_TOPIC"
REPLY_TO, PUSHED_AT = "REPLY_TO_CLIENT", "PUSH_REPLY_TIME"
PUSH_TIMEOUT_MS = 10_000
_TOLD = {"msgId": "0", "queueOffset": "0", "MSG_REGION": "DefaultRegion", "TRACE_ON": "true"}


class Reply:
    def __init__(self, topics: Topics, members: Members, house: House, clock: Clock) -> None:
        self._members, self._house, self._clock, self._later = members, house, clock, Later()
        if topics.find(REPLY_TOPIC) is None:  # clients ask for its route before they answer
            topics.create_now(REPLY_TOPIC, TopicSettings(write_queues=1), system=True)

    def routes(self) -> Routes:
        return {
            RequestCode.SEND_REPLY_MESSAGE: Route(self.reply, Action.PRODUCE, "topic"),
            RequestCode.SEND_REPLY_MESSAGE_V2: Route(self.reply, Action.PRODUCE, "b"),
        }

    def reply(self, frame: Frame, connection: Connection) -> None:
        asked = ext_as(Send, frame) if frame.code == RequestCode.SEND_REPLY_MESSAGE else ext_as(SendV2, frame)
        properties = props.parse(asked.properties)
        client_id = properties.get(REPLY_TO, "")
        if not client_id:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"the reply does not say to whom: {REPLY_TO} is missing")
        requester = self._members.client(client_id)
        if requester is None:
            why = f"the reply cannot be passed on: no producer with the client id {client_id!r} is connected"
            raise Refused(ResponseCode.SYSTEM_ERROR, why)
        pushed = {**properties, PUSHED_AT: str(self._clock.now_ms())}
        ext = self._ext(asked, props.build(pushed), connection)
        told = {**_TOLD, "queueId": str(max(asked.queueId, 0))}
        self._later(frame, connection, self._pushed(requester, client_id, ext, bytes(frame.body)), told)

    def _ext(self, asked: Send | SendV2, properties: str, connection: Connection) -> dict[str, str]:
        """All of these fields are needed by the client that asked."""
        return {
            "producerGroup": asked.producerGroup,
            "topic": asked.topic,
            "defaultTopic": asked.defaultTopic,
            "defaultTopicQueueNums": str(asked.defaultTopicQueueNums),
            "queueId": str(asked.queueId),
            "sysFlag": str(asked.sysFlag),
            "bornTimestamp": str(asked.bornTimestamp),
            "flag": str(asked.flag),
            "properties": properties,
            "reconsumeTimes": str(asked.reconsumeTimes),
            "unitMode": "false",
            "bornHost": connection.address,
            "storeHost": self._house.address_for(connection),
            "storeTimestamp": str(self._clock.now_ms()),
        }

    async def _pushed(self, requester: Connection, client_id: str, ext: dict[str, str], body: bytes) -> bytes:
        code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
        try:
            answer = await requester.ask(code, ext, body, timeout_ms=PUSH_TIMEOUT_MS)
        except (TimeoutError, ConnectionError):
            raise Refused(ResponseCode.SYSTEM_ERROR, f"the client {client_id!r} did not take the reply") from None
        if answer.code != ResponseCode.SUCCESS:
            raise Refused(ResponseCode.SYSTEM_ERROR, f"the client {client_id!r} refused the reply: {answer.remark}")
        return b""
