"""The queues in hand: taking them, letting them go, and the round that decides which (a rebalance).

The order matters. A queue is let go before its offset is stored, and somebody else takes it after that. When a round
has changed what is owned, the subscription gets a new version and the brokers are told (a heartbeat) before the first
pull of what was taken: so this instance is not refused for a version that nobody has heard of.

One thing at a time: rounds, resets and corrections of offsets wait for each other (`changing`).
"""

import asyncio
from collections.abc import Collection, Coroutine, Iterable, Mapping

from penstock import logs
from penstock.client.consumer.assigned import Assigned
from penstock.client.consumer.figures import Figures
from penstock.client.consumer.handling import Work
from penstock.client.consumer.locks import Locks
from penstock.client.consumer.offsets import Offsets
from penstock.client.consumer.pulls import Pulls
from penstock.client.consumer.rebalance import Shares, change
from penstock.client.consumer.settings import ConsumerSettings
from penstock.client.consumer.start import start_offset
from penstock.client.consumer.subscription import Subscription
from penstock.client.episodes import Troubles
from penstock.client.errors import ClientError
from penstock.client.instance import Instance
from penstock.client.positions import StartAt
from penstock.client.routes import MessageQueue

log = logs.get(__name__)


class Holding:
    def __init__(
        self,
        instance: Instance,
        group: str,
        subscriptions: Mapping[str, Subscription],
        settings: ConsumerSettings,
        shares: Shares,
        offsets: Offsets,
        start: StartAt,
        locks: Locks | None,
    ) -> None:
        """`start` is where to begin without an offset. `locks` are an orderly consumer's."""
        self._instance, self._group, self._subscriptions = instance, group, subscriptions
        self._settings, self._shares, self._offsets, self._start = settings, shares, offsets, start
        self._locks = locks
        self._leaving: dict[MessageQueue, asyncio.Task[None]] = {}  # locked queues whose last message is being handled
        self._troubles = Troubles(log)
        self.owned: dict[MessageQueue, Assigned] = {}
        self.figures: dict[str, Figures] = {}  # by topic
        self.changing = asyncio.Lock()
        self.pulls: Pulls
        self.work: Work

    async def tell(self) -> None:
        """Heartbeat; pulls may carry the versions that it carried."""
        versions = [(subscription, subscription.version) for subscription in self._subscriptions.values()]
        await self._instance.heartbeat()
        for subscription, version in versions:
            subscription.told_version = version

    # --- a round ------------------------------------------------------------------------------------------------------

    async def rebalance(self) -> bool:
        """One round. False when something could not be taken, and another round is worth it soon."""
        async with self.changing:
            return await self.round()

    async def round(self) -> bool:
        """The same for who holds `changing` already."""
        whole, changed, taken = True, False, list[Assigned]()
        for topic in self._topics():
            share = await self._share(topic)
            if share is None:
                whole = False
                continue
            found = change([queue for queue in self.owned if queue.topic == topic], share)
            await self.drop(found.drop)
            fresh = await self._take(found.take)
            whole &= len(fresh) == len(found.take)
            taken += fresh
            if found.drop or fresh:
                changed = True
                self._moved_on(topic, found.drop, fresh)
        try:
            if changed:
                await self.tell()
        finally:  # what is in hand is pulled, whoever has not heard of it
            for assigned in taken:
                self._begin(assigned)
        return whole

    def _topics(self) -> list[str]:
        """Those subscribed to, and those of queues in hand."""
        return sorted({*self._subscriptions, *(queue.topic for queue in self.owned)})

    async def _share(self, topic: str) -> list[MessageQueue] | None:
        """None when it cannot be told: what is owned stays, and other topics are not held up."""
        if topic not in self._subscriptions:
            return []
        try:
            share = await self._shares.of(topic)
        except ClientError as error:
            told = "no rebalance this time, it is tried again"
            self._troubles.met(topic, told, error, topic=topic, group=self._group)
        except Exception:  # a strategy may be the application's own
            log.exception("a rebalance failed, it is tried again", topic=topic, group=self._group)
        else:
            self._troubles.over(topic, "a topic is rebalanced again", topic=topic, group=self._group)
            return share
        return None

    def _moved_on(self, topic: str, dropped: list[MessageQueue], taken: list[Assigned]) -> None:
        subscription = self._subscriptions.get(topic)
        if subscription is not None:
            subscription.renew(self._instance.clock.now_ms())
        log.info(
            "rebalanced",
            group=self._group,
            topic=topic,
            dropped=_texts(dropped),
            taken=_texts(assigned.queue for assigned in taken),
            version=subscription.version if subscription else 0,
        )

    # --- taking -------------------------------------------------------------------------------------------------------

    async def _take(self, queues: Collection[MessageQueue]) -> list[Assigned]:
        """Those of the queues that could be taken: their lock, if need be, and their offset could be had."""
        free = [queue for queue in queues if queue not in self._leaving]
        if self._locks is not None and free:
            granted = await self._locks.lock(free)
            free = [queue for queue in free if queue in granted]
        found = await asyncio.gather(*(self._assigned(queue) for queue in free))
        return [assigned for assigned in found if assigned is not None]

    async def _assigned(self, queue: MessageQueue) -> Assigned | None:
        try:
            offset = await self._offsets.read(queue)
            if offset is None:
                offset = await start_offset(self._instance.cluster, queue, self._start)
        except (ClientError, ValueError, KeyError) as error:
            told = "a queue cannot be taken now, it is tried again"
            self._troubles.met(queue, told, error, group=self._group, queue=str(queue))
            return None
        self._troubles.over(queue, "a queue can be taken again", group=self._group, queue=str(queue))
        self._offsets.update(queue, offset)
        now_ms = self._instance.clock.monotonic_ms()
        figures = self.figures.setdefault(queue.topic, Figures(now_ms))
        assigned = self.owned[queue] = Assigned(queue, offset, self._settings, self._locks is not None, figures)
        assigned.locked_ms = now_ms
        return assigned

    def _begin(self, assigned: Assigned) -> None:
        if not assigned.dropped:
            self.work.begin(assigned)
            self.pulls.begin(assigned)

    # --- letting go ---------------------------------------------------------------------------------------------------

    async def drop(self, queues: Iterable[MessageQueue]) -> None:
        """Let queues go: what handlers have in hand may end, then the offsets are stored."""
        dropped = [assigned for queue in queues if (assigned := self.owned.pop(queue, None)) is not None]
        for assigned in dropped:
            assigned.drop()
        await asyncio.gather(*(self._let_go(assigned) for assigned in dropped))

    async def _let_go(self, assigned: Assigned) -> None:
        ended = await assigned.quiet(self._settings.handover_ms)
        if self._locks is None or ended:
            await self._hand_over(assigned)
        else:  # nobody else may begin with it before this message is done, so the lock is kept until then
            self._keep_out(assigned, self._hand_over_later(assigned))

    async def _hand_over_later(self, assigned: Assigned) -> None:
        await assigned.quiet(self._settings.handle_timeout_ms)
        await self._hand_over(assigned)

    async def _hand_over(self, assigned: Assigned) -> None:
        if not assigned.settled:  # otherwise its offset was moved, and what it has got to does not count
            assigned.settle()
            self._offsets.update(assigned.queue, assigned.commit_offset)
            await self._offsets.persist([assigned.queue], sure=True)
        self._offsets.remove(assigned.queue)
        if self._locks is not None:
            await self._locks.unlock([assigned.queue])

    async def close(self) -> None:
        """Let everything go. Handlers that are not done in time are cancelled before anybody else may begin."""
        async with self.changing:
            held = list(self.owned.values())
            for assigned in held:
                assigned.drop()
            await asyncio.gather(*(assigned.quiet(self._settings.close_timeout_ms) for assigned in held))
            await self.work.close()
            await self.drop(list(self.owned))
            await asyncio.gather(*self._leaving.values())

    # --- offsets ------------------------------------------------------------------------------------------------------

    async def persist(self) -> None:
        """Store where every queue has got to; not of those whose offsets are being moved."""
        held = {queue: assigned for queue, assigned in self.owned.items() if not assigned.settled}
        for queue, assigned in held.items():
            self._offsets.update(queue, assigned.commit_offset)
        await self._offsets.persist(held)

    async def put_aside(self, targets: Mapping[MessageQueue, int]) -> None:
        """The offsets of queues that were settled are these now: update, persist, remove. The next round takes the
        queues up again from there.
        """
        for queue, offset in targets.items():
            self._offsets.update(queue, offset)
            await self._offsets.persist([queue], sure=True)
            self._offsets.remove(queue)
            log.info("offset updated, persisted, removed", group=self._group, queue=str(queue), offset=offset)
            assigned = self.owned.pop(queue, None)
            if assigned is not None and assigned.busy and self._locks is not None:
                self._keep_out(assigned, self._ended(assigned))

    async def _ended(self, assigned: Assigned) -> None:
        await assigned.quiet(self._settings.handle_timeout_ms)

    def _keep_out(self, assigned: Assigned, until: Coroutine[None, None, None]) -> None:
        """A queue in order is not taken up again while a message of it is still being handled."""
        task = asyncio.ensure_future(until)
        self._leaving[assigned.queue] = task
        task.add_done_callback(lambda done: self._leaving.pop(assigned.queue, None))

    async def renew_locks(self) -> bool:
        """False when a queue was lost: it is somebody else's, or nobody has confirmed it for too long."""
        if self._locks is None or not self.owned:
            return True
        async with self.changing:
            asked_ms = self._instance.clock.monotonic_ms()
            renewed = await self._locks.renew(list(self.owned))
            for queue, ours in renewed.items():
                self.owned[queue].locked_ms = asked_ms if ours else 0
            valid_from_ms = self._instance.clock.monotonic_ms() - self._settings.lock_valid_ms
            lost = [assigned for assigned in self.owned.values() if assigned.locked_ms < valid_from_ms]
            for assigned in lost:
                self._lose(assigned)
        return not lost

    def _lose(self, assigned: Assigned) -> None:
        log.warning("a lock was lost, the queue is let go", group=self._group, queue=str(assigned.queue))
        assigned.settle()
        del self.owned[assigned.queue]
        self._offsets.remove(assigned.queue)
        if assigned.busy:
            self._keep_out(assigned, self._ended(assigned))


def _texts(queues: Iterable[MessageQueue]) -> str:
    return ", ".join(str(queue) for queue in queues)
