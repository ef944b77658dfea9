"""The rules of dispatch, one by one."""

import pytest
from tests.core.subscriptions.world import Entry, World

from penstock.core.subscriptions import shared, single
from penstock.core.subscriptions.keyed import SLOTS, Ranges, Ring, slot_of
from penstock.core.subscriptions.seats import Offer, Seat
from penstock.core.subscriptions.shared import Turns
from penstock.core.subscriptions.single import active_of
from penstock.core.subscriptions.subscription import Kind, Limits, Style
from penstock.errors import ConsumerBusy, RangesOverlap


def rows(client):
    return [row for row, _ in client.got]


# --- permits ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(Kind))
def test_s40_without_permits_nothing_goes_out(kind):
    world = World([Entry(1)] * 3, kind)
    client = world.join()
    world.pump()
    assert client.got == []


@pytest.mark.parametrize("kind", list(Kind))
def test_s40_a_consumer_is_overshot_by_one_entry_at_most_and_does_not_stall(kind):
    """A receiver queue of 10 and batches of 1,000."""
    world = World([Entry(1_000)] * 3, kind)
    client = world.join()
    world.flow(client, 10)
    world.pump()
    assert rows(client) == [0]
    assert client.seat.permits == -990
    world.flow(client, 990)
    world.pump()
    assert rows(client) == [0]  # an account of 0 is not above 0
    world.flow(client, 10)
    world.pump()
    assert rows(client) == [0, 1]


@pytest.mark.parametrize("kind", [Kind.SHARED, Kind.KEY_SHARED])
def test_s42_at_the_limit_of_unacked_messages_permits_are_kept_aside(kind):
    world = World([Entry(1)] * 10, kind)
    client = world.join(unacked_max=4)
    world.flow(client, 4)
    world.pump()
    assert rows(client) == [0, 1, 2, 3]
    assert client.seat.blocked
    world.flow(client, 3)
    world.pump()
    assert (client.seat.permits, client.seat.kept_permits) == (0, 3)
    world.ack(client, 0)
    assert client.seat.blocked  # until half of them are settled
    world.ack(client, 1)
    assert (client.seat.blocked, client.seat.permits, client.seat.kept_permits) == (False, 3, 0)
    world.pump()
    assert rows(client) == [0, 1, 2, 3, 4, 5]


def test_the_limit_of_a_subscription_stops_what_is_new_but_not_what_comes_again():
    world = World([Entry(1)] * 10, Kind.SHARED, limits=Limits(unacked_max=4))
    one, other = world.join(), world.join()
    world.flow(one, 10)
    world.pump()
    assert rows(one) == [0, 1, 2, 3]
    assert world.subscription.blocked
    world.redeliver(one, [2])
    world.flow(other, 10)
    world.pump()
    assert rows(other) == [2] or rows(one)[-1] == 2
    assert len(rows(one)) + len(rows(other)) == 5
    for row in (0, 1, 3):
        world.subscription.ack(row)
    world.pump()
    assert not any(row not in rows(one) + rows(other) for row in range(5))


def test_more_offers_than_permits():
    """Permits may have gone while the entries were read."""
    offers = [Offer(row, 2) for row in range(5)]
    seat = Seat(0, permits=3)
    assert single.deal(offers, seat) == 2
    seats = [Seat(0, permits=1), Seat(1, permits=3)]
    given, left = Turns().deal(offers, seats)
    assert [(seat.number, offer.row) for seat, offer in given] == [(0, 0), (1, 1), (1, 2)]
    assert [offer.row for offer in left] == [3, 4]


@pytest.mark.parametrize("kind", list(Kind))
def test_what_was_read_before_a_seek_does_not_count(kind):
    world = World([Entry(1)] * 4, kind)
    client = world.join()
    world.flow(client, 2)
    world.pump()
    world.flow(client, 10)
    want = world.subscription.wanted(0, 4, 0)
    offers, until = world.read(want)
    world.subscription.seek(1)
    world.hand_out(want, offers, until)
    world.pump()
    assert rows(client) == [0, 1, 1, 2, 3]


# --- shared -----------------------------------------------------------------------------------------------------------


