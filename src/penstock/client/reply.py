"""Request and reply: a message that waits for the answer of whoever consumes it.

    reply = await producer.request(Message("prices", b"EUR/USD"), timeout_ms=2_000)      # one side
    await producer.reply(received, b"1.08")                                              # the other

A request is an ordinary message that says who asks (REPLY_TO_CLIENT) and which question it is (CORRELATION_ID). The
reply goes to the broker that the request came from, which passes it on over the connection of the one who asked (code
326); it is not stored. Whoever replied is told when nobody is there any more.
"""

import asyncio
import contextlib
import itertools
import secrets
from collections.abc import Iterator, Mapping

import msgspec

from penstock import logs
from penstock.client.instance import Instance
from penstock.client.link import Link
from penstock.client.message import COMPRESS_FROM_BYTES, Message, Received, compressed
from penstock.client.routes import MessageQueue
from penstock.client.sending import send_header
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.compression import opened
from penstock.wire.rocketmq.frame import Frame

log = logs.get(__name__)

CORRELATION, REPLY_TO, TTL, TYPE = "CORRELATION_ID", "REPLY_TO_CLIENT", "TTL", "MSG_TYPE"
ARRIVED = "ARRIVE_TIME"
REPLY = "reply"


class Requests:
    """The questions of one producer that are open."""

    def __init__(self, instance: Instance) -> None:
        self._instance = instance
        self._prefix, self._count = f"{secrets.token_hex(8)}-", itertools.count(1)
        self._open: dict[str, asyncio.Future[Received]] = {}

    @contextlib.contextmanager
    def waiting(self, message: Message, timeout_ms: int) -> Iterator[tuple[Message, asyncio.Future[Received]]]:
        """The message with what makes it a question, and what its reply comes to."""
        number = f"{self._prefix}{next(self._count)}"
        marks = {CORRELATION: number, REPLY_TO: self._instance.client_id, TTL: str(timeout_ms)}
        marked = msgspec.structs.replace(message, properties=message.properties | marks)
        self._open[number] = reply = asyncio.get_running_loop().create_future()
        try:
            yield marked, reply
        finally:
            del self._open[number]

    def answered(self, frame: Frame, link: Link) -> bool:
        """A broker passes a reply on; False when the question was not asked here."""
        properties = props.parse(frame.ext.get("properties", ""))
        number = properties.get(CORRELATION, "")
        if not number.startswith(self._prefix):
            return False
        reply = self._open.get(number)
        if reply is None or reply.done():  # whoever replied can do nothing about it: that is no error there
            log.info("a reply came too late, or twice", correlation=number, address=link.address)
        else:
            try:
                reply.set_result(self._received(frame, properties))
            except ValueError as error:
                link.reply(frame, ResponseCode.SYSTEM_ERROR, f"the reply cannot be read: {error}")
                return True
        link.reply(frame, ResponseCode.SUCCESS)
        return True

    def _received(self, frame: Frame, properties: dict[str, str]) -> Received:
        ext = frame.ext
        sys_flag, topic = int(ext.get("sysFlag", 0)), ext.get("topic", "")
        return Received(
            topic=topic,
            body=opened(bytes(frame.body), sys_flag),
            tags=properties.get(props.TAGS, ""),
            keys=properties.get(props.KEYS, ""),
            properties=properties | {ARRIVED: str(self._instance.clock.now_ms())},
            queue=MessageQueue(topic, "", int(ext.get("queueId", 0))),
            offset=-1,
            message_id=properties.get(props.UNIQ_KEY, ""),
            offset_id="",
            physical_offset=-1,
            born_ms=int(ext.get("bornTimestamp", 0)),
            store_ms=int(ext.get("storeTimestamp", 0)),
            reconsume_times=int(ext.get("reconsumeTimes", 0)),
            flag=int(ext.get("flag", 0)),
            sys_flag=sys_flag,
        )


def reply_to(request: Received, body: bytes, properties: Mapping[str, str] | None = None) -> Message:
    """The message that answers a request. ValueError when it was none."""
    missing = [name for name in (props.CLUSTER, REPLY_TO, CORRELATION) if not request.properties.get(name)]
    if missing:
        raise ValueError(f"message {request.message_id} is no request: it has no {', '.join(missing)}")
    kept = {name: request.properties[name] for name in (REPLY_TO, CORRELATION, TTL) if name in request.properties}
    topic = f"{request.properties[props.CLUSTER]}_REPLY_TOPIC"
    return Message(topic, body, properties={**(properties or {}), **kept, TYPE: REPLY})


async def send_reply(
    instance: Instance,
    group: str,
    request: Received,
    body: bytes,
    properties: Mapping[str, str] | None = None,
    timeout_ms: int = 3_000,
) -> None:
    """Answer a request. Refused when the one who asked is gone, or does not take it."""
    message, cluster = reply_to(request, body, properties), instance.cluster
    body, sys_flag = compressed(body, 0, COMPRESS_FROM_BYTES)
    found = message.all_properties(instance.next_key())
    ext = send_header(group, message, found, sys_flag, instance.clock.now_ms())
    ext |= {"e": "0", "n": request.queue.broker}
    if request.queue.broker not in cluster.brokers():  # of somebody who only replies
        await cluster.route(message.topic)
    address = cluster.master(request.queue.broker)
    await cluster.get(address, RequestCode.SEND_REPLY_MESSAGE_V2, ext, body, timeout_ms)
