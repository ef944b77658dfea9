"""A subscription: a cursor, its consumers, and who of them gets what.

No I/O: `wanted` says which rows could go out now, `deal` is handed what was read of them and says who gets it. `feeder`
runs the two in turns, whenever permits, acknowledgements, new entries or the time give cause.

Two shapes of dispatch. With one active consumer (exclusive, failover) rows go out in order from where it reads; a
change of the active one goes back to the cursor's mark. With several (shared, key_shared) every row that is out is held
by somebody until it is acknowledged; what comes back waits in `replay` and goes first.
"""

import enum
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec

from penstock.core.subscriptions import keyed, single
from penstock.core.subscriptions.cursor import Cursor
from penstock.core.subscriptions.keyed import Holdings, Range, Ranges, Ring, Selector
from penstock.core.subscriptions.replay import Delayed, Replay
from penstock.core.subscriptions.seats import Offer, Seat
from penstock.core.subscriptions.shared import Dealt, Turns
from penstock.errors import ConsumerBusy

READ_ROWS_MAX = 500
HELD_MAX = 20_000  # rows that are looked ahead over while keys wait for their consumers
HELD_PER_SEAT_MAX = 2_000


class Kind(enum.StrEnum):
    EXCLUSIVE = "Exclusive"
    SHARED = "Shared"
    FAILOVER = "Failover"
    KEY_SHARED = "Key_Shared"


SINGLE = {Kind.EXCLUSIVE, Kind.FAILOVER}


class Delivery(NamedTuple):
    """An entry on its way to a consumer."""

    row: int
    payload: memoryview
    redeliveries: int
    left: int | None  # a bit per message that is not acknowledged; None: all


class Consumer(Protocol):
    """Who is pushed to."""

    @property
    def seat(self) -> Seat: ...

    def deliver(self, deliveries: list[Delivery]) -> None: ...

    def activate(self, active: bool) -> None:
        """It is the one that gets everything now, or no longer."""

    def finish(self) -> None:
        """The queue has ended, and everything is acknowledged. May be said again."""


class Style(msgspec.Struct, frozen=True):
    """What consumers of one subscription have to agree on."""

    kind: Kind = Kind.EXCLUSIVE
    sticky: bool = False  # key ranges are brought along; who consumes alone passes over the others
    any_order: bool = False


class Limits(msgspec.Struct, frozen=True):
    unacked_max: int = 200_000  # of all consumers together; 0: any number
    unacked_per_consumer_max: int = 0
    consumers_max: int = 0
    failover_delay_ms: int = 1_000
    delays: bool = True  # what is meant for later is delivered later


class Want(NamedTuple):
    """Rows to be read, in order; at least one, and not much more than these messages."""

    rows: list[int]
    messages_max: int
    turn: int  # it is void once the subscription has gone back


class Held(msgspec.Struct, gc=False):
    """A row that is out."""

    number: int  # of the seat
    messages: int
    slot: int


