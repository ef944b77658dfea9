"""Giving a message back: it comes again later, by way of the group's retry topic, or is a dead letter after too often.

The broker is asked to copy the message there by itself (36). If it cannot, the message is sent there like any other: so
also a broker that is going down loses nothing. The broker counts, and decides what is too often.
"""

import random

from penstock import logs
from penstock.client.cluster import Cluster
from penstock.client.consumer.settings import RETRY_PREFIX
from penstock.client.episodes import Troubles
from penstock.client.errors import ClientError, NoRoute, refusal
from penstock.client.message import ORIGIN_ID, RETRY_TOPIC
from penstock.client.routes import MessageQueue
from penstock.client.sending import STORED
from penstock.clock import Clock
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.codes import RequestCode
from penstock.wire.rocketmq.record import Message, message_id
from penstock.wire.rocketmq.requests import DEFAULT_TOPIC

log = logs.get(__name__)

PRODUCER = "CLIENT_INNER_PRODUCER"
FIRST_LEVEL = 3  # of the first retry: 10 s
_KEPT_FLAGS = 0x701  # of a message: how its body is compressed
DEAD = -1  # the delay level that means: never again
_TIMEOUT_MS = 5_000


class SendBack:
    def __init__(self, cluster: Cluster, clock: Clock, group: str, reconsume_max: int) -> None:
        self._cluster, self._clock, self._group = cluster, clock, group
        self.reconsume_max = reconsume_max
        self._troubles = Troubles(log)

    async def back(self, message: Message, queue: MessageQueue, delay_level: int) -> bool:
        """Whether it will come again, from the broker."""
        try:
            await self._ask(message, queue, delay_level)
        except ClientError as error:
            log.info("a message could not be sent back, it is sent anew", queue=str(queue), error=str(error))
            dead = delay_level == DEAD
            times = max(message.reconsume_times + 1, self.reconsume_max if dead else 0)
            return await self.send(message, queue, times, delay_level)
        return True

    async def _ask(self, message: Message, queue: MessageQueue, delay_level: int) -> None:
        ext = {
            "offset": str(message.physical_offset),
            "group": self._group,
            "delayLevel": str(delay_level),
            "originMsgId": message.message_id,
            "originTopic": message.properties.get(RETRY_TOPIC, message.topic),
            "unitMode": "false",
            "maxReconsumeTimes": str(self.reconsume_max),
        }
        address = self._cluster.master(queue.broker)
        await self._cluster.get(address, RequestCode.CONSUMER_SEND_MSG_BACK, ext, b"", _TIMEOUT_MS)

    async def send(self, message: Message, queue: MessageQueue, times: int, delay_level: int = 0) -> bool:
        """Send it to the retry topic like any other message, as one that was consumed so many times."""
        try:
            target = await self._target(queue)
            address = self._cluster.master(target.broker)
            ext = self._ext(message, target, times, delay_level)
            answer = await self._cluster.ask(address, RequestCode.SEND_MESSAGE_V2, ext, message.body, _TIMEOUT_MS)
            if answer.code not in STORED:
                raise refusal(answer, address)
        except ClientError as error:
            told = "messages cannot be sent to their retry topic, it is tried again"
            self._troubles.met(queue.broker, told, error, queue=str(queue))
            return False
        self._troubles.over(queue.broker, "messages can be sent to their retry topic again", queue=str(queue))
        return True

    async def _target(self, queue: MessageQueue) -> MessageQueue:
        """Any queue of the retry topic, on the message's own broker if it can be."""
        topic = RETRY_PREFIX + self._group
        queues = (await self._cluster.route(topic)).to_write(topic)
        if not queues:
            raise NoRoute(topic)
        up = [other for other in queues if not self._cluster.is_down(other.broker)] or queues
        return random.choice([other for other in up if other.broker == queue.broker] or up)

    def _ext(self, message: Message, target: MessageQueue, times: int, delay_level: int) -> dict[str, str]:
        own_id = message_id(message.store_host, message.physical_offset)
        properties = {RETRY_TOPIC: message.topic, ORIGIN_ID: own_id, **message.properties}
        properties[props.DELAY] = str(delay_level if delay_level > 0 else FIRST_LEVEL + message.reconsume_times)
        return {
            "a": PRODUCER,
            "b": target.topic,
            "c": DEFAULT_TOPIC,
            "d": "4",
            "e": str(target.queue),
            "f": str(message.sys_flag & _KEPT_FLAGS),
            "g": str(self._clock.now_ms()),
            "h": str(message.flag),
            "i": props.build(properties),
            "j": str(times),
            "k": "false",
            "l": str(self.reconsume_max),
            "m": "false",
            "n": target.broker,
        }
