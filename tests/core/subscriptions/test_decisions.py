"""The decisions of dispatch alone, on any seats and any offers: who gets what is accounted for a second time here."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.subscriptions import keyed, single
from penstock.core.subscriptions.keyed import SLOTS, Holdings, Ranges, Ring
from penstock.core.subscriptions.replay import Replay
from penstock.core.subscriptions.seats import Offer, Seat
from penstock.core.subscriptions.shared import Turns

SLOTS_USED = [0, 1, 40_000]
SEAT = st.builds(
    Seat,
    number=st.just(0),
    priority=st.integers(0, 2),
    unacked_max=st.sampled_from([0, 0, 4]),
    permits=st.integers(-2, 9),
    blocked=st.sampled_from([False, False, False, True]),
    open=st.sampled_from([True, True, True, False]),
)
SEATS = st.lists(SEAT, min_size=1, max_size=4)
OFFERS = st.lists(
    st.tuples(st.integers(1, 4), st.sampled_from(SLOTS_USED), st.sampled_from(["", "", "m"]), st.booleans()),
    max_size=50,
)


def numbered(seats):
    for number, seat in enumerate(seats):
        seat.number = number
    return seats


def offers_of(described):
    several = enumerate(described, 100)
    return [Offer(row, messages, b"", slot, chunk, is_last) for row, (messages, slot, chunk, is_last) in several]


class Accounts:
    """A second account of each seat, in which what goes out is entered again."""

    def __init__(self, seats):
        self._of = {seat.number: msgspec.structs.replace(seat) for seat in seats}

    def enter(self, seat, offer):
        account = self._of[seat.number]
        assert account.available, "it had no permit, or takes nothing"
        account.take(offer.messages)
        return account

    def free(self):
        return [account for account in self._of.values() if account.available]


def each_is_dealt_once(dealt, offers):
    rows = [offer.row for _, offer in dealt.given] + [offer.row for offer in dealt.left]
    assert sorted(rows) == [offer.row for offer in offers]


@given(seat=SEAT, described=OFFERS)
def test_one_gets_the_first_ones_as_far_as_its_permits_go(seat, described):
    offers, permits = offers_of(described), seat.permits
    could = seat.available
    count = single.deal(offers, seat)
    given_before = [sum(offer.messages for offer in offers[:at]) for at in range(count)]
    assert all(could and given < permits for given in given_before)
    assert count == len(offers) or not seat.available


@given(seats=SEATS, described=OFFERS)
def test_shared_each_goes_to_one_who_has_a_permit_the_better_priority_first(seats, described):
    offers, accounts = offers_of(described), Accounts(numbered(seats))
    turns = Turns()
    dealt = turns.deal(offers, seats)
    each_is_dealt_once(dealt, offers)
    for seat, offer in dealt.given:
        better = [other for other in accounts.free() if other.priority < seat.priority]
        assert offer.chunk or not better
        accounts.enter(seat, offer)
    owners = set(turns._chunks.values())
    assert not accounts.free() or all(offer.chunk for offer in dealt.left)
    assert all(other.number not in owners for other in accounts.free()) or not dealt.left


HELD = st.lists(st.tuples(st.sampled_from(SLOTS_USED), st.integers(0, 4)), max_size=3)  # of a slot, by whom
WAITING = st.lists(st.integers(90, 130), max_size=4, unique=True)  # rows, some of which are offered


@pytest.mark.parametrize("selector", [Ring, Ranges])
@pytest.mark.parametrize("ordered", [True, False])
@given(seats=SEATS, described=OFFERS, held=HELD, waiting=WAITING)
def test_keyed_each_goes_to_the_one_of_its_slot_and_nothing_overtakes(
    selector, ordered, seats, described, held, waiting
):
    offers, accounts = offers_of(described), Accounts(numbered(seats))
    slots = {offer.row: offer.slot for offer in offers}
    waits = {row: slots.get(row, SLOTS_USED[row % 3]) for row in waiting}
    selected, holdings, replay = selector_of(selector, seats), Holdings(), Replay()
    for slot, number in held:
        holdings.take(slot, number)
    for row, slot in waits.items():
        replay.add(row, slot)
    dealt = keyed.deal(offers, selected, holdings, {seat.number: seat for seat in seats}, replay, ordered)
    each_is_dealt_once(dealt, offers)
    for seat, offer in dealt.given:
        assert selected.select(offer.slot) == seat.number
        accounts.enter(seat, offer)
        waits.pop(offer.row, None)
        if ordered:
            assert all(number == seat.number for slot, number in held if slot == offer.slot), "another has some of it"
            assert not any(row < offer.row and slot == offer.slot for row, slot in waits.items()), "it overtakes one"
    free = {account.number for account in accounts.free()}
    for offer in dealt.left:
        owner = selected.select(offer.slot)
        has_to_wait = replay.holds_earlier(offer.slot, offer.row) or holdings.are_elsewhere(offer.slot, owner)
        assert owner not in free or (ordered and has_to_wait), "it could have gone"


def selector_of(kind, seats):
    """The same share for each, where they bring them along."""
    selected, share = kind(), SLOTS // len(seats)
    for seat in seats:
        selected.add(seat, [(seat.number * share, (seat.number + 1) * share - 1)])
    return selected
