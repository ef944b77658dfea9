"""A short run of every fuzz target, with a new seed each time. More: make fuzz. A find prints how to see it again."""

import os
import secrets

import pytest
from tests.fuzz.checks import Find
from tests.fuzz.driver import CORPUS, corpus, inputs, run
from tests.fuzz.targets import TARGETS

RUNS = int(os.environ.get("PENSTOCK_FUZZ_RUNS", "1500"))
SEED = int(os.environ.get("PENSTOCK_FUZZ_SEED", str(secrets.randbelow(1 << 32))))


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_but_its_own_error(target):
    assert run(target, RUNS, SEED) >= RUNS, f"seed {SEED}"


def test_every_target_has_a_corpus_and_every_corpus_a_target():
    assert {folder.name for folder in CORPUS.iterdir()} == set(TARGETS)
    assert all(corpus(target) for target in TARGETS)


def test_a_seed_gives_the_same_inputs():
    assert list(inputs("frame", 50, 1)) == list(inputs("frame", 50, 1))
    assert list(inputs("frame", 50, 1)) != list(inputs("frame", 50, 2))


@pytest.mark.parametrize("target", TARGETS)
def test_a_find_is_told(target, monkeypatch, tmp_path):
    """The driver does reach the target, and what is found is kept."""

    def broken(data: bytes) -> None:
        raise Find("on purpose")

    monkeypatch.setitem(TARGETS, target, broken)
    monkeypatch.setattr("tests.fuzz.driver.FINDS", tmp_path)
    with pytest.raises(AssertionError, match="on purpose"):
        run(target, 1, SEED)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == corpus(target)[:1]