def test_consumers_take_turns_within_the_best_priority():
    world = World([Entry(1)] * 7, Kind.SHARED)
    first = [world.join(), world.join(), world.join()]
    second = [world.join(priority=1), world.join(priority=1)]
    for client, permits in zip(first + second, [2, 1, 1, 2, 1], strict=True):
        world.flow(client, permits)
    world.pump()
    assert [len(client.got) for client in first + second] == [2, 1, 1, 2, 1]
    assert {row for client in first for row in rows(client)} == {0, 1, 2, 3}


def test_what_a_consumer_had_goes_to_the_others_when_it_leaves_and_before_anything_new():
    world = World([Entry(1)] * 4, Kind.SHARED)
    gone, stays = world.join(), world.join()
    world.flow(gone, 2)
    world.pump()
    assert rows(gone) == [0, 1]
    world.leave(gone)
    world.flow(stays, 3)
    world.pump()
    assert stays.got == [(0, 0), (1, 0), (2, 0)]  # not counted as given back


def test_what_is_given_back_says_how_often():
    world = World([Entry(1)] * 2, Kind.SHARED)
    client = world.join()
    world.flow(client, 10)
    world.pump()
    world.redeliver(client, [1])
    world.pump()
    world.redeliver(client)
    world.pump()
    assert client.got == [(0, 0), (1, 0), (1, 1), (0, 1), (1, 2)]


def test_nobody_gives_back_what_another_has():
    world = World([Entry(1)] * 2, Kind.SHARED)
    one, other = world.join(), world.join()
    world.flow(one, 1)
    world.flow(other, 1)
    world.pump()
    world.subscription.redeliver(other, rows(one))
    world.flow(other, 1)
    world.pump()
    assert len(rows(other)) == 1


def test_the_parts_of_a_chunked_message_go_to_one_consumer():
    parts = [Entry(1, chunk="m", is_last_chunk=at == 3) for at in range(4)]
    world = World([Entry(1), *parts, Entry(1)], Kind.SHARED)
    clients = [world.join(), world.join()]
    for _ in range(6):
        for client in clients:
            world.flow(client, 1)
        world.pump()
    whole = [client for client in clients if 1 in rows(client)]
    assert len(whole) == 1
    assert set(rows(whole[0])) >= {1, 2, 3, 4}


def test_messages_in_chunks_that_never_end_are_forgotten_in_the_end(monkeypatch):
    monkeypatch.setattr(shared, "CHUNKED_MAX", 3)
    world = World([Entry(1, chunk=f"m{number}") for number in range(10)], Kind.SHARED)
    client = world.join()
    world.flow(client, 10)
    world.pump()
    assert rows(client) == list(range(10))
    assert list(world.subscription._turns._chunks) == ["m7", "m8", "m9"]


def part_in_the_replay():
    """A world in which the second part of a chunked message has come back, and its owner has no permits: row 1. Row 2
    has come back too.
    """
    world = World([Entry(1, chunk="m"), Entry(1, chunk="m"), Entry(1)], Kind.SHARED)
    owner = world.join()
    world.flow(owner, 3)
    world.pump()
    world.redeliver(owner, [1, 2])
    assert rows(owner) == [0, 1, 2]
    return world, owner


def test_a_part_that_waits_for_its_owner_holds_up_nobody_else():
    world, owner = part_in_the_replay()
    other = world.join()
    world.flow(other, 1)
    world.pump()
    assert rows(other) == [2]
    world.flow(owner, 1)
    world.pump()
    assert rows(owner)[3:] == [1]


def test_who_takes_more_again_gets_what_was_passed_over():
    world, owner = part_in_the_replay()
    world.set_open(owner, False)
    world.flow(owner, 1)
    other = world.join()
    world.flow(other, 5)
    world.pump()
    assert (rows(other), rows(owner)[3:]) == ([2], [])
    world.set_open(owner, True)
    world.pump()
    assert rows(owner)[3:] == [1]


