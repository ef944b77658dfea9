"""When a send is tried again, where, and when not: on a cluster of two brokers that do what the test says."""

import asyncio

import pytest
from tests.client import fakes

from penstock.client.errors import BrokerBusy, MessageTooLarge, Refused, TimedOut, Unreachable
from penstock.client.message import Message
from penstock.client.producer import Producer, by_key
from penstock.client.routes import MessageQueue
from penstock.wire.rocketmq import properties as props
from penstock.wire.rocketmq.record import java_hash

A, B = "broker-a", "broker-b"
MESSAGE = Message("orders", b"x")


@pytest.fixture
async def fake():
    async with fakes.cluster(A, B) as cluster:
        yield cluster


@pytest.fixture
async def producer(fake):
    async with Producer(fake.namesrv, "tests") as producer:
        yield producer


def sends(fake, broker: str) -> int:
    return len(fake.asked[broker])


@pytest.mark.parametrize("code", [1, 2, 14, 16, 17, 204, 205, 1500])
async def test_what_one_broker_refuses_is_tried_on_the_other(code, fake, producer):
    fake.answers[A] = lambda frame: fakes.refused(code, "not here")
    sent = [await producer.send(MESSAGE) for _ in range(4)]
    assert {one.queue.broker for one in sent} == {B}
    assert sends(fake, B) == 4
    assert 1 <= sends(fake, A) <= 4, "it had its turn, and never twice for one message"


async def test_a_copy_has_the_same_id(fake, producer):
    fake.answers[A] = fake.answers[B] = lambda frame: fakes.refused(14, "full")
    with pytest.raises(BrokerBusy, match="full"):
        await producer.send(MESSAGE)
    tried = [frame for broker in (A, B) for frame in fake.asked[broker]]
    assert len(tried) == 3
    assert len({props.find(frame.ext["i"], props.UNIQ_KEY) for frame in tried}) == 1


@pytest.mark.parametrize(("code", "error"), [(13, MessageTooLarge), (3, Refused), (26, Refused)])
async def test_what_no_broker_would_take_is_not_tried_again(code, error, fake, producer):
    fake.answers[A] = fake.answers[B] = lambda frame: fakes.refused(code, "no")
    with pytest.raises(error) as caught:
        await producer.send(MESSAGE)
    assert (caught.value.code, sends(fake, A) + sends(fake, B)) == (code, 1)


async def test_what_was_meant_for_one_queue_is_not_tried_elsewhere(fake, producer):
    fake.answers[A] = lambda frame: fakes.refused(14, "full")
    for to in (MessageQueue("orders", A, 1), lambda queues, message: queues[0]):
        with pytest.raises(BrokerBusy):
            await producer.send(MESSAGE, to)
    assert (sends(fake, A), sends(fake, B)) == (2, 0)


async def test_a_broker_that_is_gone_costs_its_messages_nothing(fake, producer):
    await fake.brokers[A].stop()
    sent = await asyncio.gather(*(producer.send(MESSAGE) for _ in range(20)))
    assert {one.queue.broker for one in sent} == {B}


async def test_a_broker_that_is_gone_is_not_waited_for_by_the_next_messages(fake):
    """The wait for it doubles with each failure: if it were gone to in turn, the last of these would take hours."""
    async with Producer(fake.namesrv, "tests", retries=0, timeout_ms=3_600_000) as producer:
        await fake.brokers[A].stop()
        for _ in range(40):
            await producer.send(MESSAGE)
    assert sends(fake, B) == 40


async def test_a_restart_of_the_only_broker_is_ridden_out():
    async with fakes.cluster(A) as fake, Producer(fake.namesrv, "tests", retries=0, timeout_ms=30_000) as producer:
        await producer.send(MESSAGE)
        await fake.brokers[A].stop()
        sending = asyncio.ensure_future(producer.send(MESSAGE))
        while not producer.instance.cluster.is_down(A):
            await asyncio.sleep(0)
        await fake.brokers[A].start()
        assert (await sending).queue.broker == A


async def test_when_nobody_is_there_the_time_limit_holds():
    async with fakes.cluster(A) as fake, Producer(fake.namesrv, "tests", timeout_ms=300) as producer:
        await producer.queues("orders")
        await fake.brokers[A].stop()
        with pytest.raises(Unreachable):
            await producer.send(MESSAGE)


async def test_no_answer_is_a_typed_error(fake):
    fake.answers[A] = fake.answers[B] = lambda frame: None
    async with Producer(fake.namesrv, "tests", timeout_ms=50) as producer:
        with pytest.raises(TimedOut, match=r"did not answer within \d+ ms"):
            await producer.send(MESSAGE)


async def test_a_connection_lost_in_the_middle_is_tried_elsewhere(fake, producer):
    fake.answers[A] = hang_up(fake, A)
    sent = [await producer.send(MESSAGE) for _ in range(4)]
    assert {one.queue.broker for one in sent} == {B}
    assert sends(fake, A) >= 1


async def test_a_broker_that_always_hangs_up_is_not_asked_for_ever(producer, fake):
    for broker in (A, B):
        fake.answers[broker] = hang_up(fake, broker)
    with pytest.raises(Unreachable):
        await producer.send(MESSAGE)
    assert sends(fake, A) + sends(fake, B) == 3


def hang_up(fake, broker):
    return lambda frame: fake.brokers[broker].hang_up()


async def test_the_name_server_may_be_away_while_another_broker_is_tried(fake, producer):
    await producer.send(MESSAGE)
    await fake.name_server.stop()
    fake.answers[A] = lambda frame: fakes.refused(14, "full")
    sent = [await producer.send(MESSAGE) for _ in range(2)]
    assert {one.queue.broker for one in sent} == {B}


async def test_a_slow_broker_is_left_alone_for_a_while_when_asked_for(fake):
    async with Producer(fake.namesrv, "tests", avoid_slow_brokers=True) as producer:
        fake.answers[A] = lambda frame: fakes.refused(14, "full")
        for _ in range(4):
            await producer.send(MESSAGE)
        assert sends(fake, A) == 1
        fake.answers[A] = fakes.stored
        sent = [await producer.send(MESSAGE) for _ in range(6)]
    assert {one.queue.broker for one in sent} == {B}


async def test_not_flushed_is_stored_and_says_so(fake, producer, caplog):
    fake.answers[A] = fake.answers[B] = lambda frame: (10, "flush timed out", fakes.stored(frame)[2])
    assert (await producer.send(MESSAGE)).code == 10
    assert "stored, but not as safely as the broker is set to" in caplog.messages


async def test_an_operators_order_fixes_the_queues(fake, producer):
    fake.order = f"{B}:3;{A}:1;nonsense;x:-1;y:99999999"
    found = await producer.queues("orders")
    assert found == [MessageQueue("orders", A, 0), *(MessageQueue("orders", B, number) for number in range(3))]


async def test_a_key_picks_the_queue_that_javas_selector_picks(producer):
    queues = [MessageQueue("orders", A, number) for number in range(7)]
    assert [by_key(key)(queues, MESSAGE).queue for key in ("TagA", "标签", "polygenelubricants")] == [
        2598919 % 7,
        857175 % 7,
        2**31 % 7,  # the one whose hash has no positive counterpart in 32 bits
    ]
    assert java_hash("polygenelubricants") == -(2**31)
