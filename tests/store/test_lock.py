"""One broker per folder, and a folder that is free again however its broker ended."""

import os
import signal
import subprocess
import sys

import pytest

from penstock.errors import FolderInUse
from penstock.store.lock import FolderLock

HOLDER = """
import sys
from penstock.store.lock import FolderLock
lock = FolderLock(sys.argv[1])
print("held", flush=True)
sys.stdin.read()
"""


def test_a_second_broker_is_refused_and_told_who_holds_the_folder(tmp_path):
    lock = FolderLock(str(tmp_path))
    with pytest.raises(FolderInUse, match=f"pid {os.getpid()}") as refused:
        FolderLock(str(tmp_path))
    assert (refused.value.folder, refused.value.owner) == (str(tmp_path), f"pid {os.getpid()}")
    lock.release()


def test_a_refusal_leaves_the_lock_where_it_is(tmp_path):
    lock = FolderLock(str(tmp_path))
    for _ in range(3):
        with pytest.raises(FolderInUse):
            FolderLock(str(tmp_path))
    lock.release()


def test_a_released_folder_is_free_and_releasing_twice_does_no_harm(tmp_path):
    lock = FolderLock(str(tmp_path))
    lock.release()
    again = FolderLock(str(tmp_path))
    lock.release()
    with pytest.raises(FolderInUse):
        FolderLock(str(tmp_path))
    again.release()


def test_a_folder_that_is_not_there_is_made(tmp_path):
    lock = FolderLock(str(tmp_path / "new" / "data"))
    assert (tmp_path / "new" / "data").is_dir()
    lock.release()


def test_folders_do_not_get_into_each_others_way(tmp_path):
    locks = [FolderLock(str(tmp_path / name)) for name in ("a", "b")]
    for lock in locks:
        lock.release()


def test_a_lock_file_left_behind_by_a_crash_means_nothing(tmp_path):
    (tmp_path / "lock").write_text("pid 1\n")
    FolderLock(str(tmp_path)).release()


def test_another_process_holds_it_until_it_is_killed(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout.readline() == "held\n"
        with pytest.raises(FolderInUse, match=f"pid {process.pid}"):
            FolderLock(str(tmp_path))
        process.send_signal(signal.SIGKILL)
        process.wait()
    FolderLock(str(tmp_path)).release()
