"""What a topic holds, read by frames: no code of the source has a part in it."""

import contextlib
import json

from penstock.testing.frames import Connection
from penstock.wire.rocketmq.codes import PullFlag, RequestCode, ResponseCode
from penstock.wire.rocketmq.record import Message, messages_in


def stored(address: str, topic: str) -> list[Message]:
    """All messages of a topic, queue by queue, at a Penstock that listens there."""
    with contextlib.closing(Connection(address)) as connection:
        route = connection.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": topic})
        if route.code == ResponseCode.TOPIC_NOT_EXIST:
            return []
        queues = json.loads(bytes(route.body))["queueDatas"][0]["readQueueNums"]
        return [message for queue in range(queues) for message in _queue(connection, topic, queue)]


def _queue(connection: Connection, topic: str, queue: int) -> list[Message]:
    found: list[Message] = []
    while True:
        answer = connection.ask(
            RequestCode.PULL_MESSAGE,
            {
                "consumerGroup": "nobody",
                "topic": topic,
                "queueId": queue,
                "queueOffset": len(found),
                "maxMsgNums": 10_000,
                "maxMsgBytes": 4 << 20,
                "sysFlag": PullFlag.SUBSCRIPTION,
                "subscription": "*",
                "commitOffset": 0,
                "suspendTimeoutMillis": 0,
                "subVersion": 0,
            },
        )
        if answer.code != ResponseCode.SUCCESS:
            return found
        found += messages_in(answer.body)
