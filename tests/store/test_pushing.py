"""What is long is on its way to the medium before anybody syncs it, and nothing is said to be there that is not."""

import pytest

from penstock.clock import ManualClock
from penstock.config import StoreConfig
from penstock.model import Durability
from penstock.store.append import PUSH_BYTES as APPENDED
from penstock.store.files import LocalDisk
from penstock.store.stagefiles import PUSH_BYTES, StageFiles
from penstock.store.store import Store
from penstock.testing.disk import FaultyDisk, FaultyFile
from penstock.wire.plain import plain

Pushed = list[tuple[str, int, int]]


@pytest.fixture
def pushed(monkeypatch) -> Pushed:
    """Which file, from where to where; never behind its end."""
    told: Pushed = []

    def push(self: FaultyFile, at: int, length: int) -> None:
        assert at >= 0
        assert 0 < length <= self.length() - at
        told.append((self._name, at, at + length))

    monkeypatch.setattr(FaultyFile, "push", push)
    return told


def test_stages_are_pushed_in_large_pieces_each_once(pushed):
    files, at = StageFiles(FaultyDisk()), 0
    number = files.create()
    for length in (100, PUSH_BYTES // 2, PUSH_BYTES // 2, 10, 3 * PUSH_BYTES, 5):
        at = files.add(number, at, [(bytes(length - 1), b"x")])
    assert pushed == [("stages/1.stage", 0, PUSH_BYTES), ("stages/1.stage", PUSH_BYTES, 4 * PUSH_BYTES)]
    assert at > 4 * PUSH_BYTES


def test_a_long_append_is_pushed_while_it_is_written_and_a_short_one_is_not(pushed):
    store = Store.open(FaultyDisk(), StoreConfig(segment_bytes=32 << 20), ManualClock(0), {})
    store.create_queues([1], Durability.ASYNC, {})
    first = store.end_position
    store.append([plain(1, bytes(1_000))] * 3)
    assert pushed == []
    store.append([plain(1, bytes(60_000)) for _ in range(3 * APPENDED // 60_000)])
    places = [(start, end) for name, start, end in pushed if name.startswith("log/")]
    assert len(places) == 2
    assert places[0][1] == places[1][0]
    assert first <= places[0][0] < places[1][1] <= store.end_position
    store.close()


def test_a_real_disk_takes_it(tmp_path):
    file = LocalDisk(str(tmp_path)).open("file", create=True)
    file.write(bytes(10_000), 0)
    file.push(0, 8_192)
    assert (file.length(), file.read(3, 0)) == (10_000, bytes(3))
    file.close()
