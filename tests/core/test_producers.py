"""Who may write to a queue beside whom."""

import pytest

from penstock.core.producers import PREFIX, Access, Producers, Room, Seat, Verdict, decide
from penstock.errors import ProducerBusy, ProducerFenced

SHARED, EXCLUSIVE, WAIT, FENCE = Access
EMPTY = Room(0, False, 0, -1)
SOME = Room(2, False, 0, -1)
OWNED = Room(1, True, 0, 3)
AWAITED = Room(1, True, 2, 3)
LEFT = Room(0, False, 0, 3)


@pytest.mark.parametrize(
    ("room", "access", "epoch", "verdict"),
    [
        (EMPTY, SHARED, -1, Verdict.SIT),
        (EMPTY, EXCLUSIVE, -1, Verdict.OWN),
        (EMPTY, WAIT, -1, Verdict.OWN),
        (EMPTY, FENCE, -1, Verdict.OWN),
        (SOME, SHARED, -1, Verdict.SIT),
        (SOME, EXCLUSIVE, -1, ProducerFenced),
        (SOME, WAIT, -1, Verdict.WAIT),
        (SOME, FENCE, -1, Verdict.OWN),
        (OWNED, SHARED, -1, ProducerBusy),
        (OWNED, EXCLUSIVE, -1, ProducerFenced),
        (OWNED, WAIT, -1, Verdict.WAIT),
        (OWNED, FENCE, -1, Verdict.OWN),
        (AWAITED, SHARED, -1, ProducerBusy),
        (AWAITED, WAIT, -1, Verdict.WAIT),
        (LEFT, SHARED, 1, Verdict.SIT),
        (LEFT, EXCLUSIVE, 3, Verdict.OWN),
        (LEFT, EXCLUSIVE, 2, ProducerFenced),
        (LEFT, WAIT, 2, ProducerFenced),
        (LEFT, FENCE, 2, ProducerFenced),
        (LEFT, EXCLUSIVE, -1, Verdict.OWN),
    ],
)
def test_what_becomes_of_who_comes(room, access, epoch, verdict):
    if isinstance(verdict, Verdict):
        assert decide(room, access, epoch) is verdict
    else:
        with pytest.raises(verdict):
            decide(room, access, epoch)


class Told:
    """An owner that keeps what it is told."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def seated(self, seat) -> None:
        self.said.append(f"seated {seat.epoch}")

    def unseated(self, seat, why) -> None:
        self.said.append(type(why).__name__)


QUEUE = 1  # whether it is there is not looked at


def seat(name: str, access: Access = SHARED, epoch: int = -1) -> Seat:
    return Seat(QUEUE, name, access, Told(), epoch)


@pytest.fixture
def producers(house) -> Producers:
    return producers_of(house)


def producers_of(house) -> Producers:
    """As the broker makes them."""
    made = Producers(house.store, house.keeper)
    made.forget_queues(house.topics.has_queue)
    return made


async def all_is_durable(house) -> None:
    await house.keeper.durable(house.store.end_position)


async def test_many_share_a_queue(producers):
    one, two = seat("one"), seat("two")
    assert await producers.take(one)
    assert await producers.take(two)
    assert producers.at(QUEUE) == [one, two]
    assert (one.epoch, two.epoch) == (-1, -1)


async def test_a_name_is_taken_once(producers):
    assert await producers.take(seat("one"))
    with pytest.raises(ProducerBusy, match="one"):
        await producers.take(seat("one"))


async def test_each_who_has_it_alone_leaves_a_higher_epoch(producers):
    for epoch in range(3):
        alone = seat("alone", EXCLUSIVE)
        assert await producers.take(alone)
        assert alone.epoch == epoch
        producers.leave(alone)
    shared = seat("shared")
    assert await producers.take(shared)
    assert shared.epoch == 2


async def test_who_comes_back_keeps_its_epoch(producers):
    first = seat("first", EXCLUSIVE)
    await producers.take(first)
    producers.leave(first)
    again = seat("first", EXCLUSIVE, epoch=0)
    assert await producers.take(again)
    assert again.epoch == 0


async def test_who_waits_longest_is_next(producers, house):
    owner, first, second = seat("owner", EXCLUSIVE), seat("first", WAIT), seat("second", WAIT)
    assert await producers.take(owner)
    assert not await producers.take(first)
    assert not await producers.take(second)
    producers.leave(owner)
    await all_is_durable(house)
    assert (first.owner.said, second.owner.said) == (["seated 1"], [])
    producers.leave(first)
    await all_is_durable(house)
    assert second.owner.said == ["seated 2"]


async def test_who_waits_may_give_up(producers, house):
    owner, first, second = seat("owner", EXCLUSIVE), seat("first", WAIT), seat("second", WAIT)
    await producers.take(owner)
    await producers.take(first)
    await producers.take(second)
    producers.leave(first)
    producers.leave(owner)
    await all_is_durable(house)
    assert (first.owner.said, second.owner.said) == ([], ["seated 1"])


async def test_who_fences_sends_all_others_away(producers):
    one, two, waiting = seat("one"), seat("two"), seat("waiting", WAIT)
    for each in (one, two, waiting):
        await producers.take(each)
    fencing = seat("fencing", FENCE)
    assert await producers.take(fencing)
    assert [each.owner.said for each in (one, two, waiting)] == [["ProducerFenced"]] * 3
    assert producers.at(QUEUE) == [fencing]
    producers.leave(one)  # it is gone already: nothing happens
    assert producers.at(QUEUE) == [fencing]


async def test_all_are_sent_away_from_a_queue_that_goes(producers):
    owner, waiting = seat("owner", EXCLUSIVE), seat("waiting", WAIT)
    for each in (owner, waiting):
        await producers.take(each)
    assert producers.waiting_at(QUEUE) == 1
    producers.send_away(QUEUE, ProducerBusy("the topic goes"))
    assert [each.owner.said for each in (owner, waiting)] == [["ProducerBusy"]] * 2
    assert (producers.at(QUEUE), producers.waiting_at(QUEUE)) == ([], 0)
    producers.send_away(QUEUE, ProducerBusy("nobody is there"))


@pytest.mark.parametrize("ended", ["restart", "kill"])
async def test_epochs_survive(street, ended):
    """Who was told that a topic is its own can count on it, however the broker ends."""
    house = street.house
    queue = (await house.topics.create("orders")).queue(0)
    producers = producers_of(house)
    await producers.take(Seat(queue, "own", EXCLUSIVE, Told()))
    await producers.take(Seat(queue, "later", FENCE, Told()))
    producers = producers_of(await getattr(street, ended)())
    with pytest.raises(ProducerFenced):
        await producers.take(Seat(queue, "own", EXCLUSIVE, Told(), epoch=0))
    again = Seat(queue, "later", EXCLUSIVE, Told(), epoch=1)
    assert await producers.take(again)
    assert again.epoch == 1


async def test_the_epoch_of_a_queue_that_is_gone_is_forgotten(street):
    house = street.house
    queue = (await house.topics.create("orders")).queue(0)
    await producers_of(house).take(Seat(queue, "own", EXCLUSIVE, Told()))
    await house.topics.delete("orders")
    house = await street.restart()
    assert list(house.store.catalog.items(PREFIX))
    producers_of(house)
    assert not list(house.store.catalog.items(PREFIX))
