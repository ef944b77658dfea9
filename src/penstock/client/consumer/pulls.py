"""Pulling: one loop for each queue in hand. A broker holds a pull that finds nothing, so a loop waits there, not here.

    0 found         handed on, the next pull goes on behind it at once
    19, 20          nothing (that is wanted): the next pull goes on where the broker says
    21 moved        the offset is outside the queue: taken out of hand, and taken up again where the broker says
    25 not latest   the broker has not heard of our version yet: 3 s, or until the members have changed
    other           said in full, once per episode, and tried again with longer and longer waits (that a broker is gone
                    has been said already)

Nothing here ends a loop but 21 and being dropped. Pulls of retry topics fail silently.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from penstock import logs
from penstock.client import pulling
from penstock.client.consumer.assigned import Assigned
from penstock.client.consumer.handling import Work
from penstock.client.consumer.settings import RETRY_PREFIX, ConsumerSettings
from penstock.client.consumer.subscription import Subscription
from penstock.client.episodes import Episodes, Key, is_outage
from penstock.client.errors import ClientError, GroupNotFound, Refused, SubscriptionNotLatest, Unreachable, refusal
from penstock.client.instance import Instance
from penstock.errors import PenstockError
from penstock.wire.rocketmq.codes import PullFlag, ResponseCode
from penstock.wire.rocketmq.frame import Frame
from penstock.wire.rocketmq.record import messages_in

log = logs.get(__name__)

NOTHING = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_RETRY_IMMEDIATELY)
_BUSY_WAIT_MS = 20  # code 215: the broker waits for us to read

_NOT_LATEST = "consumer:{group} execute the pull request, code:{code}, message:{text}, (might be ok if at rebalancing)"
_FORGOTTEN = "forgotten"  # by a broker that was started again: our heartbeat mends it, and only if not it is said
Moved = Callable[[Assigned, int], None]


class Pulls:
    def __init__(
        self,
        instance: Instance,
        group: str,
        subscriptions: Mapping[str, Subscription],
        settings: ConsumerSettings,
        work: Work,
        commits: bool,
        moved: Moved,
        tell: Callable[[], Awaitable[None]],
    ) -> None:
        """`commits`: pulls carry the offset to commit. `moved` hears of illegal offsets. `tell` heartbeats."""
        self._instance, self._group, self._subscriptions = instance, group, subscriptions
        self._settings, self._work, self._commits = settings, work, commits
        self._moved, self._tell = moved, tell
        self._episodes = Episodes()
        self._going = asyncio.Event()
        self._going.set()
        self._members_changed = asyncio.Event()

    def begin(self, assigned: Assigned) -> None:
        assigned.pulling = asyncio.ensure_future(self._run(assigned))

    def suspend(self) -> None:
        """No new pulls."""
        self._going.clear()

    def resume(self) -> None:
        self._going.set()

    def members_changed(self) -> None:
        """Who was refused need not wait any longer."""
        self._members_changed.set()
        self._members_changed = asyncio.Event()

    # --- the loop -----------------------------------------------------------------------------------------------------

    async def _run(self, assigned: Assigned) -> None:
        failures = 0
        try:
            while not assigned.dropped:
                await self._going.wait()
                await assigned.room()
                try:
                    await self._once(assigned)
                    failures = 0
                    self._episodes.leave(assigned.queue)
                except (ClientError, PenstockError, ValueError, KeyError) as error:
                    failures += 1
                    await self._failed(assigned, error, failures)
                except Exception:
                    log.exception("a pull failed, it is tried again", group=self._group, queue=str(assigned.queue))
                    await asyncio.sleep(self._settings.failed_wait_ms_max / 1000)
        finally:
            self._episodes.leave(assigned.queue)

    async def _once(self, assigned: Assigned) -> None:
        subscription = self._subscriptions.get(assigned.queue.topic)
        if subscription is None:  # the next rebalance takes the queue away
            await asyncio.sleep(self._settings.failed_wait_ms / 1000)
            return
        began_ms = assigned.pulled_ms = self._instance.clock.monotonic_ms()
        address, answer = await self._ask(assigned, subscription)
        if assigned.dropped:
            return
        if answer.code == ResponseCode.SUCCESS:
            self._found(assigned, subscription, answer, began_ms)
        elif answer.code in NOTHING:
            asked, found = assigned.next_offset, int(answer.ext["nextBeginOffset"])
            assigned.broker_number = pulling.broker_number(answer)
            assigned.put((), found)
            if pulling.spins(asked, found, self._instance.clock.monotonic_ms() - began_ms):
                await asyncio.sleep(pulling.SPIN_WAIT_MS / 1000)
        elif answer.code == ResponseCode.PULL_OFFSET_MOVED:
            self._illegal(assigned, answer)
        elif answer.code == ResponseCode.FLOW_CONTROL:
            await asyncio.sleep(_BUSY_WAIT_MS / 1000)
        else:
            raise refusal(answer, address)

    async def _ask(self, assigned: Assigned, subscription: Subscription) -> tuple[str, Frame]:
        queue = assigned.queue

        def ext_for(is_master: bool) -> dict[str, str]:
            commit = assigned.commit_offset if self._commits and is_master else 0
            return {
                "consumerGroup": self._group,
                "topic": queue.topic,
                "queueId": str(queue.queue),
                "queueOffset": str(assigned.next_offset),
                "maxMsgNums": str(self._settings.pull_messages),
                "sysFlag": str(PullFlag.SUSPEND | (PullFlag.COMMIT if commit > 0 else 0)),
                "commitOffset": str(commit),
                "suspendTimeoutMillis": str(self._settings.pull_suspend_ms),
                "subVersion": str(subscription.told_version),
                "expressionType": subscription.kind,
                "bname": queue.broker,
            }

        cluster, timeout_ms = self._instance.cluster, self._settings.pull_timeout_ms
        return await pulling.pull(cluster, queue, assigned.broker_number, ext_for, timeout_ms)

    def _found(self, assigned: Assigned, subscription: Subscription, answer: Frame, began_ms: int) -> None:
        next_offset = int(answer.ext["nextBeginOffset"])
        messages = messages_in(answer.body)
        if subscription.tags:
            messages = [message for message in messages if subscription.keeps(message.properties.get("TAGS", ""))]
        assigned.broker_number = pulling.broker_number(answer)
        assigned.put(messages, next_offset)
        assigned.figures.found(began_ms, self._instance.clock.monotonic_ms(), len(messages))
        if messages:
            self._work.add(assigned, messages)

    def _illegal(self, assigned: Assigned, answer: Frame) -> None:
        corrected = int(answer.ext["nextBeginOffset"])
        log.warning(
            "the pull request offset illegal: consumption goes on where the broker says",
            group=self._group,
            queue=str(assigned.queue),
            asked=assigned.next_offset,
            corrected=corrected,
            why=answer.remark,
        )
        assigned.pulling = None  # this loop: it ends by itself
        assigned.settle()
        self._moved(assigned, corrected)

    # --- failing ------------------------------------------------------------------------------------------------------

    async def _failed(self, assigned: Assigned, error: Exception, failures: int) -> None:
        key = _key(assigned, error, before=self._episodes.of(assigned.queue))
        begins = self._episodes.enter(key, assigned.queue)
        if (
            begins
            and key[0] != _FORGOTTEN
            and not is_outage(error)
            and not assigned.queue.topic.startswith(RETRY_PREFIX)
        ):
            self._say(assigned, error)
        with suppress(ClientError):
            if begins and isinstance(error, SubscriptionNotLatest | GroupNotFound):
                await self._tell()  # if it was our heartbeat that did not arrive, this ends it
            elif isinstance(error, Unreachable):
                await self._instance.look_again(assigned.queue.topic)  # somebody else may have it now
        if isinstance(error, SubscriptionNotLatest):
            await self._wait_for_members()
            return
        wait_ms = self._settings.failed_wait_ms * 2 ** min(failures - 1, 10)
        await asyncio.sleep(min(wait_ms, self._settings.failed_wait_ms_max) / 1000)

    def _say(self, assigned: Assigned, error: Exception) -> None:
        if isinstance(error, SubscriptionNotLatest):
            log.warning(_NOT_LATEST.format(group=self._group, code=error.code, text=error.remark))
        else:
            log.warning(
                "execute the pull request exception", group=self._group, queue=str(assigned.queue), error=str(error)
            )

    async def _wait_for_members(self) -> None:
        try:
            async with asyncio.timeout(self._settings.refused_wait_ms / 1000):
                await self._members_changed.wait()
        except TimeoutError:
            pass


def _key(assigned: Assigned, error: Exception, before: Key) -> Key:
    """What makes two failures the same trouble: a broker that is gone is one for all its queues. `before`: the trouble
    that the queue is in already.
    """
    if isinstance(error, GroupNotFound) and before[:1] not in ((_FORGOTTEN,), (GroupNotFound.__name__,)):
        return _FORGOTTEN, assigned.queue.broker
    if isinstance(error, Refused):
        return type(error).__name__, str(error.code), assigned.queue.topic
    if isinstance(error, Unreachable):
        return "unreachable", assigned.queue.broker
    return type(error).__name__, assigned.queue.topic
