"""Consumers that are far behind: their connections are lent to a thread that hands out the backlog without the
interpreter (`_backlog.c`), from the log's mapping to the socket. Where that was not built, nobody is lent.

Whoever asked for nothing but ordinary pulls for a while, and got all of them the short way (`ordinary_pulls`), is lent:
its socket, and for each of its seats the rows and the stretch of the log that are easy (`Ahead`). The thread answers
the pulls that those answer. The first request that they do not is left in the socket, and the connection comes back.
What was handed out is noted then.

The thread decides nothing about a pull, and nothing that it relies on may change unseen. So connections are taken back,
which takes a moment and no waiting for the client:

- before anything is written to them, and when they are lost;
- before an event is told, and before any request of RocketMQ's or of HTTP that goes the long way is served, whoever's:
  what it asks for or changes is up to date (`core.loans`);
- before memory that rows lay in is used again (`Store.before_reuse`);
- every so often, for the figures, and for what changes without a request.

A queue of a group is in one loan at most, and comes back before anybody else's pull there is served: so offsets are
committed in the order of the pulls, as they are otherwise. One that was committed meanwhile counts unless somebody else
has set one.
"""

import asyncio
from collections.abc import Callable
from contextlib import ExitStack
from typing import NamedTuple, Protocol

from penstock import logs
from penstock.compiled import compiled
from penstock.core.broker import Broker
from penstock.core.fetch import Ahead, Reading
from penstock.gateway.rocketmq.connection import READS_MIN, Connection

log = logs.get(__name__)

LASTS_MS = 100
READS_MAX = 1_024  # as READS_MIN, for whom it was not worth it time and again
FEW_PULLS, MANY_PULLS = 8, 64  # of a loan that was not worth it (and one more for each seat), and of one that was
LOANS_MAX, SEATS_MAX = 64, 64  # as in _backlog.c: loans, and seats of each
SEAT_PIECES_MAX = 64  # of its table, of each seat
PIECES_MAX = 128  # of tables, that the seats of a loan share: each is to be got and let go of
BLOCKS_MAX, SEAT_BLOCKS_MIN = 128, 4  # of the log, that are asked about for them: see residency.py

Key = tuple[str, str, int]  # group, topic, queue
# Pulls, messages, bytes; of the last pull the offset asked for and the next one; the last offset committed, or -1.
Note = tuple[int, int, int, int, int, int]
_Seat = tuple[str, str, int, int, int, int, int, int, int, int, list[tuple[memoryview, int]], int, int, memoryview, int]


class Runner(Protocol):
    """The thread. A loan has a number."""

    def fileno(self) -> int:
        """Can be read when loans were given back."""

    def lend(self, socket: int, lasts_ms: int, seats: list[_Seat]) -> int:
        """-1 when there are too many."""

    def given_back(self) -> list[int]: ...

    def want_all(self) -> None:
        """All are about to be taken back: what the thread is busy with is the last that it does for each."""

    def take_back(self, number: int) -> tuple[bytes, list[Note]]:
        """What the socket has not taken of the answers, and what is to be noted of each seat."""

    def stop(self) -> None: ...


def runner_in_python() -> Runner | None:
    """None: nobody is lent."""
    return None


runner = compiled("penstock.gateway.rocketmq._backlog", runner_in_python)


