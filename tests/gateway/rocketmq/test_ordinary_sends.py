"""Sends that are taken all at once: what is stored and answered is what it would be one by one."""

import asyncio

import msgspec
import pytest
from tests.gateway.rocketmq.conftest import Client
from tests.gateway.rocketmq.test_produce import in_batch

from penstock.errors import StoreReadOnly
from penstock.gateway.rocketmq.ordinary_sends import OrdinarySends
from penstock.testing.server import serving
from penstock.wire.rocketmq.codes import Flag, RequestCode, ResponseCode

EXT = {
    "a": "producers",
    "b": "orders",
    "c": "TBW102",
    "d": 4,
    "f": 0,
    "g": 7,
    "h": 0,
    "j": 0,
    "k": "false",
    "m": "false",
}
NO_MEANING = 4
SENDS = [
    {"e": number % 3, "f": number % 2, "h": -number, "i": f"TAGS\x01t{number}\x02KEYS\x01k\x02"[: 4 * number]}
    for number in range(9)
]


@pytest.fixture
def taken(monkeypatch):
    """How many bytes of each read were taken at once."""
    counts = []
    take = OrdinarySends.take

    def counted(self, *given):
        counts.append(take(self, *given))
        return counts[-1]

    monkeypatch.setattr(OrdinarySends, "take", counted)
    return counts


async def sent(client, one_by_one):
    """The answers to some sends; a flag that means nothing makes each of them odd."""
    flag = NO_MEANING if one_by_one else 0
    asked = [
        client.ask(RequestCode.SEND_MESSAGE_V2, {**EXT, **own}, b"body %d" % number, flag=flag)
        for number, own in enumerate(SENDS)
    ]
    batch = b"".join(in_batch(b"part %d" % number, f"TAGS\x01t{number}") for number in range(5))
    shared = {"e": 1, "m": "true", "i": "UNIQ_KEY\x01id\x02WAIT\x01true\x02empty\x01\x02"}
    asked.append(client.ask(RequestCode.SEND_BATCH_MESSAGE, {**EXT, **shared}, batch, flag=flag))
    return await asyncio.gather(*asked)


async def test_what_is_stored_and_answered_is_the_same_as_one_by_one(taken, penstock, connect):
    client = await connect()
    await client.send("orders", b"makes the topic")
    results = []
    for one_by_one in (True, False):
        before = {queue: len(await client.messages("orders", queue)) for queue in range(3)}
        taken.clear()
        answers = await sent(client, one_by_one)
        assert any(taken) is not one_by_one
        places = [int(answer.ext.pop("queueOffset")) - before[int(answer.ext["queueId"])] for answer in answers]
        stored = [
            message for queue in range(3) for message in (await client.messages("orders", queue))[before[queue] :]
        ]
        ids = [f"{message.store_host.hex()}{message.physical_offset:016x}".upper() for message in stored]
        assert sorted(one for answer in answers for one in answer.ext.pop("msgId").split(",")) == sorted(ids)
        told = [(answer.code, answer.flag, answer.version, answer.remark, answer.ext) for answer in answers]
        plain = [msgspec.structs.replace(message, offset=0, physical_offset=0, store_ms=0) for message in stored]
        results.append((places, told, plain))
    assert results[0] == results[1]


async def test_sends_that_want_no_answer_are_counted_too(penstock, client):
    await client.send("orders", b"makes the topic")
    client.ask(RequestCode.SEND_MESSAGE_V2, {**EXT, "e": 0}, b"quiet", flag=Flag.ONEWAY)
    await client.send("orders", b"and one more")
    assert [message.body for message in await client.messages("orders")][1:] == [b"quiet", b"and one more"]
    assert penstock.server.broker.traffic.published == 3


async def test_one_that_is_refused_does_not_take_its_neighbours_along(client):
    await client.send("orders", b"makes the topic")
    fine, wrong, too = await asyncio.gather(
        *(client.ask(RequestCode.SEND_MESSAGE_V2, {**EXT, "e": queue}, b"x") for queue in (0, 99, 1))
    )
    assert (fine.code, too.code) == (0, 0)
    assert (wrong.code, "not 99" in wrong.remark) == (ResponseCode.SYSTEM_ERROR, True)


async def test_a_batch_that_cannot_be_read_is_refused(client):
    await client.send("orders", b"makes the topic")
    ext = {**EXT, "e": 0, "m": "true"}
    for body, why in ((b"", "empty"), (in_batch(b"x", "")[:-1], "does not fit")):
        refused = await client.ask(RequestCode.SEND_BATCH_MESSAGE, ext, body)
        assert (refused.code, why in refused.remark) == (ResponseCode.MESSAGE_ILLEGAL, True)


async def test_a_topic_that_has_ended_takes_nothing(penstock, client):
    await client.send("orders", b"makes the topic")
    broker = penstock.server.broker
    await broker.endings.end(broker.topics.get("orders").queues)
    refused = await client.send("orders", b"too late")
    assert refused.code == ResponseCode.NO_PERMISSION


async def test_who_waits_for_a_sync_that_fails_is_told(taken, penstock, client, monkeypatch):
    await client.send("orders", b"makes the topic")
    publisher = penstock.server.broker.publisher
    monkeypatch.setattr(
        publisher, "publish", lambda entries, then, bytes_max=0: then(StoreReadOnly("the disk is gone"))
    )
    refused = await client.send("orders", b"lost")
    assert taken[-1]
    assert refused.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert "the disk is gone" in refused.remark


async def test_one_that_is_too_large_does_not_take_its_neighbours_along():
    async with serving(broker={"message_bytes_max": 2_000}) as penstock:
        client = await Client.to(penstock.addresses["broker"])
        await client.send("orders", b"makes the topic")
        fine, large, too = await asyncio.gather(
            *(client.ask(RequestCode.SEND_MESSAGE_V2, {**EXT, "e": 0}, bytes(size)) for size in (2_000, 2_001, 2))
        )
        assert (fine.code, too.code) == (0, 0)
        assert (large.code, "2000" in large.remark) == (ResponseCode.MESSAGE_ILLEGAL, True)
        await client.close()
