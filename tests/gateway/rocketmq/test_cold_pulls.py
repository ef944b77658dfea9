"""Pulls of what is not in memory: a worker thread reads it, all of it at once, and others do not wait for that."""

import asyncio
import errno
import threading

import pytest

from penstock.store.files import LocalFile
from penstock.store.read import Reader
from penstock.wire.rocketmq.codes import ResponseCode
from penstock.wire.rocketmq.record import messages_in

GROUP = "readers"


class Disk:
    """Nothing of the log is in memory, and the disk answers when it is told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked, self.answer = threading.Event(), threading.Event()
        self.threads: set[str] = set()
        self.error: OSError | None = None
        read_into = LocalFile.read_into

        def slow(file: LocalFile, room: memoryview, at: int, wait: bool) -> bool:
            if not wait:
                return False
            self.threads.add(threading.current_thread().name)
            self.asked.set()
            assert self.answer.wait(10)
            if self.error:
                raise self.error
            return read_into(file, room, at, wait)

        monkeypatch.setattr(LocalFile, "read_into", slow)
        monkeypatch.setattr(LocalFile, "is_resident", lambda file, mapping, at, length: False)
        monkeypatch.setattr(Reader, "_is_hot", lambda reader, position: False)


@pytest.fixture
async def reader(client):
    """Ten messages are there for it, two by two with those of another queue between them."""
    for number in range(10):
        await client.send("orders", b"%d" % number * 700, 0)
        if number % 2:
            await client.send("orders", b"x" * 9_000, 1)
    await client.heartbeat(GROUP, "a@1", 5, {"orders": "*"})
    return client


def bodies(answer):
    return [bytes(message.body) for message in messages_in(answer.body)]


@pytest.mark.parametrize("wanted", [1, 3, 32])
async def test_it_is_the_same_as_from_memory(reader, monkeypatch, wanted):
    warm = await reader.pull(GROUP, "orders", 0, 2, 5, maxMsgNums=wanted)
    disk = Disk(monkeypatch)
    disk.answer.set()
    cold = await reader.pull(GROUP, "orders", 0, 2, 5, maxMsgNums=wanted)
    assert bodies(warm)[0] == b"2" * 700
    assert (cold.code, cold.ext, bytes(cold.body)) == (warm.code, warm.ext, bytes(warm.body))
    assert disk.threads
    assert threading.current_thread().name not in disk.threads


async def test_others_do_not_wait_for_it(reader, monkeypatch):
    disk = Disk(monkeypatch)
    pulling = asyncio.ensure_future(reader.pull(GROUP, "orders", 0, 0, 5))
    assert await asyncio.to_thread(disk.asked.wait, 10)
    assert (await reader.send("orders", b"meanwhile", 0)).code == ResponseCode.SUCCESS
    assert not pulling.done()
    disk.answer.set()
    assert len(bodies(await pulling)) == 10


async def test_a_disk_that_fails_is_an_answer(reader, monkeypatch):
    disk = Disk(monkeypatch)
    disk.error = OSError(errno.EIO, "Input/output error")
    disk.answer.set()
    answer = await reader.pull(GROUP, "orders", 0, 0, 5)
    assert (answer.code, "Input/output error" in answer.remark) == (ResponseCode.SYSTEM_ERROR, True)
    disk.error = None
    assert len(bodies(await reader.pull(GROUP, "orders", 0, 0, 5))) == 10
