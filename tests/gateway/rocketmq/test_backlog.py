"""Consumers far behind are lent to a thread: they get what they would get otherwise, and nobody else sees a difference.

What "lent" is worth looking at for is in `loans`: every loan that began, with what came of it.
"""

import asyncio
import json
import random
import select
import socket
import struct
import threading
from pathlib import Path

import pytest
from tests.compiled import built
from tests.gateway.rocketmq.conftest import Client

from penstock.core.events import TopicCreated
from penstock.gateway.rocketmq import backlog as module
from penstock.gateway.rocketmq.backlog import Backlog
from penstock.gateway.rocketmq.connection import READS_MIN
from penstock.testing.server import serving
from penstock.wire.rocketmq.codes import PullFlag, RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import JSON, frames_in, pack
from penstock.wire.rocketmq.record import messages_in

GROUP, TOPIC, VERSION, COUNT = "readers", "orders", 5, 2_000
COMMITS = {"sysFlag": PullFlag.COMMIT}
SUBSCRIBED = {"topic": TOPIC, "subString": "*", "subVersion": VERSION}
CONSUMER = {"groupName": GROUP, "subscriptionDataSet": [SUBSCRIBED]}
HEARTBEAT = json.dumps({"clientID": "x@1", "consumerDataSet": [CONSUMER]}).encode()

built("penstock.gateway.rocketmq._backlog")


@pytest.fixture
def loans(monkeypatch):
    """What was handed out in each loan that is over, in pulls by queue."""
    found = []
    note = Backlog._note

    def noted(self, connection, chance, before, note_):
        found.append((chance.key[2], note_[0]))
        note(self, connection, chance, before, note_)

    monkeypatch.setattr(Backlog, "_note", noted)
    return found


async def fill(client: Client, queues: int = 1, count: int = COUNT) -> None:
    """Messages of different sizes, each with the number that it has in its queue."""
    for first in range(0, count, 100):
        numbers = range(first, min(first + 100, count))
        sent = [client.send(TOPIC, b"%d" % n * (n % 50 + 1), queue) for n in numbers for queue in range(queues)]
        await asyncio.gather(*sent)


def body(number: int) -> bytes:
    return b"%d" % number * (number % 50 + 1)


async def subscribed(client: Client, client_id: str = "a@1", **more: object) -> Client:
    await client.heartbeat(GROUP, client_id, VERSION, {TOPIC: "*"}, **more)
    return client


async def read(client: Client, queue: int, offset: int, pulls: int, **ext: object) -> int:
    """Pull after pull, with the commits of a push consumer; the offset behind."""
    for _ in range(pulls):
        answer = await client.pull(GROUP, TOPIC, queue, offset, VERSION, **{**COMMITS, "commitOffset": offset, **ext})
        messages = messages_in(answer.body)
        assert [message.body for message in messages] == [body(offset + n) for n in range(len(messages))]
        offset = int(answer.ext["nextBeginOffset"])
    return offset


def threads() -> list[str]:
    return [name.read_text().strip() for name in Path("/proc/self/task").glob("*/comm")]


@pytest.fixture
def line(penstock):
    """The connection of the only member."""

    def found():
        (one,) = penstock.server.broker.groups.find(GROUP).members
        return one

    return found


@pytest.fixture
async def lent(client, line):
    """A consumer that is lent, and where it is."""
    await fill(client)
    await subscribed(client)
    offset = await read(client, 0, 0, READS_MIN + 1, maxMsgNums=4)
    assert line()._lent is not None
    return client, offset


async def test_a_backlog_comes_whole_and_in_order_most_of_it_from_the_thread(client, loans, penstock):
    await fill(client, queues=3)
    await subscribed(client)

    async def consume(queue):
        offset = 0
        while offset < COUNT:
            offset = await read(client, queue, offset, 1, maxMsgNums=16)

    await asyncio.gather(*(consume(queue) for queue in range(3)))
    penstock.server.broker.loans.take_back()
    assert {queue for queue, _ in loans} == {0, 1, 2}
    assert sum(pulls for _, pulls in loans) > 3 * COUNT / 16 / 2


async def test_what_was_handed_out_is_noted_as_ever(lent, loans, penstock):
    client, offset = lent
    reached = await read(client, 0, offset, 5, maxMsgNums=7)
    broker = penstock.server.broker
    assert loans == []
    broker.loans.take_back()
    assert loans == [(0, 5)]
    assert broker.offsets.find(GROUP, TOPIC, 0) == reached - 7
    assert broker.readers.of(GROUP, TOPIC, 0).asked == reached - 7
    assert broker.traffic.delivered == reached


