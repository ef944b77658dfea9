"""A queue of entries, a subscription on it, and consumers that keep books: the rules of dispatch are checked on it."""

from penstock.core.subscriptions.cursor import Cursor
from penstock.core.subscriptions.keyed import slot_of
from penstock.core.subscriptions.seats import Offer, Seat
from penstock.core.subscriptions.subscription import Kind, Limits, Style, Subscription, Want


class Entry:
    def __init__(self, messages, key=b"", due_ms=0, chunk="", is_last_chunk=False):
        self.messages, self.key, self.due_ms = messages, key, due_ms
        self.chunk, self.is_last_chunk = chunk, is_last_chunk


class Client:
    """A consumer. `hand` is what it was given and has neither acknowledged nor given back; `room` is what it has asked
    for and not been given, in messages: its own count, whatever the subscription thinks.
    """

    def __init__(self, world, number, name="", priority=0, unacked_max=0):
        self.world = world
        self.seat = Seat(number, name or f"c{number}", priority, unacked_max)
        self.hand = []
        self.room = 0
        self.got = []
        self.active = []

    def deliver(self, deliveries):
        for delivery in deliveries:
            self.world.on_delivery(self, delivery)
            self.room -= self.world.entries[delivery.row].messages
            self.hand.append(delivery.row)
            self.got.append((delivery.row, delivery.redeliveries))

    def activate(self, active):
        self.active.append(active)
        self.hand.clear()  # whoever is active gets it all, from the mark on

    def finish(self):
        raise AssertionError("no queue ends here")


class World:
    def __init__(self, entries, kind=Kind.SHARED, any_order=False, sticky=False, limits=None):
        self.entries = list(entries)
        self.style = Style(kind, sticky, any_order)
        self.subscription = Subscription("s", "t", -1, Cursor(0), self.style, limits or Limits())
        self.clients = []
        self.now_ms = 0
        self.min_row = 0
        self.lost = set()
        self.slack = 0  # messages that a read brings above what was wanted
        self.checks = []
        self._numbers = 0

    def join(self, ranges=(), **seat):
        client = Client(self, self._numbers, **seat)
        self._numbers += 1
        self.subscription.join(client, self.style, ranges, self.now_ms)
        self.clients.append(client)
        return client

    def leave(self, client):
        self.clients.remove(client)
        self.subscription.leave(client, self.now_ms)

    def flow(self, client, permits):
        client.room += permits
        self.subscription.flow(client, permits)

    def set_open(self, client, is_open):
        """As its connection does when it takes no more, or takes more again."""
        client.seat.open = is_open
        if is_open:
            self.subscription.opened()

    def ack(self, client, row):
        client.hand.remove(row)
        self.subscription.ack(row)

    def ack_whoever_has_it(self, row):
        """As somebody does who has given it back, or an operator."""
        for client in self.clients:
            client.hand = [held for held in client.hand if held != row]
        self.subscription.ack(row)

    def redeliver(self, client, rows=None):
        given_back = list(client.hand) if rows is None else rows
        client.hand = [row for row in client.hand if row not in given_back]
        self.subscription.redeliver(client, rows)

    def read(self, want, rows_max=1_000):
        """What a store would read: the rows in order, as far as the permits go, and a row at least."""
        offers, messages, until = [], 0, want.rows[0]
        for row in want.rows[:rows_max]:
            if offers and messages + self.entries[row].messages > want.messages_max + self.slack:
                break
            until = row + 1
            if row in self.lost:
                continue
            entry = self.entries[row]
            messages += entry.messages
            part = self.subscription.cursor.part(row)
            left = entry.messages if part is None else part.bit_count()
            slot = slot_of(entry.key)
            offers.append(Offer(row, left, b"", slot, entry.chunk, entry.is_last_chunk, entry.due_ms))
        return offers, until

    def pump(self, between=lambda: None):
        """Until nothing more can go out."""
        for _ in range(10_000):
            want = self.subscription.wanted(self.min_row, len(self.entries), self.now_ms)
            if want is None:
                return
            offers, until = self.read(want)
            between()
            self.hand_out(want, offers, until)
        raise AssertionError("it goes on and on")

    def hand_out(self, want: Want, offers, until):
        for client, deliveries in self.subscription.deal(want, offers, until, self.now_ms):
            client.deliver(deliveries)

    def on_delivery(self, client, delivery):
        for check in self.checks:
            check(client, delivery)
