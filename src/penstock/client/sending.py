"""One send, from a packed message to the broker's word: which queue, which header, and when to try again, where.

Tried again is what another try can mend: a broker that cannot be reached, is too slow, is busy or does not have the
topic. As long as nothing can be reached at all it is tried until the time is over; what has reached a broker and failed
there, at most `retries` times more.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from penstock import logs
from penstock.client.choice import Choice
from penstock.client.errors import ClientError, Lost, Refused, TimedOut, Unreachable, refusal
from penstock.client.instance import Instance
from penstock.client.message import Message, Sent
from penstock.client.routes import MessageQueue
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.codes import ResponseCode
from penstock.wire.rocketmq.frame import Frame
from penstock.wire.rocketmq.requests import DEFAULT_TOPIC

log = logs.get(__name__)

Selector = Callable[[Sequence[MessageQueue], Message], MessageQueue]
Target = MessageQueue | Selector | None

STORED = (0, 10, 11, 12)  # stored; 10 to 12: but not flushed or copied as the broker is set to
TRY_ELSEWHERE = frozenset({1, 2, 14, 16, 17, 204, 205, 1500})  # codes that another broker may not answer with


class Outgoing(NamedTuple):
    """A message, or a batch, ready to go."""

    message: Message
    code: int
    ext: dict[str, str]
    body: bytes

    def ext_for(self, queue: MessageQueue) -> dict[str, str]:
        return {**self.ext, "e": str(queue.queue), "n": queue.broker}


class Sender(Protocol):
    """Who sends: what is needed of a producer here."""

    instance: Instance
    choice: Choice
    timeout_ms: int
    retries: int

    async def queues(self, topic: str) -> list[MessageQueue]: ...


def send_header(
    group: str, message: Message, properties: dict[str, str], sys_flag: int, born_ms: int
) -> dict[str, str]:
    """The fields of a send, under the short names of its second version."""
    return {
        "a": group,
        "b": message.topic,
        "c": DEFAULT_TOPIC,
        "d": "4",
        "f": str(sys_flag),
        "g": str(born_ms),
        "h": str(message.flag),
        "i": props.build(properties),
        "j": "0",
        "k": "false",
        "m": "false",
    }


async def sent_to_some(sender: Sender, outgoing: Outgoing, to: Target) -> Sent:
    """Try until it is stored, or no other try may help."""
    clock, failed, topic = sender.instance.clock, "", outgoing.message.topic
    until_ms = clock.monotonic_ms() + sender.timeout_ms
    tries = 1 if to is not None else 1 + sender.retries
    queues = await sender.queues(topic)
    while True:
        queue = picked(sender, queues, outgoing, to, failed)
        try:
            return await _sent(sender, queue, outgoing, max(until_ms - clock.monotonic_ms(), 1))
        except ClientError as error:
            sender.choice.failed(queue.broker)
            failed = queue.broker
            tries -= _reached(error)
            if tries <= 0 or not _may_help(error) or clock.monotonic_ms() >= until_ms:
                raise
            log.debug("a send failed, it is tried again", queue=str(queue), error=str(error))
            await _look_again(sender.instance, topic)
            try:
                queues = await sender.queues(topic)
            except Refused:  # there is nowhere else to try: what was said first is the reason
                raise error from None


async def _sent(sender: Sender, queue: MessageQueue, outgoing: Outgoing, timeout_ms: int) -> Sent:
    cluster, clock = sender.instance.cluster, sender.instance.clock
    address, began_ms = cluster.master(queue.broker), clock.monotonic_ms()
    answer = await cluster.ask(address, outgoing.code, outgoing.ext_for(queue), outgoing.body, timeout_ms)
    sender.choice.took(queue.broker, clock.monotonic_ms() - began_ms)
    if answer.code not in STORED:
        raise refusal(answer, address)
    if answer.code != ResponseCode.SUCCESS:
        log.warning("stored, but not as safely as the broker is set to", address=address, code=answer.code)
    return sent_in(answer, queue, props.find(outgoing.ext["i"], props.UNIQ_KEY))


def sent_in(answer: Frame, queue: MessageQueue, key: str) -> Sent:
    told = answer.ext
    where = queue._replace(queue=int(told.get("queueId", queue.queue)))
    transaction = told.get("transactionId") or key
    return Sent(key, told.get("msgId", ""), where, int(told.get("queueOffset", -1)), answer.code, transaction)


async def _look_again(instance: Instance, topic: str) -> None:
    """Ask for the route anew: it may have moved. If that fails as well, the known one has to do."""
    try:
        await instance.cluster.fetch(topic)
    except ClientError as error:
        log.debug("a route could not be asked for anew", topic=topic, error=str(error))


def picked(sender: Sender, queues: Sequence[MessageQueue], outgoing: Outgoing, to: Target, failed: str) -> MessageQueue:
    if to is None:
        return sender.choice.next(queues, failed, sender.instance.cluster.is_down)
    if isinstance(to, MessageQueue):
        return to
    return to(queues, outgoing.message)


def _reached(error: ClientError) -> bool:
    """Whether a broker was reached at all: if not, nothing was sent, and trying again costs nothing."""
    return not isinstance(error, Unreachable) or isinstance(error, Lost)


def _may_help(error: ClientError) -> bool:
    """Whether another try, on another broker if there is one, may help."""
    if isinstance(error, Refused):
        return error.code in TRY_ELSEWHERE
    return isinstance(error, Unreachable | TimedOut)


# --- batches ----------------------------------------------------------------------------------------------------------


def batched(messages: Sequence[Message], keys: Sequence[str]) -> bytes:
    """Messages as the body of one send. ValueError when they cannot go together."""
    if not messages:
        raise ValueError("a batch of no messages")
    if any(message.topic != messages[0].topic for message in messages):
        raise ValueError("the messages of a batch are of one topic")
    if any(message.delay_level or message.deliver_at_ms or message.delay_ms for message in messages):
        raise ValueError("the messages of a batch cannot be delayed")
    return b"".join(_part(message, message.all_properties(key)) for message, key in zip(messages, keys, strict=True))


def _part(message: Message, properties: Mapping[str, str]) -> bytes:
    packed = props.build(dict(properties)).encode()
    if len(packed) > props.BYTES_MAX:
        raise ValueError(f"properties of {len(packed)} bytes: at most {props.BYTES_MAX} are taken")
    head = (20 + len(message.body) + 2 + len(packed)).to_bytes(4, "big") + bytes(8)
    lengths = message.flag.to_bytes(4, "big", signed=True) + len(message.body).to_bytes(4, "big")
    return b"".join((head, lengths, message.body, len(packed).to_bytes(2, "big"), packed))
