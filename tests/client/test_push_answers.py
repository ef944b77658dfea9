"""What operators ask of a consumer through its broker: where it is, how it is, and to consume one message now."""

import asyncio
import json

import msgspec
import pytest
from tests.client.pushing import Inbox, consumer, send, until

from penstock.client.consumer import Later
from penstock.client.errors import Refused
from penstock.client.message import Message
from penstock.wire.rocketmq import fastjson
from penstock.wire.rocketmq.codes import RequestCode


async def ask(producer, code, **ext):
    cluster = producer.instance.cluster
    address = cluster.address(next(iter(cluster.brokers())))
    return await cluster.get(address, code, {name: str(value) for name, value in ext.items()})


async def test_where_it_is(penstock, producer):
    inbox = Inbox()
    await send(producer, 8)
    async with consumer(penstock, "billing", inbox) as one:
        await inbox.until(8)
        answer = await ask(producer, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, topic="orders", group="billing")
        [(client_id, table)] = fastjson.table(fastjson.loads(answer.body), "consumerTable").items()
    assert client_id == one.instance.client_id
    found = {json.loads(queue)["queueId"]: offset for queue, offset in table.items()}
    assert found == {0: 2, 1: 2, 2: 2, 3: 2}


async def test_how_it_is(penstock, producer):
    inbox = Inbox()
    await send(producer, 8)
    async with consumer(penstock, "billing", inbox, topics={"orders": "a || *"}) as one:
        asked = {"consumerGroup": "billing", "clientId": one.instance.client_id, "jstackEnable": "false"}
        answer = await ask(producer, RequestCode.GET_CONSUMER_RUNNING_INFO, **asked)
        found = fastjson.loads(answer.body)
        queues = sorted(str(queue) for queue in one.owned)
    properties = found["properties"]
    assert (properties["PROP_ALLOCATE_STRATEGY"], properties["PROP_CONSUME_TYPE"]) == ("AVG", "CONSUME_PASSIVELY")
    assert properties["PROP_OWNED_QUEUES"].split(", ") == queues
    assert int(properties["PROP_CONSUMER_START_TIMESTAMP"]) > 0
    assert len(found["mqTable"]) == len(queues)
    assert {wanted["topic"] for wanted in found["subscriptionSet"]} == {"orders", "%RETRY%billing"}


@pytest.mark.parametrize("orderly", [False, True])
async def test_how_it_has_fared(penstock, producer, orderly):
    """Of ten messages two fail the first time; each takes a while."""
    failed = set()

    def answer(message):
        if message.body in (b"3", b"4") and message.body not in failed:
            failed.add(message.body)
            return Later(delay_level=1, suspend_ms=1)
        return asyncio.sleep(0.02)

    inbox = Inbox(answer)
    await send(producer, 10)
    async with consumer(penstock, "billing", inbox, orderly=orderly) as one:
        await inbox.until(10)
        await until(lambda: one._holding.figures["orders"].done >= 8, "the work")
        asked = {"consumerGroup": "billing", "clientId": one.instance.client_id, "jstackEnable": "false"}
        answer = await ask(producer, RequestCode.GET_CONSUMER_RUNNING_INFO, **asked)
    statuses = fastjson.loads(answer.body)["statusTable"]
    found = statuses["orders"]
    assert set(statuses) == {"orders", "%RETRY%billing"}
    assert found["consumeFailedMsgs"] == 2
    assert found["pullTPS"] > 0
    assert found["consumeOKTPS"] > found["consumeFailedTPS"] > 0
    assert found["consumeRT"] > 0


@pytest.mark.parametrize(
    ("result", "told"),
    [(None, "CR_SUCCESS"), (Later(), "CR_LATER"), (RuntimeError("no"), "CR_THROW_EXCEPTION")],
    ids=["done", "later", "raises"],
)
async def test_one_message_now(penstock, producer, result, told):
    inbox = Inbox(lambda message: result if message.topic == "other" else None)
    sent = await producer.send(Message("other", b"this one"))
    await send(producer, 1)
    async with consumer(penstock, "billing", inbox) as one:
        await inbox.until(1)
        asked = {"consumerGroup": "billing", "clientId": one.instance.client_id, "msgId": sent.offset_id}
        answer = await ask(producer, RequestCode.CONSUME_MESSAGE_DIRECTLY, **asked)
    assert msgspec.json.decode(answer.body)["consumeResult"] == told
    assert inbox.bodies == [b"0", b"this one"]


async def test_what_is_for_another_group_is_not_answered_for_this_one(penstock, producer):
    await send(producer, 1)
    async with consumer(penstock, "billing", Inbox()):
        [line] = penstock.server.broker.groups.find("billing").members
        answer = await line.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, {"consumerGroup": "other"}, b"", 1_000)
        assert answer.code == 3
        with pytest.raises(Refused, match="no consumer"):
            await ask(producer, RequestCode.GET_CONSUMER_RUNNING_INFO, consumerGroup="other", clientId="x")
