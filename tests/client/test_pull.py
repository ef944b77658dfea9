"""Pulling through a real socket from a broker in this process."""

import asyncio

import pytest

from penstock.client.errors import Closed, NoRoute, Unreachable
from penstock.client.instance import Timers
from penstock.client.message import Message
from penstock.client.operator import Operator
from penstock.client.positions import FIRST, since
from penstock.client.producer import Producer
from penstock.client.pull import PullConsumer
from penstock.client.reading import Steps, Wanted
from penstock.client.routes import MessageQueue
from penstock.core.topics import TopicSettings


@pytest.fixture
async def pulling(penstock):
    """Makes consumers, and closes what is left of them."""
    made = []

    async def make(group="readers", **settings) -> PullConsumer:
        made.append(PullConsumer(penstock.addresses["namesrv"], group, **{"start": FIRST} | settings))
        await made[-1].start()
        return made[-1]

    yield make
    for consumer in made:
        await consumer.close()


async def sent(producer: Producer, count: int, topic: str = "orders", queue: int = 0, **fields):
    """Numbered messages in one queue."""
    where = (await producer.queues(topic))[queue]
    for number in range(count):
        await producer.send(Message(topic, b"%d" % number, **fields), where)
    return where


async def polled(consumer: PullConsumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        got = await consumer.poll(count=count - len(found))
        assert got, f"only {len(found)} of {count} came"
        found += [message.body for message in got]
    return found


def bodies(*numbers: int) -> list[bytes]:
    return [b"%d" % number for number in numbers]


async def test_assigned_queues_are_read_in_their_order(producer, pulling):
    queue = await sent(producer, 50)
    other = await sent(producer, 3, queue=1)
    consumer = await pulling()
    await consumer.assign([queue, other])
    found = await polled(consumer, 53)
    assert sorted(found) == sorted(bodies(*range(50), *range(3)))
    assert (consumer.position(queue), consumer.position(other)) == (50, 3)
    assert await consumer.poll(timeout_ms=1) == []


async def test_what_comes_later_ends_the_wait(producer, pulling):
    queue = await sent(producer, 1)
    consumer = await pulling()
    await consumer.assign({queue: 1})
    poll = asyncio.ensure_future(consumer.poll(timeout_ms=30_000))
    await producer.send(Message("orders", b"late"), queue)
    assert [message.body for message in await poll] == [b"late"]


async def test_a_group_goes_on_where_it_has_committed(producer, pulling):
    queue = await sent(producer, 10)
    first = await pulling(auto_commit=False)
    await first.assign([queue])
    assert await polled(first, 4) == bodies(0, 1, 2, 3)
    await first.commit()
    assert await first.committed(queue) == 4
    second = await pulling()
    await second.assign([queue])
    assert await polled(second, 6) == bodies(4, 5, 6, 7, 8, 9)


async def test_without_a_commit_it_begins_again(producer, pulling):
    queue = await sent(producer, 3)
    for _ in range(2):
        consumer = await pulling(auto_commit=False)
        await consumer.assign([queue])
        assert await polled(consumer, 3) == bodies(0, 1, 2)
        assert await consumer.committed(queue) is None
        await consumer.close()


async def test_a_close_commits_what_was_given(producer, pulling, penstock):
    queue = await sent(producer, 5)
    async with PullConsumer(penstock.addresses["namesrv"], "readers", start=FIRST) as consumer:
        await consumer.assign([queue])
        assert await polled(consumer, 3) == bodies(0, 1, 2)
    following = await pulling()
    await following.assign([queue])
    assert await polled(following, 2) == bodies(3, 4)


async def test_a_failed_application_gets_its_last_messages_again(producer, pulling, penstock):
    queue = await sent(producer, 5)

    async def application() -> None:
        async with PullConsumer(penstock.addresses["namesrv"], "readers", start=FIRST) as consumer:
            await consumer.assign([queue])
            assert await polled(consumer, 2) == bodies(0, 1)
            assert await polled(consumer, 2) == bodies(2, 3)
            raise RuntimeError("while these two were being worked on")

    with pytest.raises(RuntimeError):
        await application()
    following = await pulling()
    await following.assign([queue])
    assert await polled(following, 3) == bodies(2, 3, 4)


async def test_offsets_are_committed_by_and_by(producer, pulling):
    queue = await sent(producer, 5)
    consumer = await pulling(timers=Timers(persist_interval_ms=10))
    await consumer.assign([queue])
    assert await polled(consumer, 5) == bodies(0, 1, 2, 3, 4)
    assert await consumer.poll(timeout_ms=1) == []  # so they are done
    async with asyncio.timeout(10):
        while await consumer.committed(queue) != 5:
            await asyncio.sleep(0.005)


async def test_seeking_forgets_what_was_read_ahead(producer, pulling):
    queue = await sent(producer, 10)
    consumer = await pulling()
    await consumer.assign([queue])
    assert await polled(consumer, 2) == bodies(0, 1)
    consumer.seek(queue, 8)
    assert await polled(consumer, 2) == bodies(8, 9)
    await consumer.seek_to_begin(queue)
    assert await polled(consumer, 1) == bodies(0)
    await consumer.seek_to_end(queue)
    assert consumer.position(queue) == 10


async def test_seeking_a_time(producer, pulling):
    queue = await sent(producer, 4)
    consumer = await pulling()
    await consumer.assign([queue])
    third = [await consumer.poll(count=1) for _ in range(3)][2][0]
    await consumer.seek_to_time(queue, third.store_ms + 60_000)
    assert consumer.position(queue) == 4
    await consumer.seek_to_time(queue, 0)
    assert consumer.position(queue) == 0


async def test_an_offset_behind_the_end_is_corrected(producer, pulling):
    queue = await sent(producer, 3)
    consumer = await pulling()
    await consumer.assign({queue: 999_999_999})
    poll = asyncio.ensure_future(consumer.poll(timeout_ms=30_000))
    async with asyncio.timeout(10):
        while consumer.position(queue) != 3:
            await asyncio.sleep(0.005)
    await producer.send(Message("orders", b"next"), queue)
    assert [message.body for message in await poll] == [b"next"]


async def test_a_paused_queue_gives_nothing_until_it_is_resumed(producer, pulling):
    queue = await sent(producer, 3)
    consumer = await pulling()
    await consumer.assign([queue])
    assert await polled(consumer, 1) == bodies(0)
    consumer.pause(queue)
    assert await consumer.poll(timeout_ms=50) == []
    consumer.resume(queue)
    assert await polled(consumer, 2) == bodies(1, 2)


async def test_tags_are_filtered_and_their_gaps_are_committed(producer, pulling):
    queue = await sent(producer, 3, tags="red")
    await sent(producer, 3, tags="blue")
    consumer = await pulling()
    await consumer.assign([queue], "red || green")
    assert await polled(consumer, 3) == bodies(0, 1, 2)
    async with asyncio.timeout(10):
        while consumer.position(queue) != 6:
            await consumer.poll(timeout_ms=5)
    await consumer.commit()
    assert await consumer.committed(queue) == 6


async def test_tags_with_one_hash_are_told_apart(producer, pulling):
    """Aa and BB have the same hash in Java, which is all that brokers look at."""
    queue = await sent(producer, 1, tags="Aa")
    await producer.send(Message("orders", b"wanted", tags="BB"), queue)
    consumer = await pulling()
    await consumer.assign([queue], "BB")
    assert await polled(consumer, 1) == [b"wanted"]


async def test_a_sql_filter(producer, pulling):
    queue = await sent(producer, 2, properties={"size": "3"})
    await producer.send(Message("orders", b"large", properties={"size": "30"}), queue)
    consumer = await pulling()
    await consumer.assign([queue], Wanted("size > 10", sql=True))
    assert await polled(consumer, 1) == [b"large"]


async def test_reading_ahead_is_bounded(producer, pulling):
    queue = await sent(producer, 40)
    consumer = await pulling(steps=Steps(messages_max=5, buffer_messages_max=10))
    await consumer.assign([queue])
    assert await polled(consumer, 1) == bodies(0)
    reader = consumer._readers[queue]
    async with asyncio.timeout(10):
        while reader._may_pull.is_set():
            await asyncio.sleep(0.005)
    assert 10 <= reader.waiting < 15
    assert await polled(consumer, 39) == bodies(*range(1, 40))


async def test_another_assignment_drops_and_commits_what_is_not_in_it(producer, pulling):
    queue, other = await sent(producer, 4), await sent(producer, 2, queue=1)
    consumer = await pulling()
    await consumer.assign([queue])
    assert await polled(consumer, 2) == bodies(0, 1)
    assert await polled(consumer, 1) == bodies(2)  # two are done
    await consumer.assign([other])
    assert (consumer.assigned, await consumer.committed(queue)) == ([other], 2)
    assert await polled(consumer, 2) == bodies(0, 1)
    with pytest.raises(ValueError, match="not assigned"):
        consumer.position(queue)


async def test_where_a_new_group_begins(producer, pulling):
    """At the start of a young queue, as RocketMQ has it, whatever it asks for."""
    queue = await sent(producer, 2)
    consumer = await pulling("newcomers", start=since(1 << 50))
    await consumer.assign([queue])
    assert consumer.position(queue) == 0


async def test_all_up_to_an_end(producer, pulling):
    queue, other = await sent(producer, 30), await sent(producer, 5, queue=1)
    consumer = await pulling()
    await consumer.assign({queue: 10, other: 0})
    found = [message.body async for message in consumer.read_to({queue: 20, other: 5})]
    assert sorted(found) == sorted(bodies(*range(10, 20), *range(5)))


async def test_one_message_after_the_other(producer, pulling):
    queue = await sent(producer, 3)
    consumer = await pulling()
    await consumer.assign([queue])
    found = []
    async for message in consumer:
        found.append(message.body)
        if len(found) == 3:
            await consumer.close()
    assert found == bodies(0, 1, 2)


async def test_operators_see_it_only_when_it_wants_to_be_seen(producer, pulling, penstock):
    queue = await sent(producer, 1)
    groups = penstock.server.broker.groups
    for visible in (False, True):
        consumer = await pulling("seen", visible=visible)
        await consumer.assign([queue])
        assert (groups.find("seen") is not None) == visible
        await consumer.close()
        assert groups.find("seen") is None


async def test_a_topic_that_is_not_there(pulling):
    with pytest.raises(NoRoute, match="no broker has topic 'nowhere'"):
        await (await pulling()).queues("nowhere")


async def test_a_consumer_that_is_not_open_says_so(penstock, producer):
    consumer = PullConsumer(penstock.addresses["namesrv"], "readers")
    with pytest.raises(Closed, match="async with"):
        await consumer.poll()


async def test_an_assignment_that_fails_changes_nothing(producer, pulling):
    queue = await sent(producer, 2)
    consumer = await pulling()
    await consumer.assign([queue])
    with pytest.raises(Unreachable):
        await consumer.assign([MessageQueue("orders", "another-broker", 0)])
    assert consumer.assigned == [queue]
    assert await polled(consumer, 2) == bodies(0, 1)


# --- sharing with a group ---------------------------------------------------------------------------------------------


async def settled(*consumers: PullConsumer, shares: list[int]) -> None:
    """Until each has as many queues as it should."""
    async with asyncio.timeout(10):
        while sorted(len(consumer.assigned) for consumer in consumers) != sorted(shares):
            await asyncio.sleep(0.005)


async def test_a_subscriber_alone_reads_everything(producer, pulling):
    for queue in range(4):
        await sent(producer, 3, queue=queue)
    consumer = await pulling()
    await consumer.subscribe("orders")
    assert len(consumer.assigned) == 4
    assert sorted(await polled(consumer, 12)) == sorted(bodies(0, 1, 2) * 4)


async def test_s10_members_share_the_queues_and_those_of_who_leaves_are_taken_over(producer, pulling):
    queues = [await sent(producer, 2, queue=queue) for queue in range(4)]
    first, second = await pulling(), await pulling()
    await first.subscribe("orders")
    await second.subscribe("orders")
    await settled(first, second, shares=[2, 2])
    assert sorted(first.assigned + second.assigned) == queues
    assert sorted(await polled(first, 4) + await polled(second, 4)) == sorted(bodies(0, 1) * 4)
    await second.close()
    await settled(first, shares=[4])
    for queue in queues:
        await producer.send(Message("orders", b"later"), queue)
    assert await polled(first, 4) == [b"later"] * 4  # and nothing of before: it was committed


async def test_new_queues_are_shared_too(producer, pulling, penstock):
    await sent(producer, 1)
    consumer = await pulling(timers=Timers(route_interval_ms=10, rebalance_interval_ms=10_000))
    await consumer.subscribe("orders")
    await penstock.server.broker.topics.alter("orders", TopicSettings(read_queues=6, write_queues=6))
    await settled(consumer, shares=[6])


async def test_a_subscription_filters_by_tag(producer, pulling):
    await sent(producer, 2, tags="red")
    await sent(producer, 2, tags="blue")
    consumer = await pulling()
    await consumer.subscribe("orders", "blue")
    assert await polled(consumer, 2) == bodies(0, 1)
    assert await consumer.poll(timeout_ms=20) == []


async def test_who_unsubscribes_has_no_queues(producer, pulling):
    await sent(producer, 1)
    consumer = await pulling()
    await consumer.subscribe("orders")
    await consumer.unsubscribe("orders")
    assert consumer.assigned == []


async def test_one_consumer_does_one_or_the_other(producer, pulling):
    queue = await sent(producer, 1)
    sharing, choosing = await pulling(), await pulling("others")
    await sharing.subscribe("orders")
    await choosing.assign([queue])
    with pytest.raises(ValueError, match="subscribes"):
        await sharing.assign([queue])
    with pytest.raises(ValueError, match="by hand"):
        await choosing.subscribe("orders")


async def test_an_operator_sees_what_a_subscriber_reads(producer, pulling, penstock):
    queue = await sent(producer, 3)
    consumer = await pulling()
    await consumer.subscribe("orders")
    async with Operator(penstock.addresses["namesrv"]) as operator:
        assert await operator.owned("readers", consumer.instance.client_id) == consumer.assigned
        await polled(consumer, 3)
        await consumer.poll(timeout_ms=1)
        told = await operator.client_offsets("readers", "orders")
        assert told.offsets[consumer.instance.client_id][queue] == 3