def pieces_of_each(seats: int) -> int:
    return min(PIECES_MAX // seats, SEAT_PIECES_MAX)


def blocks_of_each(seats: int) -> int:
    return max(BLOCKS_MAX // seats, SEAT_BLOCKS_MIN)


class Chance(NamedTuple):
    """A seat that can be lent."""

    key: Key
    reading: Reading
    version: int  # of the group's subscription: newer ones are for others to look at
    ahead: Ahead
    lasts_ms: int


class Loan(NamedTuple):
    number: int
    connection: Connection
    chances: list[Chance]
    committed: list[int]  # when it began
    began: float


class Backlog:
    def __init__(self, broker: Broker) -> None:
        self._offsets, self._resets, self._readers = broker.offsets, broker.resets, broker.readers
        self._traffic = broker.traffic
        self._runner: Runner | None = None
        self._can = True
        self._loans: dict[int, Loan] = {}
        self.keys: dict[Key, int] = {}  # in which loan a queue is
        self._round: asyncio.TimerHandle | None = None
        broker.loans.add(self)

    # --- lending ------------------------------------------------------------------------------------------------------

    def is_due(self, connection: Connection, smooth: bool) -> bool:
        """After each read of pulls: whether the connection should be lent. Smooth is a read that brought nothing but
        pulls that were answered.
        """
        pace = connection.pace
        pace.reads = pace.reads + 1 if smooth else 0
        due = pace.reads >= pace.needed and self._can and len(self._loans) < LOANS_MAX
        return due and connection.can_be_lent

    def lend(self, connection: Connection, chances: Callable[[], list[Chance]]) -> None:
        """It is served as ever where that cannot be done."""
        connection.pace.reads = 0
        loan = self._lent(connection, chances)
        if loan is None:
            connection.pace.needed = min(2 * connection.pace.needed, READS_MAX)
            return
        self._loans[loan.number] = loan
        self.keys.update((chance.key, loan.number) for chance in loan.chances)
        connection.lend(self, loan.number)
        if self._round is None:
            self._round = asyncio.get_running_loop().call_later(LASTS_MS / 1000, self._take_old_back)

    def _lent(self, connection: Connection, chances: Callable[[], list[Chance]]) -> Loan | None:
        """None when there is nothing to lend, or nobody to lend it to. What only makes things faster costs nobody a
        connection that can be served without it.
        """
        try:
            found, running = chances(), self._running()
            if not found or running is None:
                return None
            committed = [self._offsets.find(*chance.key) for chance in found]
            seats = [(*chance.key, chance.version, *chance.ahead) for chance in found]
            number = running.lend(connection.descriptor, min(chance.lasts_ms for chance in found), seats)
        except (OSError, MemoryError, ValueError, OverflowError) as error:
            log.warning("a backlog is handed out the ordinary way", client=connection.address, error=repr(error))
            return None
        return None if number < 0 else Loan(number, connection, found, committed, asyncio.get_running_loop().time())

    def _running(self) -> Runner | None:
        if self._runner is None and self._can:
            self._can = False  # unless it starts: once is enough to find out
            self._runner = runner()
            self._can = self._runner is not None
            if self._runner is not None:
                asyncio.get_running_loop().add_reader(self._runner.fileno(), self._on_bell)
        return self._runner

    # --- taking back --------------------------------------------------------------------------------------------------

    def _on_bell(self) -> None:
        assert self._runner is not None
        for number in self._runner.given_back():
            self.take_back(number)

    def _take_old_back(self) -> None:
        loop = asyncio.get_running_loop()
        old = loop.time() - LASTS_MS / 2000
        try:
            self._take_each_back([number for number, loan in self._loans.items() if loan.began <= old])
        finally:
            self._round = loop.call_later(LASTS_MS / 1000, self._take_old_back) if self._loans else None

    def take_all_back(self) -> None:
        if self._runner is not None and len(self._loans) > 1:
            self._runner.want_all()
        if self._loans:
            self._take_each_back(list(self._loans))

    def _take_each_back(self, numbers: list[int]) -> None:
        """Whatever becomes of one of them, none stays lent unseen."""
        with ExitStack() as stack:
            for number in reversed(numbers):
                stack.callback(self.take_back, number)

    def settle(self, key: Key) -> None:
        """Before somebody else's pull from a queue that is lent. It has changed hands, or two read it: who still does
        gets its seat again.
        """
        loan = self._loans[self.keys[key]]
        self.take_back(loan.number)
        loan.connection.seats.pop(key, None)

    def take_back(self, number: int) -> None:
        assert self._runner is not None
        loan = self._loans.pop(number)
        for chance in loan.chances:
            del self.keys[chance.key]
        unsent, notes = self._runner.take_back(number)
        pulls = sum(note[0] for note in notes)
        loan.connection.regain(unsent, heard=pulls > 0)
        for chance, before, note in zip(loan.chances, loan.committed, notes, strict=True):
            if note[0]:
                self._note(loan.connection, chance, before, note)
        pace = loan.connection.pace
        if pulls < FEW_PULLS + len(notes):
            pace.needed = min(2 * pace.needed, READS_MAX)
        else:
            pace.reads = pace.needed  # the next read decides
            if pulls >= MANY_PULLS:
                pace.needed = READS_MIN

    def _note(self, connection: Connection, chance: Chance, before: int, note: Note) -> None:
        _, messages, size_bytes, asked, next_offset, committed = note
        key = group, topic, _ = chance.key
        chance.reading.went_on(next_offset)
        self._readers.at(*key, connection, asked)
        self._traffic.got(group, topic, messages, size_bytes)
        unmoved = self._offsets.find(*key) == before
        if committed >= 0 and unmoved and not self._resets.concerns(connection, key):
            self._offsets.commit(*key, committed)

    def close(self) -> None:
        self.take_all_back()
        if self._round is not None:
            self._round.cancel()
        if self._runner is not None:
            asyncio.get_running_loop().remove_reader(self._runner.fileno())
            self._runner.stop()
        self._runner, self._can = None, False