def test_what_becomes_due_goes_out_although_others_wait_in_vain():
    world = World([Entry(1, chunk="m"), Entry(1, chunk="m"), Entry(1, due_ms=100)], Kind.SHARED)
    owner, other = world.join(), world.join()
    world.flow(owner, 2)
    world.pump()
    world.redeliver(owner, [1])
    world.flow(other, 5)
    world.pump()
    assert rows(other) == []
    world.now_ms = 100
    world.pump()
    assert rows(other) == [2]


def test_a_message_of_later_is_not_delivered_and_takes_no_permit():
    world = World([Entry(1, due_ms=100), Entry(1)], Kind.SHARED)
    client = world.join()
    world.flow(client, 2)
    world.pump()
    assert rows(client) == [1]
    assert client.seat.permits == 1
    assert world.subscription.next_ms(0) == 100
    world.now_ms = 100
    world.pump()
    assert rows(client) == [1, 0]


def test_part_of_a_batch_frees_part_of_the_account():
    world = World([Entry(4)], Kind.SHARED)
    client = world.join(unacked_max=4)
    world.flow(client, 10)
    world.pump()
    world.subscription.ack_part(0, 0b1010, 4)
    assert client.seat.unacked == 2
    assert not client.seat.blocked
    world.leave(client)
    again = world.join()
    world.flow(again, 10)
    world.pump()
    assert again.seat.permits == 8  # the two that are left
    world.subscription.ack_part(0, 0b0101, 4)
    assert world.subscription.backlog(1) == 0


# --- key_shared -------------------------------------------------------------------------------------------------------


def key_that_moves(world_style=Kind.KEY_SHARED):
    """A key that belongs to the first consumer alone, and to the second once it is there."""
    ring = Ring()
    ring.add(Seat(0, "c0"))
    ring.add(Seat(1, "c1"))
    return next(key for key in (b"%d" % at for at in range(1_000)) if ring.select(slot_of(key)) == 1)


def test_a_key_that_moves_waits_until_the_one_before_is_done_with_it():
    key = key_that_moves()
    world = World([Entry(1, key)] * 3, Kind.KEY_SHARED)
    before = world.join()
    world.flow(before, 1)
    world.pump()
    after = world.join()
    world.flow(after, 10)
    world.flow(before, 10)
    world.pump()
    assert (rows(before), rows(after)) == ([0], [])
    world.ack(before, 0)
    world.pump()
    assert (rows(before), rows(after)) == ([0], [1, 2])


def test_any_order_does_not_wait():
    key = key_that_moves()
    world = World([Entry(1, key)] * 3, Kind.KEY_SHARED, any_order=True)
    before = world.join()
    world.flow(before, 1)
    world.pump()
    after = world.join()
    world.flow(after, 10)
    world.pump()
    assert (rows(before), rows(after)) == ([0], [1, 2])


def test_nothing_of_a_key_overtakes_what_was_held_back():
    """The consumer of one key has no permits: its messages come in order when it gets some, and others do not wait."""
    ranges = Ranges()
    mine, others = b"k", next(key for key in (b"%d" % at for at in range(100)) if slot_of(key) != slot_of(b"k"))
    slot = slot_of(mine)
    world = World([Entry(1, mine), Entry(1, others), Entry(1, mine)], Kind.KEY_SHARED, sticky=True)
    one = world.join(ranges=[(slot, slot)])
    rest = world.join(ranges=[(0, slot - 1), (slot + 1, SLOTS - 1)])
    world.flow(rest, 10)
    world.pump()
    assert (rows(one), rows(rest)) == ([], [1])
    world.entries.append(Entry(1, mine))
    world.flow(one, 1)
    world.pump()
    world.flow(one, 5)
    world.pump()
    assert rows(one) == [0, 2, 3]
    assert ranges.select(slot) is None


def test_what_came_back_while_more_of_its_key_was_read_goes_first():
    world = World([Entry(1, b"k")] * 4, Kind.KEY_SHARED)
    client = world.join()
    world.flow(client, 2)
    world.pump()
    world.flow(client, 10)
    want = world.subscription.wanted(0, 4, 0)
    offers, until = world.read(want)
    world.redeliver(client)
    world.hand_out(want, offers, until)
    assert rows(client) == [0, 1]
    world.pump()
    assert rows(client) == [0, 1, 0, 1, 2, 3]


