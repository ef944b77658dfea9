"""Policies: kept through restarts and crashes, a topic's own before its namespace's; what they do in time."""

import pytest
from tests.core.subscriptions.test_registry import SHARED, Desk

from penstock.core.policies import (
    NONE,
    Creation,
    Delaying,
    Policies,
    PolicyBook,
    Quota,
    Rate,
    Reaction,
    Retention,
    merged,
)
from penstock.core.producers import Access, Producers, Seat
from penstock.core.retention import apply_retention
from penstock.core.topics import TopicSettings
from penstock.core.upkeep import Upkeep
from penstock.errors import ProducerBusy, QuotaExceeded, QuotaHolds
from penstock.wire.plain import plain

EVERYTHING = Policies(
    ttl_s=1,
    retention=Retention(2, None),
    size_quota=Quota(3, Reaction.EVICT),
    age_quota=Quota(4),
    deduplication=False,
    unacked_per_consumer_max=5,
    unacked_per_subscription_max=6,
    producers_max=7,
    consumers_max=8,
    consumers_per_subscription_max=9,
    subscriptions_max=10,
    message_bytes_max=11,
    subscribe_rate=Rate(12, 13),
    delaying=Delaying(False, 14, 15),
    compaction_threshold_bytes=16,
    topic_creation=Creation(False, 17),
    subscription_creation=False,
)


class Owner:
    """A producer that remembers why it had to go."""

    def __init__(self):
        self.why = []

    def seated(self, seat):
        raise AssertionError("nobody waits here")

    def unseated(self, seat, why):
        self.why.append(type(why))


def book_of(house):
    book = PolicyBook(house.store, house.keeper, house.topics, house.bus)
    book.serve(lambda topic: "a/n", Policies(ttl_s=9, deduplication=True))
    return book


class Keeping:
    """A queue with a durable subscription `s`, and those who keep its policies."""

    def __init__(self, house, folder):
        self.house, self.desk = house, Desk(house, folder)
        self.book = book_of(house)
        self.book.serve(lambda topic: "a/n", NONE)
        self.producers = Producers(house.store, house.keeper)
        self.upkeep = Upkeep(house.store, house.topics, self.book, self.desk.subscriptions, self.producers, house.clock)
        self.producers.guard(self.upkeep.admit)

    async def begin(self, messages):
        """A message a second."""
        place = await self.desk.queue()
        self.queue = place.queue
        self.attached = await self.desk.subscriptions.create(place, "s", 0, SHARED)
        for number in range(messages):
            await self.house.publish(plain(self.queue, b"%d" % number))
            self.house.clock.advance(1_000)

    @property
    def mark(self):
        return self.attached.subscription.cursor.mark

    async def seat(self, name="p"):
        owner = Owner()
        await self.producers.take(Seat(self.queue, name, Access.SHARED, owner))
        return owner

    def retain(self):
        needed, kept = self.desk.subscriptions.first_unacked, lambda topic: self.book.applied(topic.name).retention
        apply_retention(self.house.store, self.house.topics, self.house.clock, self.house.bus, needed, kept)


@pytest.fixture
def keeping(house, tmp_path):
    return Keeping(house, tmp_path)


# --- keeping them -----------------------------------------------------------------------------------------------------


def test_what_is_not_said_is_said_by_the_next():
    assert merged(NONE, EVERYTHING) == merged(EVERYTHING, NONE) == EVERYTHING
    assert merged(Policies(ttl_s=0), EVERYTHING).ttl_s == 0
    assert merged(Policies(ttl_s=0), EVERYTHING).deduplication is False


@pytest.mark.parametrize("back", ["restart", "kill"])
async def test_they_are_there_after_a_restart_and_a_crash(street, back):
    book = book_of(street.house)
    assert not book
    await book.set_namespace("a/n", {field: getattr(EVERYTHING, field) for field in Policies.__struct_fields__})
    await book.set_topic("t", {"ttl_s": 5})
    again = book_of(await getattr(street, back)())
    assert again.of_namespace("a/n") == EVERYTHING
    assert again.of_topic("t") == Policies(ttl_s=5)


async def test_a_topics_own_goes_before_its_namespaces_and_that_before_the_defaults(house):
    book, told = book_of(house), []
    book.on_change(lambda: told.append("changed"))
    assert (book.applied("t").ttl_s, book.applied("t").deduplication) == (9, True)
    await book.set_namespace("a/n", {"ttl_s": 7})
    await book.set_topic("t", {"ttl_s": 5, "retention": Retention()})
    assert (book.applied("t").ttl_s, book.applied("other").ttl_s, book.in_namespace("a/n").ttl_s) == (5, 7, 7)
    await book.set_topic("t", {"ttl_s": None})
    assert book.applied("t") == Policies(ttl_s=7, retention=Retention(), deduplication=True)
    await book.set_namespace("a/n", {"ttl_s": None})
    assert book.applied("other").ttl_s == 9
    assert told == ["changed"] * 4


async def test_they_are_gone_with_their_topic_and_namespace(street):
    book = book_of(street.house)
    await street.house.topics.create("t", TopicSettings(write_queues=1))
    await book.set_topic("t", {"ttl_s": 5})
    await book.set_namespace("a/n", {"ttl_s": 7})
    await street.house.topics.delete("t")
    book.forget_namespace("a/n")
    assert not book
    assert book.applied("t").ttl_s == 9
    assert not book_of(await street.restart())


# --- expiry -----------------------------------------------------------------------------------------------------------


