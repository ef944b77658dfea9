"""Where a group has got to, and where that is kept: on the brokers for a cluster group, in a file for an instance of a
broadcast group.

`update` is memory only, `persist` makes it last. On taking a queue, a cluster consumer reads what the broker has, since
somebody else may have owned the queue; a broadcast instance reads its memory first and the file only for what is not
there: nobody else moves its offsets, and memory is never older than the file.
"""

import asyncio
from collections.abc import Collection, Mapping
from typing import Protocol

from penstock import logs
from penstock.client import positions
from penstock.client.cluster import Cluster
from penstock.client.episodes import Troubles
from penstock.client.errors import ClientError
from penstock.client.routes import MessageQueue
from penstock.wire.rocketmq.codes import RequestCode

log = logs.get(__name__)


class Offsets(Protocol):
    def update(self, queue: MessageQueue, offset: int) -> None: ...

    async def read(self, queue: MessageQueue) -> int | None:
        """Where to go on; None when nothing is known. ClientError when it cannot be told now."""
        ...

    async def persist(self, queues: Collection[MessageQueue], sure: bool = False) -> None:
        """`sure`: it has been taken when this returns, or a warning says that it was not."""
        ...

    def remove(self, queue: MessageQueue) -> None:
        """The queue is not owned any more."""
        ...


_Table = tuple[str, str]  # what a broker has of a topic: broker and topic


class _Firsts:
    """First commits to a table that are under way at once."""

    def __init__(self) -> None:
        self.under_way, self.several = 0, False
        self.over = asyncio.Event()

    def begin(self) -> None:
        self.under_way += 1
        self.several |= self.under_way > 1

    def end(self) -> None:
        self.under_way -= 1
        if not self.under_way:
            self.over.set()


class BrokerOffsets:
    """Of a cluster group. Of the first offsets that it commits at once in a topic RocketMQ may forget some: each finds
    no table and makes one, and one of them stays. So these are committed again when the table is there.
    """

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster, self._group = cluster, group
        self._table: dict[MessageQueue, int] = {}
        self._begun: set[_Table] = set()
        self._firsts: dict[_Table, _Firsts] = {}

    def update(self, queue: MessageQueue, offset: int) -> None:
        self._table[queue] = offset

    async def read(self, queue: MessageQueue) -> int | None:
        offset = await positions.committed(self._cluster, self._group, queue)
        return offset if offset is not None and offset >= 0 else None

    async def persist(self, queues: Collection[MessageQueue], sure: bool = False) -> None:
        for queue in queues:
            if queue not in self._table:
                continue
            try:
                await self._commit(queue, sure)
            except ClientError as error:
                level = log.warning if sure else log.debug  # the other one is tried again in a few seconds
                told = {"queue": str(queue), "offset": self._table.get(queue), "error": str(error)}
                level("an offset was not stored", group=self._group, **told)

    async def _commit(self, queue: MessageQueue, sure: bool) -> None:
        table = queue.broker, queue.topic
        if table in self._begun:
            await self._told(queue, sure)
            return
        firsts = self._firsts.setdefault(table, _Firsts())
        firsts.begin()
        try:
            await self._told(queue, sure=True)
        finally:
            firsts.end()
            if not firsts.under_way:
                del self._firsts[table]
        await firsts.over.wait()
        self._begun.add(table)
        if firsts.several:
            await self._told(queue, sure)

    async def _told(self, queue: MessageQueue, sure: bool) -> None:
        offset = self._table.get(queue)
        if offset is None:  # it was let go meanwhile, and stored then
            return
        address, code = self._cluster.address(queue.broker), RequestCode.UPDATE_CONSUMER_OFFSET
        ext = {
            "consumerGroup": self._group,
            "topic": queue.topic,
            "queueId": str(queue.queue),
            "commitOffset": str(offset),
        }
        if sure:
            await self._cluster.get(address, code, ext)
        else:
            await self._cluster.tell(address, code, ext)

    def remove(self, queue: MessageQueue) -> None:
        self._table.pop(queue, None)


class File(Protocol):
    """As `offsets_file.OffsetsFile`."""

    def load(self) -> dict[MessageQueue, int]: ...

    def save(self, offsets: Mapping[MessageQueue, int]) -> None: ...


class FileOffsets:
    """Of one instance of a broadcast group. The whole table is written, also when no queue is owned just now.

    Reading and writing take a while, so both are done in a thread: one write after the other, whoever is cancelled
    meanwhile, or an older table could follow a newer one. Several who ask at once share a reading.
    """

    def __init__(self, file: File) -> None:
        self._file = file
        self._table: dict[MessageQueue, int] = {}
        self._saved: dict[MessageQueue, int] = {}
        self._writing, self._writes = asyncio.Lock(), set[asyncio.Task[None]]()
        self._reading: asyncio.Task[dict[MessageQueue, int]] | None = None
        self._troubles = Troubles(log)

    def update(self, queue: MessageQueue, offset: int) -> None:
        self._table[queue] = offset

    async def read(self, queue: MessageQueue) -> int | None:
        known = self._table.get(queue)
        return known if known is not None else (await self._stored()).get(queue)

    async def _stored(self) -> dict[MessageQueue, int]:
        if self._reading is None or self._reading.done():
            self._reading = asyncio.ensure_future(asyncio.to_thread(self._file.load))
        return await asyncio.shield(self._reading)

    async def persist(self, queues: Collection[MessageQueue], sure: bool = False) -> None:
        task = asyncio.ensure_future(self._save())
        self._writes.add(task)
        task.add_done_callback(self._writes.discard)
        await asyncio.shield(task)

    async def _save(self) -> None:
        async with self._writing:
            table = dict(self._table)
            if table == self._saved:
                return
            try:
                await asyncio.to_thread(self._file.save, table)
                self._saved = table
            except (OSError, ClientError) as error:
                self._troubles.met(self, "offsets were not written, it is tried again", error)
            else:
                self._troubles.over(self, "offsets are written again")

    def remove(self, queue: MessageQueue) -> None:
        """What is known stays known: memory is the truth, the file its copy."""
