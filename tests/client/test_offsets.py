"""Where a consumer's offsets are kept, without a consumer: on a broker that is careless, in a file that is slow."""

import asyncio
import threading

import pytest
from tests.simulation.virtual import VirtualLoop

from penstock.client.consumer.offsets import BrokerOffsets, FileOffsets
from penstock.client.consumer.offsets_file import OffsetsFile
from penstock.client.errors import Unreachable
from penstock.client.routes import MessageQueue

QUEUES = [MessageQueue("orders", "broker-a", number) for number in range(4)]
WITHIN_S = 10


class Careless:
    """A broker like RocketMQ's: whoever finds no table of a group makes one, and puts it there a moment later."""

    def __init__(self) -> None:
        self.table: dict[str, str] | None = None
        self.asked = 0

    def address(self, broker: str) -> str:
        return broker

    async def get(self, address, code, ext):
        self.asked += 1
        table = self.table
        if table is None:
            table = {}
            await asyncio.sleep(0.01)
            self.table = table
        table[ext["queueId"]] = ext["commitOffset"]

    async def tell(self, address, code, ext):
        self.telling = asyncio.ensure_future(self.get(address, code, ext))
        await asyncio.sleep(0)

    async def gone(self, address, code, ext):
        self.asked += 1
        await asyncio.sleep(0)
        raise Unreachable(address, "gone")


async def hand_over(offsets: BrokerOffsets) -> None:
    """As all queues at once are let go."""
    for queue in QUEUES:
        offsets.update(queue, 7)
    await asyncio.gather(*(offsets.persist([queue], sure=True) for queue in QUEUES))


async def test_the_first_offsets_of_a_group_are_all_kept():
    broker = Careless()
    await hand_over(BrokerOffsets(broker, "billing"))
    assert broker.table == dict.fromkeys("0123", "7")


async def test_so_are_those_that_are_told_in_passing():
    broker = Careless()
    offsets = BrokerOffsets(broker, "billing")
    for queue in QUEUES:
        offsets.update(queue, 7)
    await offsets.persist(QUEUES)
    await broker.telling
    assert broker.table == dict.fromkeys("0123", "7")


async def test_a_careless_broker_forgets_one_when_the_first_ones_come_at_once():
    """The test of the tests above."""
    broker = Careless()
    await asyncio.gather(*(broker.get("", 15, {"queueId": str(n), "commitOffset": "7"}) for n in range(4)))
    assert broker.table != dict.fromkeys("0123", "7")


async def test_a_broker_that_is_gone_is_said_for_each_queue_and_not_asked_twice(caplog):
    broker = Careless()
    broker.get = broker.gone
    await hand_over(BrokerOffsets(broker, "billing"))
    assert broker.asked == 4
    assert caplog.messages == ["an offset was not stored"] * 4


async def test_only_the_first_ones_are_committed_twice():
    broker = Careless()
    offsets = BrokerOffsets(broker, "billing")
    await hand_over(offsets)
    assert broker.asked == 8
    await hand_over(offsets)
    assert broker.asked == 12


# --- files ------------------------------------------------------------------------------------------------------------


class Slow:
    """A file whose disk takes as long as a test wants."""

    def __init__(self) -> None:
        self.saved: list[dict[MessageQueue, int]] = []
        self.began, self.may_go_on = threading.Semaphore(0), threading.Semaphore(0)

    def load(self):
        return dict(self.saved[-1]) if self.saved else {}

    def save(self, offsets):
        self.began.release()
        if not self.may_go_on.acquire(timeout=WITHIN_S):
            raise OSError("nobody let it go on")
        self.saved.append(dict(offsets))

    async def until_begun(self) -> None:
        assert await asyncio.to_thread(self.began.acquire, timeout=WITHIN_S)


@pytest.fixture
def file():
    return Slow()


async def test_the_loop_goes_on_while_a_file_is_written(file):
    offsets = FileOffsets(file)
    offsets.update(QUEUES[0], 1)
    first = asyncio.ensure_future(offsets.persist([]))
    await file.until_begun()  # and this loop has taken another turn
    assert not first.done()
    offsets.update(QUEUES[0], 2)
    second = asyncio.ensure_future(offsets.persist([]))
    file.may_go_on.release(2)
    await asyncio.gather(first, second)
    assert file.saved == [{QUEUES[0]: 1}, {QUEUES[0]: 2}]


async def test_s31_a_write_that_was_given_up_does_not_follow_a_newer_one(file):
    """The timer's write is cancelled at a close: it must be over before the last one begins."""
    offsets = FileOffsets(file)
    offsets.update(QUEUES[0], 1)
    cancelled = asyncio.ensure_future(offsets.persist([]))
    await file.until_begun()
    cancelled.cancel()
    offsets.update(QUEUES[0], 2)
    last = asyncio.ensure_future(offsets.persist([], sure=True))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not file.began.acquire(blocking=False), "the last one waits"
    file.may_go_on.release(2)
    await last
    assert cancelled.cancelled()
    assert file.saved == [{QUEUES[0]: 1}, {QUEUES[0]: 2}]


async def test_many_who_persist_at_once_write_once(file):
    offsets = FileOffsets(file)
    for queue in QUEUES:
        offsets.update(queue, 7)
    file.may_go_on.release(9)
    await asyncio.gather(*(offsets.persist([queue], sure=True) for queue in QUEUES))
    assert file.saved == [dict.fromkeys(QUEUES, 7)]


async def test_a_disk_that_is_full_is_said_once_and_tried_again(file, caplog):
    offsets, save = FileOffsets(file), file.save

    def full(table):
        raise OSError("the disk is full")

    offsets.update(QUEUES[0], 1)
    file.save = full
    for _ in range(3):
        await offsets.persist([])
    file.save = save
    file.may_go_on.release()
    await offsets.persist([])
    assert caplog.messages == ["offsets were not written, it is tried again"]
    assert file.saved == [{QUEUES[0]: 1}]


def test_on_virtual_time_a_thread_takes_none(tmp_path):
    async def story() -> float:
        offsets = FileOffsets(OffsetsFile(tmp_path, "10.0.0.1@DEFAULT", "readers"))
        for number, queue in enumerate(QUEUES):
            offsets.update(queue, number)
            await asyncio.gather(offsets.persist([queue]), offsets.persist([queue], sure=True))
        fresh = FileOffsets(OffsetsFile(tmp_path, "10.0.0.1@DEFAULT", "readers"))
        assert [await fresh.read(queue) for queue in QUEUES] == [0, 1, 2, 3]
        return asyncio.get_running_loop().time()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(story()) == 0
