"""Publishing: many at once, acknowledged when durable, each message once, all or nothing."""

import contextlib
import random

import pytest

from penstock.config import BrokerConfig
from penstock.core.publish import SLACK_BYTES, Publisher
from penstock.core.topics import TopicSettings
from penstock.core.waits import Waits
from penstock.errors import MessageTooLarge, QueueNotFound
from penstock.model import Durability
from penstock.store.keeper import Keeper
from penstock.testing.disk import FaultyDisk, Mode
from penstock.testing.workload import open_store, small_config
from penstock.wire.plain import message_in, plain, plain_run

BACK_AGAIN = pytest.mark.parametrize("back", ["restart", "kill"])


def numbered(queue: int, sequence: int, body: bytes = b"", producer: int = 1):
    return plain(queue, body or b"%d" % sequence, producer=producer, sequence=sequence)


# --- acknowledging ----------------------------------------------------------------------------------------------------


def test_many_entries_are_acknowledged_by_one_call(still_house):
    topic, told = still_house.topic_now("orders", queues=3), []
    entries = [plain(queue, b"%d" % number) for number in range(50) for queue in topic.queues]
    still_house.publisher.publish(entries, told.append)
    assert told == []
    still_house.store.flush()
    assert told == [None]
    still_house.store.flush()
    assert told == [None]


def test_a_sync_queue_shows_nothing_before_it_is_durable(still_house):
    queue = still_house.topic_now("orders").queue(0)
    still_house.publisher.publish([plain(queue, b"a")], lambda error: None)
    assert still_house.store.bounds(queue).max_offset == 0
    assert still_house.bodies(queue) == []
    still_house.store.flush()
    assert still_house.store.bounds(queue).max_offset == 1
    assert still_house.bodies(queue) == [b"a"]


def test_an_async_queue_shows_and_acknowledges_at_once(still_house):
    queue, told = still_house.topic_now("logs", durability=Durability.ASYNC).queue(0), []
    still_house.publisher.publish([plain(queue, b"a")], told.append)
    assert told == [None]
    assert still_house.bodies(queue) == [b"a"]


def test_a_call_to_both_kinds_of_queue_waits_for_the_strict_one(still_house):
    strict, told = still_house.topic_now("orders").queue(0), []
    lax = still_house.topic_now("logs", durability=Durability.ASYNC).queue(0)
    still_house.publisher.publish([plain(lax, b"a"), plain(strict, b"b")], told.append)
    assert told == []
    still_house.store.flush()
    assert told == [None]


async def test_the_producer_is_told_before_consumers_are_woken(house):
    topic = await house.topics.create("orders", TopicSettings(write_queues=1))
    queue, order = topic.queue(0), []
    house.waits.park(queue, 60_000, lambda there: order.append("consumer"))
    house.publisher.publish([plain(queue, b"a")], lambda error: order.append("producer"))
    await house.keeper.durable(house.store.end_position)
    assert order == ["producer", "consumer"]


async def test_what_the_producer_was_told_of_can_be_read(house):
    """At the moment of the acknowledgement, not some time later."""
    topic = await house.topics.create("orders", TopicSettings(write_queues=1))
    queue, seen = topic.queue(0), []
    house.publisher.publish([plain(queue, b"a")], lambda error: seen.extend(house.bodies(queue)))
    await house.keeper.durable(house.store.end_position)
    assert seen == [b"a"]


async def test_publishing_nothing_is_acknowledged(house):
    await house.publish()


def test_a_callback_that_fails_does_not_keep_others_waiting(still_house):
    """One connection's mistake is not another's hang."""
    queue, told = still_house.topic_now("orders").queue(0), []

    def fails(error):
        raise RuntimeError("the connection of this one is gone")

    still_house.publisher.publish([plain(queue, b"a")], fails)
    still_house.publisher.publish([plain(queue, b"b")], told.append)
    with contextlib.suppress(RuntimeError):  # logged or raised: the other one is told
        still_house.store.flush()
    assert told == [None]


# --- order and numbers ------------------------------------------------------------------------------------------------


