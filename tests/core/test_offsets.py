"""Offsets of groups, as they are kept."""

import pytest

from penstock.core.offsets import KIND, Offsets
from penstock.store.progress import Progress


@pytest.fixture
def progress(tmp_path):
    found = Progress(str(tmp_path))
    yield found
    found.close()


def test_what_was_committed_is_there_again(progress):
    Offsets(progress).commit("readers", "orders", 3, 17)
    assert Offsets(progress).find("readers", "orders", 3) == 17


@pytest.mark.parametrize("key", ["bad\tgroup\torders\t0", "readers\torders", "readers\torders\tx", ""])
def test_a_key_that_nobody_reads_keeps_no_broker_from_starting(progress, key):
    Offsets(progress).commit("readers", "orders", 3, 17)
    progress.put(KIND, key, b"1")
    offsets = Offsets(progress)
    assert offsets.pairs() == [("readers", "orders")]
    assert offsets.find("readers", "orders", 3) == 17
