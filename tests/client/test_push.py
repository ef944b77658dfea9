"""A push consumer on a broker in this process: sharing queues, handling, committing, and leaving in good order."""

import asyncio
from collections import Counter

import pytest
from tests.client.pushing import Inbox, committed, consumer, owned, send, until

from penstock.client.allocate import ByConfig
from penstock.client.consumer import ConsumerSettings, PushConsumer
from penstock.client.errors import BadExpression, Unreachable
from penstock.client.instance import Timers
from penstock.client.message import Message
from penstock.client.positions import LAST
from penstock.clock import SystemClock
from penstock.core.events import PullRefused
from penstock.core.topics import TopicSettings


@pytest.fixture
def refused(penstock):
    """The pulls that were refused for their version."""
    found = []
    penstock.server.broker.bus.listen(lambda event: found.append(event) if isinstance(event, PullRefused) else None)
    return found


# --- messages ---------------------------------------------------------------------------------------------------------


async def test_messages_arrive_as_they_were_sent(penstock, producer):
    inbox = Inbox()
    sent = await producer.send(Message("orders", b"body", tags="paid", keys="k1 k2", properties={"a": "b"}))
    async with consumer(penstock, "billing", inbox):
        [message] = await inbox.until(1)
    assert (message.topic, message.body, message.tags, message.keys) == ("orders", b"body", "paid", "k1 k2")
    assert (message.message_id, message.offset, message.queue) == (sent.message_id, sent.offset, sent.queue)
    assert (message.properties["a"], message.reconsume_times) == ("b", 0)


async def test_what_was_there_and_what_comes_later_is_consumed_once(penstock, producer):
    inbox = Inbox()
    before = await send(producer, 50)
    async with consumer(penstock, "billing", inbox):
        await inbox.until(50)
        after = await send(producer, 50, first=50)
        await inbox.until(100)
    assert inbox.counts == dict.fromkeys([*before, *after], 1)


async def test_a_consumer_goes_on_where_the_last_one_stopped(penstock, producer):
    first, second = Inbox(), Inbox()
    await send(producer, 20)
    async with consumer(penstock, "billing", first):
        await first.until(20)
    assert sum(committed(penstock, "billing").values()) == 20
    later = await send(producer, 5, first=20)
    async with consumer(penstock, "billing", second):
        await second.until(5)
    assert sorted(second.bodies) == sorted(later)


async def test_what_is_not_finished_is_not_committed(penstock, producer):
    """Closing waits for handlers, but not for ever: what one still holds comes again."""
    held, inbox = asyncio.Event(), Inbox(lambda message: held.wait() if message.body == b"2" else None)
    penstock.server.broker.topics.create_now("orders", TopicSettings(write_queues=1))
    await send(producer, 1), await send(producer, 1, first=1), await send(producer, 1, first=2)
    settings = ConsumerSettings(close_timeout_ms=50)
    async with consumer(penstock, "billing", inbox, settings=settings):
        await inbox.until(3)
    assert committed(penstock, "billing") == {0: 2}
    again = Inbox()
    async with consumer(penstock, "billing", again):
        await again.until(1)
    assert again.bodies == [b"2"]


async def test_offsets_are_persisted_while_it_runs(penstock, producer):
    inbox = Inbox()
    await send(producer, 8)
    async with consumer(penstock, "billing", inbox):
        await inbox.until(8)
        await until(lambda: sum(committed(penstock, "billing").values()) == 8, "the commit")


@pytest.mark.parametrize(
    ("expression", "wanted"), [("a", {b"a"}), ("a || c", {b"a", b"c"}), ("*", {b"a", b"b", b"c", b"Aa", b"BB"})]
)
async def test_tags_are_filtered(penstock, producer, expression, wanted):
    inbox = Inbox()
    for tag in ("a", "b", "c", "Aa", "BB"):
        await producer.send(Message("orders", tag.encode(), tags=tag))
    async with consumer(penstock, "billing", inbox, topics={"orders": expression}):
        await inbox.until(len(wanted))
        await until(lambda: sum(committed(penstock, "billing").values()) == 5, "the commit of all, wanted or not")
    assert set(inbox.bodies) == wanted


async def test_tags_with_one_hash_are_told_apart_here(penstock, producer):
    """Aa and BB have the same hash, and brokers filter by that."""
    inbox = Inbox()
    for tag in ("BB", "Aa"):
        await producer.send(Message("orders", tag.encode(), tags=tag))
    async with consumer(penstock, "billing", inbox, topics={"orders": "Aa"}):
        await inbox.until(1)
        await until(lambda: sum(committed(penstock, "billing").values()) == 2, "the commit of both")
    assert inbox.bodies == [b"Aa"]