async def test_a_queue_keeps_the_order_over_calls_and_within_them(house):
    topic = await house.topics.create("orders", TopicSettings(write_queues=2))
    one, two = topic.queues
    for call in range(10):
        await house.publish(*(plain(queue, b"%d.%d" % (call, number)) for number in range(3) for queue in (two, one)))
    wanted = [b"%d.%d" % (call, number) for call in range(10) for number in range(3)]
    assert house.bodies(one) == house.bodies(two) == wanted


async def test_offsets_are_dense_per_queue_and_told_to_the_entry(house):
    topic = await house.topics.create("orders", TopicSettings(write_queues=2))
    one, two = topic.queues
    entries = [plain(queue, b"x") for queue in (one, two, one, one, two)]
    await house.publish(*entries)
    assert [entry.offset for entry in entries] == [0, 0, 1, 2, 1]
    assert [message_in(payload).offset for payload in house.read(one).payloads] == [0, 1, 2]


async def test_a_run_gets_a_row_for_each_message(house):
    topic = await house.topics.create("orders", TopicSettings(write_queues=1))
    queue = topic.queue(0)
    run = plain_run([plain(queue, b"%d" % number, tags="red" if number % 2 else "") for number in range(20)])
    after = plain(queue, b"after")
    await house.publish(run, after)
    batch = house.read(queue)
    assert [message_in(payload).body for payload in batch.payloads] == [b"%d" % number for number in range(20)] + [
        b"after"
    ]
    assert batch.rows["base"].tolist() == list(range(21))
    assert [tag != 0 for tag in batch.rows["tag"].tolist()] == [bool(number % 2) for number in range(20)] + [False]
    assert (after.offset, after.row) == (20, 20)


async def test_a_closed_batch_is_one_row_that_takes_its_offsets(house):
    topic = await house.topics.create("orders", TopicSettings(write_queues=1))
    queue = topic.queue(0)
    closed, after = plain(queue, b"three in one"), plain(queue, b"after")
    closed.count = 3
    await house.publish(closed, after)
    assert (after.offset, after.row) == (3, 1)
    assert house.bodies(queue) == [b"three in one", b"after"]


@BACK_AGAIN
async def test_a_clock_that_is_set_back_does_not_set_messages_back(street, clock, back):
    """Store times never go back, so that a search by time stays right, also over a restart."""
    topic = await street.house.topics.create("orders", TopicSettings(write_queues=1))
    queue, begun = topic.queue(0), clock.now_ms()
    await street.house.publish(plain(queue, b"before"))
    clock.advance(-3_600_000)
    await street.house.publish(plain(queue, b"after"))
    house = await getattr(street, back)()
    await house.publish(plain(queue, b"later"))
    assert house.read(queue).rows["time"].tolist() == [begun] * 3
    assert house.store.offset_at_time(queue, begun + 1) == 3


# --- all or nothing ---------------------------------------------------------------------------------------------------


async def test_a_message_above_the_limit_is_refused_with_all_its_companions(open_street):
    async with open_street(message_bytes_max=1_000) as street:
        house = street.house
        topic = await house.topics.create("orders", TopicSettings(write_queues=1))
        queue, told, end = topic.queue(0), [], house.store.end_position
        with pytest.raises(MessageTooLarge, match="limit of 66536") as refused:
            house.publisher.publish([plain(queue, b"small"), plain(queue, bytes(66_536))], told.append)
        assert refused.value.limit_bytes == 1_000 + SLACK_BYTES
        assert (told, house.store.end_position, house.bodies(queue)) == ([], end, [])
        entry = plain(queue, b"next")
        await house.publish(entry)
        assert entry.offset == 0


async def test_a_message_of_exactly_the_limit_is_taken_with_what_is_stored_beside_its_body(open_street):
    store_config = small_config()
    store_config.segment_bytes = 1 << 20
    async with open_street(store_config, message_bytes_max=1_000) as street:
        topic = await street.house.topics.create("orders", TopicSettings(write_queues=1))
        queue = topic.queue(0)
        for body_bytes in (1_000, 1_000 + SLACK_BYTES - plain(1, b"").length):
            await street.house.publish(plain(queue, bytes(body_bytes)))
        assert len(street.house.bodies(queue)) == 2
        with pytest.raises(MessageTooLarge):
            await street.house.publish(plain(queue, bytes(body_bytes + 1)))


