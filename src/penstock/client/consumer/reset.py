"""Moving offsets while a consumer runs: a reset that a broker orders (220), an offset that a broker corrects (21).

A reset, in this order, each step in the log: pulling is suspended; the queues are dropped, so what was pulled of them
is not consumed; for each the offset is updated, persisted and removed; work under way ends; a rebalance takes the
queues up again, from the offsets that were just stored; pulling resumes.
"""

import asyncio
from collections.abc import Callable, Mapping

import msgspec

from penstock import logs
from penstock.client.consumer.assigned import Assigned
from penstock.client.consumer.holding import Holding
from penstock.client.routes import MessageQueue
from penstock.clock import Clock
from penstock.wire.rocketmq import fastjson
from penstock.wire.rocketmq.bodies import QueueName

log = logs.get(__name__)


class _Target(msgspec.Struct, rename="camel"):
    topic: str
    broker_name: str
    queue_id: int
    offset: int


def targets_in(body: bytes | memoryview) -> dict[MessageQueue, int]:
    """What a reset asks for: a table with queues as keys, or a list. ValueError when it is neither."""
    found = fastjson.loads(body)
    if isinstance(found, dict) and isinstance(found.get("offsetTable"), list):
        listed = msgspec.convert(found["offsetTable"], list[_Target])
        return {MessageQueue(one.topic, one.broker_name, one.queue_id): one.offset for one in listed}
    table = fastjson.table(found, "offsetTable")
    return {queue_in(text): msgspec.convert(offset, int) for text, offset in table.items()}


def queue_in(text: str) -> MessageQueue:
    """A key of such a table."""
    name = msgspec.json.decode(text, type=QueueName)
    return MessageQueue(name.topic, name.broker_name, name.queue_id)


class Mover:
    def __init__(self, holding: Holding, group: str, clock: Clock, broadcast: bool, work_wait_ms: int) -> None:
        self._holding, self._group, self._clock, self._broadcast = holding, group, clock, broadcast
        self._work_wait_ms = work_wait_ms
        self._tasks: set[asyncio.Task[None]] = set()
        self._moved_ms: dict[MessageQueue, int] = {}

    # --- resets -------------------------------------------------------------------------------------------------------

    async def reset(self, targets: Mapping[MessageQueue, int]) -> None:
        holding, group = self._holding, self._group
        log.info("reset: pulling is suspended", group=group)
        holding.pulls.suspend()
        try:
            async with holding.changing:
                mine = {queue: offset for queue, offset in targets.items() if self._broadcast or queue in holding.owned}
                dropped = [holding.owned[queue] for queue in mine if queue in holding.owned]
                for assigned in dropped:
                    assigned.settle()
                log.info("reset: queues are dropped", group=group, queues=len(dropped))
                await holding.put_aside(mine)
                ended = await asyncio.gather(*(assigned.quiet(self._work_wait_ms) for assigned in dropped))
                log.info("reset: work under way has ended", group=group, all=all(ended))
                await holding.round()
                log.info("reset: rebalanced", group=group)
        finally:
            holding.pulls.resume()
            log.info("reset: pulling is resumed", group=group)

    # --- corrections --------------------------------------------------------------------------------------------------

    def moved(self, assigned: Assigned, offset: int, then: Callable[[], None], again_ms: int) -> None:
        """A queue was settled, since its offset was illegal. `then` asks for a rebalance; not when the same queue was
        corrected less than `again_ms` ago: what goes in circles does it at the pace of the timer.
        """
        now_ms = self._clock.monotonic_ms()
        often = now_ms - self._moved_ms.get(assigned.queue, now_ms - again_ms) < again_ms
        self._moved_ms[assigned.queue] = now_ms
        task = asyncio.ensure_future(self._move(assigned, offset, None if often else then))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _move(self, assigned: Assigned, offset: int, then: Callable[[], None] | None) -> None:
        async with self._holding.changing:
            if self._holding.owned.get(assigned.queue) is not assigned:
                return  # a reset or a rebalance was faster
            await self._holding.put_aside({assigned.queue: offset})
        if then is not None:
            then()

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
