"""Producing. `send` returns when the broker has the message as durably as it is set up to.

A message goes to the next queue in turn, or to the one that a selector picks. What fails because of the broker, not the
message, is tried on another one; the message keeps its id, so a consumer can tell that a copy is one. Batches, one-way
sends and requests that wait for a reply are here too; transactions are in `transaction.py`, the sending itself is in
`sending.py`.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Self

from penstock.client.choice import Choice
from penstock.client.errors import Closed, MessageTooLarge, NoReply, NoRoute, NotAuthorized, TopicNotFound
from penstock.client.identity import fresh_client_id
from penstock.client.instance import Instance, Timers
from penstock.client.link import Dial, Link
from penstock.client.message import COMPRESS_FROM_BYTES, Message, Received, Sent, compressed
from penstock.client.reply import Requests, send_reply
from penstock.client.routes import WRITE, MessageQueue, Route
from penstock.client.sending import Outgoing, Target, batched, picked, send_header, sent_to_some
from penstock.client.tracing import TRACE_GROUP, Tracer
from penstock.clock import Clock
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import Frame
from penstock.wire.rocketmq.record import java_hash

MESSAGE_BYTES_MAX = 4 << 20

Answer = Callable[[Frame, Link], bool]  # to what a broker asks; False when it is not for this producer


class Producer:
    """`async with Producer("127.0.0.1:9876", "orders-service") as producer: await producer.send(Message(...))`.

    With `trace` it writes down what it has sent, for `mqadmin queryMsgTraceById` and the pipeline `audit`.
    """

    def __init__(
        self,
        servers: str,
        group: str = "DEFAULT_PRODUCER",
        *,
        client_id: str = "",
        timeout_ms: int = 3_000,
        retries: int = 2,
        compress_from_bytes: int = COMPRESS_FROM_BYTES,
        message_bytes_max: int = MESSAGE_BYTES_MAX,
        avoid_slow_brokers: bool = False,
        trace: bool = False,
        instance: Instance | None = None,
        clock: Clock | None = None,
        timers: Timers | None = None,
        dial: Dial | None = None,
    ) -> None:
        self.group = self.producer_group = group
        self.instance = instance or Instance(servers, client_id or fresh_client_id(), clock, timers, dial)
        self.timeout_ms, self.retries = timeout_ms, retries
        self._compress_from, self._bytes_max = compress_from_bytes, message_bytes_max
        self.choice = Choice(self.instance.clock, avoid_slow_brokers)
        self._topics: set[str] = set()
        self._queues: dict[str, tuple[Route, list[MessageQueue]]] = {}
        self._open = False
        self._requests = Requests(self.instance)
        self.tracer: Tracer | None = None
        if trace:
            traces = Producer(servers, TRACE_GROUP, timeout_ms=timeout_ms, instance=self.instance)
            self.tracer = Tracer(self.instance, group, traces)
        self._answers: dict[int, Answer] = {RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT: self._requests.answered}

    # --- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._open = True
        self.instance.join(self)
        if self.tracer:
            await self.tracer.start()

    async def close(self) -> None:
        if self._open:
            self._open = False
            if self.tracer:
                await self.tracer.close()
            await self.instance.leave(self, producerGroup=self.group)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.close()

    # --- as a member of its instance ----------------------------------------------------------------------------------

    @property
    def topics(self) -> Iterable[str]:
        return self._topics

    def consumer_data(self) -> None:
        return None

    def routes_changed(self) -> None:
        """Routes are looked up at every send."""

    def asked(self, frame: Frame, link: Link) -> bool:
        answer = self._answers.get(frame.code)
        return answer is not None and answer(frame, link)

    def answer(self, code: int, how: Answer) -> None:
        """What to do when a broker asks with this code."""
        self._answers[code] = how

    # --- sending ------------------------------------------------------------------------------------------------------

    async def send(self, message: Message, to: Target = None) -> Sent:
        """Send, and wait for the broker's word. `to` is a queue, or picks one: what is sent there is not tried
        elsewhere.
        """
        return await self.stored(self.packed(message), to)

    async def stored(self, outgoing: Outgoing, to: Target) -> Sent:
        """Send what is packed."""
        if self.tracer is None:
            return await sent_to_some(self, outgoing, to)
        began_ms = self.instance.clock.monotonic_ms()
        sent = await sent_to_some(self, outgoing, to)
        self.tracer.sent(outgoing, sent, sent.message_id, self.instance.clock.monotonic_ms() - began_ms)
        return sent

    async def send_oneway(self, message: Message, to: Target = None) -> None:
        """Send without an answer: it may be lost, and nobody is told."""
        outgoing, cluster = self.packed(message), self.instance.cluster
        queue = picked(self, await self.queues(message.topic), outgoing, to, "")
        ext = outgoing.ext_for(queue)
        await cluster.tell(cluster.master(queue.broker), outgoing.code, ext, outgoing.body)

    async def send_batch(self, messages: Sequence[Message], to: Target = None) -> list[Sent]:
        """Several messages of one topic to one queue with one request: all are stored or none."""
        keys = [self.instance.next_key() for _ in messages]
        body = batched(messages, keys)
        self._check_bytes("batch", body)
        ext = send_header(self.group, messages[0], {props.WAIT: "true"}, 0, self.instance.clock.now_ms())
        outgoing = Outgoing(messages[0], RequestCode.SEND_BATCH_MESSAGE, ext | {"m": "true"}, body)
        began_ms = self.instance.clock.monotonic_ms()
        sent = await sent_to_some(self, outgoing, to)
        if self.tracer:
            self.tracer.sent(outgoing, sent, ",".join(keys), self.instance.clock.monotonic_ms() - began_ms)
        ids = sent.offset_id.split(",")
        return [
            Sent(key, ids[min(number, len(ids) - 1)], sent.queue, sent.offset + number, sent.code)
            for number, key in enumerate(keys)
        ]

    async def request(self, message: Message, timeout_ms: int = 3_000, to: Target = None) -> Received:
        """Send, and wait for the reply of whoever consumes it. NoReply when none comes in time."""
        with self._requests.waiting(message, timeout_ms) as (marked, reply):
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    await self.send(marked, to)
                    return await reply
            except TimeoutError:
                raise NoReply(message.topic, timeout_ms) from None

    async def reply(self, request: Received, body: bytes, properties: Mapping[str, str] | None = None) -> None:
        """Answer a request that a consumer got."""
        await send_reply(self.instance, self.group, request, body, properties, self.timeout_ms)

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be written to; NoRoute or NotAuthorized when there are none."""
        if not self._open:
            raise Closed("this producer is not started: use `async with`, or `await producer.start()`")
        route = await self.instance.cluster.route_to_create(topic)
        if topic not in self._topics:  # one that nobody has is not asked for again and again
            self._topics.add(topic)
            await self.instance.heartbeat()
        found = self._queues.get(topic)
        if found is None or found[0] is not route:  # sorting them for every send would cost more than most of it
            found = self._queues[topic] = route, route.to_write(topic)
        if not found[1]:
            raise _unwritable(topic, route)
        return found[1].copy()

    # --- packing ------------------------------------------------------------------------------------------------------

    def packed(self, message: Message, more: Mapping[str, str] | None = None, sys_flag: int = 0) -> Outgoing:
        """A message as it goes out, with more properties and flags than its own."""
        body, sys_flag = compressed(message.body, sys_flag, self._compress_from)
        self._check_bytes("message", body)
        properties = message.all_properties(self.instance.next_key()) | dict(more or {})
        ext = send_header(self.group, message, properties, sys_flag, self.instance.clock.now_ms())
        return Outgoing(message, RequestCode.SEND_MESSAGE_V2, ext, body)

    def _check_bytes(self, what: str, body: bytes) -> None:
        if len(body) > self._bytes_max:
            remark = f"a {what} of {len(body)} bytes: at most {self._bytes_max} are taken"
            raise MessageTooLarge(ResponseCode.MESSAGE_ILLEGAL, remark, "this producer")


def _unwritable(topic: str, route: Route) -> TopicNotFound | NotAuthorized:
    """Why nothing can be sent to a topic that has a route."""
    if any(data.perm & WRITE for data in route.queue_datas):
        return NoRoute(topic)  # no master of its brokers is there
    remark = f"topic {topic!r} may not be written to: `penstock topic alter` can allow it"
    return NotAuthorized(ResponseCode.NO_PERMISSION, remark, "the name servers")


def by_key(key: str) -> Callable[[Sequence[MessageQueue], Message], MessageQueue]:
    """Messages with one key go to one queue, so they stay in order. The queue is the one that Java's selector by hash
    picks, so producers in both languages keep one order.
    """
    return lambda queues, message: queues[abs(java_hash(key)) % len(queues)]
