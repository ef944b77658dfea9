"""What a queue holds, read with bare pulls."""

from penstock.client.cluster import Cluster
from penstock.client.producer import Producer
from penstock.client.routes import MessageQueue
from penstock.wire.rocketmq.codes import PullFlag, RequestCode
from penstock.wire.rocketmq.record import Message, messages_in


async def stored(cluster: Cluster, queue: MessageQueue) -> list[Message]:
    """All messages of a queue."""
    found: list[Message] = []
    offset = 0
    while True:
        ext = {"consumerGroup": "readers", "sysFlag": PullFlag.SUBSCRIPTION, "subscription": "*", "maxMsgNums": 100}
        ext |= {"topic": queue.topic, "queueId": queue.queue, "queueOffset": offset, "commitOffset": 0, "subVersion": 0}
        asked = {name: str(value) for name, value in ext.items()} | {"suspendTimeoutMillis": "0"}
        answer = await cluster.ask(cluster.address(queue.broker), RequestCode.PULL_MESSAGE, asked)
        if answer.code:
            return found
        found += messages_in(answer.body)
        offset = int(answer.ext["nextBeginOffset"])


async def bodies(producer: Producer, topic: str) -> list[bytes]:
    """The bodies of a topic."""
    cluster = producer.instance.cluster
    return [one.body for queue in await producer.queues(topic) for one in await stored(cluster, queue)]
