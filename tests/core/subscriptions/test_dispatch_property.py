"""Whatever consumers do, in any order: the rules of dispatch hold, and in the end everybody's work is done."""

import os
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.subscriptions.world import Entry, World

from penstock.core.subscriptions.keyed import SLOTS, slot_of
from penstock.core.subscriptions.subscription import Kind, Limits, Style

KEYS = [b"a", b"b", b"c", b"d"]
CHUNKS = ["", "", "m"]
BATCH_MAX = 5
QUARTER = SLOTS // 4
ENTRIES = st.lists(
    st.builds(
        Entry,
        messages=st.integers(1, BATCH_MAX),
        key=st.sampled_from(KEYS),
        due_ms=st.sampled_from([0, 0, 50]),
        chunk=st.sampled_from(CHUNKS),
    ),
    min_size=1,
    max_size=25,
)
WHO = st.integers(0, 3)
SLACK = st.sampled_from([0, 12])
FLOW = st.tuples(st.just("flow"), WHO, st.integers(1, 8))
PUBLISH = st.tuples(
    st.just("publish"), st.integers(1, BATCH_MAX), st.sampled_from(KEYS), st.just(0), st.sampled_from(CHUNKS)
)
GIVE_BACK = st.tuples(st.just("redeliver"), WHO, st.integers(0, 5))
GIVE_ALL_BACK = st.tuples(st.just("redeliver_all"), WHO)
MOVE = st.one_of(
    FLOW,
    PUBLISH,
    GIVE_BACK,
    GIVE_ALL_BACK,
    st.tuples(st.just("join"), WHO),
    st.tuples(st.just("leave"), WHO),
    st.tuples(st.just("ack"), WHO, st.integers(0, 5)),
    st.tuples(st.just("ack_any"), st.integers(0, 30)),
    st.tuples(st.just("open"), WHO, st.sampled_from([True, True, False])),
    st.tuples(st.just("wait"), st.sampled_from([10, 100])),
)
STALE = st.tuples(st.just("stale"), st.one_of(FLOW, PUBLISH, GIVE_BACK, GIVE_ALL_BACK), MOVE)
STEP = st.one_of(FLOW, PUBLISH, MOVE, MOVE, MOVE, STALE, STALE, STALE)
STEPS = st.lists(STEP, min_size=25, max_size=60)


class Books:
    """The rules, looked at when something goes out."""

    def __init__(self, world):
        self.world, self.seen = world, {}
        world.checks += [self.goes_to_one, has_a_permit, self.is_not_blocked, self.is_not_acked, self.is_due]
        if world.style.kind == Kind.SHARED:
            world.checks.append(self.goes_where_its_other_parts_are)
        elif not world.style.any_order:
            world.checks.append(self.keeps_the_order_of_its_key)

    def goes_to_one(self, client, delivery):
        assert not any(delivery.row in other.hand for other in self.world.clients), "it is in somebody's hand"

    def is_not_blocked(self, client, delivery):
        in_hand = sum(self.world.entries[row].messages for row in client.hand)
        assert not client.seat.unacked_max or in_hand < client.seat.unacked_max, "it has too many in hand"

    def goes_where_its_other_parts_are(self, client, delivery):
        chunk = self.world.entries[delivery.row].chunk
        others = [row for other in self.world.clients if other is not client for row in other.hand]
        assert not chunk or all(self.world.entries[row].chunk != chunk for row in others)

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


def has_a_permit(client, delivery):
    assert client.room > 0, "it has not asked for this"
    assert client.seat.open, "its connection takes no more"


def nothing_waits_in_vain(world):
    """Everything that could go to somebody has gone."""
    subscription = world.subscription
    in_hand = {row for client in world.clients for row in client.hand}
    waiting = [
        row
        for row, entry in enumerate(world.entries)
        if row not in in_hand and entry.due_ms <= world.now_ms and not subscription.cursor.is_acked(row)
    ]
    free = {client.seat.number: client for client in world.clients if client.seat.available}
    if subscription.is_single:
        could = [row for row in waiting if subscription.next_ms(world.now_ms) is None]
        free = {number: client for number, client in free.items() if client is subscription.active}
    elif world.style.kind == Kind.SHARED:
        could = [row for row in waiting if not subscription.blocked and owner_of(world, row) in (None, *free)]
    else:
        could = [row for row in waiting if not subscription.blocked and could_go_by_key(world, row, waiting, free)]
    assert not (free and could), f"{could} could go to {list(free)}"


def owner_of(world, row):
    """Who has the other parts of a chunked message."""
    return world.subscription._turns._chunks.get(world.entries[row].chunk)


def could_go_by_key(world, row, waiting, free):
    key = world.entries[row].key
    owner = world.subscription._selector.select(slot_of(key))
    if owner not in free or world.style.any_order:
        return owner in free
    is_first = not any(world.entries[other].key == key for other in waiting if other < row)
    elsewhere = [other for client in world.clients if client is not free[owner] for other in client.hand]
    return is_first and all(world.entries[other].key != key for other in elsewhere)


def act(world, step):
    """A step, and what goes out because of it. In a stale one something more happens between reading and dealing."""
    if step[0] == "stale":
        do(world, step[1])
        meanwhile = [step[2]]
        world.pump(lambda: do(world, meanwhile.pop()) if meanwhile else None)
    else:
        do(world, step)
    world.pump()
    nothing_waits_in_vain(world)


