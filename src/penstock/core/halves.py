"""Half messages: stored where nobody sees them, until their producer says what becomes of them.

Two queues hold everything. In the one the half messages stand as they came. In the other stand notes about them:
*ended* (these are done with), *asked* (how often the producer was asked about these), and from time to time *open*,
which says it all at once (below this offset only these are open), so that the notes before it can be trimmed. The note
that ends a half message and the message that it becomes stand in one group of the log: whatever happens, both are there
or neither, and so each half message is ended once.

Memory holds an offset and two numbers per open half message, at most `open_max` of them; at the start that is read back
from the two queues. When a producer is to be asked first is kept in the row of the half message (`tag`: ms after it was
stored). What a half message looks like inside, and how a producer is asked, is not known here.
"""

import heapq
from collections.abc import Iterator, Sequence
from typing import ClassVar

import msgspec

from penstock import logs
from penstock.clock import Clock
from penstock.core.fetch import Fetcher
from penstock.core.publish import Publisher, Then
from penstock.errors import HalfNotOpen, StoreError, TooManyHalves
from penstock.model import Entry
from penstock.store.store import Store

log = logs.get(__name__)

ENCODING = 7  # of notes in the log. Older versions wrote 5, which is read all the same: nobody looks at it here
FIRST_ASK_MS_MAX = (1 << 31) - 1  # what the tag of a row holds
_SCAN_ROWS, _READ_BYTES = 16_384, 1 << 20
_NOTES_MAX = 10_000  # entries: then they are summed up
_SUM_UP_MAX = 200_000  # open half messages that go into one note
_HEAP_SLACK = 1_024


class HalfLimits(msgspec.Struct):
    """How often a producer is asked, and how many half messages may be open."""

    ask_interval_ms: int
    asks_max: int
    open_max: int


class _Ended(msgspec.Struct, array_like=True, tag="ended"):
    offsets: list[int]


class _Asked(msgspec.Struct, array_like=True, tag="asked"):
    asks: dict[int, int]


class _Open(msgspec.Struct, array_like=True, tag="open"):
    below: int
    asks: dict[int, int]


_Note = _Ended | _Asked | _Open
_decoder: msgspec.msgpack.Decoder[_Note] = msgspec.msgpack.Decoder(_Note)


class _NoteEntry(Entry):
    encoding: ClassVar[int] = ENCODING

    data: bytes = b""

    def write_into(self, buffer: memoryview, at: int, queue_id: int, offset: int, store_ms: int) -> None:
        buffer[at : at + self.length] = self.data


def _note_entry(queue: int, note: _Note) -> _NoteEntry:
    data = msgspec.msgpack.encode(note)
    return _NoteEntry(queue=queue, length=len(data), data=data)


