"""Connections that are slow, silent, broken or many: they are bounded, and nobody else notices."""

import asyncio
import gc
import json
import os
import resource
import socket
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.gateway.rocketmq.conftest import Client

from penstock.core.topics import TopicSettings
from penstock.gateway.inbox import ASIDE_BYTES_MAX, SHARED_BYTES, Inbox, Reception
from penstock.gateway.rocketmq.connection import WAITING_BYTES_MAX
from penstock.testing.server import Running, serving
from penstock.wire.framing import FrameError
from penstock.wire.rocketmq.codes import PullFlag, RequestCode, ResponseCode
from penstock.wire.rocketmq.frame import FRAME_BYTES_MAX, frames_in, pack

MIB = 1 << 20
IDLE = 10_000
BYTES_PER_IDLE_CONNECTION_MAX = 8 * 1024


def request(opaque: int = 1, body: bytes = b"", topic: str = "orders") -> bytes:
    fields = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0", "i": ""}
    return pack(RequestCode.SEND_MESSAGE_V2, opaque, 0, 409, ext=fields, body=body)


async def works(client: Client) -> None:
    """Somebody else is served as ever."""
    sent = await client.send("others", b"x")
    (message,) = await client.messages("others", offset=int(sent.ext["queueOffset"]))
    assert (sent.code, message.body) == (0, b"x")


