"""Where a group has got to, and where that is kept: on the brokers for a cluster group, in a file for an instance of a
broadcast group.

`update` is memory only, `persist` makes it last. On taking a queue, a cluster consumer reads what the broker has, since
somebody else may have owned the queue; a broadcast instance reads its memory first and the file only for what is not
there: nobody else moves its offsets, and memory is never older than the file.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

from penstock import logs
from penstock.client import positions
from penstock.client.cluster import Cluster
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


class BrokerOffsets:
    """Of a cluster group."""

    def __init__(self, cluster: Cluster, group: str) -> None:
        self._cluster, self._group = cluster, group
        self._table: dict[MessageQueue, int] = {}

    def update(self, queue: MessageQueue, offset: int) -> None:
        self._table[queue] = offset

    async def read(self, queue: MessageQueue) -> int | None:
        offset = await positions.committed(self._cluster, self._group, queue)
        return offset if offset is not None and offset >= 0 else None

    async def persist(self, queues: Collection[MessageQueue], sure: bool = False) -> None:
        for queue in queues:
            offset = self._table.get(queue)
            if offset is not None:
                await self._persist(queue, offset, sure)

    async def _persist(self, queue: MessageQueue, offset: int, sure: bool) -> None:
        ext = {
            "consumerGroup": self._group,
            "topic": queue.topic,
            "queueId": str(queue.queue),
            "commitOffset": str(offset),
        }
        code = RequestCode.UPDATE_CONSUMER_OFFSET
        try:
            address = self._cluster.address(queue.broker)
            if sure:
                await self._cluster.get(address, code, ext)
            else:
                await self._cluster.tell(address, code, ext)
        except ClientError as error:
            level = log.warning if sure else log.debug  # the other one is tried again in a few seconds
            level("an offset was not stored", group=self._group, queue=str(queue), offset=offset, error=str(error))

    def remove(self, queue: MessageQueue) -> None:
        self._table.pop(queue, None)


class File(Protocol):
    """As `offsets_file.OffsetsFile`."""

    def load(self) -> dict[MessageQueue, int]: ...

    def save(self, offsets: Mapping[MessageQueue, int]) -> None: ...


class FileOffsets:
    """Of one instance of a broadcast group. The whole table is written, also when no queue is owned just now."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._table: dict[MessageQueue, int] = {}
        self._saved: dict[MessageQueue, int] = {}

    def update(self, queue: MessageQueue, offset: int) -> None:
        self._table[queue] = offset

    async def read(self, queue: MessageQueue) -> int | None:
        known = self._table.get(queue)
        return known if known is not None else self._file.load().get(queue)

    async def persist(self, queues: Collection[MessageQueue], sure: bool = False) -> None:
        if self._table == self._saved:
            return
        try:
            self._file.save(self._table)
            self._saved = dict(self._table)
        except (OSError, ClientError) as error:
            log.warning("offsets were not written, it is tried again", error=str(error))

    def remove(self, queue: MessageQueue) -> None:
        """What is known stays known: memory is the truth, the file its copy."""