class Subscription:
    def __init__(self, name: str, topic: str, partition: int, cursor: Cursor, style: Style, limits: Limits) -> None:
        self.name, self.topic, self.partition = name, topic, partition
        self.cursor, self.style, self.limits = cursor, style, limits
        self.consumers: dict[int, Consumer] = {}
        self.active: Consumer | None = None
        self.read_row = cursor.mark
        self.unacked = 0
        self.blocked = False
        self.out: dict[int, Held] = {}
        self.replay, self.delayed = Replay(), Delayed()
        self.redelivered: dict[int, int] = {}
        self._turns, self._holdings = Turns(), Holdings()
        self._selector: Selector = Ring()
        self._not_before_ms = 0
        self._turn = 0

    @property
    def is_single(self) -> bool:
        return self.style.kind in SINGLE

    @property
    def reads_keys(self) -> bool:
        """Whether it matters which slot an entry's key has."""
        return self.style.kind == Kind.KEY_SHARED or self.style.sticky

    @property
    def seats(self) -> list[Seat]:
        return [consumer.seat for consumer in self.consumers.values()]

    # --- coming and going ---------------------------------------------------------------------------------------------

    def join(self, consumer: Consumer, style: Style, ranges: Sequence[Range], now_ms: int) -> None:
        """ConsumerBusy when it does not go with those who are there."""
        if not self.consumers:
            self._begin(style)
        elif style != self.style:
            raise ConsumerBusy(f"subscription {self.name!r} has consumers of another type ({self.style.kind})")
        elif style.kind == Kind.EXCLUSIVE:
            raise ConsumerBusy("Exclusive consumer is already connected")
        if 0 < self.limits.consumers_max <= len(self.consumers):
            raise ConsumerBusy(f"Subscription reached max consumers limit, which is {self.limits.consumers_max}")
        if style.kind == Kind.KEY_SHARED or style.sticky:
            self._selector.add(consumer.seat, ranges)
        self.consumers[consumer.seat.number] = consumer
        self.replay.look_again()
        if self.is_single:
            self._choose(now_ms, newcomer=consumer)

    def _begin(self, style: Style) -> None:
        """The first consumer after none: from the mark, with a clean slate."""
        self.style = style
        self._selector = Ranges() if style.sticky else Ring()
        self.rewind()

    def rewind(self) -> None:
        """Everything that is not acknowledged goes out again."""
        self._go_back()
        self.out.clear()
        self.replay.clear()
        self.delayed.clear()
        self.redelivered.clear()
        self._turns.clear()
        self._holdings.clear()
        self.unacked, self.blocked = 0, False
        for seat in self.seats:
            seat.settle(seat.unacked)

    def _go_back(self) -> None:
        """Read from the mark on. What is being read at the moment does not count."""
        self.read_row = self.cursor.mark
        self._turn += 1

    def leave(self, consumer: Consumer, now_ms: int) -> None:
        """What it had in hand goes to the others."""
        seat = consumer.seat
        if self.consumers.pop(seat.number, None) is None:
            return
        self._selector.remove(seat)
        self._turns.forget(seat)
        self.replay.look_again()
        for row in [row for row, held in self.out.items() if held.number == seat.number]:
            self.replay.add(row, self._settle(row).slot)
        if self.is_single and consumer is self.active:
            self.active = None
            self._choose(now_ms)

    def _choose(self, now_ms: int, newcomer: Consumer | None = None) -> None:
        """Who is active from now on. Whoever takes over from somebody who is there waits a moment for acknowledgements
        that are on their way.
        """
        seat = single.active_of(self.seats, self.topic, max(self.partition, -1))
        chosen, before = self.consumers[seat.number] if seat else None, self.active
        if chosen is before:
            if newcomer is not None:
                newcomer.activate(False)
            return
        self.active = chosen
        self._go_back()
        if self.style.kind == Kind.FAILOVER and before is not None:
            self._not_before_ms = now_ms + self.limits.failover_delay_ms
        for consumer in self.consumers.values():
            if consumer in (before, chosen, newcomer):
                consumer.activate(consumer is chosen)

    # --- what consumers say -------------------------------------------------------------------------------------------

    def flow(self, consumer: Consumer, permits: int) -> None:
        """It has room for more messages."""
        consumer.seat.flow(permits)
        self.replay.look_again()

    def opened(self) -> None:
        """Somebody's connection takes more again."""
        self.replay.look_again()

    def ack(self, row: int) -> None:
        self.ack_rows((row,))

    def ack_rows(self, rows: Sequence[int]) -> None:
        """Hot: all that a client acknowledges with one command."""
        self._done(self.cursor.ack_rows(rows))

    def ack_part(self, row: int, left: int, count: int) -> None:
        """Of a row's messages, those whose bit is set in `left` are not acknowledged."""
        acked = self.cursor.ack_part(row, left, count)
        if self.cursor.is_acked(row):
            self._done((row,))
        elif row in self.out and acked:
            held = self.out[row]
            held.messages -= acked
            self._settled(held.number, acked)

    def ack_until(self, row: int) -> None:
        """Everything below `row`."""
        self.cursor.ack_until(row)
        self._done([gone for gone in self.out if gone < self.cursor.mark])
        self.replay.remove_below(self.cursor.mark)
        self.redelivered = {at: times for at, times in self.redelivered.items() if at >= self.cursor.mark}

    def _done(self, rows: Sequence[int]) -> None:
        """These are acknowledged. Who held them gives them back in one."""
        settled: dict[int, int] = {}
        for row in rows if self.out else ():
            held = self.out.pop(row, None)
            if held is not None:
                settled[held.number] = settled.get(held.number, 0) + held.messages
                if self.style.kind == Kind.KEY_SHARED:
                    self._holdings.settle(held.slot, held.number)
        for number, messages in settled.items():
            self._settled(number, messages)
        for row in rows if self.replay else ():
            self.replay.remove(row)
        for row in rows if self.redelivered else ():
            self.redelivered.pop(row, None)

    def _settle(self, row: int) -> Held:
        """A row is no longer out."""
        held = self.out.pop(row)
        if self.style.kind == Kind.KEY_SHARED:
            self._holdings.settle(held.slot, held.number)
        self._settled(held.number, held.messages)
        return held

    def _settled(self, number: int, messages: int) -> None:
        self.unacked -= messages
        self.replay.look_again()
        if self.blocked and self.unacked < self.limits.unacked_max // 2:
            self.blocked = False
        consumer = self.consumers.get(number)
        if consumer is not None:
            consumer.seat.settle(messages)

    def redeliver(self, consumer: Consumer, rows: Iterable[int] | None) -> None:
        """What it gives back: these rows, or all that it has. A single consumer gives back everything."""
        if self.is_single:
            if consumer is self.active:
                self._go_back()
            return
        number = consumer.seat.number
        mine = [row for row, held in self.out.items() if held.number == number] if rows is None else rows
        for row in mine:
            held = self.out.get(row)
            if held is not None and held.number == number:
                self.redelivered[row] = self.redelivered.get(row, 0) + 1
                self.replay.add(row, self._settle(row).slot)

    def seek(self, row: int) -> None:
        """Go on there, whatever was acknowledged."""
        self.cursor.reset(row)
        self.rewind()

    def limit(self, limits: Limits) -> None:
        """Other limits from now on."""
        self.limits = limits
        self.replay.look_again()
        for seat in self.seats:
            seat.limit(limits.unacked_per_consumer_max)
        if self.blocked and (not limits.unacked_max or self.unacked < limits.unacked_max):
            self.blocked = False

    # --- dealing ------------------------------------------------------------------------------------------------------

    def wanted(self, min_row: int, behind: int, now_ms: int) -> Want | None:
        """What could go out now, of the rows from `min_row` to below `behind`; None when nothing can."""
        if self.cursor.mark < min_row:  # retention was faster
            self.ack_until(min_row)
        if self.is_single:
            return self._wanted_by_one(behind, now_ms)
        for row, slot in self.delayed.take_due(now_ms):
            if not self.cursor.is_acked(row):
                self.replay.add(row, slot)
        messages_max = sum(seat.permits for seat in self.seats if seat.available)
        if messages_max <= 0:
            return None
        rows = list(self._deliverable())
        if not rows:
            messages_max = min(messages_max, self._room)
            rows = self._new_rows(behind, messages_max)
        return Want(rows, messages_max, self._turn) if rows else None

    @property
    def _room(self) -> int:
        """How many messages more may be out."""
        return self.limits.unacked_max - self.unacked if self.limits.unacked_max else sys.maxsize

    def _wanted_by_one(self, behind: int, now_ms: int) -> Want | None:
        if self.active is None or now_ms < self._not_before_ms or not self.active.seat.available:
            return None
        rows = self._rows_from(behind, self.active.seat.permits)
        return Want(rows, self.active.seat.permits, self._turn) if rows else None

    def wanted_compacted(self, now_ms: int) -> Want | None:
        """Where the active consumer would go on, of a queue that it reads compacted; None when it cannot."""
        if self.active is None or now_ms < self._not_before_ms or not self.active.seat.available:
            return None
        return Want([self.cursor.next_unacked(self.read_row)], self.active.seat.permits, self._turn)

    def deal_compacted(self, want: Want, offers: list[Offer], until: int) -> list[tuple[Consumer, list[Delivery]]]:
        """As `deal`: nothing but the offers is to be had below `until`. The rest counts as acknowledged."""
        if want.turn != self._turn:
            return []
        for offer in offers:
            if offer.living is not None:
                self.cursor.ack_part(offer.row, offer.living, offer.messages)
            offer.messages = self.cursor.left(offer.row, offer.messages).bit_count()
        fresh = [offer for offer in offers if not self.cursor.is_acked(offer.row)]
        given = self._deal_to_one(fresh)
        behind = until if len(given) == len(fresh) else fresh[len(given)].row
        first = want.rows[0]
        for offer in offers:
            self.cursor.ack_between(first, min(offer.row, behind))
            first = offer.row + 1
        self.cursor.ack_between(first, behind)
        self.read_row = max(behind, self.cursor.mark)
        return self._deliveries(given)

    def _deliverable(self) -> Iterator[int]:
        """Rows of the replay that somebody can take, the first ones."""
        ordered = not self.style.any_order
        held: set[int] = set()
        seats = {seat.number: seat for seat in self.seats}
        found = 0
        for row, slot in self.replay.waiting():
            if self.style.kind == Kind.KEY_SHARED and (
                slot in held or keyed.may_have(slot, self._selector, self._holdings, seats, ordered) is None
            ):
                if ordered:
                    held.add(slot)
                continue
            yield row
            found += 1
            if found == READ_ROWS_MAX:
                return

    def _new_rows(self, behind: int, messages_max: int) -> list[int]:
        if self.blocked or len(self.replay) >= min(HELD_MAX, HELD_PER_SEAT_MAX * len(self.consumers)):
            return []
        return self._rows_from(behind, messages_max)

    def _rows_from(self, behind: int, rows_max: int) -> list[int]:
        """The next rows that are not acknowledged. No more than there are permits: a row is a message at least."""
        rows: list[int] = []
        row = self.cursor.next_unacked(self.read_row)
        while row < behind and len(rows) < min(rows_max, READ_ROWS_MAX):
            rows.append(row)
            row = self.cursor.next_unacked(row + 1)
        return rows

    def deal(self, want: Want, offers: list[Offer], until: int, now_ms: int) -> list[tuple[Consumer, list[Delivery]]]:
        """Who gets which of the offers. Rows that were wanted below `until` and are not among them are not to be had:
        they count as acknowledged.
        """
        if want.turn != self._turn:
            return []
        there = {offer.row for offer in offers}
        for row in want.rows:
            if row < until and row not in there:
                self.ack(row)
        if offers and not self.cursor.none_acked_from(offers[0].row):
            offers = [offer for offer in offers if not self.cursor.is_acked(offer.row)]
        is_replay = bool(self.replay) and any(offer.row in self.replay for offer in offers)
        given = self._deal_to_one(offers) if self.is_single else self._deal_out(offers, until, now_ms)
        if is_replay and not given:
            self.replay.pass_over(offer.row for offer in offers)
        elif self.style.kind == Kind.KEY_SHARED:
            self.replay.look_again()  # what went out may be what others of its key had to wait for
        return self._deliveries(given)

    def _deal_to_one(self, offers: list[Offer]) -> list[tuple[Seat, Offer]]:
        if self.active is None:
            return []
        seat = self.active.seat
        mine = (
            [offer for offer in offers if self._selector.select(offer.slot) == seat.number]
            if self.style.sticky
            else offers
        )
        count = single.deal(mine, seat)
        if count < len(mine):
            self.read_row = mine[count].row
        elif offers:
            self.read_row = offers[-1].row + 1
        return [(seat, offer) for offer in mine[:count]]

    def _deal_out(self, offers: list[Offer], until: int, now_ms: int) -> list[tuple[Seat, Offer]]:
        self.read_row = max(self.read_row, until)
        offers = [offer for offer in offers if offer.due_ms <= now_ms or not self._is_put_off(offer)]
        given, left = self._dealt(offers)
        for seat, offer in given:
            if self.replay:
                self.replay.remove(offer.row)
            self.out[offer.row] = Held(seat.number, offer.messages, offer.slot)
            self.unacked += offer.messages
        if self.limits.unacked_max and self.unacked >= self.limits.unacked_max:
            self.blocked = True
        for offer in left:
            self.replay.add(offer.row, offer.slot)
        return given

    def _is_put_off(self, offer: Offer) -> bool:
        if not self.limits.delays:
            return False
        self.replay.remove(offer.row)
        self.delayed.add(offer.due_ms, offer.row, offer.slot)
        return True

    def _dealt(self, offers: list[Offer]) -> Dealt:
        if self.style.kind == Kind.SHARED:
            return self._turns.deal(offers, self.seats)
        seats = {seat.number: seat for seat in self.seats}
        return keyed.deal(offers, self._selector, self._holdings, seats, self.replay, not self.style.any_order)

    def _deliveries(self, given: list[tuple[Seat, Offer]]) -> list[tuple[Consumer, list[Delivery]]]:
        by_number: dict[int, list[Delivery]] = {}
        for seat, offer in given:
            delivery = Delivery(
                offer.row, offer.payload, self.redelivered.get(offer.row, 0), self.cursor.part(offer.row)
            )
            by_number.setdefault(seat.number, []).append(delivery)
        return [(self.consumers[number], deliveries) for number, deliveries in by_number.items()]

    # --- asking -------------------------------------------------------------------------------------------------------

    def next_ms(self, now_ms: int) -> int | None:
        """When to look again although nothing happens."""
        if self.is_single:
            return self._not_before_ms if self._not_before_ms > now_ms else None
        return self.delayed.next_ms

    def backlog(self, behind: int) -> int:
        """Rows that are not acknowledged."""
        return self.cursor.backlog(behind)