def test_a_slot_that_nobody_has_brought_waits():
    slot = slot_of(b"k")
    world = World([Entry(1, b"k")], Kind.KEY_SHARED, sticky=True)
    elsewhere = world.join(ranges=[(slot + 1, SLOTS - 1)])
    world.flow(elsewhere, 5)
    world.pump()
    assert rows(elsewhere) == []
    here = world.join(ranges=[(0, slot)])
    world.flow(here, 5)
    world.pump()
    assert rows(here) == [0]


@pytest.mark.parametrize("ranges", [[], [(5, 4)], [(-1, 3)], [(0, SLOTS)], [(0, 5), (5, 9)], [(90, 110)]], ids=str)
def test_wrong_ranges_are_refused(ranges):
    world = World([], Kind.KEY_SHARED, sticky=True)
    world.join(ranges=[(100, 200)])
    with pytest.raises(RangesOverlap):
        world.join(ranges=ranges)
    assert len(world.subscription.consumers) == 1
    world.join(ranges=[(201, 300)])


def test_a_ring_moves_few_slots_when_somebody_comes():
    ring = Ring()
    for number in range(4):
        ring.add(Seat(number, "same name"))
    before = [ring.select(slot) for slot in range(0, SLOTS, 64)]
    ring.add(Seat(4, "same name"))
    after = [ring.select(slot) for slot in range(0, SLOTS, 64)]
    moved = [new for old, new in zip(before, after, strict=True) if old != new]
    assert set(moved) == {4}
    assert len(moved) < len(before) / 3
    assert len(set(after)) == 5


# --- exclusive and failover -------------------------------------------------------------------------------------------


def test_s39_another_type_is_refused_while_somebody_is_there_and_taken_when_nobody_is():
    world = World([], Kind.SHARED)
    client = world.join()
    world.style = Style(Kind.FAILOVER)
    with pytest.raises(ConsumerBusy):
        world.join()
    world.leave(client)
    world.join()
    assert world.subscription.style.kind == Kind.FAILOVER


def test_a_second_exclusive_consumer_is_refused():
    world = World([], Kind.EXCLUSIVE)
    world.join()
    with pytest.raises(ConsumerBusy, match="Exclusive consumer is already connected"):
        world.join()


