"""Producing through a real socket to a broker in this process."""

import asyncio
import os

import pytest
from tests.client.stored import stored

from penstock.client.errors import Closed, MessageTooLarge, NoRoute, NotAuthorized, TopicNotFound, Unreachable
from penstock.client.message import Message
from penstock.client.producer import Producer, by_key
from penstock.core.topics import READ, TopicSettings
from penstock.testing.server import serving


@pytest.fixture
async def penstock():
    async with serving(broker={"message_bytes_max": 100_000}) as running:
        yield running


async def test_a_message_arrives_as_it_was_sent(producer):
    sent = await producer.send(Message("orders", b"body", tags="paid", keys="k1 k2", properties={"a": "b"}))
    [found] = await stored(producer.instance.cluster, sent.queue)
    assert (found.body, found.offset, found.message_id) == (b"body", sent.offset, sent.message_id)
    wanted = {"TAGS": "paid", "KEYS": "k1 k2", "a": "b"}
    assert {name: found.properties[name] for name in wanted} == wanted


async def test_messages_go_round_all_queues(producer):
    sent = [await producer.send(Message("orders", b"x")) for _ in range(8)]
    assert sorted(one.queue.queue for one in sent) == [0, 0, 1, 1, 2, 2, 3, 3]


async def test_one_key_goes_to_one_queue_in_order(producer):
    sent = [await producer.send(Message("orders", b"%d" % number), by_key("customer 7")) for number in range(10)]
    assert len({one.queue for one in sent}) == 1
    assert [message.body for message in await stored(producer.instance.cluster, sent[0].queue)] == [
        b"%d" % n for n in range(10)
    ]


async def test_many_at_once_are_all_there(producer):
    sent = await asyncio.gather(*(producer.send(Message("orders", b"%d" % number)) for number in range(500)))
    found = [
        message.body
        for queue in {one.queue for one in sent}
        for message in await stored(producer.instance.cluster, queue)
    ]
    assert sorted(found) == sorted(b"%d" % number for number in range(500))


async def test_a_batch_stays_together(producer):
    sent = await producer.send_batch([Message("orders", b"%d" % number, tags="t") for number in range(5)])
    assert [one.offset for one in sent] == [0, 1, 2, 3, 4]
    found = await stored(producer.instance.cluster, sent[0].queue)
    assert [(message.body, message.message_id) for message in found] == [
        (b"%d" % number, one.message_id) for number, one in enumerate(sent)
    ]


@pytest.mark.parametrize(
    ("messages", "told"),
    [
        ([], "no messages"),
        ([Message("a", b""), Message("b", b"")], "one topic"),
        ([Message("a", b"", delay_ms=5)], "delayed"),
    ],
)
async def test_a_batch_that_cannot_be_is_refused_here(producer, messages, told):
    with pytest.raises(ValueError, match=told):
        await producer.send_batch(messages)


async def test_large_bodies_are_compressed_on_the_way(producer):
    sent = await producer.send(Message("orders", b"x" * 90_000))
    [found] = await stored(producer.instance.cluster, sent.queue)
    assert (found.sys_flag & 1, len(found.body) < 1_000) == (1, True)


async def test_a_message_above_the_brokers_limit_is_a_typed_error(producer, penstock):
    with pytest.raises(MessageTooLarge) as caught:
        await producer.send(Message("orders", os.urandom(200_000)))
    assert (caught.value.code, caught.value.address) == (13, penstock.addresses["broker"])
    assert "100000" in caught.value.remark
    assert (await producer.send(Message("orders", b"the connection lives on"))).offset == 0


async def test_what_is_too_large_already_here_is_the_same_error(penstock):
    async with Producer(penstock.addresses["namesrv"], "tests", message_bytes_max=10) as producer:
        for sending in (producer.send(Message("orders", bytes(11))), producer.send_batch([Message("orders", b"")])):
            with pytest.raises(MessageTooLarge, match="at most 10 are taken") as caught:
                await sending
            assert (caught.value.code, caught.value.address) == (13, "this producer")


async def test_a_topic_that_must_not_be_written_to_is_a_typed_error(producer, penstock):
    for _ in range(2):  # the second one knows its route
        await producer.send(Message("orders", b"x"))
    await penstock.server.broker.topics.alter("orders", TopicSettings(write_queues=4, permissions=READ))
    await producer.send(Message("orders", b"x"))  # and has not seen that it has changed
    async with Producer(penstock.addresses["namesrv"], "tests") as fresh:  # this one finds it in the route
        with pytest.raises(NotAuthorized, match="topic 'orders' may not be written to") as caught:
            await fresh.send(Message("orders", b"x"))
    assert caught.value.code == 16


async def test_a_topic_that_nobody_may_create_has_no_route():
    async with (
        serving(rocketmq={"auto_create_topics": False}) as penstock,
        Producer(penstock.addresses["namesrv"], "tests") as producer,
    ):
        with pytest.raises(NoRoute, match=r"^no broker has topic 'orders'") as caught:
            await producer.send(Message("orders", b"x"))
        error = caught.value
        assert isinstance(error, TopicNotFound)
        assert (error.code, error.remark, error.address) == (17, str(error), penstock.addresses["namesrv"])


async def test_nobody_at_the_name_servers_address():
    async with Producer("127.0.0.1:1", "tests", timeout_ms=500) as producer:
        with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
            await producer.send(Message("orders", b"x"))


async def test_the_second_name_server_is_asked_when_the_first_is_gone(penstock):
    async with Producer(f"127.0.0.1:1;{penstock.addresses['namesrv']}", "tests") as producer:
        assert (await producer.send(Message("orders", b"x"))).offset == 0


async def test_a_producer_that_was_not_started_says_so(penstock):
    with pytest.raises(Closed):
        await Producer(penstock.addresses["namesrv"], "tests").send(Message("orders", b"x"))


@pytest.mark.parametrize("properties", [{"a": ""}, {"": "b"}, {"a": "x\x01y"}, {"a\x02": "b"}])
async def test_properties_that_cannot_be_carried_are_refused(producer, properties):
    with pytest.raises(ValueError, match="property"):
        await producer.send(Message("orders", b"x", properties=properties))


@pytest.mark.parametrize("how", [{"delay_ms": 300}, {"delay_level": 1}], ids=["timer", "level"])
async def test_a_delayed_message_comes_later_and_into_the_queue_it_was_meant_for(how, producer):
    await producer.send(Message("orders", b"first"))  # the topic is there
    queue = (await producer.queues("orders"))[2]
    before = await stored(producer.instance.cluster, queue)
    sent = await producer.send(Message("orders", b"later", **how), queue)
    assert await stored(producer.instance.cluster, queue) == before
    while (found := await stored(producer.instance.cluster, queue)) == before:
        await asyncio.sleep(0.02)
    assert (found[-1].body, found[-1].message_id) == (b"later", sent.message_id)
