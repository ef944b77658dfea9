"""Queues that others have written to, read as records.

One read: a stretch of the queue is loaded, its entries are looked at (which are due, which are parts of a message), and
then opened in a worker thread, as far as the read goes. A batch that a read has not used up is kept open, since the
next one begins in its middle. Parts of a message in chunks bring nothing; the last one brings the whole message, at its
own offset: they are looked for behind it.
"""

import asyncio
from collections import OrderedDict
from typing import NamedTuple

from penstock.clock import Clock
from penstock.core.fetch import Batch, Fetcher
from penstock.gateway.rocketmq.produce import ADDED
from penstock.gateway.rocketmq.records import Read, Wish
from penstock.wire.cross import is_record
from penstock.wire.cross.chunks import Chunk, chunk_in
from penstock.wire.cross.to_rocketmq import OPENED_BYTES_MAX, Origin, Records, part_of, records_of, unreadable
from penstock.wire.pulsar.entry import PayloadError, metadata_in

STRETCH_MESSAGES, STRETCH_BYTES = 256, 1 << 20  # looked at per read
READ_MESSAGES_MAX, READ_BYTES_MAX = 1_024, 2 << 20  # of one that takes all it comes upon
KEPT_BYTES_MAX = 32 << 20  # of batches that are kept open
LOOK_BACK_MESSAGES, LOOK_BACK_STEP = 10_000, 256  # for the parts of a message

_added = ADDED.encode()


class _Job(NamedTuple):
    """An entry to be made into records. With `ready` it has been; with `is_part` it is handed on as it is, and so it is
    when `why` says that it cannot be read.
    """

    payload: memoryview
    base: int
    store_ms: int
    joined: bytes | None = None
    is_part: bool = False
    ready: Records | None = None
    why: str = ""


class _Done(NamedTuple):
    read: Read
    rest: Records | None  # the last entry's records, when some of them are left
    rest_base: int


class Foreign:
    def __init__(self, fetcher: Fetcher, clock: Clock) -> None:
        self._fetcher, self._clock = fetcher, clock
        self._open = _Kept()

    @staticmethod
    def origin(topic: bytes, queue: int, index: int, host: bytes, fills: bool) -> Origin:
        return Origin(topic, queue, index, host, _added, fills)

    async def read(self, queue: int, offset: int, wish: Wish, origin: Origin) -> Read:
        count, size = STRETCH_MESSAGES, STRETCH_BYTES
        if wish.keep is None:
            first = self._fetcher.messages_in(queue, self._fetcher.row_at_offset(queue, offset))  # it counts whole
            count = min(wish.messages_max + first, READ_MESSAGES_MAX)
            size = min(wish.bytes_max, READ_BYTES_MAX)
        batch = await self._fetcher.fetch(queue, offset, count, size)
        jobs, due_ms, until = await self._jobs(queue, batch, wish.due_only, origin)
        if not jobs:
            return Read([], [], until, due_ms)
        if all(job.ready is not None for job in jobs):
            done = _opened(jobs, offset, wish, origin, until)
        else:
            done = await asyncio.to_thread(_opened, jobs, offset, wish, origin, until)
        if done.rest is not None:
            self._open.put((origin, done.rest_base), done.rest)
        read = done.read
        return read._replace(due_ms=due_ms) if read.next_offset == until else read

    async def _jobs(self, queue: int, batch: Batch, due_only: bool, origin: Origin) -> tuple[list[_Job], int, int]:
        """What is to be done, when the next is due if that ends it, and where it ends."""
        jobs: list[_Job] = []
        bases, times = batch.rows["base"].tolist(), batch.rows["time"].tolist()
        now_ms = self._clock.now_ms()
        for payload, base, time in zip(batch.payloads, bases, times, strict=True):
            ready = None if is_record(payload) else self._open.take((origin, base))
            if is_record(payload) or ready is not None:
                jobs.append(_Job(payload, base, time, ready=ready or [payload]))
                continue
            job = _Job(payload, base, time)
            try:
                metadata, _ = metadata_in(payload, check=False)
            except PayloadError as error:
                jobs.append(job._replace(why=str(error)))
                continue
            if due_only and metadata.deliver_at_time > now_ms:
                return jobs, metadata.deliver_at_time, base
            chunk = chunk_in(metadata)
            jobs.append(job if chunk is None else await self._part(queue, chunk, job))
            if chunk is not None and chunk.joinable and chunk.is_last:  # one is enough: its parts may be far behind
                return jobs, 0, base + 1
        return jobs, 0, batch.next_offset

    # --- chunks -------------------------------------------------------------------------------------------------------

    async def _part(self, queue: int, chunk: Chunk, job: _Job) -> _Job:
        if not chunk.joinable:
            return job._replace(is_part=True)
        if not chunk.is_last:
            return job._replace(ready=[None])
        joined = await self._joined(queue, chunk, job.payload, job.base)
        return job._replace(joined=joined, is_part=joined is None)

    async def _joined(self, queue: int, last: Chunk, payload: memoryview, base: int) -> bytes | None:
        """All parts together; None when some are missing, or they are not what was said."""
        known = await self._look_back(queue, last, base)
        offsets = [known.get(number, -1) for number in range(last.parts - 1)]
        if min(offsets) < 0 or offsets != sorted(offsets):
            return None
        bodies: list[memoryview] = []
        for offset in offsets:
            part = await self._payload(queue, offset)
            if part is None or sum(map(len, bodies)) > OPENED_BYTES_MAX:
                return None
            bodies.append(_body(part))
        joined = b"".join([*bodies, _body(payload)])
        return joined if len(joined) == last.size_bytes else None

    async def _payload(self, queue: int, offset: int) -> memoryview | None:
        if offset < self._fetcher.bounds(queue).min_offset:
            return None
        batch = await self._fetcher.fetch(queue, offset, 1, 1)
        return batch.payloads[0] if batch.payloads and int(batch.rows["base"][0]) == offset else None

    async def _look_back(self, queue: int, last: Chunk, base: int) -> dict[int, int]:
        """Where the other parts of a message are: by number, the newest of each before its last one. (A producer that
        begins anew may use the name of a message again.)
        """
        known: dict[int, int] = {}
        lowest, until, step = max(self._fetcher.bounds(queue).min_offset, base - LOOK_BACK_MESSAGES), base, last.parts
        while until > lowest and len(known) < last.parts - 1:
            first = max(lowest, until - step)
            known = await self._parts(queue, first, until, last.uuid) | known
            until, step = first, min(2 * step, LOOK_BACK_STEP)
            await asyncio.sleep(0)  # it may be far
        return known

    async def _parts(self, queue: int, first: int, until: int, uuid: str) -> dict[int, int]:
        """The offsets of a message's parts between two offsets."""
        found: dict[int, int] = {}
        while first < until:
            batch = await self._fetcher.fetch(queue, first, until - first, OPENED_BYTES_MAX)
            for payload, offset in zip(batch.payloads, batch.rows["base"].tolist(), strict=True):
                chunk = _chunk(payload)
                if chunk is not None and chunk.uuid == uuid and offset < until:
                    found[chunk.number] = offset
            first = batch.next_offset
        return found


