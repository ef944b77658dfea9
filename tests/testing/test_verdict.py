"""The judge must be able to condemn: each kind of broken promise is found, and a kept one is not."""

import random
from collections.abc import Callable

import pytest

from penstock.clock import ManualClock
from penstock.model import Durability
from penstock.store.store import Store
from penstock.testing.disk import FaultyDisk
from penstock.testing.verdict import problems
from penstock.testing.witness import Fact, Queue, Sent, Witness
from penstock.testing.workload import Workload, open_store
from penstock.wire.plain import plain, plain_run


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> Store:
    return open_store(FaultyDisk(), clock)


@pytest.fixture
def witness(store: Store) -> Witness:
    """Of two queues with something in them, a trim, a fact and a group; all of it durable."""
    witness = Witness()
    witness.create(store, 1, Durability.SYNC)
    witness.create(store, 2, Durability.ASYNC)
    for number in range(4):
        witness.append(store, [plain(1, b"one %d" % number), plain(2, b"two %d" % number)])
    witness.append(store, [plain_run([plain(1, b"run a"), plain(1, b"run b")]), plain(2, b"grouped")], group=True)
    witness.append(store, [plain(1, b"with a fact")], facts={"joined": b"fact"})
    witness.append(store, [plain(2, b"numbered", producer=5, sequence=7)])
    witness.flush(store)
    witness.trim(store, 1, 2)
    witness.put(store, "key", b"value")
    witness.flush(store)
    return witness


def test_a_store_that_kept_everything_has_no_problems(witness, store):
    assert problems(witness, store) == []
    assert problems(witness, store, killed=True) == []
    assert problems(witness.after(store), store) == []


def remember(witness: Witness, **facts: object) -> None:
    """Let the witness remember a message that the store does not have."""
    sent = Sent(**{"queue": 1, "body": b"never stored", "group": 0, "offset": 8, "acked": True, **facts})
    witness.queues[sent.queue].sent.append(sent)
    witness.bodies[sent.body] = sent


def another_body(witness: Witness) -> None:
    sent = witness.bodies.pop(b"one 3")
    sent.body = b"another"
    witness.bodies[sent.body] = sent


def another_offset(witness: Witness) -> None:
    witness.bodies[b"one 3"].offset = 2


def another_order(witness: Witness) -> None:
    witness.queues[2].sent.reverse()
    for sent in witness.queues[2].sent:
        sent.offset = None


BROKEN: dict[str, tuple[Callable[[Witness], object], str]] = {
    "acknowledged": (lambda w: remember(w), "queue 1: offset 8 is lost (acknowledged: True, seen: False)"),
    "acknowledged in an async queue": (lambda w: remember(w, queue=2), "queue 2: offset 8 is lost"),
    "seen": (
        lambda w: [remember(w, acked=False), setattr(w.queues[1], "seen_offset", 9)],
        "(acknowledged: False, seen: True)",
    ),
    "given away": (lambda w: setattr(w.queues[1], "seen_offset", 8), "queue 1 ends at 7, was seen up to 8"),
    "foreign": (another_body, "offset 3 holds b'one 3', which was never sent there"),
    "moved": (another_offset, "offset 3 holds b'one 3', which was at 2"),
    "shuffled": (another_order, "out of order"),
    "torn group": (lambda w: remember(w, group=w.bodies[b"run a"].group, acked=False), "came back in part"),
    "fact without its group": (
        lambda w: remember(w, group=w.catalog["joined"][0].group, acked=False),
        "came back in part",
    ),
    "untrimmed": (
        lambda w: w.queues[1].trims.update({3: Fact(done=True, safe=True)}),
        "queue 1 begins at 2, was trimmed to 3",
    ),
    "trimmed unasked": (lambda w: w.queues[1].trims.clear(), "queue 1 begins at 2, was trimmed to 0"),
    "gone": (lambda w: w.queues.update({9: Queue(Durability.SYNC, Fact(safe=True))}), "queue 9 is gone"),
    "dropped": (lambda w: setattr(w.queues[1], "dropped", Fact(safe=True)), "queue 1 was dropped and is back"),
    "forgotten sequence": (lambda w: setattr(w.bodies[b"numbered"], "sequence", 8), "sequence 7 is the highest known"),
    "sequence of the lost": (
        lambda w: setattr(w.bodies[b"numbered"], "sequence", 6),
        "sequence 7 is the highest known",
    ),
    "lost behind another": (
        lambda w: remember(w, queue=2, producer=5, sequence=3, acked=False),
        "sequence 3 of producer 5 is lost, and would be refused",
    ),
    "old fact": (lambda w: w.catalog["key"].append(Fact(b"newer", safe=True)), "the catalog has b'value' for 'key'"),
    "made-up fact": (lambda w: w.catalog.update({"key": []}), "the catalog has b'value' for 'key'"),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_every_kind_of_broken_promise_is_found(witness, store, kind):
    change, complaint = BROKEN[kind]
    change(witness)
    found = problems(witness, store)
    assert any(complaint in line for line in found), found


def test_a_fact_must_not_be_there_without_its_group(witness, store):
    remember(witness, group=77, offset=None, acked=False)
    witness.catalog["key"] = [Fact(b"value", group=77)]
    assert any("the catalog has b'value'" in line for line in problems(witness, store))


def test_what_was_only_written_may_be_lost_by_a_power_cut_but_not_by_a_kill(witness, store):
    remember(witness, acked=False)
    assert problems(witness, store) == []
    assert problems(witness, store, killed=True) == ["queue 1: offset 8 is lost (acknowledged: False, seen: False)"]


def test_what_was_under_way_may_be_there_or_not(witness, store):
    remember(witness, offset=None, acked=False)
    witness.bodies[b"one 3"].offset = None
    assert problems(witness, store, killed=True) == []


def test_the_same_seed_does_the_same_work(clock):
    def steps(seed: int) -> tuple[list[str], int]:
        store = open_store(FaultyDisk(), ManualClock())
        work = Workload(random.Random(seed), store, Witness(), clock)
        work.begin()
        return [work.step() for _ in range(100)], store.end_position

    assert steps(1) == steps(1)
    assert steps(1) != steps(2)
