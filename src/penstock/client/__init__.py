"""A client for RocketMQ's remoting protocol: asyncio, typed, the same on Penstock and on a RocketMQ cluster.

What applications need is here; errors are in `errors`, allocation strategies in `allocate`, variants for scripts, which
wait, in `sync`. How it is used is in docs/client.md.

Each name is loaded when it is first used: who needs one module of this package, as every process of a Spark does, does
not wait for all of them.
"""

from typing import TYPE_CHECKING

from penstock.lazily import loader

if TYPE_CHECKING:
    from penstock.client.consumer import ConsumerSettings, Later, PushConsumer
    from penstock.client.message import Message, Received, Sent
    from penstock.client.positions import FIRST, LAST, since
    from penstock.client.producer import Producer, by_key
    from penstock.client.pull import PullConsumer
    from penstock.client.routes import MessageQueue
    from penstock.client.transaction import Outcome, TransactionProducer

__all__ = [
    "FIRST",
    "LAST",
    "ConsumerSettings",
    "Later",
    "Message",
    "MessageQueue",
    "Outcome",
    "Producer",
    "PullConsumer",
    "PushConsumer",
    "Received",
    "Sent",
    "TransactionProducer",
    "by_key",
    "since",
]

__getattr__ = loader(
    __name__,
    {
        "consumer": ("ConsumerSettings", "Later", "PushConsumer"),
        "message": ("Message", "Received", "Sent"),
        "positions": ("FIRST", "LAST", "since"),
        "producer": ("Producer", "by_key"),
        "pull": ("PullConsumer",),
        "routes": ("MessageQueue",),
        "transaction": ("Outcome", "TransactionProducer"),
    },
)
