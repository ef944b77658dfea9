"""Traces of this client: what it sent and consumed, as RocketMQ's tools and the pipeline `audit` read it."""

import asyncio
import logging

import pytest
from tests.client.pushing import Inbox, consumer
from tests.client.stored import stored

from penstock.client.consumer.handling import Later
from penstock.client.errors import Unreachable
from penstock.client.message import Message
from penstock.client.producer import Producer
from penstock.client.tracing import RECORDS_AT_ONCE, RECORDS_MAX, TRACE_TOPIC, Tracer
from penstock.client.transaction import Outcome, TransactionProducer


@pytest.fixture
async def traced(penstock):
    async with Producer(penstock.addresses["namesrv"], "shop", trace=True) as producer:
        yield producer


async def traces_of(producer):
    cluster = producer.instance.cluster
    found = [one for queue in await producer.queues(TRACE_TOPIC) for one in await stored(cluster, queue)]
    return sorted(found, key=lambda one: one.physical_offset)


async def records(producer) -> list[list[str]]:
    """All that was traced, as fields."""
    found = await traces_of(producer)
    return [one.split("\x01") for message in found for one in message.body.decode().split("\x02") if one]


async def test_what_is_sent_is_traced_as_java_does_it(penstock, producer, traced):
    plain = await traced.send(Message("orders", b"12345", tags="paid", keys="k1 k2"))
    late = await traced.send(Message("orders", b"x", delay_level=1))
    both = await traced.send_batch([Message("orders", b"a"), Message("orders", b"b")])
    await traced.tracer.flush()
    first, second, third = await records(producer)
    assert first[0] == "Pub"
    assert int(first[1]) > 0
    assert first[3:8] == ["shop", "orders", plain.message_id, "paid", "k1 k2"]
    assert first[8] == penstock.addresses["broker"]
    assert (first[9], first[11], first[12], first[13]) == ("5", "0", plain.offset_id, "true")
    assert (second[5], second[6], second[11]) == (late.message_id, "null", "3")
    assert third[5] == ",".join(one.message_id for one in both)
    [trace] = await traces_of(producer)
    assert set(trace.properties["KEYS"].split()) == {
        "k1", "k2", plain.message_id, late.message_id, *(one.message_id for one in both)
    }  # fmt: skip


async def test_what_is_consumed_is_traced_with_how_it_went(penstock, producer):
    answers = iter([ValueError("no"), None, Later(1)])
    inbox = Inbox(lambda message: next(answers, None))
    first = await producer.send(Message("orders", b"1"))
    async with consumer(penstock, "billing", inbox, trace=True, orderly=True):
        await inbox.until(2)  # the second time it goes well
        await producer.send(Message("orders", b"2"), first.queue)
        await inbox.until(3)
    told = await records(producer)
    before = [one for one in told if one[0] == "SubBefore"]
    after = {one[1]: one for one in told if one[0] == "SubAfter"}
    assert [(one[3], one[5], one[6]) for one in before[:2]] == [
        ("billing", first.message_id, "0"),
        ("billing", first.message_id, "1"),
    ]
    ends = [after[one[4]] for one in before]
    assert [(one[2], one[4], one[6], one[8]) for one in ends[:2]] == [
        (first.message_id, "false", "4", "billing"),
        (first.message_id, "true", "0", "billing"),
    ]
    assert ends[2][4] == "false"


async def test_a_loop_is_traced_too(penstock, producer):
    sent = await producer.send(Message("orders", b"1"))
    async with consumer(penstock, "billing", trace=True) as messages:
        async for _ in messages:
            break
    told = await records(producer)
    assert [(one[0], one[2 if one[0] == "SubAfter" else 5]) for one in told] == [
        ("SubBefore", sent.message_id),
        ("SubAfter", sent.message_id),
    ]


async def test_the_end_of_a_transaction_is_traced(penstock, producer):
    async def work(message, transaction_id):
        return Outcome.COMMIT

    async def check(message):
        return Outcome.UNKNOWN

    servers = penstock.addresses["namesrv"]
    async with TransactionProducer(servers, "booking", check, trace=True) as transactions:
        done = await transactions.send(Message("orders", b"1"), work)
    half, end = await records(producer)
    assert (half[0], half[5], half[11]) == ("Pub", done.sent.message_id, "1")
    assert (end[0], end[5], end[9], end[11], end[12]) == (
        "EndTransaction", done.sent.message_id, "1", "COMMIT_MESSAGE", "false",
    )  # fmt: skip


async def test_without_a_word_nothing_is_traced(penstock, producer):
    await producer.send(Message("orders", b"1"))
    inbox = Inbox()
    async with consumer(penstock, "billing", inbox):
        await inbox.until(1)
    assert await records(producer) == []


class Broken:
    """A cluster that takes no traces."""

    def __init__(self):
        self.taken, self.works = [], False

    async def start(self): ...

    async def close(self): ...

    async def send(self, message):
        if not self.works:
            raise Unreachable("127.0.0.1:1", "nobody is there")
        self.taken.append(message)


async def test_traces_that_cannot_be_sent_wait_up_to_a_limit_and_hold_nothing_up(traced, caplog):
    broken = Broken()
    tracer = Tracer(traced.instance, "shop", broken)
    sent = await traced.send(Message("orders", b"1"))
    outgoing = traced.packed(Message("orders", b"1"))
    with caplog.at_level(logging.WARNING):
        for _ in range(RECORDS_MAX + 10):
            tracer.sent(outgoing, sent, sent.message_id, 1)
        await tracer.flush()
        await tracer.flush()
        assert caplog.text.count("traces cannot be sent, they wait") == 1
        broken.works = True
        await tracer.flush()
    assert "the oldest are lost" in caplog.text
    bodies = [message.body.decode().count("\x02") for message in broken.taken]
    assert sum(bodies) == RECORDS_MAX
    assert max(bodies) == RECORDS_AT_ONCE
    assert len({message.keys for message in broken.taken}) == 1


async def test_traces_are_sent_by_themselves(producer, traced):
    await traced.send(Message("orders", b"1"))
    async with asyncio.timeout(15):
        while not await records(producer):
            await asyncio.sleep(0.05)
