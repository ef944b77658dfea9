"""Consumers that are far behind: their connections are lent to a thread that hands out the backlog without the
interpreter (`_backlog.c`), from the log's mapping to the socket. Where that was not built, nobody is lent.

Whoever asked for nothing but ordinary pulls for a while, and got all of them the short way (`ordinary_pulls`), is lent:
its socket, and for each of its seats the rows and the stretch of the log that are easy (`Ahead`). The thread answers
the pulls that those answer. The first request that they do not is left in the socket, and the connection comes back.
What was handed out is noted then.

The thread decides nothing about a pull, and nothing that it relies on may change unseen. So connections are taken back,
which takes a moment and no waiting for the client:

- before anything is written to them, and when they are lost;
- before any request that goes the long way is served, whoever's: what it asks for or changes is up to date
  (`core.loans`);
- before memory that rows lay in is used again (`Store.before_reuse`);
- every so often, for the figures, and for what changes without a request.

An offset that a consumer committed meanwhile counts unless somebody else has set one.
"""

import asyncio
from typing import NamedTuple, Protocol

from penstock import logs
from penstock.compiled import compiled
from penstock.core.broker import Broker
from penstock.core.fetch import Ahead, Reading
from penstock.gateway.rocketmq.connection import READS_MIN, Connection

log = logs.get(__name__)

LASTS_MS = 100
READS_MAX = 1_024  # as READS_MIN, for whom it was not worth it time and again
FEW_PULLS, MANY_PULLS = 8, 64  # of a loan that was not worth it, and of one that was
SEATS_MAX = 256

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

    def take_back(self, number: int) -> tuple[bytes, list[Note]]:
        """What the socket has not taken of the answers, and what is to be noted of each seat."""

    def stop(self) -> None: ...


def runner_in_python() -> Runner | None:
    """None: nobody is lent."""
    return None


runner = compiled("penstock.gateway.rocketmq._backlog", runner_in_python)


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
        self._round: asyncio.TimerHandle | None = None
        broker.loans.add(self)

    # --- lending ------------------------------------------------------------------------------------------------------

    def is_due(self, connection: Connection, smooth: bool) -> bool:
        """After each read of pulls: whether the connection should be lent. Smooth is a read that brought nothing but
        pulls that were answered.
        """
        pace = connection.pace
        pace.reads = pace.reads + 1 if smooth else 0
        return pace.reads >= pace.needed and self._can and connection.can_be_lent

    def lend(self, connection: Connection, chances: list[Chance]) -> None:
        """It is served as ever where that cannot be done."""
        connection.pace.reads = 0
        chances = chances[:SEATS_MAX]
        committed = [self._offsets.find(*chance.key) for chance in chances]
        try:
            number = self._lent(connection, chances) if chances else -1
        except OSError as error:  # the system is short of threads, files or the like
            log.warning("backlogs are handed out without a thread of their own", error=str(error))
            self._can, number = False, -1
        if number < 0:
            return
        loop = asyncio.get_running_loop()
        self._loans[number] = Loan(number, connection, chances, committed, loop.time())
        connection.lend(self, number)
        if self._round is None:
            self._round = loop.call_later(LASTS_MS / 1000, self._take_old_back)

    def _lent(self, connection: Connection, chances: list[Chance]) -> int:
        """The number of the loan; -1 when nobody is lent, or there are too many."""
        running = self._running()
        if running is None:
            return -1
        seats = [(*chance.key, chance.version, *chance.ahead) for chance in chances]
        return running.lend(connection.descriptor, min(chance.lasts_ms for chance in chances), seats)

    def _running(self) -> Runner | None:
        if self._runner is None and self._can:
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
        for number in [number for number, loan in self._loans.items() if loan.began <= old]:
            self.take_back(number)
        self._round = loop.call_later(LASTS_MS / 1000, self._take_old_back) if self._loans else None

    def take_all_back(self) -> None:
        for number in list(self._loans):
            self.take_back(number)

    def take_back(self, number: int) -> None:
        assert self._runner is not None
        loan = self._loans.pop(number)
        unsent, notes = self._runner.take_back(number)
        pulls = sum(note[0] for note in notes)
        loan.connection.regain(unsent, heard=pulls > 0)
        for chance, before, note in zip(loan.chances, loan.committed, notes, strict=True):
            if note[0]:
                self._note(loan.connection, chance, before, note)
        pace = loan.connection.pace
        if pulls < FEW_PULLS:
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
        if committed >= 0 and self._offsets.find(*key) == before and not self._resets.concerns(connection, key):
            self._offsets.commit(*key, committed)

    def close(self) -> None:
        self.take_all_back()
        if self._round is not None:
            self._round.cancel()
        if self._runner is not None:
            asyncio.get_running_loop().remove_reader(self._runner.fileno())
            self._runner.stop()
        self._runner, self._can = None, False