async def test_it_is_lent_again_with_the_next_read(lent, line, penstock):
    client, offset = lent
    offset = await read(client, 0, offset, 10, maxMsgNums=4)
    penstock.server.broker.loans.take_back()
    assert line()._lent is None
    await read(client, 0, offset, 1, maxMsgNums=4)
    assert line()._lent is not None


@pytest.mark.parametrize("wait_ms", [0, 1])
async def test_only_what_is_smooth_is_lent(client, line, loans, wait_ms):
    await fill(client, count=600)
    await subscribed(client)
    offset = 0
    for _ in range(READS_MIN + 2):
        offset = await read(client, 0, offset, READS_MIN // 2, maxMsgNums=4)
        await client.pull(GROUP, TOPIC, 0, 600, VERSION, wait_ms)  # it is at the end
    assert (line()._lent, line().pace.needed, loans) == (None, READS_MIN, [])


async def test_who_is_nearly_there_is_not_lent(client, line):
    await fill(client, count=200)
    await subscribed(client)
    await read(client, 0, 0, 3 * READS_MIN, maxMsgNums=4)
    assert line()._lent is None


async def test_whom_it_is_not_worth_it_is_lent_less_often(lent, line, penstock):
    for _ in range(20):
        penstock.server.broker.loans.take_back()
        line().pace.reads = line().pace.needed
        await read(lent[0], 0, lent[1], 1, maxMsgNums=4)
    assert line().pace.needed == module.READS_MAX
    line().pace.reads = line().pace.needed
    await read(lent[0], 0, lent[1], 1 + module.MANY_PULLS, maxMsgNums=4)
    penstock.server.broker.loans.take_back()
    assert line().pace.needed == READS_MIN


async def test_the_next_loan_begins_where_the_last_one_ended(lent, line, penstock):
    """It holds what comes next, not what has been read."""
    client, offset = lent
    reached = await read(client, 0, offset, 12, maxMsgNums=100)
    penstock.server.broker.loans.take_back()
    ahead, _ = line().seats[GROUP, TOPIC, 0].reading.ahead(64, 32)
    assert ahead.first_row == reached // ahead.piece_rows * ahead.piece_rows > 0


# --- the same answers ---------------------------------------------------------------------------------------------


class Wire:
    """A connection that hands out answers as they come, byte by byte."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self.writer, self._buffer = reader, writer, b""

    @classmethod
    async def joined(cls, penstock) -> "Wire":
        host, port = penstock.addresses["broker"].split(":")
        wire = cls(*await asyncio.open_connection(host, int(port), limit=1_000))
        wire.writer.write(pack(RequestCode.HEART_BEAT, 0, 0, 409, JSON, "", {}, HEARTBEAT))
        await wire.next()
        return wire

    async def next(self) -> tuple[int, bytes]:
        """The next answer: its opaque, and all of it."""
        while True:
            while len(self._buffer) < 4 or len(self._buffer) < 4 + int.from_bytes(self._buffer[:4], "big"):
                more = await asyncio.wait_for(self._reader.read(1 << 20), 10)
                assert more
                self._buffer += more
            end = 4 + int.from_bytes(self._buffer[:4], "big")
            whole, self._buffer = self._buffer[:end], self._buffer[end:]
            (frame,), _ = frames_in(memoryview(whole), end)
            if frame.is_response:
                return frame.opaque, whole

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


async def answers(penstock, reads: list[list[bytes]], never: bool) -> dict[int, bytes]:
    """What a connection of its own gets, by opaque; with `never` it is not lent."""
    wire = await Wire.joined(penstock)
    (line,) = penstock.server.broker.groups.find(GROUP).members
    line.pace.needed = 10**9 if never else READS_MIN
    found: dict[int, bytes] = {}
    for pulls in reads:
        wire.writer.write(b"".join(pulls))
        found.update([await wire.next() for _ in pulls])
    await wire.close()
    return found


def pull(opaque: int, queue: int, offset: int, messages: int, **odd: object) -> bytes:
    fields = {
        "consumerGroup": GROUP, "topic": TOPIC, "queueId": queue, "queueOffset": offset, "maxMsgNums": messages,
        "sysFlag": 1, "commitOffset": offset, "suspendTimeoutMillis": 0, "subVersion": VERSION, **odd,
    }  # fmt: skip
    return pack(11, opaque, 0, 409, JSON, "", {key: str(value) for key, value in fields.items()}, b"")


def asked(rng: random.Random, opaque: int, offsets: dict[int, int]) -> bytes:
    """A pull, most of them ordinary and for what comes next."""
    queue, messages = rng.randrange(3), rng.choice([1, 2, 5, 32])
    offset = offsets[queue]
    offsets[queue] += messages
    odd: dict[int, dict[str, object]] = {
        1: {"queueOffset": rng.randrange(-5, COUNT + 50)},
        2: {"subVersion": VERSION + rng.randrange(2)},
        3: {"queueId": rng.randrange(-1, 6)},
        4: {"maxMsgNums": rng.choice([-1, 0, 10**6])},
        5: {"maxMsgBytes": rng.choice([-1, 0, 300_000, 2**40])},
        6: {"topic": "nowhere"},
        7: {"sysFlag": rng.choice([0, 2, 3, 5])},
    }
    return pull(opaque, queue, offset, messages, **odd.get(rng.randrange(60), {}))


@pytest.mark.parametrize("seed", range(4))
async def test_every_answer_is_the_one_that_others_get(client, loans, penstock, seed):
    await fill(client, queues=3)
    rng, opaque, offsets = random.Random(seed), 0, dict.fromkeys(range(3), 0)
    reads = []
    for _ in range(120):
        reads.append([asked(rng, opaque + n, offsets) for n in range(1, rng.randrange(2, 6))])
        opaque += len(reads[-1])
    mine = await answers(penstock, reads, never=False)
    assert sum(pulls for _, pulls in loans) > 20
    del loans[:]
    assert mine == await answers(penstock, reads, never=True)
    assert loans == []


# --- what the thread leaves to others -------------------------------------------------------------------------------


async def test_other_requests_are_answered_and_those_in_front_of_them_too(lent, line):
    client, offset = lent
    first = client.pull(GROUP, TOPIC, 0, offset, VERSION, maxMsgNums=4)
    ids = client.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": GROUP})
    assert len(messages_in((await first).body)) == 4
    assert b"a@1" in bytes((await ids).body)
    assert line()._lent is None


async def test_half_a_frame_waits_for_the_other_half(lent):
    client, offset = lent
    whole = asyncio.ensure_future(client.pull(GROUP, TOPIC, 0, offset, VERSION, maxMsgNums=4))
    frame = pull(77_000, 0, 0, 1)
    client.write(frame[:50])
    assert len(messages_in((await whole).body)) == 4
    client.write(frame[50:])
    while (await asyncio.wait_for(client.pushed.get(), 10)).opaque != 77_000:
        pass


async def test_at_the_end_it_waits_for_what_comes(lent, connect):
    client, _ = lent
    waiting = client.pull(GROUP, TOPIC, 0, COUNT, VERSION, wait_ms=20_000)
    await (await connect()).send(TOPIC, b"next")
    assert [message.body for message in messages_in((await waiting).body)] == [b"next"]


async def test_an_offset_that_is_not_there_is_corrected(lent):
    answer = await lent[0].pull(GROUP, TOPIC, 0, COUNT + 9, VERSION)
    assert (answer.code, answer.ext["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, str(COUNT))


async def test_what_is_no_frame_closes_the_connection(lent, penstock):
    lent[0].write(b"\xff" * 64)
    await asyncio.wait_for(lent[0].closed.wait(), 10)
    broker = penstock.server.broker
    assert not broker.groups.find(GROUP) or not broker.groups.find(GROUP).members


async def test_a_client_that_leaves_is_gone_and_what_it_got_is_noted(lent, loans, penstock):
    client, offset = lent
    await read(client, 0, offset, 3, maxMsgNums=4)
    await client.close()
    async with asyncio.timeout(10):
        while not loans:
            await asyncio.sleep(0.001)
    assert loans == [(0, 3)]
    assert penstock.server.broker.offsets.find(GROUP, TOPIC, 0) == offset + 8


async def test_a_client_that_takes_nothing_gets_all_of_it_later_in_order(penstock, client, loans):
    """More than the sockets hold: the thread comes to the end of what it can send in the middle of an answer."""
    for _ in range(30):
        await asyncio.gather(*(client.send(TOPIC, b"x" * 1_000) for _ in range(100)))
    wire = await Wire.joined(penstock)
    opaques, late = range(1, READS_MIN + 3), range(1_000, 1_200)
    for opaque in opaques:
        wire.writer.write(pull(opaque, 0, 0, 100))
        assert (await wire.next())[0] == opaque
    for opaque in late:  # 20 MB
        wire.writer.write(pull(opaque, 0, 0, 100))
    async with asyncio.timeout(10):
        while not loans:  # it is back, with what could not be sent
            await asyncio.sleep(0.001)
    got = [await wire.next() for _ in late]
    assert [opaque for opaque, _ in got] == list(late)
    assert len({len(whole) for _, whole in got}) == 1
    await wire.close()


# --- what is taken back, and when -----------------------------------------------------------------------------------


async def test_whoever_asks_for_offsets_finds_what_was_just_committed(lent, connect):
    client, offset = lent
    reached = await read(client, 0, offset, 4, maxMsgNums=4)
    other = await connect()
    fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0}
    assert (await other.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields)).ext["offset"] == str(reached - 4)


async def test_the_figures_of_the_web_side_hold_it_too(lent, penstock):
    client, offset = lent
    reached = await read(client, 0, offset, 4, maxMsgNums=4)
    reader, writer = await asyncio.open_connection(*penstock.addresses["http"].split(":"))
    writer.write(b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    await reader.read()
    writer.close()
    assert penstock.server.broker.traffic.delivered == reached


async def test_a_reset_is_not_undone_by_what_a_lent_consumer_committed(lent, connect, penstock):
    client, offset = lent
    await read(client, 0, offset, 4, maxMsgNums=4)
    fields = {"topic": TOPIC, "group": GROUP, "timestamp": 0, "isForce": "true"}
    assert (await (await connect()).ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)).code == 0
    offsets = penstock.server.broker.offsets
    assert offsets.find(GROUP, TOPIC, 0) == 0
    answer = await client.pull(GROUP, TOPIC, 0, offset, VERSION)
    assert (answer.code, answer.ext["nextBeginOffset"]) == (ResponseCode.PULL_OFFSET_MOVED, "0")
    assert offsets.find(GROUP, TOPIC, 0) == 0


async def test_an_offset_that_somebody_else_set_meanwhile_stays(lent, penstock):
    client, offset = lent
    await read(client, 0, offset, 4, maxMsgNums=4)
    broker = penstock.server.broker
    broker.offsets.commit(GROUP, TOPIC, 0, 1)
    broker.loans.take_back()
    assert broker.offsets.find(GROUP, TOPIC, 0) == 1


async def test_a_deleted_topic_is_not_read_any_more(lent, connect):
    client, offset = lent
    assert (await (await connect()).ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})).code == 0
    assert (await client.pull(GROUP, TOPIC, 0, offset, VERSION)).code != ResponseCode.SUCCESS


async def test_what_the_broker_says_by_itself_comes_between_answers(lent, connect):
    client, offset = lent
    asking = asyncio.ensure_future(read(client, 0, offset, 50, maxMsgNums=4))
    await subscribed(await connect(), "b@2")
    for _ in range(2):  # it came itself, and the other one did
        pushed = await asyncio.wait_for(client.pushed.get(), 10)
        assert pushed.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED
    assert await asking == offset + 200


async def test_it_comes_back_before_memory_of_tables_is_used_again(lent, line, penstock):
    penstock.server.broker.store._files.reuse([])
    assert line()._lent is not None
    freed = penstock.server.broker.store._files.allocate()
    penstock.server.broker.store._files.reuse([freed])
    assert line()._lent is None


async def test_it_comes_back_before_anything_is_written_to_it(lent, line):
    line().notify_members_changed(GROUP)
    line().flush()
    assert line()._lent is None


async def test_it_comes_back_when_something_has_happened(lent, line, penstock):
    penstock.server.broker.bus.emit(TopicCreated(at_ms=0, topic="another", queues=1))
    assert line()._lent is None


async def test_it_comes_back_before_its_socket_is_closed(lent, line, loans, penstock):
    client, offset = lent
    reached = await read(client, 0, offset, 3, maxMsgNums=4)
    one, transport = line(), line()._transport
    one.abort()
    while not transport.is_closing() or one._lent is not None:
        assert one.descriptor >= 0
        await asyncio.sleep(0)
    assert loans == [(0, 3)]
    assert penstock.server.broker.offsets.find(GROUP, TOPIC, 0) == reached - 4


async def test_it_comes_back_every_so_often(lent, line, loans):
    client, offset = lent
    await read(client, 0, offset, 1, maxMsgNums=4)
    async with asyncio.timeout(10):
        while line()._lent is not None:
            await asyncio.sleep(0.001)
    assert loans == [(0, 1)]


async def test_a_server_that_stops_takes_it_back():
    async with serving() as running:
        client = await Client.to(running.addresses["broker"])
        await fill(client, count=600)
        await subscribed(client)
        offset = await read(client, 0, 0, READS_MIN + 1, maxMsgNums=4)
        await read(client, 0, offset, 3, maxMsgNums=4)
        assert "backlog" in threads()
    assert running.server.broker.offsets.find(GROUP, TOPIC, 0) == offset + 8
    await asyncio.wait_for(client.closed.wait(), 10)
    await client.close()
    assert "backlog" not in threads()


async def test_where_there_is_no_thread_all_goes_as_ever(client, line, monkeypatch):
    monkeypatch.setattr(module, "runner", module.runner_in_python)
    await fill(client)
    await subscribed(client)
    assert await read(client, 0, 0, 100, maxMsgNums=4) == 400
    assert line()._lent is None


async def test_a_system_that_is_short_of_threads_does_without(client, line, monkeypatch):
    def failing():
        raise OSError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(module, "runner", failing)
    await fill(client)
    await subscribed(client)
    assert await read(client, 0, 0, 100, maxMsgNums=4) == 400
    assert line()._lent is None


@pytest.mark.parametrize("error", [OSError(12, "no"), ValueError("no"), OverflowError("no"), MemoryError()])
async def test_what_cannot_be_lent_is_served_as_ever_and_tried_less_and_less_often(client, line, monkeypatch, error):
    tries = []

    def failing(self):
        tries.append(self)
        raise error

    monkeypatch.setattr(Backlog, "_running", failing)
    await fill(client)
    await subscribed(client)
    assert await read(client, 0, 0, 100, maxMsgNums=4) == 400
    assert len(tries) == 3  # after 8 reads, 16 more, 32 more
    assert line()._lent is None


async def test_a_version_that_no_client_can_have_is_refused(client, penstock):
    """It would stand above all others for good."""
    answer = await client.heartbeat(GROUP, "a@1", 2**63, {TOPIC: "*"})
    assert (answer.code, "subVersion" in answer.remark) == (ResponseCode.SYSTEM_ERROR, True)
    assert penstock.server.broker.groups.find(GROUP) is None


async def test_when_all_places_are_taken_nobody_is_looked_at(client, monkeypatch):
    monkeypatch.setattr(module, "LOANS_MAX", 0)
    monkeypatch.setattr(Backlog, "lend", None)
    await fill(client)
    await subscribed(client)
    assert await read(client, 0, 0, 100, maxMsgNums=4) == 400


@pytest.fixture
async def two(connect, client, penstock):
    """Two that read one queue, of which the first is lent: the clients, their lines, where they are."""
    await fill(client)
    second = await connect()
    for one, client_id in ((client, "a@1"), (second, "b@1")):
        await subscribed(one, client_id)
        offset = await read(one, 0, 0, 2, maxMsgNums=4)
    lines = list(penstock.server.broker.groups.find(GROUP).members)
    lines[0].pace.needed = 1
    await read(client, 0, offset, 1, maxMsgNums=4)
    assert lines[0]._lent is not None
    return (client, second), lines, offset


@pytest.mark.parametrize("last", [0, 1])
async def test_of_two_that_read_one_queue_the_later_commit_counts(two, penstock, last):
    """As when a queue goes from one to the other; whoever of them was lent first."""
    clients, lines, offset = two
    lines[1].pace.needed = 1
    await read(clients[1 - last], 0, offset, 6, maxMsgNums=4)
    await read(clients[last], 0, offset, 30, maxMsgNums=4)
    assert len([line for line in lines if line._lent]) <= 1  # a queue is in one loan at most
    penstock.server.broker.loans.take_back()
    assert penstock.server.broker.offsets.find(GROUP, TOPIC, 0) == offset + 29 * 4


async def test_an_ordinary_pull_where_somebody_is_lent_takes_that_back_first(two, penstock):
    """What was committed before stays, and what is committed afterwards counts."""
    clients, lines, offset = two
    lines[1].pace.needed = 1 << 30
    behind = await read(clients[0], 0, offset, 20, maxMsgNums=4)
    await read(clients[1], 0, offset, 1, maxMsgNums=4)
    assert lines[0]._lent is None
    assert (GROUP, TOPIC, 0) not in lines[0].seats  # not lent for that again until it has read there
    assert penstock.server.broker.offsets.find(GROUP, TOPIC, 0) == offset
    await read(clients[0], 0, behind, 2, maxMsgNums=4)
    assert (GROUP, TOPIC, 0) in lines[0].seats
    assert penstock.server.broker.offsets.find(GROUP, TOPIC, 0) == behind + 4


async def test_one_that_could_not_be_noted_keeps_neither_the_others_nor_the_rounds_from_going_on(
    lent, line, penstock, monkeypatch
):
    client, offset = lent
    backlog = line()._lent[0]
    whole, failed = type(backlog)._note, asyncio.Event()

    def fails_once(self, *what) -> None:
        if not failed.is_set():
            failed.set()
            raise RuntimeError("a fault of ours")
        whole(self, *what)

    told = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["exception"]))
    monkeypatch.setattr(type(backlog), "_note", fails_once)
    offset = await read(client, 0, offset, 3, maxMsgNums=4)
    await asyncio.wait_for(failed.wait(), 5)
    line().pace.reads = line().pace.needed
    behind = await read(client, 0, offset, 3, maxMsgNums=4)
    async with asyncio.timeout(5):  # with a round, and nothing else
        while line()._lent or penstock.server.broker.offsets.find(GROUP, TOPIC, 0) != behind - 4:
            await asyncio.sleep(0.01)
    assert [str(error) for error in told] == ["a fault of ours"]


def test_the_blocks_of_a_loan_are_bounded_however_many_queues_it_has():
    for seats in range(1, module.SEATS_MAX + 1):
        assert module.blocks_of_each(seats) >= 4
        assert module.blocks_of_each(seats) * seats <= 2 * module.BLOCKS_MAX


def test_the_tables_of_a_loan_are_bounded_however_many_queues_it_has():
    for seats in range(1, module.SEATS_MAX + 1):
        assert 2 <= module.pieces_of_each(seats) <= module.SEAT_PIECES_MAX
        assert module.pieces_of_each(seats) * seats <= module.PIECES_MAX


# --- what the thread is given is looked at ----------------------------------------------------------------------------


def seat(**odd: object) -> tuple[object, ...]:
    fields = {
        "group": GROUP, "topic": TOPIC, "queue": 0, "version": 0, "min_row": 0, "min_offset": 0, "max_offset": 8,
        "first_row": 0, "end_row": 8, "piece_rows": 8, "pieces": [(bytes(8 * 48), 0)],
        "low": 100, "high": 164, "log": bytes(64), "base": 100,
    }  # fmt: skip
    return tuple({**fields, **odd}.values())


@pytest.mark.parametrize(
    "odd",
    [
        {"pieces": [(bytes(8 * 48 - 1), 0)]},
        {"pieces": [(bytes(8 * 48), 1)]},
        {"pieces": [(bytes(8 * 48), -48)]},
        {"pieces": []},
        {"end_row": 9},
        {"end_row": -1},
        {"piece_rows": 0},
        {"piece_rows": 2**62},
        {"first_row": -(2**63), "end_row": 2**63 - 1},
        {"low": 99},
        {"high": 165},
        {"low": 150, "high": 120},
        {"base": -1, "low": -1, "high": 10},
        {"group": "\u00e9"},
        {"pieces": [(bytes(8 * 48), 0)] * 65},
    ],
)
def test_a_seat_that_reaches_beyond_its_memory_is_refused(odd):
    thread = module.runner()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        assert thread.lend(ours.fileno(), 1_000, [seat()]) == 0
        with pytest.raises(ValueError, match=r"such|pieces|stretch|ASCII"):
            thread.lend(ours.fileno(), 1_000, [seat(), seat(**odd)])
        assert thread.take_back(0) == (b"", [(0, 0, 0, -1, 0, -1)])
    thread.stop()


def test_there_are_only_so_many_loans():
    thread = module.runner()
    pairs = [socket.socketpair() for _ in range(65)]
    assert [thread.lend(ours.fileno(), 1_000, [seat()]) for ours, _ in pairs] == [*range(64), -1]
    assert thread.take_back(7)[0] == b""
    assert thread.lend(pairs[64][0].fileno(), 1_000, [seat()]) == 7
    for wrong in (-1, 64):
        with pytest.raises(ValueError, match="no such loan"):
            thread.take_back(wrong)
    for number in range(64):
        thread.take_back(number)
    thread.stop()
    for pair in pairs:
        for end in pair:
            end.close()


def test_rows_that_lie_are_not_followed():
    """Rows may be damaged: what they say is checked against what was lent."""
    thread = module.runner()
    row = struct.Struct("<qqqqiiii")
    places = [(99, 8, 1), (160, 8, 1), (2**62, 8, 1), (-1, 8, 1)]
    for position, length, count in [*places, (120, -8, 1), (120, 2**31 - 1, 1), (120, 8, 0), (120, 8, -5)]:
        rows = row.pack(position, 0, 0, 0, length, count, 0, 0) + row.pack(120, 1, 0, 0, 8, 1, 0, 0) * 7
        ours, theirs = socket.socketpair()
        with ours, theirs:
            theirs.sendall(pull(1, 0, 0, 1))
            number = thread.lend(ours.fileno(), 10_000, [seat(pieces=[(rows, 0)], version=VERSION)])
            assert select.select([thread], [], [], 10)[0]
            assert thread.given_back() == [number]
            assert thread.take_back(number) == (b"", [(0, 0, 0, -1, 0, -1)])
            assert ours.recv(4_096) == pull(1, 0, 0, 1)  # it stays for others
    thread.stop()


def test_whenever_it_is_taken_back_every_pull_was_answered_or_is_there_to_be_served():
    """By whoever wants it while the thread is busy with it, over and over, with a client that asks for more than a
    visit hands out.
    """
    row, body_bytes, pulls = struct.Struct("<qqqqiiii"), 40_000, 600
    rows = b"".join(row.pack(100 + n * body_bytes, n, 0, 0, body_bytes, 1, 0, 0) for n in range(8))
    stretch = {"high": 100 + 8 * body_bytes, "log": bytes(8 * body_bytes)}
    one = seat(pieces=[(rows, 0)], version=VERSION, **stretch)
    thread = module.runner()
    ours, theirs = socket.socketpair()
    got = bytearray()
    reader = threading.Thread(target=lambda: [got.extend(more) for more in iter(lambda: theirs.recv(1 << 16), b"")])
    asking = threading.Thread(target=lambda: theirs.sendall(b"".join(pull(n, 0, n % 8, 1) for n in range(pulls))))
    with theirs:
        reader.start()
        asking.start()
        answered, busy = 0, 0
        for turn in range(1_000_000):
            number = thread.lend(ours.fileno(), 10_000, [one])
            select.select([thread], [], [], turn % 7 / 20_000)
            busy += not thread.given_back()
            unsent, ((count, *_),) = thread.take_back(number)
            ours.sendall(unsent)
            answered += count
            if answered == pulls:
                break
        ours.close()
        asking.join()
        reader.join()
    thread.stop()
    frames, end = frames_in(memoryview(bytes(got)), len(got))
    assert ([frame.opaque for frame in frames], end) == (list(range(pulls)), len(got))
    assert {len(frame.body) for frame in frames} == {body_bytes}
    assert busy


def test_more_pulls_than_it_looks_at_at_once_do_not_end_it():
    """The last of them is cut in the middle, and whole with the next look."""
    row, pulls = struct.Struct("<qqqqiiii"), 600
    rows = b"".join(row.pack(100 + n * 8, n, 0, 0, 8, 1, 0, 0) for n in range(8))
    asked = b"".join(pull(n, 0, n % 8, 1) for n in range(pulls))
    assert len(asked) > 128 * 1024
    thread = module.runner()
    ours, theirs = socket.socketpair()
    with ours, theirs:
        for end in (ours, theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
        theirs.sendall(asked)
        number = thread.lend(ours.fileno(), 10_000, [seat(pieces=[(rows, 0)], version=VERSION)])
        got, answers = b"", 0
        while answers < pulls:
            got += theirs.recv(1 << 20)
            answers = len(frames_in(memoryview(got), len(got))[0])
        assert thread.given_back() == []
        assert thread.take_back(number)[1][0][0] == pulls
    thread.stop()
