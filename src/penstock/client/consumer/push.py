"""The push consumer: subscribes, shares the queues with the others of its group, and has its handler called.

    async def handle(message: Received) -> None: ...

    async with PushConsumer("127.0.0.1:9876", "billing", handle, topics={"orders": "paid || refunded"}):
        await asyncio.Event().wait()

    async with PushConsumer("127.0.0.1:9876", "billing", topics={"orders": "*"}) as consumer:
        async for message in consumer:
            ...

In a cluster group each message goes to one instance, in a broadcast group to every one. A handler that returns is done
with its message; one that raises, or returns `Later`, gets it again. What is here is the life of a consumer and its
timers; what it does is in the files beside: `holding` (which queues), `pulls`, `concurrent` and `orderly` (handlers),
`offsets`, `reset`, `answers` (what brokers ask).
"""

import asyncio
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

import msgspec

from penstock import logs
from penstock.client.allocate import Averagely, Strategy
from penstock.client.consumer.answers import Answers
from penstock.client.consumer.assigned import Assigned
from penstock.client.consumer.concurrent import Concurrent
from penstock.client.consumer.handling import Handler, Later
from penstock.client.consumer.holding import Holding
from penstock.client.consumer.iteration import Iteration, Source
from penstock.client.consumer.locks import Locks
from penstock.client.consumer.offsets import BrokerOffsets, FileOffsets, Offsets
from penstock.client.consumer.offsets_file import OffsetsFile, default_folder
from penstock.client.consumer.orderly import Orderly
from penstock.client.consumer.pulls import Pulls
from penstock.client.consumer.rebalance import Shares
from penstock.client.consumer.reset import Mover
from penstock.client.consumer.sendback import SendBack
from penstock.client.consumer.settings import RECONSUME_MAX, RETRY_PREFIX, ConsumerSettings
from penstock.client.consumer.subscription import ALL, SQL92, TAG, Subscription, subscription
from penstock.client.consumer.twins import Twins
from penstock.client.errors import ClientError
from penstock.client.identity import fresh_client_id, stable_client_id
from penstock.client.instance import Instance, Timers
from penstock.client.link import Dial, Link
from penstock.client.message import Received
from penstock.client.positions import LAST, StartAt
from penstock.client.producer import Producer
from penstock.client.reply import send_reply
from penstock.client.routes import MessageQueue
from penstock.client.tracing import TRACE_GROUP, Tracer
from penstock.clock import Clock
from penstock.wire.rocketmq.codes import RequestCode
from penstock.wire.rocketmq.frame import Frame

log = logs.get(__name__)

SOON_MS = 1_000  # another round, after one in which not everything could be taken; then twice as long each time


