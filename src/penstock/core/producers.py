"""Producers with a name, and who of them may write to a queue: Pulsar's access modes.

A producer takes a *seat* at a queue. Most share it; one that wants the queue for itself gets it when nobody else is
there, waits until that is so, or sends the others away, as its mode says. Whoever has had a queue for itself leaves an
*epoch* behind, one higher each time and durable before the producer is told: a producer that comes back after somebody
else has had the queue is fenced, also after a restart.

`decide` is all there is to decide, without side effects; `Producers` carries it out.
"""

import enum
from collections.abc import Callable, Container
from typing import NamedTuple, Protocol

from penstock.errors import PenstockError, ProducerBusy, ProducerFenced, TopicTerminated
from penstock.store.keeper import Keeper
from penstock.store.store import Store

PREFIX = "producer_epoch/"


class Access(enum.IntEnum):
    """What a producer wants of a queue; the numbers are Pulsar's."""

    SHARED = 0
    EXCLUSIVE = 1
    WAIT = 2  # for as long as it takes, then exclusive
    FENCE = 3  # exclusive, and whoever is there has to go


class Owner(Protocol):
    """Whoever holds a seat is told what becomes of it."""

    def seated(self, seat: "Seat") -> None:
        """The queue is its own now: it has waited."""
        ...

    def unseated(self, seat: "Seat", why: PenstockError) -> None:
        """It has to go, or need not wait any longer."""
        ...


class Seat:
    """One producer at one queue. `epoch` is that of the queue when it took it, -1 when the queue never had one."""

    __slots__ = ("access", "epoch", "name", "owner", "queue")

    def __init__(self, queue: int, name: str, access: Access, owner: Owner, epoch: int = -1) -> None:
        self.queue, self.name, self.access, self.owner, self.epoch = queue, name, access, owner, epoch


class Room(NamedTuple):
    """A queue as it looks to somebody who comes."""

    taken: int  # seats
    exclusive: bool
    waiting: int
    epoch: int


class Verdict(enum.Enum):
    SIT = "sit"  # with the others
    OWN = "own"  # alone
    WAIT = "wait"


def decide(room: Room, access: Access, epoch: int) -> Verdict:
    """What becomes of a producer that wants a queue. `epoch` is the one that it had before, -1 for none. Raises when it
    cannot have it.

        nobody there:   SHARED sits, all others own it
        some share it:  SHARED sits, EXCLUSIVE is refused, WAIT waits, FENCE owns it once they are gone
        somebody owns:  SHARED and EXCLUSIVE are refused, WAIT waits, FENCE owns it once that one is gone
    """
    if access is Access.SHARED:
        if room.exclusive or room.waiting:
            raise ProducerBusy("another producer has this topic for itself, or waits for it")
        return Verdict.SIT
    if 0 <= epoch < room.epoch:
        raise ProducerFenced("another producer has had this topic for itself in the meantime")
    if access is Access.FENCE or not (room.taken or room.waiting):
        return Verdict.OWN
    if access is Access.WAIT:
        return Verdict.WAIT
    raise ProducerFenced("there are other producers on this topic, or some that wait for it")


class _Queue:
    """Who is at one queue."""

    __slots__ = ("seats", "waiting")

    def __init__(self) -> None:
        self.seats: dict[str, Seat] = {}  # by name
        self.waiting: list[Seat] = []