async def test_what_is_older_than_its_time_to_live_counts_as_consumed(keeping):
    await keeping.begin(5)
    await keeping.book.set_topic("orders", {"ttl_s": 3})
    keeping.upkeep.tick()
    assert keeping.mark == 2  # stored 5, 4, 3, 2 and 1 seconds ago
    keeping.house.clock.advance(60_000)
    keeping.upkeep.tick()
    assert keeping.mark == 5
    await keeping.book.set_topic("orders", {"ttl_s": 0})
    await keeping.house.publish(plain(keeping.queue, b"x"))
    keeping.house.clock.advance(60_000)
    keeping.upkeep.tick()
    assert keeping.mark == 5


async def test_it_holds_for_subscriptions_that_nobody_has_asked_for_since_the_start(street, tmp_path):
    before = Keeping(street.house, tmp_path)
    await before.begin(5)
    before.attached.subscription.ack(4)
    before.desk.subscriptions.touch(before.attached)
    before.desk.keep()
    before.desk.progress.abandon()
    after = Keeping(await street.restart(), tmp_path)
    await after.book.set_namespace("a/n", {"ttl_s": 3})
    after.upkeep.tick()
    assert after.desk.subscriptions.first_unacked(before.queue) == 2
    attached = after.desk.subscriptions.get(before.desk.place, "s")
    assert (attached.subscription.cursor.mark, attached.subscription.cursor.is_acked(4)) == (2, True)


# --- retention --------------------------------------------------------------------------------------------------------


async def test_retention_by_policy_keeps_what_is_needed(keeping):
    await keeping.begin(5)
    await keeping.book.set_topic("orders", {"retention": Retention(2_000, None)})
    keeping.retain()
    assert len(keeping.house.bodies(keeping.queue)) == 5  # the subscription needs it all
    keeping.attached.subscription.ack_until(4)
    keeping.retain()
    assert keeping.house.bodies(keeping.queue) == [b"3", b"4"]
    await keeping.book.set_topic("orders", {"retention": Retention(None, 1)})
    keeping.retain()
    assert keeping.house.bodies(keeping.queue) == [b"4"]


async def test_a_retention_without_limits_keeps_all(keeping):
    place = await keeping.desk.queue(retention_ms=1_000)
    await keeping.house.publish(plain(place.queue, b"x"))
    keeping.house.clock.advance(60_000)
    await keeping.book.set_topic("orders", {"retention": Retention()})
    keeping.retain()
    assert keeping.house.bodies(place.queue) == [b"x"]
    await keeping.book.set_topic("orders", {"retention": None})
    keeping.retain()
    assert keeping.house.bodies(place.queue) == []


async def test_a_retention_of_nothing_takes_what_all_have_consumed(keeping):
    await keeping.begin(3)
    await keeping.book.set_topic("orders", {"retention": Retention(0, 0)})
    keeping.attached.subscription.ack_until(2)
    keeping.retain()
    assert keeping.house.bodies(keeping.queue) == [b"2"]
    await keeping.desk.subscriptions.delete(keeping.attached)
    keeping.retain()
    assert keeping.house.bodies(keeping.queue) == [b"2"]  # nobody has subscribed: it waits for the topic's own


# --- quotas -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("reaction", "error"), [(Reaction.HOLD, QuotaHolds), (Reaction.REFUSE, QuotaExceeded)])
@pytest.mark.parametrize("kind", ["size_quota", "age_quota"])
async def test_above_a_quota_producers_are_sent_away_and_refused_until_it_is_consumed(keeping, reaction, error, kind):
    await keeping.begin(5)
    limit = {"size_quota": 1, "age_quota": 3}[kind]
    producer = await keeping.seat()
    await keeping.book.set_topic("orders", {kind: Quota(limit, reaction)})
    keeping.upkeep.tick()
    assert producer.why == [error]
    with pytest.raises(QuotaExceeded) as refused:
        await keeping.seat()
    assert type(refused.value) is error
    keeping.attached.subscription.ack_until(5)
    another = await keeping.seat()
    keeping.upkeep.tick()
    assert another.why == []


async def test_above_a_quota_the_oldest_are_passed_over(keeping):
    await keeping.begin(5)
    size_bytes = keeping.house.store.table(keeping.queue).live_bytes
    await keeping.book.set_topic("orders", {"size_quota": Quota(size_bytes, Reaction.EVICT)})
    keeping.upkeep.tick()
    assert keeping.mark == 0
    await keeping.book.set_topic("orders", {"size_quota": Quota(size_bytes - 1, Reaction.EVICT)})
    keeping.upkeep.tick()
    assert keeping.mark == 1
    await keeping.book.set_topic("orders", {"size_quota": None, "age_quota": Quota(2, Reaction.EVICT)})
    keeping.upkeep.tick()
    assert keeping.mark == 3
    assert (await keeping.seat()).why == []


async def test_a_quota_without_a_limit_or_without_subscriptions_holds_nobody_up(keeping):
    await keeping.begin(2)
    await keeping.book.set_topic("orders", {"size_quota": Quota(-1), "age_quota": Quota(-1)})
    await keeping.seat("p")
    await keeping.desk.subscriptions.delete(keeping.attached)
    await keeping.book.set_topic("orders", {"size_quota": Quota(0), "age_quota": Quota(1)})
    await keeping.seat("q")


async def test_a_topic_has_no_more_producers_than_its_policy_says(keeping):
    await keeping.begin(0)
    await keeping.book.set_topic("orders", {"producers_max": 1})
    await keeping.seat("p")
    with pytest.raises(ProducerBusy, match="Topic reached max producers limit"):
        await keeping.seat("q")
