"""The locks of an orderly consumer: a queue is one instance's at a time, as the broker has it. They are renewed every
20 seconds, since the broker gives a lock that is 60 s old to whoever asks next.
"""

import asyncio
from collections import defaultdict
from collections.abc import Collection

import msgspec

from penstock import logs
from penstock.client.episodes import Troubles
from penstock.client.errors import ClientError
from penstock.client.instance import Instance
from penstock.client.routes import MessageQueue
from penstock.wire.rocketmq.bodies import QueueName
from penstock.wire.rocketmq.codes import RequestCode

log = logs.get(__name__)


class _Locked(msgspec.Struct):
    lockOKMQSet: list[QueueName] = []  # noqa: N815  # the wire's name


class Locks:
    def __init__(self, instance: Instance, group: str) -> None:
        self._instance, self._group, self._troubles = instance, group, Troubles(log)

    async def lock(self, queues: Collection[MessageQueue]) -> set[MessageQueue]:
        """Those that were granted. A broker that cannot be asked grants nothing."""
        asked = await asyncio.gather(*(self.lock_on(broker, some) for broker, some in _by_broker(queues).items()))
        return {queue for granted in asked for queue in granted or ()}

    async def lock_on(self, broker: str, queues: Collection[MessageQueue]) -> set[MessageQueue] | None:
        """Those that one broker grants; None when it cannot be asked."""
        try:
            answer = await self._ask(RequestCode.LOCK_BATCH_MQ, broker, queues)
            found = msgspec.json.decode(answer, type=_Locked)
        except (ClientError, msgspec.DecodeError) as error:
            told = "queues could not be locked, it is tried again"
            self._troubles.met(broker, told, error, group=self._group, broker=broker)
            return None
        self._troubles.over(broker, "queues can be locked again", group=self._group, broker=broker)
        return {MessageQueue(name.topic, name.broker_name, name.queue_id) for name in found.lockOKMQSet}

    async def renew(self, queues: Collection[MessageQueue]) -> dict[MessageQueue, bool]:
        """Whether each is still ours; those of a broker that cannot be asked are left out."""
        found: dict[MessageQueue, bool] = {}
        for broker, some in _by_broker(queues).items():
            granted = await self.lock_on(broker, some)
            if granted is not None:
                found |= {queue: queue in granted for queue in some}
        return found

    async def unlock(self, queues: Collection[MessageQueue]) -> None:
        for broker, some in _by_broker(queues).items():
            try:
                await self._ask(RequestCode.UNLOCK_BATCH_MQ, broker, some)
            except ClientError as error:  # it is free for others after 60 s at the latest
                log.info("queues could not be unlocked", group=self._group, broker=broker, error=str(error))

    async def _ask(self, code: int, broker: str, queues: Collection[MessageQueue]) -> memoryview:
        names = [QueueName(queue.broker, queue.queue, queue.topic) for queue in queues]
        asked = {"clientId": self._instance.client_id, "consumerGroup": self._group, "mqSet": names}
        cluster = self._instance.cluster
        return (await cluster.get(cluster.master(broker), code, {}, msgspec.json.encode(asked))).body


def _by_broker(queues: Collection[MessageQueue]) -> dict[str, list[MessageQueue]]:
    found: dict[str, list[MessageQueue]] = defaultdict(list)
    for queue in queues:
        found[queue.broker].append(queue)
    return found