class PushConsumer:
    def __init__(
        self,
        servers: str,
        group: str,
        handler: Handler | None = None,
        *,
        topics: Mapping[str, str] | None = None,
        broadcast: bool = False,
        orderly: bool = False,
        start: StartAt = LAST,
        strategy: Strategy | None = None,
        settings: ConsumerSettings | None = None,
        client_id: str = "",
        keep_client_id: bool = False,
        offsets_folder: Path | None = None,
        trace: bool = False,
        instance: Instance | None = None,
        clock: Clock | None = None,
        timers: Timers | None = None,
        dial: Dial | None = None,
    ) -> None:
        """`topics` are what to subscribe to, with the tags that are wanted of each. `start` is where a group begins
        that has no offset yet: FIRST, LAST or since(...) of `positions`. Without a handler, messages come by
        `async for`, one at a time. The offsets of a broadcast instance are kept under `offsets_folder`. An instance
        whose ClientID another one has as well takes a fresh one after a while, unless `keep_client_id` forbids it. With
        `trace` it writes down what it was given and how that went: see `tracing`.
        """
        own_id = client_id or (stable_client_id() if broadcast else fresh_client_id())
        self.instance = instance or Instance(servers, own_id, clock, timers, dial)
        self.group, self.broadcast, self.orderly, self._start = group, broadcast, orderly, start
        self._servers, self._source = servers, Source()
        self._settings = settings or ConsumerSettings()
        if handler is None:
            self._settings = msgspec.structs.replace(self._settings, concurrency=1)
        self.subscriptions: dict[str, Subscription] = {}
        for topic, expression in (topics or {}).items():
            self._subscribe(topic, expression, TAG)
        if not broadcast:
            self._subscribe(RETRY_PREFIX + group, ALL, TAG)
        shared = strategy or Averagely()
        interval_ms = self.instance.timers.rebalance_interval_ms
        keeps_id = broadcast or keep_client_id
        self._twins = Twins(group, shared, self.instance.clock, interval_ms, keeps_id, broadcast)
        self._shares = Shares(self.instance, group, shared, broadcast, self._twins)
        self._offsets = self._offsets_kept(offsets_folder)
        self._tracer: Tracer | None = None
        if trace:
            self._tracer = Tracer(self.instance, group, Producer(servers, TRACE_GROUP, instance=self.instance))
        handles = handler or self._source.handle
        self._assemble(self._tracer.handling(handles, Later) if self._tracer else handles)
        self._wake, self._closing = asyncio.Event(), asyncio.Event()
        self._notified = False
        self._tasks: list[asyncio.Task[None]] = []
        self._started_ms = 0

    def _offsets_kept(self, folder: Path | None) -> Offsets:
        if self.broadcast:
            return FileOffsets(OffsetsFile(folder or default_folder(), self.instance.client_id, self.group))
        return BrokerOffsets(self.instance.cluster, self.group)

    def _assemble(self, handler: Handler) -> None:
        instance, group, settings, clock = self.instance, self.group, self._settings, self.instance.clock
        locks = Locks(instance, group) if self.orderly and not self.broadcast else None
        self._holding = holding = Holding(
            instance, group, self.subscriptions, settings, self._shares, self._offsets, self._start, locks
        )
        self._mover = Mover(holding, group, clock, self.broadcast, settings.close_timeout_ms)
        limit = settings.reconsume_max if settings.reconsume_max >= 0 else RECONSUME_MAX
        send_back = None if self.broadcast else SendBack(instance.cluster, clock, group, limit)
        kind = Orderly if self.orderly else Concurrent
        self._work = holding.work = kind(handler, settings, clock, send_back)
        holding.pulls = Pulls(
            instance, group, self.subscriptions, settings, self._work, not self.broadcast, self._moved, holding.tell
        )
        self._answers = Answers(
            group, holding.owned, holding.figures, self.subscriptions, handler, clock, self._members_changed,
            self._mover.reset, self._properties,
        )  # fmt: skip

    # --- subscribing --------------------------------------------------------------------------------------------------

    async def subscribe(self, topic: str, expression: str = ALL, kind: str = TAG) -> None:
        """Also while it runs. `kind` is TAG, with `a || b` as expression, or SQL92. A filter that a broker refuses is
        an error here when it runs, and at the start when it does not; what was subscribed to stays.
        """
        before = self.subscriptions.get(topic)
        wanted = self._subscribe(topic, expression, kind)
        if not self._tasks:
            return
        try:
            await self._check_filter(wanted)
        except ClientError:
            del self.subscriptions[topic]
            if before is not None:
                self.subscriptions[topic] = before
            raise
        await self._holding.tell()
        self._rebalance_soon()

    def _subscribe(self, topic: str, expression: str, kind: str) -> Subscription:
        wanted = self.subscriptions[topic] = subscription(topic, expression, kind, self.instance.clock.now_ms())
        return wanted

    async def unsubscribe(self, topic: str) -> None:
        self.subscriptions.pop(topic, None)
        if self._tasks:
            await self._holding.rebalance()
            await self._holding.tell()

    async def _check_filter(self, wanted: Subscription) -> None:
        """A broker says whether it can use a SQL filter."""
        if wanted.kind == SQL92:
            route = await self.instance.cluster.route(wanted.topic)
            body = {"clientId": self.instance.client_id, "group": self.group, "subscriptionData": wanted.data()}
            address = self.instance.cluster.address(route.broker_datas[0].broker_name)
            code = RequestCode.CHECK_CLIENT_CONFIG
            await self.instance.cluster.get(address, code, {}, msgspec.json.encode(body))

    # --- life ---------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the group and take the share. ClientError when no name server answers, or a filter is refused."""
        self._started_ms = self.instance.clock.now_ms()
        self.instance.join(self)
        try:
            await self.instance.refresh()
            for wanted in self.subscriptions.values():
                await self._check_filter(wanted)
        except ClientError:
            await self.instance.leave(self)
            raise
        if self._tracer:
            await self._tracer.start()
        await self._holding.tell()
        whole = await self._round()
        timers, repeat = self.instance.timers, self.instance.repeat
        self._tasks = [
            asyncio.ensure_future(self._keep_balanced(whole)),
            repeat(self._holding.persist, timers.persist_interval_ms, "offsets"),
        ]
        if self.orderly and not self.broadcast:
            self._tasks.append(repeat(self._renew_locks, self._settings.lock_interval_ms, "locks"))

    async def close(self, good: bool = True) -> None:
        """Let handlers under way end, store the offsets, unlock, and leave the group. `good`: messages that loops have
        in hand are done.
        """
        if not self._tasks:
            return
        self._closing.set()
        self._wake.set()
        await asyncio.wait(self._tasks[:1], timeout=self._settings.close_timeout_ms / 1000)  # a round under way ends
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        self._source.close(good)
        await self._answers.close()
        await self._mover.close()
        await self._holding.close()
        if self._tracer:
            await self._tracer.close()
        await self.instance.leave(self, consumerGroup=self.group)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        await self.close(good=kind is None)

    def __aiter__(self) -> Iteration:
        return self._source.loop()

    async def reply(self, request: Received, body: bytes, properties: Mapping[str, str] | None = None) -> None:
        """Answer a request: whoever sent it waits for that."""
        await send_reply(self.instance, self.group, request, body, properties)

    def pause(self) -> None:
        """No new pulls; what was pulled is still handled."""
        self._holding.pulls.suspend()

    def resume(self) -> None:
        self._holding.pulls.resume()

    @property
    def owned(self) -> Mapping[MessageQueue, Assigned]:
        """The queues in hand."""
        return self._holding.owned

    # --- rebalancing --------------------------------------------------------------------------------------------------

    def _rebalance_soon(self) -> None:
        self._wake.set()

    def _members_changed(self) -> None:
        self._notified = True
        self._wake.set()

    async def _keep_balanced(self, whole: bool) -> None:
        soon_ms, interval_ms = SOON_MS, self.instance.timers.rebalance_interval_ms
        while True:
            wait_ms = interval_ms if whole else min(soon_ms, interval_ms)
            soon_ms = SOON_MS if whole else min(soon_ms * 2, interval_ms)
            try:
                async with asyncio.timeout(wait_ms / 1000):
                    await self._wake.wait()
            except TimeoutError:
                pass
            if self._closing.is_set():
                return
            whole = await self._round()

    async def _round(self) -> bool:
        """One rebalance, whatever goes wrong in it."""
        self._wake.clear()
        notified, self._notified = self._notified, False
        try:
            if self._twins.must_rename:
                await self._shares.leave_to_twin(lambda: self._holding.drop(list(self.owned)))
            return await self._holding.rebalance()
        except Exception:
            log.exception("a rebalance failed, it is tried again", group=self.group)
        finally:
            if notified:
                self._holding.pulls.members_changed()
        return False

    def _moved(self, assigned: Assigned, offset: int) -> None:
        self._mover.moved(assigned, offset, self._rebalance_soon, self.instance.timers.rebalance_interval_ms)

    async def _renew_locks(self) -> None:
        if not await self._holding.renew_locks():
            self._rebalance_soon()

    # --- as a member of its instance ----------------------------------------------------------------------------------

    @property
    def producer_group(self) -> str:
        return ""

    @property
    def topics(self) -> Iterable[str]:
        return self.subscriptions

    def consumer_data(self) -> dict[str, object]:
        return {
            "consumeFromWhere": self._start.name,
            "consumeType": "CONSUME_PASSIVELY",
            "groupName": self.group,
            "messageModel": "BROADCASTING" if self.broadcast else "CLUSTERING",
            "subscriptionDataSet": [wanted.data() for wanted in self.subscriptions.values()],
            "unitMode": False,
        }

    def routes_changed(self) -> None:
        self._rebalance_soon()

    def asked(self, frame: Frame, link: Link) -> bool:
        return self._answers.asked(frame, link)

    def _properties(self) -> dict[str, str]:
        return {
            "PROP_NAMESERVER_ADDR": self._servers,
            "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
            "PROP_CONSUMEORDERLY": str(self.orderly).lower(),
            "PROP_THREADPOOL_CORE_SIZE": str(self._settings.concurrency),
            "PROP_CONSUMER_START_TIMESTAMP": str(self._started_ms),
            "PROP_CLIENT_VERSION": "PENSTOCK",
            "PROP_ALLOCATE_STRATEGY": self._shares.strategy.name,
        }
