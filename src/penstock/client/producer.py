"""Producing. `send` returns when the broker has the message as durably as it is set up to.

A message goes to the next queue in turn, or to the one that a selector picks. What fails because of the broker, not the
message, is tried on another one; the message keeps its id, so a consumer can tell that a copy is one. Compression,
batches and one-way sends are here too; transactions are in `transaction.py`, request-reply in `reply.py`.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Self

from penstock import logs
from penstock.client.choice import Choice
from penstock.client.errors import ClientError, Closed, NoRoute, Refused, TimedOut, Unreachable, refusal
from penstock.client.identity import UniqueKeys, fresh_client_id
from penstock.client.instance import Instance, Timers
from penstock.client.link import Dial, Link
from penstock.client.message import COMPRESS_FROM_BYTES, Message, Sent, compressed
from penstock.client.routes import MessageQueue
from penstock.clock import Clock
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import Frame
from penstock.wire.rocketmq.requests import DEFAULT_TOPIC

log = logs.get(__name__)

Selector = Callable[[Sequence[MessageQueue], Message], MessageQueue]

STORED = (0, 10, 11, 12)  # stored; 10 to 12: but not flushed or copied as the broker is set to
TRY_ELSEWHERE = frozenset({1, 2, 14, 16, 17, 204, 205, 1500})  # codes that another broker may not answer with
MESSAGE_BYTES_MAX = 4 << 20


class Producer:
    """`async with Producer("127.0.0.1:9876", "orders-service") as producer: await producer.send(Message(...))`."""

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
        instance: Instance | None = None,
        clock: Clock | None = None,
        timers: Timers | None = None,
        dial: Dial | None = None,
    ) -> None:
        self.group = self.producer_group = group
        self.instance = instance or Instance(servers, client_id or fresh_client_id(), clock, timers, dial)
        self._timeout_ms, self._retries = timeout_ms, retries
        self._compress_from, self._bytes_max = compress_from_bytes, message_bytes_max
        self._choice = Choice(self.instance.clock, avoid_slow_brokers)
        self._keys = UniqueKeys()
        self._topics: set[str] = set()
        self._open = False
        self._answerers: dict[int, Callable[[Frame, Link], None]] = {}  # what brokers ask, by code

    # --- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._open = True
        self.instance.join(self)

    async def close(self) -> None:
        if self._open:
            self._open = False
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
        answerer = self._answerers.get(frame.code)
        if answerer is None:
            return False
        answerer(frame, link)
        return True

    # --- sending ------------------------------------------------------------------------------------------------------

    async def send(self, message: Message, to: MessageQueue | Selector | None = None) -> Sent:
        """Send, and wait for the broker's word. `to` is a queue, or picks one: what is sent there is not tried
        elsewhere.
        """
        ext, body = self._packed(message)
        return await self._send(message, RequestCode.SEND_MESSAGE_V2, ext, body, to)

    async def send_oneway(self, message: Message, to: MessageQueue | Selector | None = None) -> None:
        """Send without an answer: it may be lost, and nobody is told."""
        ext, body = self._packed(message)
        queues = await self.queues(message.topic)
        queue = self._picked(queues, message, to, "")
        address = self.instance.cluster.address(queue.broker)
        await self.instance.cluster.tell(address, RequestCode.SEND_MESSAGE_V2, {**ext, "e": str(queue.queue)}, body)

    async def send_batch(self, messages: Sequence[Message], to: MessageQueue | Selector | None = None) -> list[Sent]:
        """Several messages of one topic to one queue with one request: all are stored or none."""
        body, keys = self._packed_batch(messages)
        ext = self._ext(messages[0], {props.WAIT: "true"}, 0) | {"m": "true"}
        sent = await self._send(messages[0], RequestCode.SEND_BATCH_MESSAGE, ext, body, to)
        ids = sent.offset_id.split(",")
        return [
            Sent(key, ids[min(number, len(ids) - 1)], sent.queue, sent.offset + number)
            for number, key in enumerate(keys)
        ]

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be written to; NoRoute when there are none."""
        if not self._open:
            raise Closed("this producer is not started: use `async with`, or `await producer.start()`")
        if topic not in self._topics:
            self._topics.add(topic)
            fresh = True
        else:
            fresh = False
        route = await self.instance.cluster.route_to_create(topic)
        if fresh:
            await self.instance.heartbeat()
        queues = route.to_write(topic)
        if not queues:
            raise NoRoute(topic)
        return queues

    def _packed(self, message: Message) -> tuple[dict[str, str], bytes]:
        body, sys_flag = compressed(message.body, 0, self._compress_from)
        if len(body) > self._bytes_max:
            raise ValueError(f"a message of {len(body)} bytes: at most {self._bytes_max} are taken")
        return self._ext(message, message.all_properties(self.next_key()), sys_flag), body

    def next_key(self) -> str:
        return self._keys.next(self.instance.clock.now_ms())

    def _ext(self, message: Message, properties: dict[str, str], sys_flag: int) -> dict[str, str]:
        return {
            "a": self.group,
            "b": message.topic,
            "c": DEFAULT_TOPIC,
            "d": "4",
            "f": str(sys_flag),
            "g": str(self.instance.clock.now_ms()),
            "h": str(message.flag),
            "i": props.build(properties),
            "j": "0",
            "k": "false",
            "m": "false",
        }

    def _packed_batch(self, messages: Sequence[Message]) -> tuple[bytes, list[str]]:
        if not messages:
            raise ValueError("a batch of no messages")
        if any(message.topic != messages[0].topic for message in messages):
            raise ValueError("the messages of a batch are of one topic")
        if any(message.delay_level or message.deliver_at_ms or message.delay_ms for message in messages):
            raise ValueError("the messages of a batch cannot be delayed")
        keys = [self.next_key() for _ in messages]
        body = b"".join(_batched(message, key) for message, key in zip(messages, keys, strict=True))
        if len(body) > self._bytes_max:
            raise ValueError(f"a batch of {len(body)} bytes: at most {self._bytes_max} are taken")
        return body, keys

    # --- trying -------------------------------------------------------------------------------------------------------

    async def _send(
        self, message: Message, code: int, ext: dict[str, str], body: bytes, to: MessageQueue | Selector | None
    ) -> Sent:
        clock, failed = self.instance.clock, ""
        until_ms = clock.monotonic_ms() + self._timeout_ms
        tries = 1 if to is not None else 1 + self._retries
        while True:
            queues = await self.queues(message.topic)
            queue = self._picked(queues, message, to, failed)
            left_ms = until_ms - clock.monotonic_ms()
            tries -= 1
            try:
                return await self._try(queue, code, ext, body, max(left_ms, 1))
            except ClientError as error:
                self._choice.failed(queue.broker)
                failed = queue.broker
                if tries <= 0 or not _elsewhere(error) or clock.monotonic_ms() >= until_ms:
                    raise
                self.instance.cluster.forget(message.topic)
                log.info("a send failed, it is tried again", queue=str(queue), error=str(error))

    async def _try(self, queue: MessageQueue, code: int, ext: dict[str, str], body: bytes, timeout_ms: int) -> Sent:
        cluster, clock = self.instance.cluster, self.instance.clock
        address, began_ms = cluster.address(queue.broker), clock.monotonic_ms()
        answer = await cluster.ask(address, code, {**ext, "e": str(queue.queue), "n": queue.broker}, body, timeout_ms)
        self._choice.took(queue.broker, clock.monotonic_ms() - began_ms)
        if answer.code not in STORED:
            raise refusal(answer, address)
        if answer.code != ResponseCode.SUCCESS:
            log.warning("stored, but not as safely as the broker is set to", address=address, code=answer.code)
        told = answer.ext
        number = int(told.get("queueId", queue.queue))
        key = props.find(ext["i"], props.UNIQ_KEY)
        where = MessageQueue(queue.topic, queue.broker, number)
        return Sent(key, told.get("msgId", ""), where, int(told.get("queueOffset", -1)))

    def _picked(
        self, queues: Sequence[MessageQueue], message: Message, to: MessageQueue | Selector | None, failed: str
    ) -> MessageQueue:
        if to is None:
            return self._choice.next(queues, failed)
        if isinstance(to, MessageQueue):
            return to
        return to(queues, message)


def _elsewhere(error: ClientError) -> bool:
    """Whether another try, on another broker if there is one, may help."""
    if isinstance(error, Refused):
        return error.code in TRY_ELSEWHERE
    return isinstance(error, Unreachable | TimedOut)


def _batched(message: Message, key: str) -> bytes:
    properties = props.build(message.all_properties(key)).encode()
    head = (20 + len(message.body) + 2 + len(properties)).to_bytes(4, "big") + bytes(8)
    lengths = message.flag.to_bytes(4, "big", signed=True) + len(message.body).to_bytes(4, "big")
    return b"".join((head, lengths, message.body, len(properties).to_bytes(2, "big"), properties))


def by_key(key: str) -> Selector:
    """Messages with one key go to one queue, so they stay in order."""
    return lambda queues, message: queues[hash_of(key) % len(queues)]


def hash_of(key: str) -> int:
    """The same in every process: Python's own hash is not."""
    found = 0
    for unit in key.encode("utf-16-le"):
        found = (31 * found + unit) & 0x7FFFFFFF
    return found


async def gather_sends(producer: Producer, messages: Iterable[Message]) -> list[Sent]:
    """Send many at once, each for itself."""
    return await asyncio.gather(*(producer.send(message) for message in messages))