async def test_a_sql_filter_is_the_brokers_and_a_bad_one_is_refused_at_the_start(penstock, producer):
    inbox = Inbox()
    for price in (5, 15, 25):
        await producer.send(Message("orders", b"%d" % price, properties={"price": str(price)}))
    one = consumer(penstock, "billing", inbox, topics={})
    await one.subscribe("orders", "price > 10", "SQL92")
    async with one:
        await inbox.until(2)
    assert sorted(inbox.bodies) == [b"15", b"25"]
    bad = consumer(penstock, "billing", inbox, topics={})
    await bad.subscribe("orders", "price >", "SQL92")
    with pytest.raises(BadExpression):
        await bad.start()


async def test_a_filter_that_is_refused_while_it_runs_changes_nothing(penstock, producer):
    inbox = Inbox()
    await send(producer, 4)
    async with consumer(penstock, "billing", inbox) as one:
        with pytest.raises(BadExpression):
            await one.subscribe("orders", "price >", "SQL92")
        await inbox.until(4)
        assert one.subscriptions["orders"].expression == "*"


async def test_subscribing_and_unsubscribing_while_it_runs(penstock, producer):
    inbox = Inbox()
    await send(producer, 4), await send(producer, 4, "parcels", first=4)
    async with consumer(penstock, "billing", inbox) as one:
        await inbox.until(4)
        await one.subscribe("parcels")
        await inbox.until(8)
        await one.unsubscribe("orders")
        assert (owned(one), owned(one, "parcels")) == ([], [0, 1, 2, 3])
    assert {message.topic for message in inbox.messages[4:]} == {"parcels"}


async def test_a_loop_over_a_consumer(penstock, producer):
    """The last message is done too when the consumer is closed in good order, and is not when the body raised."""
    bodies, got = await send(producer, 10), []
    async with consumer(penstock, "billing") as one:
        async for message in one:
            got.append(message.body)
            if len(got) == 4:
                break
    assert sum(committed(penstock, "billing").values()) == 4
    with pytest.raises(RuntimeError):
        await one_that_fails(penstock)
    async with consumer(penstock, "billing") as one:
        async for message in one:
            got.append(message.body)
            if len(got) == 10:
                break
    assert sorted(got) == sorted(bodies)


async def one_that_fails(penstock):
    async with consumer(penstock, "billing") as one:
        async for _ in one:
            raise RuntimeError


async def test_only_so_many_are_in_hand(penstock, producer):
    """Flow control: a handler that stands still is not swamped, and goes on where it was."""
    going, inbox = asyncio.Event(), Inbox(lambda message: going.wait())
    penstock.server.broker.topics.create_now("orders", TopicSettings(write_queues=1))
    await send(producer, 100)
    settings = ConsumerSettings(queue_messages_max=10, pull_messages=4, concurrency=2)
    async with consumer(penstock, "billing", inbox, settings=settings) as one:
        await inbox.until(2)
        [held] = [held for queue, held in one.owned.items() if queue.topic == "orders"]
        await until(lambda: held.full, "the limit")
        assert 10 < held.count <= 14
        going.set()
        await inbox.until(100)
    assert inbox.counts == {b"%d" % number: 1 for number in range(100)}


class Ahead(SystemClock):
    """An hour ahead of the others."""

    def now_ms(self) -> int:
        return super().now_ms() + 3_600_000


# --- sharing ----------------------------------------------------------------------------------------------------------


async def test_s07_a_change_of_ownership_is_told_before_the_first_pull(penstock, producer, refused):
    """A comes, B comes, B goes: nobody is ever refused for a version that the broker has not heard of."""
    a, b = Inbox(), Inbox()
    await send(producer, 40)
    async with consumer(penstock, "billing", a) as one:
        await a.until(40)
        await until(lambda: sum(committed(penstock, "billing").values()) == 40, "the commit")  # so that B repeats none
        async with consumer(penstock, "billing", b) as two:
            await until(lambda: (len(owned(one)), len(owned(two))) == (2, 2), "the shares")
            await send(producer, 40, first=40)
            await until(lambda: len(a.messages) + len(b.messages) >= 80, "the messages")
        await until(lambda: owned(one) == [0, 1, 2, 3], "the share of the one that is left")
        await send(producer, 8, first=80)
        await until(lambda: len(a.messages) + len(b.messages) >= 88, "the messages")
    assert refused == []
    assert a.counts + b.counts == {b"%d" % number: 1 for number in range(88)}


