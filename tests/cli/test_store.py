"""`penstock store verify` and `dump`, on folders that a store has written."""

import base64
import json
from pathlib import Path

import pytest

from penstock.clock import ManualClock
from penstock.config import StoreConfig
from penstock.model import Durability
from penstock.store.files import LocalDisk
from penstock.store.lock import FolderLock
from penstock.store.store import Store
from penstock.wire.plain import message_in, plain, plain_run

QUEUE, OTHER = 7, 8
PAYLOAD = b"a message of queue seven"


@pytest.fixture
def folder(tmp_path) -> Path:
    """Two queues: one with five messages in three entries, one with one."""
    path = tmp_path / "data"
    store = Store.open(LocalDisk(str(path)), StoreConfig(segment_bytes=2**20), ManualClock(1_700_000_000_000))
    store.create_queues([QUEUE, OTHER], Durability.SYNC, {})
    store.append([plain(QUEUE, PAYLOAD), plain(OTHER, b"of queue eight")])
    store.append([plain_run([plain(QUEUE, b"%d" % number) for number in range(3)]), plain(QUEUE, b"last")])
    store.close()
    return path


def harm(folder: Path, payload: bytes) -> None:
    (segment,) = (folder / "log").iterdir()
    data = segment.read_bytes()
    at = data.index(payload)
    segment.write_bytes(data[:at] + b"X" + data[at + 1 :])


def content(folder: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_a_sound_folder(penstock, folder):
    done = penstock("store", "verify", folder)
    assert done.returncode == 0
    assert done.stdout.endswith(": sound\n")


def test_a_damaged_folder_says_where_and_why(penstock, folder):
    harm(folder, PAYLOAD)
    done = penstock("store", "verify", folder)
    assert done.returncode == 1
    assert done.stdout.startswith("damaged: ")
    assert "payload checksum wrong" in done.stdout
    assert done.stdout.endswith(": damaged in 1 places\n")


def test_a_verdict_for_machines(penstock, folder):
    sound = json.loads(penstock("store", "verify", folder, "--json").stdout)
    assert (sound["sound"], sound["damage"]) == (True, [])
    assert sound["messages"] >= 6
    harm(folder, PAYLOAD)
    done = penstock("store", "verify", folder, "--json")
    damaged = json.loads(done.stdout)
    assert (done.returncode, damaged["sound"]) == (1, False)
    assert damaged["damage"][0].keys() == {"position", "length", "why"}
    assert damaged["entries"] == sound["entries"]


def dumped(penstock, folder, *flags: str) -> list[dict]:
    done = penstock("store", "dump", folder, "--json", *flags)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_dump_has_every_entry_with_its_payload(penstock, folder):
    entries = [entry for entry in dumped(penstock, folder) if entry["queue"] in (QUEUE, OTHER)]
    assert [(entry["queue"], entry["offset"], entry["count"]) for entry in entries] == [
        (QUEUE, 0, 1),
        (OTHER, 0, 1),
        (QUEUE, 1, 3),
        (QUEUE, 4, 1),
    ]
    assert message_in(memoryview(base64.b64decode(entries[0]["payload"]))).body == PAYLOAD


@pytest.mark.parametrize(
    ("flags", "offsets"),
    [
        ((), [0, 1, 4]),
        (("--from=1",), [1, 4]),
        (("--from=2",), [1, 4]),  # inside a run
        (("--from=4",), [4]),
        (("--from=5",), []),
        (("--limit=2",), [0, 1]),
        (("--from=1", "--limit=1"), [1]),
    ],
)
def test_a_part_of_a_dump(penstock, folder, flags, offsets):
    assert [entry["offset"] for entry in dumped(penstock, folder, f"--queue={QUEUE}", *flags)] == offsets


def test_a_dump_for_people(penstock, folder):
    done = penstock("store", "dump", folder, f"--queue={QUEUE}")
    first, run, _ = done.stdout.splitlines()
    assert first.startswith("2023-11-14T22:13:20.000+00:00 position=")
    assert f" queue={QUEUE} row=0 offset=0 " in first
    assert " offset=1..3 " in run


def test_a_dump_shows_damage(penstock, folder):
    harm(folder, PAYLOAD)
    done = penstock("store", "dump", folder, f"--queue={QUEUE}")
    assert done.returncode == 1
    assert done.stdout.splitlines()[0].endswith(" damaged: checksum")


@pytest.mark.parametrize("command", ["verify", "dump"])
def test_looking_changes_nothing(penstock, folder, command):
    harm(folder, PAYLOAD)
    before = content(folder)
    penstock("store", command, folder)
    assert content(folder) == before


@pytest.mark.parametrize("command", ["verify", "dump"])
def test_what_is_not_a_data_folder_is_refused_and_left_alone(refused, tmp_path, command):
    missing = tmp_path / "missing"
    assert f"{missing} is not a folder" in refused("store", command, missing)
    assert not missing.exists()
    assert "no log of penstock" in refused("store", command, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_a_broker_uses_is_refused(refused, folder):
    lock = FolderLock(str(folder))
    try:
        assert "is in use" in refused("store", "verify", folder)
    finally:
        lock.release()


@pytest.mark.parametrize("flags", [("--queue=x",), ("--limit=0",), ("--from=-1",)])
def test_wrong_usage(penstock, folder, flags):
    done = penstock("store", "dump", folder, *flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