def test_who_consumes_alone_may_read_some_keys_only():
    keys = [b"k%d" % number for number in range(20)]
    world = World([Entry(1, key) for key in keys], Kind.EXCLUSIVE, sticky=True)
    mine = [row for row, key in enumerate(keys) if slot_of(key) < SLOTS // 2]
    assert 2 < len(mine) < 18
    client = world.join(ranges=[(0, SLOTS // 2 - 1)])
    world.flow(client, 2)
    world.pump()
    assert rows(client) == mine[:2]  # a permit is for what it gets, not for what it passes over
    world.flow(client, 20)
    world.pump()
    assert rows(client) == mine


def test_failover_goes_on_from_the_mark_when_the_active_one_leaves():
    world = World([Entry(1)] * 3, Kind.FAILOVER)
    first, second = world.join(name="a"), world.join(name="b", priority=1)
    assert (first.active, second.active) == ([True], [False])
    world.flow(first, 2)
    world.flow(second, 10)
    world.pump()
    assert rows(first) == [0, 1]
    world.ack(first, 0)
    world.leave(first)
    assert second.active == [False, True]
    world.pump()
    assert rows(second) == [1, 2]


def test_whoever_takes_over_waits_for_acknowledgements_on_their_way():
    world = World([Entry(1)] * 2, Kind.FAILOVER)
    old = world.join(priority=1)
    world.flow(old, 2)
    world.pump()
    better = world.join(priority=0)
    assert (old.active, better.active) == ([True, False], [True])
    world.flow(better, 2)
    world.pump()
    assert rows(better) == []
    world.subscription.ack(0)
    world.now_ms = world.subscription.next_ms(0)
    world.pump()
    assert rows(better) == [1]


@pytest.mark.parametrize("partition", range(6))
def test_partitions_are_dealt_out_in_turn(partition):
    seats = [Seat(0, "b"), Seat(1, "a"), Seat(2, "c"), Seat(3, "0", priority=1)]
    assert active_of(seats, "t", partition).name == "abc"[partition % 3]


def test_topics_without_partitions_differ_in_whom_they_choose():
    seats = [Seat(number, f"c{number}") for number in range(3)]
    assert len({active_of(seats, f"topic-{at}", -1).number for at in range(30)}) == 3
    assert active_of([], "t", -1) is None


# --- what is not there ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", list(Kind))
def test_rows_that_cannot_be_read_count_as_done(kind):
    world = World([Entry(1)] * 4, kind)
    world.lost = {0, 2}
    client = world.join()
    world.flow(client, 10)
    world.pump()
    assert rows(client) == [1, 3]
    for row in (1, 3):
        world.ack(client, row)
    assert world.subscription.cursor.mark == 4


@pytest.mark.parametrize("kind", list(Kind))
def test_retention_that_was_faster_moves_the_mark(kind):
    world = World([Entry(1)] * 4, kind)
    world.min_row = 3
    client = world.join()
    world.flow(client, 10)
    world.pump()
    assert rows(client) == [3]
    assert world.subscription.backlog(4) == 1


@pytest.mark.parametrize("kind", list(Kind))
def test_a_seek_sends_everything_from_there(kind):
    world = World([Entry(1)] * 4, kind)
    client = world.join()
    world.flow(client, 10)
    world.pump()
    for row in (0, 1, 2, 3):
        world.ack(client, row)
    world.subscription.seek(2)
    world.pump()
    assert rows(client) == [0, 1, 2, 3, 2, 3]


# --- compacted --------------------------------------------------------------------------------------------------------


def compacted(world, rows, until):
    """One turn of a consumer that gets these rows of the queue, and nothing else below `until`."""
    want = world.subscription.wanted_compacted(world.now_ms)
    if want is None:
        return False
    offers = [Offer(row, world.entries[row].messages) for row in rows if row >= want.rows[0]]
    for client, deliveries in world.subscription.deal_compacted(want, offers, until):
        client.deliver(deliveries)
    return True


def test_what_is_passed_over_counts_as_acknowledged_as_far_as_it_was_read():
    world = World([Entry(1) for _ in range(10)], Kind.EXCLUSIVE)
    client = world.join()
    assert not compacted(world, [2, 5, 8], 10)
    world.flow(client, 2)
    assert compacted(world, [2, 5, 8], 10)
    assert [row for row, _ in client.got] == [2, 5]
    cursor = world.subscription.cursor
    assert [row for row in range(10) if cursor.is_acked(row)] == [0, 1, 3, 4, 6, 7]
    assert not compacted(world, [2, 5, 8], 10)
    world.flow(client, 5)
    assert compacted(world, [2, 5, 8], 10)
    assert [row for row, _ in client.got] == [2, 5, 8]
    for row in (2, 5, 8):
        world.ack(client, row)
    assert (cursor.mark, world.subscription.backlog(10)) == (10, 0)


def test_of_a_batch_only_what_is_left_is_counted_and_told():
    world = World([Entry(4), Entry(1)], Kind.EXCLUSIVE)
    client = world.join()
    world.flow(client, 10)
    want = world.subscription.wanted_compacted(0)
    (given,) = world.subscription.deal_compacted(want, [Offer(0, 4, living=0b0110)], 2)
    assert [(delivery.row, delivery.left) for delivery in given[1]] == [(0, 0b0110)]
    assert client.seat.permits == 8
    world.subscription.ack_part(0, 0b1101, 4)
    assert world.subscription.cursor.left(0, 4) == 0b0100
    world.subscription.ack_part(0, 0b1011, 4)
    assert world.subscription.cursor.mark == 2


def test_a_turn_that_is_void_changes_nothing():
    world = World([Entry(1), Entry(1)], Kind.EXCLUSIVE)
    client = world.join()
    world.flow(client, 10)
    want = world.subscription.wanted_compacted(0)
    world.subscription.redeliver(client, None)
    assert world.subscription.deal_compacted(want, [Offer(1, 1)], 2) == []
    assert world.subscription.cursor.mark == 0
