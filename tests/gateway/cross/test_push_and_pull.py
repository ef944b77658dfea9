"""One backlog, pushed by Pulsar's protocol and pulled by RocketMQ's, and a consumer that is slow: neither it nor the
broker holds more than was agreed on, and nothing is lost by it.
"""

import asyncio
import contextlib

from tests.gateway.cross.conftest import Both
from tests.gateway.pulsar.conftest import client_of, connections, one

from penstock.core.subscriptions import feeder
from penstock.gateway.rocketmq import consume
from penstock.server import GATEWAYS
from penstock.wire.rocketmq.codes import PullFlag, ResponseCode
from penstock.wire.rocketmq.record import messages_in

KIB, MIB = 1 << 10, 1 << 20
BODY_BYTES, COUNT = 100_000, 240  # more than the system takes into its own buffers, and a broker may hold besides
ALL = {"sysFlag": PullFlag.SUBSCRIPTION, "subscription": "*", "maxMsgNums": 1_000}


async def backlog(both: Both) -> None:
    await both.pulsar.producer("orders")
    for number in range(COUNT):
        both.pulsar.send_later(one(number.to_bytes(4) * (BODY_BYTES // 4), number), number)
    for _ in range(COUNT):
        await both.pulsar.next("send_receipt")


@contextlib.asynccontextmanager
async def not_reading(client, held):
    """What comes is left in the socket meanwhile. Gives a list: the most that `held` has said since."""
    most = [held()]

    async def look() -> None:
        while True:
            most.append(max(held(), most.pop()))
            await asyncio.sleep(0)

    transport, looking = client._writer.transport, asyncio.ensure_future(look())
    transport.pause_reading()
    try:
        yield most
    finally:
        transport.resume_reading()
        looking.cancel()


async def turns(both: Both) -> None:
    """The broker has time for whatever it would do."""
    for _ in range(100):
        await both.pulsar.lookup("orders")


async def test_s46_push_is_bounded_by_permits(both):
    await backlog(both)
    async with client_of(both.penstock) as slow:
        await slow.consumer("orders")
        slow.flow(10)
        assert await slow.entries(10) == list(range(10))
        await slow.settled()
        assert slow.none_of("message")


async def test_s46_pull_is_bounded_by_its_bytes(both):
    await backlog(both)
    for asked, most in ((0, 256 * KIB), (MIB, MIB)):
        answer = await both.rocketmq.pull("g", "orders", 0, 0, **ALL, maxMsgBytes=asked)
        assert most - 2 * BODY_BYTES < len(answer.body) <= most


async def test_s46_a_broker_pushes_no_more_than_is_taken(both, monkeypatch):
    monkeypatch.setattr(feeder, "READ_BYTES_MAX", 256 * KIB)
    await backlog(both)
    before = connections(both.penstock)
    async with client_of(both.penstock) as slow:
        (line,) = connections(both.penstock) - before
        await slow.consumer("orders")

        def held() -> int:
            return line._out_bytes + line._transport.get_write_buffer_size()

        async with not_reading(slow, held) as most:
            slow.flow(COUNT)  # its permits do not stop it
            while not line.write_blocked:
                await asyncio.sleep(0)
            await turns(both)
        assert 0 < most[0] < feeder.TURNS_MAX * feeder.READ_BYTES_MAX + 2 * BODY_BYTES
        assert await slow.entries(COUNT) == list(range(COUNT))


async def test_s46_a_broker_answers_no_more_pulls_than_are_taken(both, monkeypatch):
    monkeypatch.setattr(consume, "WAITING_BYTES", MIB)
    await backlog(both)
    (line,) = both.penstock.server._listening[list(GATEWAYS).index("broker")].guests._present
    async with not_reading(both.rocketmq, lambda: line.waiting_bytes) as most:
        asked = [both.rocketmq.pull("g", "orders", 0, 0, **ALL, maxMsgBytes=MIB) for _ in range(200)]
        await turns(both)
    answers = await asyncio.gather(*asked)
    assert 0 < most[0] <= 3 * MIB  # the limit, and the pull that reaches beyond it
    assert {answer.code for answer in answers} == {ResponseCode.SUCCESS, ResponseCode.FLOW_CONTROL}
    brought = [messages_in(answer.body) for answer in answers if answer.code == ResponseCode.SUCCESS]
    assert all(messages and messages[0].offset == 0 for messages in brought)
