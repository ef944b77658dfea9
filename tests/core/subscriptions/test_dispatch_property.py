"""Whatever consumers do, in any order: the rules of dispatch hold, and in the end everybody's work is done."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.core.subscriptions.world import Entry, World

from penstock.core.subscriptions.keyed import slot_of
from penstock.core.subscriptions.subscription import Kind, Limits

KEYS = [b"a", b"b", b"c", b"d"]
BATCH_MAX = 5
ENTRIES = st.lists(
    st.builds(
        Entry,
        messages=st.integers(1, BATCH_MAX),
        key=st.sampled_from(KEYS),
        due_ms=st.sampled_from([0, 0, 50]),
        chunk=st.sampled_from(["", "", "m"]),
    ),
    min_size=1,
    max_size=25,
)
WHO = st.integers(0, 3)
STEP_MEANWHILE = st.one_of(
    st.tuples(st.just("join"), WHO),
    st.tuples(st.just("leave"), WHO),
    st.tuples(st.just("ack"), WHO, st.integers(0, 5)),
    st.tuples(st.just("redeliver"), WHO, st.integers(0, 5)),
)
STEP = st.one_of(
    st.tuples(st.just("join"), WHO),
    st.tuples(st.just("leave"), WHO),
    st.tuples(st.just("flow"), WHO, st.integers(1, 8)),
    st.tuples(st.just("ack"), WHO, st.integers(0, 5)),
    st.tuples(st.just("redeliver"), WHO, st.integers(0, 5)),
    st.tuples(st.just("redeliver_all"), WHO),
    st.tuples(st.just("publish"), st.integers(1, BATCH_MAX), st.sampled_from(KEYS)),
    st.tuples(st.just("wait"), st.sampled_from([10, 100])),
    st.tuples(st.just("stale"), STEP_MEANWHILE),
)


class Books:
    """The rules, looked at when something goes out."""

    def __init__(self, world):
        self.world, self.seen = world, {}
        world.checks += [self.goes_to_one, self.has_a_permit, self.is_not_acked, self.is_due]
        if world.style.kind == Kind.KEY_SHARED and not world.style.any_order:
            world.checks.append(self.keeps_the_order_of_its_key)

    def goes_to_one(self, client, delivery):
        assert not any(delivery.row in other.hand for other in self.world.clients), "it is in somebody's hand"

    def has_a_permit(self, client, delivery):
        assert client.seat.permits > -BATCH_MAX, "more than one entry above the permits"

    def is_not_acked(self, client, delivery):
        assert not self.world.subscription.cursor.is_acked(delivery.row)

    def is_due(self, client, delivery):
        assert self.world.entries[delivery.row].due_ms <= self.world.now_ms

    def keeps_the_order_of_its_key(self, client, delivery):
        key = self.world.entries[delivery.row].key
        for other in self.world.clients:
            if other is not client:
                assert all(self.world.entries[row].key != key for row in other.hand), "two work on one key"
        assert not self.world.subscription.replay.holds_earlier(slot_of(key), delivery.row), "it has overtaken one"
        first_time = delivery.row not in self.seen
        self.seen[delivery.row] = key
        if first_time and not any(entry.due_ms for entry in self.world.entries):
            later = [row for row, seen in self.seen.items() if seen == key and row > delivery.row]
            assert not later, "an earlier one of the key comes for the first time behind a later one"


def act(world, step):
    """A step, and what goes out because of it. In a stale one something happens between reading and dealing."""
    if step[0] == "stale":
        meanwhile = [step[1]]
        world.pump(lambda: do(world, meanwhile.pop()) if meanwhile else None)
    else:
        do(world, step)
    world.pump()


def do(world, step):
    name, *arguments = step
    if name == "publish":
        world.entries.append(Entry(*arguments))
    elif name == "wait":
        world.now_ms += arguments[0]
    elif name == "join":
        if len(world.clients) < 4 and not (world.style.kind == Kind.EXCLUSIVE and world.clients):
            world.join(priority=arguments[0] % 2, unacked_max=(0, 7)[arguments[0] > 1])
    elif world.clients:
        client = world.clients[arguments[0] % len(world.clients)]
        do_as(world, client, name, arguments[1:])


def do_as(world, client, name, arguments):
    if name == "leave":
        world.leave(client)
    elif name == "flow":
        world.flow(client, *arguments)
    elif name == "redeliver_all":
        world.redeliver(client)
    elif client.hand:
        row = client.hand[arguments[0] % len(client.hand)]
        if name == "ack":
            world.ack(client, row)
        else:
            world.redeliver(client, [row])


def finish(world):
    """Somebody with all the time of the world: everything is delivered and acknowledged."""
    world.now_ms += 10_000
    if not world.clients:
        world.join()
    for _ in range(1_000):
        for client in world.clients:
            world.flow(client, 10)
        world.pump()
        in_hand = [(client, row) for client in world.clients for row in client.hand]
        for client, row in in_hand:
            world.ack(client, row)
        if world.subscription.backlog(len(world.entries)) == 0:
            return
    raise AssertionError(f"never done: {world.subscription.backlog(len(world.entries))} are left")


@pytest.mark.parametrize(
    ("kind", "any_order"), [(Kind.SHARED, False), (Kind.KEY_SHARED, False), (Kind.KEY_SHARED, True)]
)
@settings(deadline=None)  # how busy the machine is says nothing about dispatch
@given(entries=ENTRIES, steps=st.lists(STEP, min_size=15, max_size=60))
def test_with_several_consumers(kind, any_order, entries, steps):
    world = World(entries, kind, any_order, limits=Limits(unacked_max=30))
    Books(world)
    world.flow(world.join(), 3)
    world.join(unacked_max=7)
    for step in steps:
        act(world, step)
    finish(world)


@pytest.mark.parametrize("kind", [Kind.EXCLUSIVE, Kind.FAILOVER])
@settings(deadline=None)  # how busy the machine is says nothing about dispatch
@given(entries=ENTRIES, steps=st.lists(STEP, min_size=15, max_size=60))
def test_with_one_active_consumer(kind, entries, steps):
    world = World(entries, kind)
    for entry in world.entries:
        entry.due_ms = 0
    world.checks.append(in_order(world))
    world.flow(world.join(), 3)
    for step in steps:
        if "redeliver" in (step[0], step[-1][0] if step[0] == "stale" else ""):
            continue  # one consumer gives back all
        act(world, step)
    finish(world)


def in_order(world):
    def check(client, delivery):
        assert client is world.subscription.active
        assert client.seat.permits > -BATCH_MAX
        assert not client.hand or delivery.row > client.hand[-1]
        skipped = range(client.hand[-1] + 1 if client.hand else world.subscription.cursor.mark, delivery.row)
        assert all(world.subscription.cursor.is_acked(row) for row in skipped)

    return check