async def test_who_looks_at_bodies_himself_may_publish_whatever_the_log_takes(open_street):
    async with open_street(message_bytes_max=10) as street:
        topic, publisher = (
            await street.house.topics.create("orders", TopicSettings(write_queues=1)),
            street.house.publisher,
        )
        queue, entry_bytes_max = topic.queue(0), publisher.entry_bytes_max
        assert publisher.body_bytes_max == 10
        largest = plain(queue, bytes(entry_bytes_max - plain(1, b"").length))
        publisher.check_length(largest.length)
        publisher.publish([largest], lambda error: None, entry_bytes_max)
        with pytest.raises(MessageTooLarge):
            publisher.check_length(largest.length + 1)


async def test_an_entry_larger_than_a_segment_is_refused_with_all_its_companions(house):
    topic = await house.topics.create("orders", TopicSettings(write_queues=1))
    queue, end = topic.queue(0), house.store.end_position
    with pytest.raises(MessageTooLarge):
        house.publisher.publish([plain(queue, b"small"), plain(queue, bytes(70_000))], lambda error: None)
    assert (house.store.end_position, house.bodies(queue)) == (end, [])


async def test_an_unknown_queue_among_known_ones_stores_nothing(street):
    topic = await street.house.topics.create("orders", TopicSettings(write_queues=1))
    queue, told = topic.queue(0), []
    with pytest.raises(QueueNotFound, match="queue 4711"):
        street.house.publisher.publish([plain(queue, b"a"), plain(4711, b"b")], told.append)
    await street.house.publish(plain(queue, b"c"))
    assert (told, street.house.bodies(queue)) == ([], [b"c"])
    house = await street.kill()
    assert house.bodies(queue) == [b"c"]


# --- each message once ------------------------------------------------------------------------------------------------


async def test_a_resent_message_is_acknowledged_and_not_stored_again(house):
    topic = await house.topics.create("orders", TopicSettings(write_queues=1))
    queue, again = topic.queue(0), numbered(topic.queue(0), 7)
    await house.publish(numbered(queue, 7))
    await house.publish(again)
    assert house.bodies(queue) == [b"7"]
    assert (again.offset, house.publisher.duplicates) == (-1, 1)
    assert house.publisher.last_sequence(queue, 1) == 7


async def test_duplicates_within_one_call(house):
    topic = await house.topics.create("orders", TopicSettings(write_queues=1))
    queue = topic.queue(0)
    await house.publish(*(numbered(queue, sequence) for sequence in (0, 1, 1, 0, 2)))
    assert house.bodies(queue) == [b"0", b"1", b"2"]
    assert house.publisher.duplicates == 2


async def test_producers_and_queues_have_sequences_of_their_own(house):
    topic = await house.topics.create("orders", TopicSettings(write_queues=2))
    one, two = topic.queues
    await house.publish(numbered(one, 5), numbered(two, 5), numbered(one, 5, producer=2))
    assert (len(house.bodies(one)), len(house.bodies(two))) == (2, 1)
    assert house.publisher.last_sequence(two, 2) == -1


async def test_without_a_producer_nothing_is_a_duplicate(house):
    topic = await house.topics.create("orders", TopicSettings(write_queues=1))
    await house.publish(*(plain(topic.queue(0), b"same", sequence=1) for _ in range(3)))
    assert house.bodies(topic.queue(0)) == [b"same"] * 3


@BACK_AGAIN
async def test_a_message_resent_after_the_broker_came_back_is_not_stored_again(street, back):
    topic = await street.house.topics.create("orders", TopicSettings(write_queues=1))
    queue = topic.queue(0)
    await street.house.publish(numbered(queue, 0), numbered(queue, 1))
    house = await getattr(street, back)()
    await house.publish(numbered(queue, 1), numbered(queue, 2))
    assert house.bodies(queue) == [b"0", b"1", b"2"]


