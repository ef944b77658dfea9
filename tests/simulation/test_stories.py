"""Whatever happens to a group, in the end every queue has one owner and every message was consumed.

A seed that fails prints the command that tells its story again. `make simulate SEEDS=5000` tries more.
"""

import pytest
from tests.simulation.world import run

from penstock.client.consumer import holding
from penstock.client.consumer.assigned import Assigned
from penstock.client.consumer.holding import Holding
from penstock.client.consumer.rebalance import Change
from penstock.client.consumer.subscription import Subscription
from penstock.client.consumer.twins import Twins

SEEDS, AT_ONCE = 200, 10
CAUGHT_WITHIN = 30

pytestmark = pytest.mark.timeout(300)


@pytest.mark.parametrize("first", range(0, SEEDS, AT_ONCE))
def test_every_story_ends_well(first: int):
    for seed in range(first, first + AT_ONCE):
        broken, made = run(seed)
        again = f"python -m tests.simulation --seed {seed}"
        assert not broken, "\n".join([*broken, f"replay: {again}", *made.story])
        assert made.produced


def test_a_seed_tells_the_same_story_every_time():
    assert [run(7)[1].story for _ in range(2)] == [run(7)[1].story] * 2


def caught() -> str:
    """What the first seeds find; empty when they find nothing."""
    return next((broken[0] for broken, _ in map(run, range(CAUGHT_WITHIN)) if broken), "")


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