class Halves:
    """`held` is the queue of half messages, `notes` that of the notes about them."""

    def __init__(
        self,
        store: Store,
        fetcher: Fetcher,
        publisher: Publisher,
        clock: Clock,
        held: int,
        notes: int,
        limits: HalfLimits,
    ) -> None:
        self._store, self._fetcher, self._publisher, self._clock = store, fetcher, publisher, clock
        self._held, self._notes, self._limits = held, notes, limits
        self._open: dict[int, int] = {}  # by offset, in order: how often its producer was asked
        self._due: list[tuple[int, int]] = []  # a heap: when to ask, and about which
        self._replay()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def queue(self) -> int:
        return self._held

    def __contains__(self, offset: int) -> bool:
        return offset in self._open

    # --- holding and ending -------------------------------------------------------------------------------------------

    def check_room(self, more: int) -> None:
        """Whether so many more may be held."""
        if len(self._open) + more > self._limits.open_max:
            raise TooManyHalves(self._limits.open_max)

    def held(self, entry: Entry) -> None:
        """A half message was appended: from now on it is open."""
        self._open[entry.offset] = 0
        heapq.heappush(self._due, (self._clock.now_ms() + entry.tag, entry.offset))

    async def read(self, offset: int) -> memoryview | None:
        """An open half message; None when it cannot be read."""
        batch = await self._fetcher.fetch(self._held, offset, 1, 1)
        if not batch.payloads or int(batch.rows["base"][0]) != offset:
            return None
        return batch.payloads[0]

    def end(self, offsets: Sequence[int], becomes: Sequence[Entry], then: Then) -> None:
        """These are over; `becomes` is published in their stead, and `then` called when that is durable. All or
        nothing.
        """
        for offset in offsets:
            if offset not in self._open:
                raise HalfNotOpen(offset)
        self._publisher.publish_group([*becomes, _note_entry(self._notes, _Ended(list(offsets)))], {}, then)
        for offset in offsets:
            self._open.pop(offset, None)
        self._tidy()

    # --- asking -------------------------------------------------------------------------------------------------------

    def due(self, count_max: int) -> list[int]:
        """Those whose producers are to be asked now, at most `count_max`. They are due again an interval later."""
        found: list[int] = []
        now_ms, visible = self._clock.now_ms(), self._store.bounds(self._held).max_offset
        while self._due and self._due[0][0] <= now_ms and len(found) < count_max:
            offset = self._due[0][1]
            if offset not in self._open:
                heapq.heappop(self._due)
            elif offset >= visible:  # not durable yet
                break
            else:
                heapq.heapreplace(self._due, (now_ms + self._limits.ask_interval_ms, offset))
                found.append(offset)
        return found

    def asks(self, offset: int) -> int:
        """How often the producer was asked about this one."""
        return self._open.get(offset, 0)

    def is_hopeless(self, offset: int) -> bool:
        """Whether its producer was asked often enough."""
        return self.asks(offset) >= self._limits.asks_max

    def asked(self, offsets: Sequence[int]) -> None:
        """The producers of these were asked once more. It need not be durable: at worst they are asked once more."""
        asks = {offset: self._open[offset] + 1 for offset in offsets if offset in self._open}
        if asks:
            self._publisher.publish([_note_entry(self._notes, _Asked(asks))], lambda error: None)
            self._open.update(asks)

    # --- what is kept -------------------------------------------------------------------------------------------------

    def _tidy(self) -> None:
        """Bound the heap, and the notes that a start has to read."""
        if len(self._due) > 2 * len(self._open) + _HEAP_SLACK:
            self._due = [item for item in self._due if item[1] in self._open]
            heapq.heapify(self._due)
        table = self._store.table(self._notes)
        if table.next_row - table.min_row >= _NOTES_MAX and len(self._open) <= _SUM_UP_MAX:
            try:
                self._sum_up()
            except StoreError as error:  # what the caller asked for has been done: the next end tries again
                log.warning("the notes on half messages could not be summed up", error=str(error))

    def _sum_up(self) -> None:
        """Say it all in one note, and trim the notes before it, and the half messages before the first that is open."""
        below, notes = self._store.table(self._held).next_offset, self._store.table(self._notes).next_offset
        self._store.append([_note_entry(self._notes, _Open(below, dict(self._open)))])
        self._store.trim_all({self._held: next(iter(self._open), below), self._notes: notes})

    def _replay(self) -> None:
        """Find out what is open: what the notes leave of what is held."""
        asks: dict[int, int] = {}
        ended: set[int] = set()
        below = self._store.bounds(self._held).min_offset
        for note in self._read_notes():
            if isinstance(note, _Ended):
                ended.update(note.offsets)
            elif isinstance(note, _Asked):
                asks.update(note.asks)
            else:
                below, asks = note.below, dict(note.asks)
                ended.clear()
                self._open = dict(note.asks)
        self._open.update(dict.fromkeys(self._offsets_from(below), 0))
        for offset in ended:
            self._open.pop(offset, None)
        self._open = {offset: asks.get(offset, 0) for offset in sorted(self._open)}
        self._due = [(self._due_ms(offset), offset) for offset in self._open]
        heapq.heapify(self._due)

    def _read_notes(self) -> Iterator[_Note]:
        bounds = self._store.bounds(self._notes)
        offset = bounds.min_offset
        while offset < bounds.max_offset:
            batch = self._store.read(self._notes, offset, _SCAN_ROWS, _READ_BYTES)
            yield from (_decoder.decode(payload) for payload in batch.payloads)
            offset = batch.next_offset

    def _offsets_from(self, offset: int) -> Iterator[int]:
        """What is held from an offset on, and not lost."""
        table = self._store.table(self._held)
        row = table.row_at_offset(offset)
        while row < table.visible_row:
            rows = table.rows(row, min(row + _SCAN_ROWS, table.visible_row))
            yield from rows["base"][rows["count"] > 0].tolist()
            row += len(rows)

    def _due_ms(self, offset: int) -> int:
        table = self._store.table(self._held)
        row = table.row_at_offset(offset)
        if self._open[offset] or row >= table.next_row:  # asked before: how long ago is not kept
            return self._clock.now_ms() + self._limits.ask_interval_ms
        found = table.rows(row, row + 1)
        return int(found["time"][0]) + int(found["tag"][0])