def memory_bytes() -> int:
    """What this process holds in memory now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


linux_only = pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is read from /proc")


# --- what cannot be read ----------------------------------------------------------------------------------------------

GARBAGE = {
    "text": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
    "tls": bytes.fromhex("16030100f8010000f40303") + bytes(100),
    "zeros": bytes(64),
    "ones": b"\xff" * 64,
    "a length above the limit": struct.pack(">II", FRAME_BYTES_MAX + 1, 10) + bytes(10),
    "a length that is negative": struct.pack(">iI", -1, 10) + bytes(10),
    "a header longer than its frame": struct.pack(">II", 20, 1_000) + bytes(16),
    "a header of an unknown kind": struct.pack(">II", 20, 7 << 24 | 16) + bytes(16),
    "a header that is no JSON": struct.pack(">II", 20, 16) + b"{" * 16,
    "a header that is JSON of something else": struct.pack(">II", 8, 4) + b"[1,2",
    "a header that is not UTF-8": struct.pack(">II", 64, 60)
    + b'{"code":310,"extFields":{"b":"\xff","i":"'.ljust(58, b"x")
    + b'"}',
    "a header that is nested deeply": struct.pack(">II", 40_004, 40_000) + b'{"code":1,"x":'.ljust(40_000, b"["),
    "a binary header cut off": struct.pack(">II", 14, 1 << 24 | 10) + bytes(10),
}


@pytest.mark.parametrize("data", GARBAGE.values(), ids=GARBAGE)
async def test_garbage_closes_its_own_connection_only(connect, data):
    bad, good = await connect(), await connect()
    bad.write(data)
    await bad.closed.wait()
    await works(good)


async def test_what_was_answered_before_the_garbage_is_there(connect):
    bad, good = await connect(), await connect()
    assert (await bad.send("orders", b"before")).code == 0
    bad.write(b"\xff" * 64)
    await bad.closed.wait()
    assert [message.body for message in await good.messages("orders")] == [b"before"]


@pytest.mark.parametrize(
    "fields",
    [{"h": 2**31}, {"f": -(2**31) - 1}, {"g": 2**63}, {"j": 2**31}, {"e": 2**62}, {"h": "x"}, {"g": ""}],
    ids=str,
)
async def test_a_number_that_does_not_fit_is_refused_and_its_neighbours_are_not(client, fields):
    await client.send("orders", b"first")
    sends = [client.send("orders", b"a"), client.send("orders", b"bad", **fields), client.send("orders", b"b")]
    answers = await asyncio.gather(*sends)  # in one read
    assert [answer.code for answer in answers] == [0, ResponseCode.SYSTEM_ERROR, 0]
    assert "broker failed" not in answers[1].remark
    assert [message.body for message in await client.messages("orders")] == [b"first", b"a", b"b"]


DEEP = b'{"clientID":"c","groupName":"g","x":' + b"[" * 100_000 + b"]" * 100_000 + b"}"


@pytest.mark.parametrize("code", [RequestCode.HEART_BEAT, RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP])
@pytest.mark.parametrize(
    "body", [b"", b"{", b'{"clientID":"\xff","groupName":"\xff"}', b"[" * 5_000, b"null"], ids=range(5)
)
async def test_a_body_that_cannot_be_read_is_said(client, code, body):
    answer = await client.ask(code, {}, body)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "cannot be read" in answer.remark


@pytest.mark.parametrize("flag", [0x10, 0x20, 0x30, -1, 2**31 - 1])
async def test_flags_that_lie_about_the_addresses_harm_nobody(client, flag):
    bodies = [b"before", b"lying", b"behind"]
    answers = [await client.send("orders", body, f=flag if body == b"lying" else 0) for body in bodies]
    found = [message.body for message in await client.messages("orders")]
    assert found == [body for body, answer in zip(bodies, answers, strict=True) if answer.code == 0]
    assert {b"before", b"behind"} <= set(found)


async def test_an_offset_that_does_not_fit_is_not_kept(client):
    asked = {"consumerGroup": "g", "topic": "orders", "queueId": 0, "commitOffset": 2**63}
    assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, asked)).code == ResponseCode.SYSTEM_ERROR


# --- what comes slowly ------------------------------------------------------------------------------------------------


async def test_a_request_that_comes_byte_by_byte_is_served(connect):
    slow, good = await connect(), await connect()
    for at, byte in enumerate(request(body=b"slowly")):
        slow.write(bytes((byte,)))
        await asyncio.sleep(0)
        if at % 64 == 0:
            await works(good)
    assert (await slow.pushed.get()).code == ResponseCode.SUCCESS
    assert [message.body for message in await good.messages("orders")] == [b"slowly"]


async def test_requests_of_others_do_not_get_into_a_half_one(connect):
    """All connections read into one buffer: each has to find its own bytes again."""
    clients = [await connect() for _ in range(8)]
    bodies = [bytes((65 + number,)) * (10 + 30_000 * number) for number in range(8)]  # some larger than is put aside
    frames = [request(body=body, topic=f"topic-{number}") for number, body in enumerate(bodies)]
    for part in range(4):
        for client, frame in zip(clients, frames, strict=True):
            client.write(frame[len(frame) * part // 4 : len(frame) * (part + 1) // 4])
            await asyncio.sleep(0.001)
    for number, client in enumerate(clients):
        assert (await client.pushed.get()).code == 0
        assert [message.body for message in await client.messages(f"topic-{number}")] == [bodies[number]]


async def test_a_half_request_and_then_nothing_holds_up_nobody(connect, penstock):
    half, good = await connect(), await connect()
    half.write(request(body=bytes(3 * MIB))[: 2 * MIB])
    await works(good)
    await half.close()
    await works(good)
    assert penstock.server.obstacle() == ""


@pytest.mark.parametrize("claimed", [FRAME_BYTES_MAX, 100_000])
def test_a_buffer_grows_with_what_has_come_and_not_with_what_is_claimed(claimed):
    reception = Reception(64 * MIB, "receive_bytes_max")
    inbox, came = Inbox(reception), 0
    data = struct.pack(">II", claimed, 50) + bytes(claimed - 4)
    while came < len(data) - 1:
        buffer = inbox.buffer()
        part = data[came : min(came + len(buffer), came + 30_000, len(data) - 1)]
        buffer[: len(part)] = part
        view, end = inbox.filled(len(part))
        inbox.keep(view, 0, end)
        came += len(part)
        assert reception.held_bytes <= max(2 * came, 0)
        assert came > ASIDE_BYTES_MAX or reception.held_bytes == 0
    inbox.let_go()
    assert reception.held_bytes == 0


def test_all_of_them_together_have_a_bound():
    reception = Reception(10 * MIB, "receive_bytes_max")
    inboxes = [Inbox(reception) for _ in range(200)]
    with pytest.raises(FrameError, match="receive_bytes_max"):
        begin_large_frames(inboxes)
    assert 9 * MIB < reception.held_bytes <= 10 * MIB
    for inbox in inboxes:
        inbox.let_go()
    assert reception.held_bytes == 0


def begin_large_frames(inboxes: list[Inbox]) -> None:
    part = struct.pack(">II", FRAME_BYTES_MAX, 50) + bytes(SHARED_BYTES - 8)
    for inbox in inboxes:
        inbox.buffer()[:] = part
        view, end = inbox.filled(len(part))
        inbox.keep(view, 0, end)


@pytest.mark.parametrize("step", [1, 7, 4_096, ASIDE_BYTES_MAX, SHARED_BYTES])
def test_however_frames_are_cut_they_come_whole(step):
    bodies = [bytes((65 + number,)) * size for number, size in enumerate((0, 10, 70_000, 5, 300_000, 64, 64))]
    if step == 1:
        bodies = [body[:300] for body in bodies]
    data = b"".join(request(number, body) for number, body in enumerate(bodies))
    inbox, found, at = Inbox(Reception(MIB, "receive_bytes_max")), [], 0
    while at < len(data):
        buffer = inbox.buffer()
        part = data[at : at + min(step, len(buffer))]
        buffer[: len(part)] = part
        view, end = inbox.filled(len(part))
        frames, used = frames_in(view, end)
        found += [(frame.opaque, bytes(frame.body)) for frame in frames]
        inbox.keep(view, used, end)
        at += len(part)
    assert found == list(enumerate(bodies))


async def test_a_silent_connection_is_closed_and_one_that_speaks_is_not():
    async with serving(rocketmq={"idle_timeout_ms": 300}) as penstock:
        silent, lively = [await Client.to(penstock.addresses["broker"]) for _ in range(2)]
        while not silent.closed.is_set():
            await works(lively)
            await asyncio.sleep(0.02)
        await works(lively)
        for client in (silent, lively):
            await client.close()


# --- who takes no answers ---------------------------------------------------------------------------------------------


async def filled(penstock: Running, messages: int, message_bytes: int) -> Client:
    client = await Client.to(penstock.addresses["broker"])
    body = bytes(message_bytes)
    for answer in [await send for send in [client.send("large", body) for _ in range(messages)]]:
        assert answer.code == 0
    return client


def pulls(count: int) -> bytes:
    ext = {"consumerGroup": "g", "topic": "large", "queueId": "0", "queueOffset": "0", "maxMsgNums": "1000"}
    ext |= {"sysFlag": str(PullFlag.SUBSCRIPTION), "subscription": "*", "maxMsgBytes": str(4 * MIB)}
    ext |= {"commitOffset": "0", "suspendTimeoutMillis": "0", "subVersion": "0"}
    return b"".join(pack(RequestCode.PULL_MESSAGE, opaque, 0, 409, ext=ext) for opaque in range(count))


def deaf(address: str) -> socket.socket:
    """A connection that never reads."""
    host, port = address.split(":")
    line = socket.socket()
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
    line.connect((host, int(port)))
    line.setblocking(False)
    return line


@linux_only
async def test_who_takes_no_answers_gets_no_more(penstock):
    """A thousand pulls of four megabytes each, none of them taken."""
    good = await filled(penstock, 8, MIB // 2)
    gc.collect()
    before = memory_bytes()
    with deaf(penstock.addresses["broker"]) as line:
        await asyncio.get_running_loop().sock_sendall(line, pulls(1_000))
        for _ in range(20):
            await works(good)
        assert memory_bytes() - before < 2 * WAITING_BYTES_MAX
    await works(good)
    await good.close()


async def test_pulls_beyond_what_is_taken_are_put_off(penstock):
    """With the code after which clients ask again soon; what they do take is right."""
    client = await filled(penstock, 8, MIB // 2)
    answers = asyncio.Queue()
    client.pushed = answers
    client.write(pulls(100))
    codes = [(await answers.get()).code for _ in range(100)]
    assert set(codes) == {ResponseCode.SUCCESS, ResponseCode.FLOW_CONTROL}
    assert len(await client.messages("large")) == 8
    await client.close()


@linux_only
async def test_whoever_asks_on_and_on_and_takes_nothing_is_closed():
    """A list of many topics, ten thousand times."""
    async with serving() as penstock:
        topics = penstock.server.broker.topics
        good = await Client.to(penstock.addresses["broker"])
        for number in range(2_000):
            topics.create_now(f"topic-{number:0200}", TopicSettings(write_queues=1))
        before = memory_bytes()
        with deaf(penstock.addresses["broker"]) as line, pytest.raises(ConnectionError):
            await ask_on(line)
        await works(good)
        assert memory_bytes() - before < 3 * WAITING_BYTES_MAX
        await good.close()


async def ask_on(line: socket.socket) -> None:
    asked = b"".join(pack(RequestCode.GET_ALL_TOPIC_CONFIG, opaque, 0, 409) for opaque in range(2_000))
    while True:
        await asyncio.get_running_loop().sock_sendall(line, asked)


# --- very many --------------------------------------------------------------------------------------------------------


IDLERS = """
import json, socket, sys
host, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
beat = bytes.fromhex(sys.argv[4])
lines = []
for number in range(count):
    lines.append(socket.create_connection((host, port)))
    if number % 2:
        lines[-1].sendall(beat)