@BACK_AGAIN
async def test_a_resent_run_is_a_duplicate_as_a_whole(street, back):
    topic = await street.house.topics.create("orders", TopicSettings(write_queues=1))
    queue = topic.queue(0)

    def run():
        return plain_run([plain(queue, b"a"), plain(queue, b"b")], producer=3, sequence=1)

    await street.house.publish(run())
    house = await getattr(street, back)()
    await house.publish(run())
    assert house.bodies(queue) == [b"a", b"b"]


@BACK_AGAIN
async def test_a_message_that_retention_took_is_a_duplicate_all_the_same(street, back):
    topic = await street.house.topics.create("orders", TopicSettings(write_queues=1))
    queue = topic.queue(0)
    await street.house.publish(numbered(queue, 0))
    street.house.store.trim(queue, 1)
    house = await getattr(street, back)()
    await house.publish(numbered(queue, 0))
    assert house.bodies(queue) == []


async def test_a_refused_message_may_be_sent_again(house):
    """Its sequence was not used up by the attempt."""
    topic = await house.topics.create("orders", TopicSettings(write_queues=1))
    queue = topic.queue(0)
    with pytest.raises(QueueNotFound):
        house.publisher.publish([numbered(queue, 0), plain(4711, b"")], lambda error: None)
    await house.publish(numbered(queue, 0))
    assert house.bodies(queue) == [b"0"]


def test_a_duplicate_waits_for_its_original(still_house):
    queue, told = still_house.topic_now("orders").queue(0), []
    still_house.publisher.publish([numbered(queue, 0)], lambda error: told.append("first"))
    still_house.publisher.publish([numbered(queue, 0)], lambda error: told.append("again"))
    assert told == []
    still_house.store.flush()
    assert told == ["first", "again"]


def test_a_duplicate_waits_for_its_original_in_whatever_company(still_house):
    """A new message for a queue that never waits does not speak for it."""
    strict, told = still_house.topic_now("orders").queue(0), []
    lax = still_house.topic_now("logs", durability=Durability.ASYNC).queue(0)
    still_house.publisher.publish([numbered(strict, 0)], lambda error: None)
    still_house.publisher.publish([numbered(strict, 0), plain(lax, b"new")], told.append)
    assert told == []
    still_house.store.flush()
    assert told == [None]


def test_the_producer_that_was_silent_longest_is_forgotten_first(open_house, clock):
    store_config = small_config()
    store_config.producers_max = 2
    house = open_house(store_config)
    queue = house.topic_now("orders").queue(0)
    for producer in (1, 2, 1, 3):
        house.publisher.publish(
            [numbered(queue, house.publisher.last_sequence(queue, producer) + 1, b"x", producer)], print
        )
    assert [house.publisher.last_sequence(queue, producer) for producer in (1, 2, 3)] == [1, -1, 0]


# --- a power cut ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_whatever_was_acknowledged_survives_a_power_cut_once(seed, clock):
    """A producer that resends what was not acknowledged ends up with each message once."""
    choose, disk = random.Random(seed), FaultyDisk()
    store = open_store(disk, clock)
    store.create_queue(1, Durability.SYNC)
    store.flush()
    publisher = Publisher(store, Keeper(store, clock, small_config()), Waits(1), BrokerConfig())
    for sequence in range(30):
        publisher.publish([numbered(1, sequence)], lambda error: None)
        if choose.random() < 0.2:
            store.flush()
    store = open_store(disk.crash(choose, choose.choice(list(Mode))), clock)
    publisher = Publisher(store, Keeper(store, clock, small_config()), Waits(1), BrokerConfig())
    publisher.publish([numbered(1, sequence) for sequence in range(30)], lambda error: None)
    store.flush()
    payloads = store.read(1, 0, 1_000, 1_000_000).payloads
    assert [message_in(payload).body for payload in payloads] == [b"%d" % sequence for sequence in range(30)]
