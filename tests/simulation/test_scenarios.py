"""Behaviours this project was founded on, with our own client and a broker on one clock that a test moves: versions of
subscriptions (S03, S04) and resets (S18 to S20).
"""

import asyncio
from collections import Counter
from pathlib import Path

import pytest
from tests.simulation.virtual import VirtualClock
from tests.simulation.world import GROUP, TOPIC, World, played

from penstock.client.consumer.holding import Holding
from penstock.client.consumer.push import PushConsumer
from penstock.client.errors import Refused
from penstock.client.message import Message
from penstock.client.positions import LAST
from penstock.core.events import ResetConfirmed
from penstock.wire.rocketmq.codes import RequestCode

QUEUES = 4
HEARTBEAT_S, PERSIST_S = 30, 5


pytestmark = pytest.mark.timeout(300)


async def sent(made: World, count: int, first: int = 0) -> list[bytes]:
    """Numbered messages, round all queues."""
    queues = await made.operator.queues(TOPIC)
    bodies = [b"%d" % number for number in range(first, first + count)]
    for number, body in enumerate(bodies):
        await made.operator.send(Message(TOPIC, body), queues[number % QUEUES])
    return bodies


def counts(made: World, since: int = 0) -> Counter[bytes]:
    return Counter(body for body, _ in made.consumed[since:])


def owned(one: PushConsumer) -> list[int]:
    return sorted(queue.queue for queue in one.owned if queue.topic == TOPIC)


# --- versions of subscriptions ----------------------------------------------------------------------------------------


@pytest.fixture
def hasty(monkeypatch):
    """Instances that pull with the version of their last rebalance before any heartbeat has told it; a set to put them
    into, by ClientID. (Ours do not: S07.)
    """
    original, ids, told = Holding.tell, set[str](), set[Holding]()

    async def tell(self: Holding) -> None:
        if self._instance.client_id not in ids or self not in told:  # the first one: it joins
            told.add(self)
            await original(self)
            return
        for subscription in self._subscriptions.values():
            subscription.told_version = subscription.version

    monkeypatch.setattr(Holding, "tell", tell)
    return ids


def test_s03_the_worked_example_with_our_client(hasty):
    """A owns all; B comes, rebalances, and pulls with a version that the broker has not heard of: refused, since A
    still reads those queues. A rebalances; its heartbeat brings the broker's version forward, and B is served.
    """
    hasty.add("127.0.0.1@b")

    async def story(made: World) -> None:
        a = await made.join("127.0.0.1@a")
        before = await sent(made, 8)
        await asyncio.sleep(PERSIST_S * 2)
        assert owned(a) == [0, 1, 2, 3]
        made.network.stall("c1")  # A does not hear yet that B comes
        b = await made.join("127.0.0.1@b")
        await asyncio.sleep(5)
        assert (owned(a), owned(b)) == ([0, 1, 2, 3], [2, 3])
        assert made.refused
        assert {name for _, name in made.consumed} == {"c1"}
        made.network.go_on("c1")
        await asyncio.sleep(10)
        assert (owned(a), owned(b)) == ([0, 1], [2, 3])
        refused = len(made.refused)
        after = await sent(made, 16, first=8)
        await asyncio.sleep(10)
        assert len(made.refused) == refused
        assert counts(made) == dict.fromkeys(before + after, 1), "none went to both"
        assert {name for _, name in made.consumed[8:]} == {"c1", "c2"}

    played(story, queues=QUEUES)


def test_s03_a_client_that_heartbeats_first_is_not_refused():
    """As above, with B as it is (S07): so it is the haste that is refused."""

    async def story(made: World) -> None:
        await made.join("127.0.0.1@a")
        await sent(made, 8)
        await asyncio.sleep(PERSIST_S * 2)
        made.network.stall("c1")
        await made.join("127.0.0.1@b")
        await asyncio.sleep(5)
        made.network.go_on("c1")
        await asyncio.sleep(10)
        assert made.refused == []

    played(story, queues=QUEUES)


