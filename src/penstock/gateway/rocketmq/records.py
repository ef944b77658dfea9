"""What a queue holds, as RocketMQ's clients get it: records as they are, what others wrote made into records.

A queue that holds nothing but records is read as it is, and asking whether that is so is all that it costs. Otherwise a
read looks at a stretch of the queue at most, opens entries in a worker thread, and goes on where it ended: also in the
middle of a batch, which is kept open for the next read (`foreign.py`).
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from penstock.clock import Clock
from penstock.core.fetch import Fetcher
from penstock.core.keys import Messages
from penstock.core.policies import PolicyBook
from penstock.core.topics import Topics
from penstock.errors import QueueNotFound
from penstock.gateway.rocketmq.house import House
from penstock.gateway.rocketmq.routes import Refused
from penstock.wire.rocketmq.codes import ResponseCode
from penstock.wire.rocketmq.record import RECORD, RECORD_RUN, TOPIC_BYTES_MAX, from_physical

if TYPE_CHECKING:
    from penstock.gateway.rocketmq.foreign import Foreign

MINE = 1 << RECORD | 1 << RECORD_RUN

Keep = Callable[[memoryview], bool]


class Wish(NamedTuple):
    """How much a read may bring, and what of it. With `due_only` it ends at a message whose time has not come; with
    `fills` empty bodies are a space; it never reaches `until`, which 0 leaves open.
    """

    messages_max: int
    bytes_max: int
    keep: Keep | None = None
    due_only: bool = False
    fills: bool = False
    until: int = 0


class Read(NamedTuple):
    """What a read found. `due_ms`: it ended at a message that is delivered then. `empty` is the number of offsets that
    it has passed and at which no message stands.
    """

    payloads: list[memoryview]
    offsets: list[int]
    next_offset: int
    due_ms: int = 0
    empty: int = 0


class Records:
    def __init__(self, topics: Topics, fetcher: Fetcher, policies: PolicyBook, house: House, clock: Clock) -> None:
        self._topics, self._fetcher, self._policies = topics, fetcher, policies
        self._house, self._clock = house, clock
        self._foreign: Foreign | None = None

    def are_mixed(self, queue: int) -> bool:
        """Whether something in a queue may have to be made into records."""
        return self._fetcher.holds_others(queue, MINE)

    async def read(self, queue: int, offset: int, wish: Wish, host: bytes) -> Read:
        """Of a queue that is mixed. `host` is this broker's address, as records carry it."""
        if not self._topics.has_queue(queue):  # deleted, while a pull waited
            raise QueueNotFound(str(queue))
        topic, index = self._topics.owner(queue)
        name = topic.name.encode()
        if len(name) > TOPIC_BYTES_MAX:
            why = f"the name of topic {topic.name!r} is too long for RocketMQ's records: {TOPIC_BYTES_MAX} bytes"
            raise Refused(ResponseCode.SYSTEM_ERROR, why)
        if self._foreign is None:
            from penstock.gateway.rocketmq.foreign import Foreign  # here: it loads protobuf

            self._foreign = Foreign(self._fetcher, self._clock)
        delaying = self._policies.applied(topic.name).delaying
        if delaying is not None and not delaying.active:
            wish = wish._replace(due_only=False)
        return await self._foreign.read(queue, offset, wish, self._foreign.origin(name, queue, index, host, wish.fills))

    async def messages(self, queue: int, offset: int, messages_max: int, bytes_max: int) -> Messages:
        """For who looks through queues."""
        if self.are_mixed(queue):
            read = await self.read(queue, offset, Wish(messages_max, bytes_max), self._house.own_store_host)
            return Messages(read.payloads, read.offsets, read.next_offset)
        batch = await self._fetcher.fetch(queue, offset, messages_max, bytes_max)
        return Messages(batch.payloads, batch.rows["base"].tolist(), batch.next_offset)

    async def at(self, physical: int) -> bytes:
        """The record that an id stands for. Queue 0 is the store's own and holds none."""
        queue, offset = from_physical(physical)
        found = await self.messages(queue, offset, 1, 1) if queue > 0 else None
        if found is None or not found.payloads or found.offsets[0] != offset:
            raise Refused(ResponseCode.SYSTEM_ERROR, "there is no message with this id: it may have expired")
        return bytes(found.payloads[0])
