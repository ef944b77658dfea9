"""Random histories: both write, in batches and alone, and both read all of it in one order, from any offset."""

import random

import pytest
from tests.gateway.cross.conftest import Both
from tests.gateway.pulsar.conftest import metadata, one
from tests.gateway.rocketmq.test_produce import in_batch

from penstock.wire.pulsar.batch import Message, batch_of, opened_entry
from penstock.wire.pulsar.commands_pb2 import LZ4, NONE, ZLIB, ZSTD
from penstock.wire.rocketmq.codes import PullFlag, RequestCode
from penstock.wire.rocketmq.record import messages_in

TURNS = 40
BATCH = {"a": "p", "b": "orders", "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 1, "h": 0, "m": "true"}


async def write(both: Both, choose: random.Random) -> list[bytes]:
    """Something by somebody, in turns; what is in the queue then, message by message."""
    written: list[bytes] = []
    await both.pulsar.producer("orders")
    for sequence in range(TURNS):
        bodies = [b"%d-%d" % (sequence, number) for number in range(choose.choice([1, 1, 2, 7, 60]))]
        match choose.choice(["pulsar", "pulsar alone", "rocketmq", "rocketmq alone"]):
            case "pulsar":
                batch = [Message(body=body, key="k") for body in bodies]
                payload = batch_of(metadata(sequence), batch, choose.choice([NONE, LZ4, ZLIB, ZSTD]))
                await both.pulsar.send(payload, sequence, num_messages=len(bodies))
            case "pulsar alone":
                bodies = bodies[:1]
                await both.pulsar.send(one(bodies[0], sequence), sequence)
            case "rocketmq":
                await both.rocketmq.ask(
                    RequestCode.SEND_BATCH_MESSAGE, BATCH, b"".join(in_batch(b, "") for b in bodies)
                )
            case _:
                bodies = bodies[:1]
                await both.rocketmq.send("orders", bodies[0])
        written += bodies
    return written


async def pulled(both: Both, choose: random.Random, first: int, end: int) -> list[bytes]:
    got: list[bytes] = []
    while first < end:
        ext = {"sysFlag": PullFlag.SUBSCRIPTION, "subscription": "*", "maxMsgNums": choose.choice([1, 3, 32, 500])}
        answer = await both.rocketmq.pull("g", "orders", 0, first, **ext)
        found = messages_in(answer.body)
        assert [message.offset for message in found] == list(range(first, int(answer.ext["nextBeginOffset"])))
        got += [message.body for message in found]
        first += len(found)
    return got


@pytest.mark.parametrize("seed", range(5))
async def test_both_read_what_both_wrote(both, seed):
    choose = random.Random(seed)
    written = await write(both, choose)
    for first in (0, *(choose.randrange(len(written)) for _ in range(5))):
        assert await pulled(both, choose, first, len(written)) == written[first:]
    await both.pulsar.consumer("orders")
    got: list[bytes] = []
    while len(got) < len(written):
        both.pulsar.flow(choose.choice([1, 5, 100]))
        (entry,) = await both.pulsar.entries(1)
        got += [message.body for message in opened_entry(memoryview(both.pulsar.payloads[entry]), check=True).messages]
    assert got == written
