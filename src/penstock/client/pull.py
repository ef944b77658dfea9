"""The pull consumer: the application asks for messages when it wants some (RocketMQ calls it lite pull).

    async with PullConsumer("127.0.0.1:9876", "reports") as consumer:
        await consumer.assign(await consumer.queues("orders"))      # or: await consumer.subscribe("orders")
        for message in await consumer.poll():
            ...
        await consumer.commit()

`assign` takes queues by hand; `subscribe` shares them with the other members of the group (`sharing.py`); a consumer
does one or the other. Each queue is read ahead, within bounds. What a poll has given counts as done when the next poll
comes, or at a close that no exception has caused; what is done is committed every `persist_interval_ms`, unless
`auto_commit` is off.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Collection, Iterable, Mapping
from typing import Self

from penstock import logs
from penstock.client import positions
from penstock.client.allocate import Strategy
from penstock.client.episodes import Troubles
from penstock.client.errors import ClientError, Closed
from penstock.client.identity import fresh_client_id
from penstock.client.instance import Instance, Timers
from penstock.client.link import Dial, Link
from penstock.client.message import Received
from penstock.client.positions import LAST, StartAt
from penstock.client.reading import Reader, Source, Steps, Wanted
from penstock.client.routes import MessageQueue
from penstock.client.sharing import Sharing
from penstock.clock import Clock
from penstock.wire.rocketmq.frame import Frame

log = logs.get(__name__)

POLL_TIMEOUT_MS = 5_000
POLL_MESSAGES_MAX = 32


class PullConsumer:
    def __init__(
        self,
        servers: str,
        group: str,
        *,
        start: StartAt = LAST,
        start_strictly: bool = False,  # also in a queue that still has its first message; RocketMQ 4 cannot do it
        auto_commit: bool = True,
        visible: bool = True,  # whether it tells brokers that it is there
        steps: Steps | None = None,
        strategy: Strategy | None = None,
        client_id: str = "",
        instance: Instance | None = None,
        clock: Clock | None = None,
        timers: Timers | None = None,
        dial: Dial | None = None,
    ) -> None:
        self.group, self.producer_group = group, ""
        self.instance = instance or Instance(servers, client_id or fresh_client_id(), clock, timers, dial)
        self._source = Source(self.instance.cluster, group, steps or Steps())
        self._start, self._auto_commit, self._visible = start, auto_commit, visible
        self._young_is_zero = not start_strictly
        self._readers: dict[MessageQueue, Reader] = {}
        self._committed: dict[MessageQueue, tuple[str, int]] = {}  # where it was told, and what
        self._ready = asyncio.Event()
        self._turn = 0
        self._open = False
        self._committing: asyncio.Task[None] | None = None
        self._by_hand = False
        self._troubles = Troubles(log)
        self._sharing = Sharing(self.instance, group, strategy, self._readers, self._let_go, self._take_shared)

    # --- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        self._open = True
        self.instance.join(self)
        if self._auto_commit:
            self._committing = self.instance.repeat(
                self._commit_done, self.instance.timers.persist_interval_ms, "commits"
            )

    async def close(self, all_done: bool = True) -> None:
        """Commit and leave; `all_done` says whether the application is through with all that it was given."""
        if not self._open:
            return
        self._open = False
        self._ready.set()
        await self._sharing.close()
        if self._committing is not None:
            self._committing.cancel()
            await asyncio.gather(self._committing, return_exceptions=True)
            if all_done:
                self._mark_done()
            await self._last_commit(list(self._readers))
        await self._drop(list(self._readers))
        await self.instance.leave(self, **({"consumerGroup": self.group} if self._visible else {}))

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        await self.close(all_done=kind is None)

    # --- as a member of its instance ----------------------------------------------------------------------------------

    @property
    def topics(self) -> Iterable[str]:
        return {*(queue.topic for queue in self._readers), *self._sharing.subscriptions}

    def consumer_data(self) -> dict[str, object] | None:
        if not self._visible:
            return None
        return {
            "groupName": self.group,
            "consumeType": "CONSUME_ACTIVELY",
            "messageModel": "CLUSTERING",
            "consumeFromWhere": self._start.name,
            "subscriptionDataSet": [one.data() for one in self._sharing.subscriptions.values()],
            "unitMode": False,
        }

    def routes_changed(self) -> None:
        """Queues that were assigned by hand stay so."""
        self._sharing.wake()

    def asked(self, frame: Frame, link: Link) -> bool:
        return self._sharing.asked(frame, link)

    # --- which queues -------------------------------------------------------------------------------------------------

    async def queues(self, topic: str) -> list[MessageQueue]:
        """All queues of a topic that can be read; NoRoute when there is no such topic."""
        self._check_open()
        return (await self.instance.cluster.route(topic)).to_read(topic)

    async def assign(
        self, queues: Iterable[MessageQueue] | Mapping[MessageQueue, int], wanted: Wanted | str = "*"
    ) -> None:
        """Read these queues and no others: each from the offset given, or from where the group is. One that is read
        already goes on undisturbed, unless an offset is given.
        """
        self._check_open()
        if self._sharing.subscriptions:
            raise ValueError("this consumer subscribes: it cannot be assigned queues too")
        self._by_hand = True
        offsets = dict(queues) if isinstance(queues, Mapping) else dict.fromkeys(queues)
        for topic in {queue.topic for queue in offsets}:
            await self.instance.cluster.route(topic)
        fresh = [queue for queue, offset in offsets.items() if offset is None and queue not in self._readers]
        found = await asyncio.gather(*map(self._start_of, fresh))
        await self._let_go([queue for queue in self._readers if queue not in offsets])
        filter_ = Wanted(wanted) if isinstance(wanted, str) else wanted
        for queue, offset in {**offsets, **dict(zip(fresh, found, strict=True))}.items():
            if offset is not None:
                self._take(queue, offset, filter_)
        if self._visible:
            await self.instance.heartbeat()

    async def subscribe(self, topic: str, wanted: Wanted | str = "*") -> None:
        """Read this instance's share of a topic, from where the group is, and go on doing so as members come and go."""
        self._check_open()
        if self._by_hand or not self._visible:
            raise ValueError("this consumer has queues by hand, or is not visible: it cannot share with a group")
        await self._sharing.subscribe(topic, Wanted(wanted) if isinstance(wanted, str) else wanted)

    async def unsubscribe(self, topic: str) -> None:
        self._check_open()
        await self._sharing.unsubscribe(topic)

    async def _let_go(self, queues: Collection[MessageQueue]) -> None:
        if self._auto_commit:
            await self._last_commit(queues)
        await self._drop(queues)

    async def _take_shared(self, queues: Collection[MessageQueue], wanted: Wanted) -> bool:
        """Those whose offset can be had."""
        found = await asyncio.gather(*map(self._start_of, queues), return_exceptions=True)
        for queue, offset in zip(queues, found, strict=True):
            if isinstance(offset, int):
                self._troubles.over(queue, "a queue can be taken again", group=self.group, queue=str(queue))
                self._take(queue, offset, wanted)
            elif not isinstance(offset, ClientError):
                raise offset
            else:
                told = "a queue cannot be taken now, it is tried again"
                self._troubles.met(queue, told, offset, group=self.group, queue=str(queue))
        return all(isinstance(offset, int) for offset in found)

    async def _start_of(self, queue: MessageQueue) -> int:
        cluster = self.instance.cluster
        return await positions.start_of(cluster, self.group, queue, self._start, self._young_is_zero)

    def _take(self, queue: MessageQueue, offset: int, wanted: Wanted) -> None:
        reader = self._readers.get(queue)
        if reader is None:
            self._readers[queue] = Reader(self._source, queue, offset, wanted, self._ready.set)
        else:
            reader.seek(offset)

    async def _drop(self, queues: Iterable[MessageQueue]) -> None:
        for queue in queues:
            self._committed.pop(queue, None)
            await self._readers.pop(queue).stop()

    @property
    def assigned(self) -> list[MessageQueue]:
        return sorted(self._readers)

    # --- where in them ------------------------------------------------------------------------------------------------

    def seek(self, queue: MessageQueue, offset: int) -> None:
        """Go on at an offset; outside of the queue the broker corrects it."""
        self._reader(queue).seek(offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        self.seek(queue, await positions.min_offset(self.instance.cluster, queue))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        self.seek(queue, await positions.max_offset(self.instance.cluster, queue))

    async def seek_to_time(self, queue: MessageQueue, time_ms: int) -> None:
        self.seek(queue, await positions.offset_at(self.instance.cluster, queue, time_ms))

    def position(self, queue: MessageQueue) -> int:
        """The offset of the next message that a poll gives."""
        return self._reader(queue).position

    def pause(self, *queues: MessageQueue) -> None:
        """Polls give nothing of these until they are resumed; what was read ahead is kept."""
        for queue in queues:
            self._reader(queue).pause()

    def resume(self, *queues: MessageQueue) -> None:
        for queue in queues:
            self._reader(queue).resume()

    # --- messages -----------------------------------------------------------------------------------------------------

    async def poll(self, timeout_ms: int = POLL_TIMEOUT_MS, count: int = POLL_MESSAGES_MAX) -> list[Received]:
        """Messages, in the order of each queue; none when none come in time. All that was given before is done."""
        self._check_open()
        self._mark_done()
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while not (found := self._taken(count)):
                    self._ready.clear()
                    await self._ready.wait()
                    self._check_open()
        except TimeoutError:
            return []
        return found

    def _taken(self, count: int) -> list[Received]:
        """From the first queue in turn that has some."""
        readers = list(self._readers.values())
        for step in range(len(readers)):
            reader = readers[(self._turn + step) % len(readers)]
            if found := reader.take(count):
                self._turn += step + 1
                return found
        return []

    async def read_to(self, ends: Mapping[MessageQueue, int]) -> AsyncGenerator[Received, None]:
        """Everything up to these offsets, and then no more."""
        while True:
            self._check_open()
            self._ready.clear()
            if found := self._taken(POLL_MESSAGES_MAX):
                for message in found:
                    if message.offset < ends.get(message.queue, 0):
                        yield message
            elif all(self.position(queue) >= end for queue, end in ends.items()):
                return
            else:
                await self._ready.wait()

    async def __aiter__(self) -> AsyncIterator[Received]:
        """One message after the other, until the consumer is closed."""
        while self._open:
            try:
                found = await self.poll(count=1)
            except Closed:
                return
            for message in found:
                yield message

    # --- commits ------------------------------------------------------------------------------------------------------

    async def commit(self, offsets: Mapping[MessageQueue, int] | None = None) -> None:
        """Have the brokers remember these offsets, or all that polls have given; raises when one does not."""
        self._check_open()
        wanted = offsets if offsets is not None else {queue: r.position for queue, r in self._readers.items()}
        await self._commit(wanted)

    async def committed(self, queue: MessageQueue) -> int | None:
        """How far the group is; None when it has no offset in this queue."""
        return await positions.committed(self.instance.cluster, self.group, queue, young_is_zero=False)

    def _mark_done(self) -> None:
        for reader in self._readers.values():
            reader.done = reader.position

    async def _commit_done(self) -> None:
        await self._commit({queue: reader.done for queue, reader in self._readers.items()})

    async def _commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """One after the other: of the first two that a group commits at once, RocketMQ may forget one. Whatever fails,
        the others are tried; the first error is raised.
        """
        failure: ClientError | None = None
        for queue, offset in list(offsets.items()):
            try:
                told = self.instance.cluster.address(queue.broker), offset
                if self._committed.get(queue) != told:  # a master that is back hears it, too
                    await positions.commit(self.instance.cluster, self.group, queue, offset)
                    self._committed[queue] = told
            except ClientError as error:
                failure = failure or error
        if failure is not None:
            raise failure

    async def _last_commit(self, queues: Iterable[MessageQueue]) -> None:
        try:
            await self._commit({queue: self._readers[queue].done for queue in queues})
        except ClientError as error:
            log.warning("the last offsets were not committed", group=self.group, error=str(error))

    # --- checks -------------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if not self._open:
            raise Closed("this consumer is not started: use `async with`, or `await consumer.start()`")

    def _reader(self, queue: MessageQueue) -> Reader:
        try:
            return self._readers[queue]
        except KeyError:
            raise ValueError(f"{queue} is not assigned to this consumer: it has {self.assigned}") from None