class Producers:
    def __init__(self, store: Store, keeper: Keeper, ended: Container[int] = ()) -> None:
        self._store, self._keeper, self._ended = store, keeper, ended
        self._admit: Callable[[int], None] = lambda queue: None
        self._queues: dict[int, _Queue] = {}
        self._epochs = {int(key.removeprefix(PREFIX)): int(value) for key, value in store.catalog.items(PREFIX)}

    def guard(self, admit: Callable[[int], None]) -> None:
        """Ask this, too, whether a queue may have one more: it raises when not."""
        self._admit = admit

    def seat_of(self, queue: int, name: str) -> Seat | None:
        """Who has this name at a queue."""
        there = self._queues.get(queue)
        return there.seats.get(name) if there else None

    def everybody(self) -> list[Seat]:
        return [seat for there in self._queues.values() for seat in (*there.seats.values(), *there.waiting)]

    def at(self, queue: int) -> list[Seat]:
        there = self._queues.get(queue)
        return list(there.seats.values()) if there else []

    def waiting_at(self, queue: int) -> int:
        """How many wait for it."""
        there = self._queues.get(queue)
        return len(there.waiting) if there else 0

    def send_away_from(self, is_there: Callable[[int], bool], why: PenstockError) -> None:
        """Whoever has a seat at a queue that is not there any more has to go."""
        for queue in [queue for queue in self._queues if not is_there(queue)]:
            self.send_away(queue, why)

    def send_away(self, queue: int, why: PenstockError) -> None:
        """Whoever has a seat at a queue, or waits for one, has to go."""
        there = self._queues.pop(queue, None)
        if there is not None:
            self._clear(there, why)

    async def take(self, seat: Seat) -> bool:
        """Take a seat; False when it has to wait for it. Returns when what follows from it is durable. A seat with a
        name that is taken is refused: ask `seat_of` before.
        """
        if seat.queue in self._ended:
            raise TopicTerminated
        self._admit(seat.queue)
        there = self._queues.setdefault(seat.queue, _Queue())
        try:
            verdict = decide(self._room(seat.queue, there), seat.access, seat.epoch)
            if verdict is not Verdict.OWN and seat.name in there.seats:
                raise ProducerBusy(f"a producer named {seat.name!r} is connected to this topic already")
        except PenstockError:
            self._forget_empty(seat.queue)
            raise
        if verdict is Verdict.WAIT:
            there.waiting.append(seat)
            return False
        if verdict is Verdict.OWN:
            self._clear(there, ProducerFenced("another producer has taken this topic for itself"))
            await self._own(there, seat)
        else:
            there.seats[seat.name] = seat
            seat.epoch = self._epochs.get(seat.queue, -1)
        return True

    def leave(self, seat: Seat) -> None:
        """Give a seat up, or stop waiting for one. Nothing happens when it is gone already."""
        there = self._queues.get(seat.queue)
        if there is None:
            return
        if there.seats.get(seat.name) is seat:
            del there.seats[seat.name]
        elif seat in there.waiting:
            there.waiting.remove(seat)
        if not there.seats and there.waiting:
            self._promote(there, there.waiting.pop(0))
        self._forget_empty(seat.queue)

    def _room(self, queue: int, there: _Queue) -> Room:
        exclusive = any(seat.access is not Access.SHARED for seat in there.seats.values())
        return Room(len(there.seats), exclusive, len(there.waiting), self._epochs.get(queue, -1))

    def _clear(self, there: _Queue, why: PenstockError) -> None:
        """Send everybody away."""
        gone = [*there.seats.values(), *there.waiting]
        there.seats.clear()
        there.waiting.clear()
        for seat in gone:
            seat.owner.unseated(seat, why)

    async def _own(self, there: _Queue, seat: Seat) -> None:
        try:
            await self._keeper.durable(self._settle(there, seat))
        except BaseException:
            self.leave(seat)
            raise

    def _settle(self, there: _Queue, seat: Seat) -> int:
        """The queue is this producer's; the position up to which the log has to be durable for it."""
        there.seats[seat.name] = seat
        current = self._epochs.get(seat.queue, -1)
        seat.epoch = seat.epoch if seat.epoch >= 0 else current + 1  # who comes back keeps its own
        if seat.epoch == current:
            return 0
        self._epochs[seat.queue] = seat.epoch
        return self._store.put_facts({f"{PREFIX}{seat.queue}": b"%d" % seat.epoch})

    def _promote(self, there: _Queue, seat: Seat) -> None:
        """Who has waited longest gets the queue, and is told when that is durable."""

        def told(error: Exception | None) -> None:
            if there.seats.get(seat.name) is seat and error is None:
                seat.owner.seated(seat)
            elif isinstance(error, PenstockError):
                self.leave(seat)
                seat.owner.unseated(seat, error)

        try:
            self._keeper.when_durable(self._settle(there, seat), told)
        except PenstockError as error:
            told(error)

    def _forget_empty(self, queue: int) -> None:
        there = self._queues.get(queue)
        if there is not None and not there.seats and not there.waiting:
            del self._queues[queue]

    def forget_queues(self, exists: Callable[[int], bool]) -> None:
        """Forget the epochs of queues that are not there any more."""
        gone = [queue for queue in self._epochs if not exists(queue)]
        if gone:
            self._store.put_facts({f"{PREFIX}{queue}": None for queue in gone})
            for queue in gone:
                del self._epochs[queue]