def join(world, **seat):
    """With the first quarter of the keys that nobody has, where consumers bring their own."""
    if not world.style.sticky:
        return world.join(**seat)
    quarter = next(at for at in range(4) if at not in {client.quarter for client in world.clients})
    client = world.join([(quarter * QUARTER, (quarter + 1) * QUARTER - 1)], **seat)
    client.quarter = quarter
    return client


def do(world, step):
    name, *arguments = step
    if name == "publish":
        world.entries.append(Entry(*arguments))
    elif name == "wait":
        world.now_ms += arguments[0]
    elif name == "ack_any":
        world.ack_whoever_has_it(arguments[0] % len(world.entries))
    elif name == "join":
        if len(world.clients) < 4 and not (world.style.kind == Kind.EXCLUSIVE and world.clients):
            join(world, priority=arguments[0] % 2, unacked_max=(0, 7)[arguments[0] > 1])
    elif world.clients:
        client = world.clients[arguments[0] % len(world.clients)]
        do_as(world, client, name, arguments[1:])


def do_as(world, client, name, arguments):
    if name == "leave":
        world.leave(client)
    elif name == "flow":
        world.flow(client, *arguments)
    elif name == "open":
        world.set_open(client, *arguments)
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
    while len(world.clients) < (4 if world.style.sticky else 1):
        join(world)
    for client in world.clients:
        world.set_open(client, True)
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


STYLES = {
    "exclusive": Style(Kind.EXCLUSIVE),
    "failover": Style(Kind.FAILOVER),
    "shared": Style(Kind.SHARED),
    "keys": Style(Kind.KEY_SHARED),
    "keys in any order": Style(Kind.KEY_SHARED, any_order=True),
    "ranges": Style(Kind.KEY_SHARED, sticky=True),
    "ranges in any order": Style(Kind.KEY_SHARED, sticky=True, any_order=True),
}


def run(style, entries, steps, slack):
    world = World(entries, style.kind, style.any_order, style.sticky, limits=Limits(unacked_max=30))
    world.slack = slack
    if world.subscription.is_single:
        for entry in world.entries:
            entry.due_ms = 0
        world.checks.append(in_order(world))
    else:
        Books(world)
    world.flow(join(world), 3)
    if not world.subscription.is_single:
        join(world, unacked_max=7)
    for step in steps:
        several = step[1:] if step[0] == "stale" else (step,)
        if not world.subscription.is_single or all(each[0] != "redeliver" for each in several):
            act(world, step)  # one consumer gives back all, and not some
    finish(world)


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
@given(entries=ENTRIES, steps=STEPS, slack=SLACK)
def test_any_history(style, entries, steps, slack):
    run(style, entries, steps, slack)


# What most often happens, more often: histories in which there is much to go wrong.
WEIGHTS = {
    "flow": 6,
    "publish": 4,
    "ack": 4,
    "ack_any": 1,
    "redeliver": 2,
    "redeliver_all": 1,
    "join": 2,
    "leave": 1,
    "open": 2,
    "wait": 1,
}
DRAWN = {
    "flow": lambda choose: (choose.randrange(4), choose.randint(1, 8)),
    "publish": lambda choose: (choose.randint(1, BATCH_MAX), choose.choice(KEYS), 0, choose.choice(CHUNKS)),
    "ack": lambda choose: (choose.randrange(4), choose.randrange(6)),
    "ack_any": lambda choose: (choose.randrange(30),),
    "redeliver": lambda choose: (choose.randrange(4), choose.randrange(6)),
    "redeliver_all": lambda choose: (choose.randrange(4),),
    "join": lambda choose: (choose.randrange(4),),
    "leave": lambda choose: (choose.randrange(4),),
    "open": lambda choose: (choose.randrange(4), choose.random() < 0.7),
    "wait": lambda choose: (choose.choice([10, 100]),),
}


def drawn(choose):
    (name,) = choose.choices(list(WEIGHTS), WEIGHTS.values())
    return (name, *DRAWN[name](choose))


@pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
def test_many_histories(style):
    """Seeds that replay: PENSTOCK_EXAMPLES=100 for more."""
    for seed in range(200 * int(os.environ.get("PENSTOCK_EXAMPLES", "1"))):
        choose = random.Random(seed)
        count = choose.randint(5, 25)
        entries = [
            Entry(choose.randint(1, BATCH_MAX), choose.choice(KEYS), chunk=choose.choice(CHUNKS)) for _ in range(count)
        ]
        if choose.random() < 0.3:
            entries[choose.randrange(count)].due_ms = 50
        steps = [
            ("stale", drawn(choose), drawn(choose)) if choose.random() < 0.4 else drawn(choose)
            for _ in range(choose.randint(20, 60))
        ]
        try:
            run(style, entries, steps, choose.choice([0, 12]))
        except AssertionError as error:
            error.add_note(f"seed {seed}")
            raise


def in_order(world):
    def check(client, delivery):
        assert client is world.subscription.active
        has_a_permit(client, delivery)
        assert not client.hand or delivery.row > client.hand[-1]
        skipped = range(client.hand[-1] + 1 if client.hand else world.subscription.cursor.mark, delivery.row)
        assert all(world.subscription.cursor.is_acked(row) for row in skipped)

    return check