def _chunk(payload: memoryview) -> Chunk | None:
    try:
        return None if is_record(payload) else chunk_in(metadata_in(payload, check=False)[0])
    except PayloadError:
        return None  # no entry, and so no part of a message


def _body(payload: memoryview) -> memoryview:
    return payload[metadata_in(payload, check=False)[1] :]


# --- in a worker thread -----------------------------------------------------------------------------------------------


def _opened(jobs: list[_Job], offset: int, wish: Wish, origin: Origin, until: int) -> _Done:
    """From `offset` on, as much as is wished for, but one message at least."""
    payloads: list[memoryview] = []
    offsets: list[int] = []
    size = empty = 0
    for job in jobs:
        records = job.ready if job.ready is not None else _made(job, origin)
        for at, record in enumerate(records, job.base):
            if at < offset:
                continue
            if wish.until and at >= wish.until:
                return _Done(Read(payloads, offsets, at, 0, empty), _rest(records), job.base)
            if record is None:
                empty += 1
                continue
            view = memoryview(record)
            if wish.keep is not None and not wish.keep(view):
                continue
            size += len(view)
            if payloads and (size > wish.bytes_max or len(payloads) == wish.messages_max):
                return _Done(Read(payloads, offsets, at, 0, empty), _rest(records), job.base)
            payloads.append(view)
            offsets.append(at)
    return _Done(Read(payloads, offsets, until, 0, empty), None, 0)


def _rest(records: Records) -> Records | None:
    return records if len(records) > 1 else None


def _made(job: _Job, origin: Origin) -> Records:
    if job.why:
        return unreadable(job.payload, job.base, job.store_ms, origin, job.why)
    if job.is_part:
        return part_of(job.payload, job.base, job.store_ms, origin)
    return records_of(job.payload, job.base, job.store_ms, origin, job.joined)


class _Kept:
    """Batches that are open, the one used last is the last one."""

    def __init__(self) -> None:
        self._records: OrderedDict[tuple[Origin, int], Records] = OrderedDict()
        self._bytes = 0

    def take(self, key: tuple[Origin, int]) -> Records | None:
        records = self._records.pop(key, None)
        self._bytes -= _size(records) if records else 0
        return records

    def put(self, key: tuple[Origin, int], records: Records) -> None:
        self.take(key)
        self._records[key] = records
        self._bytes += _size(records)
        while self._bytes > KEPT_BYTES_MAX:
            self.take(next(iter(self._records)))


def _size(records: Records) -> int:
    return sum(len(record) + 100 for record in records if record is not None)
