"""A real broker process is killed with SIGKILL at random moments, under load, again and again on the same folder.

The journal of acknowledgements is kept by this process. `make crash ROUNDS=1000` does more of it; a failing round
prints its seed, and PENSTOCK_CRASH_SEED begins there.
"""

import os
from pathlib import Path

import pytest

from penstock.testing.journal import Journal, crash_round

ROUNDS = int(os.environ.get("PENSTOCK_CRASH_ROUNDS", "20"))
SEED = int(os.environ.get("PENSTOCK_CRASH_SEED", "1"))


@pytest.mark.timeout(60 + 10 * ROUNDS)
def test_nothing_acknowledged_is_lost_by_kill(tmp_path: Path) -> None:
    journal = Journal()
    replayed = 0
    for seed in range(SEED, SEED + ROUNDS):
        replayed += crash_round(str(tmp_path / "data"), journal, seed).report.replayed_entries
    assert len(journal) > 100 * ROUNDS
    assert replayed, "every kill found a clean log: the rounds test nothing"
    assert journal.groups


def test_the_comparison_finds_a_lost_message(tmp_path: Path) -> None:
    """The test of the test: a message that was acknowledged and is not there is named."""
    journal = Journal()
    found = crash_round(str(tmp_path / "data"), journal, seed=1)
    place = next(place for place, offsets in journal.acknowledged.items() if offsets)
    offset = next(iter(journal.acknowledged[place]))
    del found.numbers[place][offset]
    assert any(f"offset {offset} was acknowledged" in complaint for complaint in journal.complaints(found))


def test_the_comparison_finds_a_duplicate_and_a_torn_group(tmp_path: Path) -> None:
    journal = Journal()
    found = crash_round(str(tmp_path / "data"), journal, seed=2)
    place, there = next((place, there) for place, there in found.numbers.items() if len(there) > 1)
    there[max(there) + 1] = there[min(there)]
    assert any("is there 2 times" in complaint for complaint in journal.complaints(found)), place
    name = next(name for name, members in found.groups.items() if len(members) > 1)
    found.groups[name].pop()
    assert any(f"group {name} is not whole" in complaint for complaint in journal.complaints(found))
