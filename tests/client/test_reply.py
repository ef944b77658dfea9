"""Requests that wait for their reply, through a broker in this process."""

import asyncio

import pytest
from tests.client.stored import stored

from penstock.client.errors import NoReply, Refused
from penstock.client.message import Message, Received, received
from penstock.client.producer import Producer
from penstock.client.reply import reply_to
from penstock.wire.rocketmq.codes import RequestCode


@pytest.fixture
async def asker(penstock):
    async with Producer(penstock.addresses["namesrv"], "askers") as producer:
        yield producer


@pytest.fixture
async def replier(penstock):
    async with Producer(penstock.addresses["namesrv"], "repliers") as producer:
        yield producer


async def asked(replier: Producer, count: int) -> list[Received]:
    """The questions that have come."""
    cluster = replier.instance.cluster
    while True:
        found = [
            received(one, queue) for queue in await replier.queues("questions") for one in await stored(cluster, queue)
        ]
        if len(found) >= count:
            return sorted(found, key=lambda one: one.body)
        await asyncio.sleep(0.01)


async def test_a_request_gets_its_reply(asker, replier):
    asking = asyncio.ensure_future(asker.request(Message("questions", b"how many?", tags="t"), timeout_ms=20_000))
    [question] = await asked(replier, 1)
    await replier.reply(question, b"seven", {"unit": "pieces"})
    reply = await asking
    assert (reply.body, reply.properties["unit"]) == (b"seven", "pieces")
    assert reply.properties["CORRELATION_ID"] == question.properties["CORRELATION_ID"]
    assert reply.topic.endswith("_REPLY_TOPIC")


async def test_who_replies_need_not_have_sent_anything_before(asker, replier, penstock):
    asking = asyncio.ensure_future(asker.request(Message("questions", b"?"), timeout_ms=20_000))
    [question] = await asked(replier, 1)
    async with Producer(penstock.addresses["namesrv"], "others") as other:
        await other.reply(question, b"!")
    assert (await asking).body == b"!"


async def test_replies_find_their_own_questions_in_any_order(asker, replier):
    asking = [asyncio.ensure_future(asker.request(Message("questions", b"%d" % n), 20_000)) for n in range(9)]
    for question in reversed(await asked(replier, 9)):
        await replier.reply(question, b"re: " + question.body)
    assert [reply.body for reply in await asyncio.gather(*asking)] == [b"re: %d" % number for number in range(9)]


async def test_large_replies_are_compressed_on_the_way(asker, replier):
    asking = asyncio.ensure_future(asker.request(Message("questions", b"?"), 20_000))
    [question] = await asked(replier, 1)
    await replier.reply(question, b"x" * 100_000)
    assert (await asking).body == b"x" * 100_000


async def test_two_producers_of_one_instance_get_their_own(asker, replier, penstock):
    async with Producer(penstock.addresses["namesrv"], "others", instance=asker.instance) as other:
        asking = [
            asyncio.ensure_future(one.request(Message("questions", b"%d" % n), 20_000))
            for n, one in enumerate((asker, other))
        ]
        for question in await asked(replier, 2):
            await replier.reply(question, b"re: " + question.body)
        assert [reply.body for reply in await asyncio.gather(*asking)] == [b"re: 0", b"re: 1"]


async def test_nobody_replies(asker):
    with pytest.raises(NoReply, match="no reply to a request on topic 'questions' within 50 ms"):
        await asker.request(Message("questions", b"?"), timeout_ms=50)


async def test_a_reply_that_comes_too_late_is_no_error_for_who_replies(asker, replier, caplog):
    with pytest.raises(NoReply):
        await asker.request(Message("questions", b"?"), timeout_ms=50)
    [question] = await asked(replier, 1)
    with caplog.at_level("INFO"):
        await replier.reply(question, b"here I am")
    assert "a reply came too late, or twice" in caplog.messages


async def test_who_asked_is_gone(asker, replier):
    with pytest.raises(NoReply):
        await asker.request(Message("questions", b"?"), timeout_ms=50)
    [question] = await asked(replier, 1)
    await asker.close()
    with pytest.raises(Refused, match=r"no producer with the client id|did not take the reply"):
        await replier.reply(question, b"hello?")


async def test_a_message_that_is_no_request_cannot_be_replied_to(asker, replier):
    await asker.send(Message("questions", b"just saying"))
    [message] = await asked(replier, 1)
    with pytest.raises(ValueError, match="is no request: it has no REPLY_TO_CLIENT, CORRELATION_ID"):
        await replier.reply(message, b"what?")
    with pytest.raises(ValueError, match="is no request"):
        reply_to(message, b"what?")


async def test_a_reply_that_cannot_be_read_is_told_to_who_replies(asker, replier):
    asking = asyncio.ensure_future(asker.request(Message("questions", b"?"), timeout_ms=20_000))
    [question] = await asked(replier, 1)
    cluster, reply = replier.instance.cluster, reply_to(question, b"")
    ext = {"a": "g", "b": reply.topic, "c": "TBW102", "d": "4", "e": "0", "f": "1", "g": "0", "h": "0"}
    ext["i"] = "".join(f"{name}\x01{value}\x02" for name, value in reply.properties.items())
    address = cluster.address(question.queue.broker)
    answer = await cluster.ask(
        address, RequestCode.SEND_REPLY_MESSAGE_V2, ext, b"not what a compressed body looks like"
    )
    assert answer.code
    assert "cannot be opened" in answer.remark
    await replier.reply(question, b"once more")
    assert (await asking).body == b"once more"
