"""Whatever happens to a group, in the end every queue has one owner and every message was consumed.

A seed that fails prints the command that tells its story again. `make simulate SEEDS=5000` tries more.
"""

import pytest
from tests.simulation.broadcasting import Broadcasting
from tests.simulation.stories import KINDS, seeds_of, told
from tests.simulation.subscribing import Subscribing
from tests.simulation.world import World

from penstock.client.consumer import holding
from penstock.client.consumer.assigned import Assigned
from penstock.client.consumer.holding import Holding
from penstock.client.consumer.offsets import FileOffsets
from penstock.client.consumer.push import PushConsumer
from penstock.client.consumer.rebalance import Change, Shares
from penstock.client.consumer.subscription import Subscription
from penstock.client.consumer.twins import Twins

SEEDS, AT_ONCE = 200, 10
CAUGHT_WITHIN = 30

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_every_story_ends_well(first: int):
    for seed in range(first, first + AT_ONCE):
        broken, made = told(seed)
        again = f"python -m tests.simulation --seed {seed}"
        assert not broken, "\n".join([*broken, f"replay: {again}", *made.story])
        assert made.produced


@pytest.mark.parametrize("seed", range(len(KINDS)))
def test_a_seed_tells_the_same_story_every_time(seed: int):
    first, second = (told(seed)[1] for _ in range(2))
    assert (first.story, first.consumed) == (second.story, second.consumed)


def caught(kind: type[World] = World) -> str:
    """What the first seeds of a kind find; empty when they find nothing."""
    return next((broken[0] for broken, _ in map(told, seeds_of(kind, CAUGHT_WITHIN)) if broken), "")


# --- the test of the test: with a bug planted it must find something --------------------------------------------------


def test_an_instance_that_never_lets_go_is_caught(monkeypatch):
    monkeypatch.setattr(
        holding, "change", lambda owned, share: Change([], [queue for queue in share if queue not in owned])
    )
    assert "has owners" in caught()


def test_an_instance_that_shares_only_once_is_caught(monkeypatch):
    original = Holding.round

    async def once(self) -> bool:
        if getattr(self, "done", False):
            return True
        self.done = True
        return await original(self)

    monkeypatch.setattr(Holding, "round", once)
    assert "has owners" in caught()


def test_offsets_ahead_of_the_work_are_caught(monkeypatch):
    """Committing what was pulled instead of what was handled: a crash then loses what was in hand."""
    monkeypatch.setattr(Assigned, "commit_offset", property(lambda self: self.next_offset))
    assert "never consumed" in caught()


def test_s15_twins_that_keep_their_id_are_caught(monkeypatch):
    """Two instances with one ClientID read the same share, and another share has no reader, for ever."""
    monkeypatch.setattr(Twins, "must_rename", False)
    assert "has owners" in caught()


def test_a_version_that_the_broker_never_hears_of_is_caught(monkeypatch):
    """The heartbeat says one version, the pulls a newer one: they are refused for ever."""
    monkeypatch.setattr(
        Subscription, "told_version", property(lambda self: self.version + 1, lambda self, value: None), raising=False
    )
    assert "refused with code 25" in caught() or "never consumed" in caught()


# --- broadcasting -----------------------------------------------------------------------------------------------------


def test_a_broadcast_group_that_shares_is_caught(monkeypatch):
    original = Shares.of

    async def shared(self, topic: str):
        self._broadcast = False
        return await original(self, topic)

    monkeypatch.setattr(Shares, "of", shared)
    assert "has not the queues" in caught(Broadcasting)


def test_a_file_that_is_ahead_of_the_work_is_caught(monkeypatch):
    """An instance that comes back after a crash then goes on behind what it had in hand."""
    monkeypatch.setattr(Assigned, "commit_offset", property(lambda self: self.next_offset))
    assert "never consumed by" in caught(Broadcasting)


def test_a_reset_that_nobody_hears_of_is_caught(monkeypatch):
    """Neither by the order (220) nor by the answer to the next pull (21): one of them would do."""

    async def unheard(self, at_ms: int, when: str) -> None:
        pass

    monkeypatch.setattr(Broadcasting, "reset_to", unheard)
    assert "did not come again" in caught(Broadcasting)


def test_a_reset_that_memory_overrules_is_caught(monkeypatch):
    """The queue is taken up again where its instance was, not where it was told to be: the broker says so again, and
    again, and nothing is consumed meanwhile.
    """
    original = FileOffsets.update

    def forward_only(self, queue, offset: int) -> None:
        original(self, queue, max(offset, self._table.get(queue, 0)))

    monkeypatch.setattr(FileOffsets, "update", forward_only)
    assert "has not the queues" in caught(Broadcasting)


# --- subscriptions that differ and change -----------------------------------------------------------------------------


def test_a_topic_that_is_not_let_go_is_caught(monkeypatch):
    """Whoever does not subscribe to it any more keeps its queues, and is not asked again."""
    monkeypatch.setattr(Holding, "_topics", lambda self: sorted(self._subscriptions))
    monkeypatch.setattr(PushConsumer, "unsubscribe", forgetful)
    assert "has owners" in caught(Subscribing)


async def forgetful(self, topic: str) -> None:
    """As if nothing had been said, and deaf to it from then on."""
    self._holding._subscriptions = {name: one for name, one in self.subscriptions.items() if name != topic}


def test_a_filter_that_is_not_changed_is_caught(monkeypatch):
    original = PushConsumer._subscribe

    def once(self, topic: str, expression: str, kind: str):
        return self.subscriptions.get(topic) or original(self, topic, expression, kind)

    monkeypatch.setattr(PushConsumer, "_subscribe", once)
    assert "never consumed" in caught(Subscribing) or "nobody wanted" in caught(Subscribing)


def test_a_new_filter_that_no_broker_hears_of_is_caught(monkeypatch):
    """Only the client filters by it: what the old one leaves out at the broker never comes."""
    original = Subscription.data

    def first_filter(self) -> dict[str, object]:
        return original(self) | {"subString": "a", "tagsSet": ["a"], "codeSet": [97]}

    monkeypatch.setattr(Subscription, "data", first_filter)
    assert "never consumed" in caught(Subscribing)