async def test_s07_what_stays_is_pulled_as_before_until_the_change_is_told(penstock, producer, refused):
    """While A's heartbeat is on its way, the queues that A keeps go on, with the version that was told. (A's clock is
    ahead, so that it is A's version that counts, and not B's.)
    """
    a, b = Inbox(), Inbox()
    await send(producer, 8)
    async with consumer(penstock, "billing", a, clock=Ahead()) as one:
        await a.until(8)
        held, on_its_way, heartbeat = asyncio.Event(), asyncio.Event(), one.instance.heartbeat

        async def slow_heartbeat():
            on_its_way.set()
            await held.wait()
            await heartbeat()

        one.instance.heartbeat = slow_heartbeat
        async with consumer(penstock, "billing", b):
            await on_its_way.wait()
            for number in range(8, 32, 4):  # each wakes the pulls that wait, and they pull again
                await send(producer, 4, first=number)
                await until(lambda number=number: len(a.messages) + len(b.messages) >= number + 4, "the messages")
            held.set()
    assert refused == []


async def test_s10_a_rebalance_follows_members_and_queues(penstock, producer):
    await send(producer, 4)
    async with consumer(penstock, "billing", Inbox()) as one:
        assert owned(one) == [0, 1, 2, 3]
        async with consumer(penstock, "billing", Inbox()) as two:
            await until(lambda: sorted(owned(one) + owned(two)) == [0, 1, 2, 3] and owned(one), "two shares")
        await until(lambda: owned(one) == [0, 1, 2, 3], "all queues again")
        topics = penstock.server.broker.topics
        await topics.alter("orders", TopicSettings(write_queues=6, read_queues=6))
        await until(lambda: owned(one) == [0, 1, 2, 3, 4, 5], "the new queues")


async def test_members_share_without_overlap_and_nothing_is_left(penstock, producer):
    inboxes = [Inbox() for _ in range(3)]
    await send(producer, 4)
    consumers = [consumer(penstock, "billing", inbox) for inbox in inboxes]
    for one in consumers:
        await one.start()
    await until(
        lambda: (
            sorted(queue for one in consumers for queue in owned(one)) == [0, 1, 2, 3]
            and all(owned(one) for one in consumers)
        ),
        "three shares",
    )
    await send(producer, 100, first=4)
    await until(lambda: sum(len(inbox.messages) for inbox in inboxes) >= 104, "the messages")
    assert Counter(body for inbox in inboxes for body in inbox.bodies) == {b"%d" % number: 1 for number in range(104)}
    for one in consumers:
        await one.close()


async def test_a_list_of_queues_is_read_once_though_the_strategy_gives_it_for_every_topic(penstock, producer):
    """The group's retry topic is a topic, too."""
    bodies, inbox = await send(producer, 12), Inbox()
    queues = await producer.queues("orders")
    async with consumer(penstock, "billing", inbox, strategy=ByConfig(queues)) as one:
        await inbox.until(len(bodies))
        await one.instance.refresh()
        await one._holding.rebalance()
        bodies += await send(producer, 12, first=12)
        await inbox.until(len(bodies))
    assert inbox.counts == Counter(bodies)


async def test_closing_in_the_middle_of_a_rebalance_stores_what_was_done(penstock, producer):
    """B comes, and A is about to let two queues go when it is closed: a handler still has a message of each."""
    going, inbox = asyncio.Event(), Inbox(lambda message: going.wait())
    await send(producer, 4)
    settings = ConsumerSettings(handover_ms=10_000)
    timers = Timers(persist_interval_ms=60_000)
    one = consumer(penstock, "billing", inbox, settings=settings, timers=timers)
    await one.start()
    await inbox.until(4)
    two = consumer(penstock, "billing", Inbox(), start=LAST, timers=timers)
    two.pause()
    async with two:
        await until(lambda: len(owned(one)) == 2, "the letting go")
        closing = asyncio.ensure_future(one.close())
        await asyncio.sleep(0.05)
        going.set()
        await closing
        assert committed(penstock, "billing") == dict.fromkeys(range(4), 1)


async def test_what_is_being_moved_is_not_persisted(penstock, producer):
    inbox = Inbox()
    await send(producer, 8)
    async with consumer(penstock, "billing", inbox, timers=Timers()) as one:
        await inbox.until(8)
        for held in one.owned.values():
            held.settle()
        await one._holding.persist()
    assert committed(penstock, "billing") == {}


async def test_a_consumer_that_leaves_is_not_in_the_group_any_more(penstock, producer):
    await send(producer, 1)
    async with consumer(penstock, "billing", Inbox()) as one:
        group = penstock.server.broker.groups.find("billing")
        assert group.client_ids == [one.instance.client_id]
    assert penstock.server.broker.groups.find("billing") is None


# --- trouble ----------------------------------------------------------------------------------------------------------


async def test_no_name_server_is_said_at_the_start():
    one = PushConsumer("127.0.0.1:1", "billing", Inbox(), topics={"orders": "*"})
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1"):
        await one.start()


async def test_a_topic_that_comes_later_is_found(penstock, producer):
    inbox = Inbox()
    async with consumer(penstock, "billing", inbox):
        await send(producer, 4)
        await inbox.until(4)
