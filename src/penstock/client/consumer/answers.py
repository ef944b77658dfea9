"""What brokers ask of a consumer: to look at its group again (40), to move its offsets (220), where it is (221), how it
is (307), and to consume one message now (309).
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping

import msgspec

from penstock import logs
from penstock.client.consumer.assigned import Assigned
from penstock.client.consumer.figures import Figures
from penstock.client.consumer.handling import Handler, Later
from penstock.client.consumer.reset import targets_in
from penstock.client.consumer.subscription import Subscription
from penstock.client.link import Link
from penstock.client.message import received
from penstock.client.routes import MessageQueue
from penstock.clock import Clock
from penstock.errors import PenstockError
from penstock.wire.rocketmq.bodies import QueueName, with_table
from penstock.wire.rocketmq.codes import RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import Frame
from penstock.wire.rocketmq.record import message_in

log = logs.get(__name__)


class Answers:
    def __init__(
        self,
        group: str,
        owned: Mapping[MessageQueue, Assigned],
        figures: Mapping[str, Figures],
        subscriptions: Mapping[str, Subscription],
        handler: Handler,
        clock: Clock,
        members_changed: Callable[[], None],
        reset: Callable[[Mapping[MessageQueue, int]], Awaitable[None]],
        properties: Callable[[], dict[str, str]],
    ) -> None:
        self._group, self._owned, self._figures, self._subscriptions = group, owned, figures, subscriptions
        self._handler, self._clock, self._properties = handler, clock, properties
        self._members_changed, self._reset = members_changed, reset
        self._tasks: set[asyncio.Task[None]] = set()
        self._table: dict[int, Callable[[Frame, Link], None]] = {
            RequestCode.NOTIFY_CONSUMER_IDS_CHANGED: lambda frame, link: members_changed(),
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET: self._reset_offsets,
            RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT: self._status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self._running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self._consume_directly,
        }

    def asked(self, frame: Frame, link: Link) -> bool:
        """False when it is not for this group."""
        answer = self._table.get(frame.code)
        if answer is None or (frame.ext.get("consumerGroup") or frame.ext.get("group")) != self._group:
            return False
        answer(frame, link)
        return True

    def _later(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- offsets ------------------------------------------------------------------------------------------------------

    def _reset_offsets(self, frame: Frame, link: Link) -> None:
        try:
            targets = targets_in(frame.body)
        except (ValueError, msgspec.DecodeError) as error:
            log.warning("a reset cannot be read", group=self._group, address=link.address, error=str(error))
            return
        log.info("a broker orders a reset", group=self._group, address=link.address, queues=len(targets))
        self._later(self._do_reset(targets))

    async def _do_reset(self, targets: Mapping[MessageQueue, int]) -> None:
        try:
            await self._reset(targets)
        except Exception:
            log.exception("a reset failed", group=self._group)

    def _status(self, frame: Frame, link: Link) -> None:
        topic = frame.ext.get("topic", "")
        table = [
            (_name(queue), held.commit_offset) for queue, held in self._owned.items() if topic in ("", queue.topic)
        ]
        link.reply(frame, ResponseCode.SUCCESS, body=with_table("messageQueueTable", table))

    # --- how it is ----------------------------------------------------------------------------------------------------

    def _running_info(self, frame: Frame, link: Link) -> None:
        table = [(_name(queue), self._info(held)) for queue, held in self._owned.items()]
        properties = {**self._properties(), "PROP_OWNED_QUEUES": ", ".join(sorted(map(str, self._owned)))}
        subscriptions = [subscription.data() for subscription in self._subscriptions.values()]
        now_ms = self._clock.monotonic_ms()
        statuses = {topic: self._figures.get(topic, Figures(now_ms)).status(now_ms) for topic in self._subscriptions}
        body = with_table("mqTable", table, properties=properties, statusTable=statuses, subscriptionSet=subscriptions)
        link.reply(frame, ResponseCode.SUCCESS, body=body)

    def _info(self, held: Assigned) -> dict[str, object]:
        since_ms = self._clock.now_ms() - self._clock.monotonic_ms()
        return {
            "cachedMsgCount": held.count,
            "cachedMsgMaxOffset": held.next_offset,
            "cachedMsgMinOffset": held.commit_offset,
            "cachedMsgSizeInMiB": held.bytes >> 20,
            "commitOffset": held.commit_offset,
            "droped": held.dropped,
            "lastLockTimestamp": since_ms + held.locked_ms,
            "lastPullTimestamp": since_ms + held.pulled_ms if held.pulled_ms else 0,
        }

    # --- one message now ----------------------------------------------------------------------------------------------

    def _consume_directly(self, frame: Frame, link: Link) -> None:
        self._later(self._consume(frame, link))

    async def _consume(self, frame: Frame, link: Link) -> None:
        began_ms = self._clock.monotonic_ms()
        try:
            message = message_in(frame.body)
            queue = MessageQueue(message.topic, frame.ext.get("brokerName", ""), message.queue_index)
            result = await self._handler(received(message, queue))
            told, remark = ("CR_LATER", "") if isinstance(result, Later) else ("CR_SUCCESS", "")
        except Later:
            told, remark = "CR_LATER", ""
        except (PenstockError, ValueError) as error:
            link.reply(frame, ResponseCode.SYSTEM_ERROR, f"the message cannot be read: {error}")
            return
        except Exception as error:
            log.exception("a handler failed with a message that an operator sent it", group=self._group)
            told, remark = "CR_THROW_EXCEPTION", repr(error)
        spent_ms = self._clock.monotonic_ms() - began_ms
        body = {"autoCommit": True, "consumeResult": told, "order": False, "remark": remark, "spentTimeMills": spent_ms}
        link.reply(frame, ResponseCode.SUCCESS, body=msgspec.json.encode(body))


def _name(queue: MessageQueue) -> QueueName:
    return QueueName(queue.broker, queue.queue, queue.topic)
