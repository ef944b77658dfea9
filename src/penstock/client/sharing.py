"""A pull consumer's share of the topics that it subscribes to: which queues are its own, worked out as a push consumer
does it (`consumer/rebalance.py`), and what brokers ask of it while it is a member.

Its pulls carry their filter and no version, so code 25 is none of its business; its heartbeats carry versions all the
same, renewed when its share has changed, for those who look.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping

from penstock import logs
from penstock.client.allocate import Averagely, Strategy
from penstock.client.consumer.rebalance import Shares, change
from penstock.client.consumer.subscription import SQL92, Subscription, subscription
from penstock.client.consumer.twins import Twins
from penstock.client.episodes import Troubles
from penstock.client.errors import ClientError
from penstock.client.instance import Instance
from penstock.client.link import Link
from penstock.client.reading import Reader, Wanted
from penstock.client.routes import MessageQueue
from penstock.wire.rocketmq.bodies import QueueName, with_table
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import Frame

log = logs.get(__name__)

SOON_MS = 1_000  # another round, after one in which not everything could be done

Drop = Callable[[Collection[MessageQueue]], Awaitable[None]]
Take = Callable[[Collection[MessageQueue], Wanted], Awaitable[bool]]  # whether all could be taken


class Sharing:
    def __init__(
        self,
        instance: Instance,
        group: str,
        strategy: Strategy | None,
        readers: Mapping[MessageQueue, Reader],
        drop: Drop,
        take: Take,
    ) -> None:
        self._instance, self._group, self._readers = instance, group, readers
        shared, interval_ms = strategy or Averagely(), instance.timers.rebalance_interval_ms
        self._twins = Twins(group, shared, instance.clock, interval_ms, keeps_id=False)
        self._shares = Shares(instance, group, shared, broadcast=False, twins=self._twins)
        self._drop, self._take = drop, take
        self.subscriptions: dict[str, Subscription] = {}
        self._wake = asyncio.Event()
        self._changing = asyncio.Lock()
        self._troubles = Troubles(log)
        self._task: asyncio.Task[None] | None = None

    # --- subscribing --------------------------------------------------------------------------------------------------

    async def subscribe(self, topic: str, wanted: Wanted) -> None:
        """Take the share of one more topic, now."""
        kind = SQL92 if wanted.sql else "TAG"
        self.subscriptions[topic] = subscription(topic, wanted.expression, kind, self._instance.clock.now_ms())
        await self._instance.cluster.route(topic)
        await self._instance.heartbeat()
        whole = await self.round()
        if self._task is None:
            self._task = asyncio.ensure_future(self._keep_balanced(whole))
        elif not whole:
            self.wake()

    async def unsubscribe(self, topic: str) -> None:
        self.subscriptions.pop(topic, None)
        async with self._changing:
            await self._drop([queue for queue in self._readers if queue.topic == topic])
        await self._instance.heartbeat()

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # --- rounds -------------------------------------------------------------------------------------------------------

    def wake(self) -> None:
        """Another round now: members or queues have changed."""
        self._wake.set()

    async def _keep_balanced(self, whole: bool) -> None:
        while True:
            interval_ms = self._instance.timers.rebalance_interval_ms
            try:
                async with asyncio.timeout((interval_ms if whole else min(SOON_MS, interval_ms)) / 1000):
                    await self._wake.wait()
            except TimeoutError:
                pass
            self._wake.clear()
            try:
                whole = await self.round()
            except ClientError as error:
                whole = False
                self._troubles.met(self, "no rebalance this time, it is tried again", error, group=self._group)
            except Exception:
                whole = False
                log.exception("a rebalance failed, it is tried again", group=self._group)
            else:
                self._troubles.over(self, "rebalanced again", group=self._group)

    async def round(self) -> bool:
        """One rebalance. False when something could not be told or taken, and another round is worth it soon."""
        whole, changed = True, False
        async with self._changing:
            if self._twins.must_rename:
                await self._shares.leave_to_twin(lambda: self._drop(list(self._readers)))
            for topic, subscribed in list(self.subscriptions.items()):
                share = await self._shares.of(topic)
                if share is None:
                    whole = False
                    continue
                found = change([queue for queue in self._readers if queue.topic == topic], share)
                await self._drop(found.drop)
                whole &= await self._take(found.take, Wanted(subscribed.expression, subscribed.kind == SQL92))
                if found.drop or found.take:
                    changed = True
                    subscribed.renew(self._instance.clock.now_ms())
                    told = {"dropped": len(found.drop), "taken": len(found.take)}
                    log.info("rebalanced", group=self._group, topic=topic, **told)
        if changed:
            await self._instance.heartbeat()
        return whole

    # --- what brokers ask ---------------------------------------------------------------------------------------------

    def asked(self, frame: Frame, link: Link) -> bool:
        """False when it is not for this group."""
        answer = _ANSWERS.get(frame.code)
        if answer is None or (frame.ext.get("consumerGroup") or frame.ext.get("group")) != self._group:
            return False
        answer(self, frame, link)
        return True

    def _members_changed(self, frame: Frame, link: Link) -> None:
        self.wake()

    def _status(self, frame: Frame, link: Link) -> None:
        topic = frame.ext.get("topic", "")
        table = [(_name(queue), reader.done) for queue, reader in self._readers.items() if topic in ("", queue.topic)]
        link.reply(frame, ResponseCode.SUCCESS, body=with_table("messageQueueTable", table))

    def _running_info(self, frame: Frame, link: Link) -> None:
        table = [
            (_name(queue), {"cachedMsgCount": reader.waiting, "commitOffset": reader.done, "droped": False})
            for queue, reader in self._readers.items()
        ]
        properties = {
            "PROP_CONSUME_TYPE": "CONSUME_ACTIVELY",
            "PROP_CONSUMER_START_TIMESTAMP": "0",
            "PROP_ALLOCATE_STRATEGY": self._shares.strategy.name,
        }
        subscribed = [one.data() for one in self.subscriptions.values()]
        body = with_table("mqTable", table, properties=properties, statusTable={}, subscriptionSet=subscribed)
        link.reply(frame, ResponseCode.SUCCESS, body=body)


_ANSWERS: dict[int, Callable[[Sharing, Frame, Link], None]] = {
    RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: Sharing._members_changed,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: Sharing._status,
    RequestCode.GET_CONSUMER_RUNNING_INFO: Sharing._running_info,
}


def _name(queue: MessageQueue) -> QueueName:
    return QueueName(queue.broker, queue.queue, queue.topic)
