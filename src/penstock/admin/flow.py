"""Messages to and from rocketmq://: what `produce` and `consume` stand on.

`read` is in no group and commits nothing; `consume` is a member of a group, and commits what was taken. Sending keeps
many under way, unless all go to one queue: then they stay in their order. What became of them is always told in their
order.
"""

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from contextlib import aclosing

from penstock.admin import model
from penstock.admin.errors import NotPossible, NotSent, NotThere
from penstock.admin.place import EARLIEST, LATEST, OFFSET, TIME, Place
from penstock.admin.reset import target_of
from penstock.client import positions
from penstock.client.errors import ClientError
from penstock.client.message import Message, Received, Sent
from penstock.client.producer import Producer
from penstock.client.pull import POLL_MESSAGES_MAX, PullConsumer
from penstock.client.reading import Wanted
from penstock.client.routes import MessageQueue

READERS = "TOOLS_CONSUMER"  # a group that every RocketMQ knows
SENDERS = "penstock_produce"
IN_FLIGHT = 256
WAIT_MS, LOOK_MS = 60_000, 200


async def read(
    servers: str, topic: str, start: Place, queues: Iterable[int], wanted: Wanted, to_end: bool
) -> AsyncGenerator[list[model.Message], None]:
    """Messages as they come, some at a time; up to what is the end now, or for ever."""
    async with PullConsumer(servers, READERS, auto_commit=False, visible=False) as consumer:
        starts, ends = await _span(consumer, topic, start, set(queues))
        await consumer.assign(starts, wanted)
        if to_end:
            async with aclosing(consumer.read_to(ends)) as found:
                async for message in found:
                    yield [message_of(message)]
            return
        while True:
            yield [message_of(message) for message in await consumer.poll(WAIT_MS)]


async def consume(
    servers: str, topic: str, group: str, start: Place, wanted: Wanted, to_end: bool, count: int | None
) -> AsyncGenerator[list[model.Message], None]:
    """Messages of the share that a group leaves to us, some at a time. Those of one turn are done, and are committed
    sooner or later, when the next turn is asked for. It ends after so many, or at what is the end of our share now.
    """
    async with PullConsumer(servers, group, start=_beginning(start), start_strictly=True) as consumer:
        await consumer.subscribe(topic, wanted)
        cluster = consumer.instance.cluster
        ends = {one: await positions.max_offset(cluster, one) for one in await consumer.queues(topic)} if to_end else {}
        left = sys.maxsize if count is None else count
        while left > 0:
            found = await consumer.poll(LOOK_MS if to_end else WAIT_MS, min(left, POLL_MESSAGES_MAX))
            left -= len(found)
            if found:
                yield [message_of(message) for message in found]
            elif to_end and all(consumer.position(one) >= ends.get(one, 0) for one in consumer.assigned):
                return


def _beginning(start: Place) -> positions.StartAt:
    """Where a group begins that has no offset yet."""
    if start.kind == OFFSET:
        raise NotPossible(
            "a group begins at earliest, at latest or at a time: an offset can be given to `penstock reset`"
        )
    return positions.since(start.value) if start.kind == TIME else _BEGINNINGS[start.kind]


_BEGINNINGS = {EARLIEST: positions.FIRST, LATEST: positions.LAST}


async def _span(
    consumer: PullConsumer, topic: str, start: Place, queues: set[int]
) -> tuple[dict[MessageQueue, int], dict[MessageQueue, int]]:
    """Where to begin in each queue, and where each ends now."""
    found = await consumer.queues(topic)
    chosen = [one for one in found if not queues or one.queue in queues]
    if missing := queues - {one.queue for one in chosen}:
        raise NotThere(f"topic {topic!r} has no queue {min(missing)}: it has {len(found)}, from 0 on")
    cluster, starts, ends = consumer.instance.cluster, {}, {}
    for one in chosen:
        there = await positions.bounds(cluster, one)
        at_ms = await positions.offset_at(cluster, one, start.value) if start.kind == TIME else 0
        starts[one], ends[one] = target_of(start, there, at_ms), there.max_offset
    return starts, ends


async def send(
    servers: str, messages: AsyncIterator[model.Outgoing], queue: int | None
) -> AsyncGenerator[model.Receipt, None]:
    """Send all that come; NotSent for the first that could not be stored, and then no more are sent."""
    async with Producer(servers, SENDERS) as producer:
        window = _Window(producer, queue)
        feeding = asyncio.ensure_future(window.feed(messages))
        try:
            while (sent := await window.next()) is not None:
                yield sent
            await feeding  # raises what went wrong with reading
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            await window.settle()


class _Window:
    """Sends under way, in their order."""

    def __init__(self, producer: Producer, queue: int | None) -> None:
        self._producer, self._queue = producer, queue
        self._under_way: asyncio.Queue[asyncio.Task[Sent] | None] = asyncio.Queue(IN_FLIGHT)
        self._number = 0

    async def feed(self, messages: AsyncIterator[model.Outgoing]) -> None:
        """Begin to send whatever comes, as far as there is room."""
        try:
            async for one in messages:
                to = await self._place(one.topic)
                message = Message(one.topic, one.body, one.tags, one.keys, one.properties, delay_ms=one.delay_ms)
                sending = asyncio.ensure_future(self._producer.send(message, to))
                await self._under_way.put(sending)
                if to is not None:  # RocketMQ stores what comes at once in any order
                    await asyncio.wait([sending])
        finally:
            await self._under_way.put(None)

    async def _place(self, topic: str) -> MessageQueue | None:
        """The queue that was asked for. The route is had before the first send, so that none overtakes it."""
        queues = await self._producer.queues(topic)
        if self._queue is None:
            return None
        for queue in queues:
            if queue.queue == self._queue:
                return queue
        raise NotThere(f"topic {topic!r} has no queue {self._queue} to write to: it has {len(queues)}, from 0 on")

    async def next(self) -> model.Receipt | None:
        """What became of the next one; None behind the last."""
        task = await self._under_way.get()
        if task is None:
            return None
        self._number += 1
        try:
            sent = await task
        except (ClientError, ValueError) as error:
            raise NotSent(self._number, str(error)) from None
        where = sent.queue
        return model.Receipt(sent.message_id, sent.offset_id, where.topic, where.broker, where.queue, sent.offset)

    async def settle(self) -> None:
        """Let those that are still under way come to an end."""
        while not self._under_way.empty():
            task = self._under_way.get_nowait()
            if task is not None:
                await asyncio.gather(task, return_exceptions=True)


def message_of(found: Received) -> model.Message:
    """A message of the client as operators see it."""
    return model.Message(
        topic=found.topic,
        broker=found.queue.broker,
        queue=found.queue.queue,
        offset=found.offset,
        id=found.message_id,
        offset_id=found.offset_id,
        tags=found.tags,
        keys=found.keys,
        properties=found.properties,
        body=found.body,
        born_ms=found.born_ms,
        store_ms=found.store_ms,
        reconsume_times=found.reconsume_times,
    )
