"""What tests of the push consumer share: handlers that keep what they get, timers that a test can wait for, and looks
into the broker behind.
"""

import asyncio
from collections import Counter
from collections.abc import Callable

from penstock.client.consumer import ConsumerSettings, PushConsumer
from penstock.client.instance import Timers
from penstock.client.message import Message, Received
from penstock.client.positions import FIRST
from penstock.client.producer import Producer
from penstock.client.routes import MessageQueue
from penstock.testing.server import Running

QUICK = Timers(persist_interval_ms=50, rebalance_interval_ms=500, route_interval_ms=200)
WAITS = ConsumerSettings(failed_wait_ms=50, handover_ms=500, close_timeout_ms=2_000, suspend_ms=20)
WITHIN_S = 15


class Inbox:
    """A handler that keeps what it gets."""

    def __init__(self, answer: Callable[[Received], object] = lambda message: None) -> None:
        self.messages: list[Received] = []
        self._answer, self._more = answer, asyncio.Condition()

    async def __call__(self, message: Received) -> object:
        async with self._more:
            self.messages.append(message)
            self._more.notify_all()
        result = self._answer(message)
        if isinstance(result, Exception) and not hasattr(result, "delay_level"):
            raise result
        return await result if asyncio.iscoroutine(result) else result

    @property
    def bodies(self) -> list[bytes]:
        return [message.body for message in self.messages]

    @property
    def counts(self) -> Counter[bytes]:
        return Counter(self.bodies)

    async def until(self, count: int) -> list[Received]:
        """At least so many have come."""
        async with asyncio.timeout(WITHIN_S), self._more:
            await self._more.wait_for(lambda: len(self.messages) >= count)
        return self.messages


def consumer(penstock: Running, group: str, handler=None, **more) -> PushConsumer:
    """From the first message on, with timers that are quick."""
    options = {"topics": {"orders": "*"}, "start": FIRST, "timers": QUICK, "settings": WAITS, **more}
    return PushConsumer(penstock.addresses["namesrv"], group, handler, **options)


async def send(producer: Producer, count: int, topic: str = "orders", first: int = 0, **more) -> list[bytes]:
    """Numbered messages; their bodies."""
    bodies = [b"%d" % number for number in range(first, first + count)]
    await asyncio.gather(*(producer.send(Message(topic, body, **more)) for body in bodies))
    return bodies


async def until(is_so: Callable[[], object], what: str = "it") -> None:
    """Wait for something that no event tells."""
    try:
        async with asyncio.timeout(WITHIN_S):
            while not is_so():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"{what} did not come to be within {WITHIN_S} s") from None


def committed(penstock: Running, group: str, topic: str = "orders") -> dict[int, int]:
    return dict(penstock.server.broker.offsets.of(group, topic))


def owned(one: PushConsumer, topic: str = "orders") -> list[int]:
    return sorted(queue.queue for queue in one.owned if queue.topic == topic)


def the_queue(one: PushConsumer, number: int, topic: str = "orders") -> MessageQueue:
    return next(queue for queue in one.owned if (queue.topic, queue.queue) == (topic, number))