for line in lines[1::2]:
    assert line.recv(1000)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def files() -> Iterator[None]:
    """Room for so many files; a child gets it too."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    need = IDLE + 1_000
    if hard != resource.RLIM_INFINITY and hard < need:
        pytest.skip(f"this machine allows {hard} open files, {need} are needed")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, need), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@linux_only
async def test_ten_thousand_idle_connections(files, penstock):
    """Half of them have said who they are; everybody else is served as if there were none."""
    good = await Client.to(penstock.addresses["broker"])
    await works(good)
    gc.collect()
    before, guests = memory_bytes(), penstock.server.rocketmq.guests
    body = json.dumps({"clientID": "c@1", "producerDataSet": [{"groupName": "idlers"}]}).encode()
    beat = pack(RequestCode.HEART_BEAT, 1, 0, 409, body=body).hex()
    where = penstock.addresses["broker"].split(":")
    pipes = {"stdin": asyncio.subprocess.PIPE, "stdout": asyncio.subprocess.PIPE}
    command = (sys.executable, "-c", IDLERS, *where, str(IDLE), beat)
    idlers = await asyncio.create_subprocess_exec(*command, **pipes)
    try:
        while len(guests) < IDLE // 2:
            await works(good)  # while they come
        assert await idlers.stdout.readline() == b"ready\n"
        assert len(guests) == IDLE + 1
        await works(good)
        assert (memory_bytes() - before) / IDLE < BYTES_PER_IDLE_CONNECTION_MAX
    finally:
        idlers.stdin.close()
        await idlers.wait()
    while len(guests) > 1:
        await works(good)  # while they go
    await good.close()
