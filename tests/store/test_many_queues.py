"""Ten thousand queues: no more open files and mappings than a few queues need, and all of them come back."""

import os
from pathlib import Path

import pytest

from penstock.clock import SystemClock
from penstock.config import StoreConfig
from penstock.model import Durability
from penstock.store.files import LocalDisk
from penstock.store.store import Store
from penstock.wire.plain import message_in, plain

QUEUES = 10_000
LINUX = os.path.exists("/proc/self/maps")


def open_files(folder: Path) -> int:
    links = (f"/proc/self/fd/{name}" for name in os.listdir("/proc/self/fd"))
    return sum(os.path.exists(link) and os.readlink(link).startswith(str(folder)) for link in links)


def mappings(folder: Path) -> int:
    return sum(str(folder) in line for line in Path("/proc/self/maps").read_text().splitlines())


def test_ten_thousand_queues_need_few_files_and_mappings(tmp_path: Path) -> None:
    store = Store.open(LocalDisk(str(tmp_path)), StoreConfig(), SystemClock())
    queues = list(range(1, QUEUES + 1))
    store.create_queues(queues, Durability.ASYNC, {})
    for number in range(3):
        store.append([plain(queue, b"%d of %d" % (number, queue)) for queue in queues])
    store.close()
    store = Store.open(LocalDisk(str(tmp_path)), StoreConfig(), SystemClock())
    for queue in (1, 77, QUEUES):
        bodies = [message_in(payload).body for payload in store.read(queue, 0, 10, 1 << 20).payloads]
        assert bodies == [b"%d of %d" % (number, queue) for number in range(3)]
    if not LINUX:
        pytest.skip("counting open files and mappings needs /proc")
    assert open_files(tmp_path) <= 20
    assert mappings(tmp_path) <= 20
    store.abandon()