def test_s04_one_alone_meets_it_too_and_its_heartbeat_ends_it(hasty):
    hasty.add("127.0.0.1@a")

    async def story(made: World) -> None:
        a = await made.join("127.0.0.1@a")
        bodies = await sent(made, 8)
        await asyncio.sleep(HEARTBEAT_S - 5)
        assert (owned(a), made.consumed) == ([0, 1, 2, 3], [])
        assert made.refused
        await asyncio.sleep(15)
        assert counts(made) == dict.fromkeys(bodies, 1)
        assert max(made.refused) < HEARTBEAT_S + 1

    played(story, queues=QUEUES)


# --- resets -----------------------------------------------------------------------------------------------------------


async def reset(made: World, at_ms: int, force: bool) -> None:
    asked = {"topic": TOPIC, "group": GROUP, "timestamp": str(at_ms), "isForce": str(force).lower()}
    cluster, broker = made.operator.instance.cluster, made.server.addresses["broker"]
    await cluster.get(broker, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, asked)


@pytest.mark.parametrize("force", [False, True])
def test_s18_only_by_force_does_a_cluster_group_skip_what_it_has_not_consumed(force):
    async def story(made: World) -> None:
        one = await made.join()
        first = await sent(made, 8)
        await asyncio.sleep(PERSIST_S * 2)
        await one.close()
        made.instances.clear()
        middle_ms = VirtualClock().now_ms()
        await asyncio.sleep(60)
        second = await sent(made, 8, first=8)
        await asyncio.sleep(60)
        await reset(made, VirtualClock().now_ms(), force)
        await made.join()
        await asyncio.sleep(30)
        assert counts(made) == dict.fromkeys(first if force else first + second, 1)
        done = len(made.consumed)
        await reset(made, middle_ms, force)  # back in time: with force or without, and while it runs
        await asyncio.sleep(30)
        assert counts(made, done) == dict.fromkeys(second, 1)

    played(story, queues=QUEUES)


def test_s19_a_group_without_any_offset_is_refused_and_then_begins_as_it_would_have():
    async def story(made: World) -> None:
        bodies = await sent(made, 8)
        with pytest.raises(Refused, match="group not exist"):
            await reset(made, VirtualClock().now_ms(), force=True)
        await made.join()
        await asyncio.sleep(20)
        assert counts(made) == dict.fromkeys(bodies, 1)

    played(story, queues=QUEUES)


def test_s19_queues_without_an_offset_count_as_at_their_beginning():
    """One queue has an offset, behind its end; the group is not forced: nothing of the other queues is left out."""

    async def story(made: World) -> None:
        bodies = await sent(made, 8)
        made.server.broker.offsets.commit(GROUP, TOPIC, 0, 2)
        await reset(made, VirtualClock().now_ms(), force=False)
        await made.join(start=LAST)
        await asyncio.sleep(20)
        assert counts(made) == {body: 1 for number, body in enumerate(bodies) if number % QUEUES != 0}

    played(story, queues=QUEUES)


def test_s20_every_instance_of_a_broadcast_group_is_told_and_confirms(tmp_path: Path):
    """The broker has no offset of theirs; without force it is the time's offset all the same."""

    async def story(made: World) -> None:
        confirmed: list[ResetConfirmed] = []
        made.server.broker.bus.listen(
            lambda event: confirmed.append(event) if isinstance(event, ResetConfirmed) else None
        )
        options = {"broadcast": True, "offsets_folder": tmp_path}
        both = [await made.join(f"127.0.0.1@{name}", **options) for name in "ab"]
        first = await sent(made, 8)
        await asyncio.sleep(20)
        between_ms = VirtualClock().now_ms()
        await asyncio.sleep(20)
        second = await sent(made, 8, first=8)
        await asyncio.sleep(20)
        assert counts(made) == dict.fromkeys(first + second, 2)
        done = len(made.consumed)
        await reset(made, between_ms, force=False)
        await asyncio.sleep(30)
        assert Counter(made.consumed[done:]) == {(body, name): 1 for body in second for name in ("c1", "c2")}
        assert Counter(event.queue for event in confirmed) == dict.fromkeys(range(QUEUES), 2)
        assert len({event.address for event in confirmed}) == 2
        assert {held.next_offset for one in both for held in one.owned.values()} == {4}

    played(story, queues=QUEUES)
