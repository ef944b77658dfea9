"""The offsets of a broadcasting consumer: the Java client's file, kept whole through crashes."""

import os
import subprocess
import sys
import threading

import pytest

from penstock.client.consumer import offsets_file
from penstock.client.consumer.offsets_file import OffsetsFile, OffsetsUnreadable, offsets_in, pretty
from penstock.client.routes import MessageQueue

A0, A1 = MessageQueue("TopicTest", "broker-a", 0), MessageQueue("TopicTest", "broker-a", 1)
OLD, NEW = {A0: 5, A1: 6}, {A0: 50, A1: 60}

JAVA_4 = (
    b'{\n\t"offsetTable":{{\n\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":0,\n\t\t\t"topic":"TopicTest"\n\t\t}:5,{\n'
    b'\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":1,\n\t\t\t"topic":"TopicTest"\n\t\t}:6\n\t}\n}'
)
JAVA_55 = (
    b'{\n\t"offsetTable":{\n\t\t{\n\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":0,\n\t\t\t"topic":"TopicTest"\n\t\t}:5,'
    b'\n\t\t{\n\t\t\t"brokerName":"broker-a",\n\t\t\t"queueId":1,\n\t\t\t"topic":"TopicTest"\n\t\t}:6\n\t}\n}'
)
COMPACT = b'{"offsetTable":{{"brokerName":"broker-a","queueId":0,"topic":"TopicTest"}:5,{"topic":"TopicTest",'
COMPACT += b'"queueId":1,"brokerName":"broker-a"}:6}}'
AS_STRINGS = (
    rb'{"offsetTable":{"{\"brokerName\":\"broker-a\",\"queueId\":0,\"topic\":\"TopicTest\"}":5,'
    rb'"{\"brokerName\":\"broker-a\",\"queueId\":1,\"topic\":\"TopicTest\"}":6}}'
)


@pytest.fixture
def file(tmp_path):
    return OffsetsFile(tmp_path, "10.0.0.1@DEFAULT", "readers")


def bak(file: OffsetsFile):
    return file.path.with_name("offsets.json.bak")


def put(file: OffsetsFile, text: bytes, older: bytes = b"") -> None:
    file.path.parent.mkdir(parents=True, exist_ok=True)
    file.path.write_bytes(text)
    if older:
        bak(file).write_bytes(older)


# --- S30: the shape ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [JAVA_4, JAVA_55, COMPACT, AS_STRINGS], ids=["4.9", "5.5", "compact", "string keys"])
def test_s30_whatever_java_writes_is_read(text, file):
    put(file, text)
    assert file.load() == OLD


def test_s30_it_is_written_as_java_writes_it(file, tmp_path):
    file.save(OLD)
    assert (tmp_path / "10.0.0.1@DEFAULT" / "readers" / "offsets.json").read_bytes() == JAVA_4


@pytest.mark.parametrize("offsets", [{}, OLD, {MessageQueue("标签", 'a"b\\', 7): 2**62}, {A0: -1}])
def test_s30_what_is_written_is_read_again(offsets):
    assert offsets_in(pretty(offsets)) == offsets


def test_nothing_was_saved_yet(file):
    assert file.load() == {}


def test_what_is_saved_is_added_to_what_is_there(file):
    file.save({A0: 5})
    file.save({A1: 6})
    file.save({A0: 7})
    assert file.load() == {A0: 7, A1: 6}
    assert offsets_in(bak(file).read_bytes()) == {A0: 5, A1: 6}, "the one before"


# --- files that are spoilt --------------------------------------------------------------------------------------------

SPOILT = [JAVA_4[:60], b"{}x", b'{"offsetTable":{{"brokerName":"b"}:1}}', b'{"offsetTable":{"x":1}}', b"\xff\xfe", b"["]
SPOILT += [JAVA_4 + b"}", JAVA_4.replace(b":5,", b":5"), JAVA_4.replace(b'"topic', b"topic")]
SPOILT += [b'{"offsetTable":{{"brokerName":"b","queueId":0,"topic":"t"}:"many"}}', b"[" * 100_000]


@pytest.mark.parametrize("text", SPOILT, ids=range(len(SPOILT)))
def test_the_bak_is_read_when_the_file_cannot_be(text, file):
    put(file, text, JAVA_4)
    assert file.load() == OLD


def test_an_empty_file_counts_as_none(file):
    put(file, b"", JAVA_4)
    assert file.load() == OLD


@pytest.mark.parametrize("text", SPOILT, ids=range(len(SPOILT)))
def test_a_file_that_cannot_be_read_does_not_become_the_bak(text, file):
    put(file, text, JAVA_4)
    file.save({A0: 9})
    assert offsets_in(bak(file).read_bytes()) == OLD
    assert file.load() == OLD | {A0: 9}


def test_both_spoilt_is_an_error_that_says_what_to_do(file):
    put(file, b"{", b"{")
    with pytest.raises(OffsetsUnreadable, match="remove both"):
        file.load()
    with pytest.raises(OffsetsUnreadable):
        file.save(OLD)
    assert file.path.read_bytes() == b"{", "what may still be mended is left alone"


def test_a_file_that_is_too_large_is_not_read(file, monkeypatch):
    monkeypatch.setattr(offsets_file, "FILE_BYTES_MAX", 10)
    monkeypatch.setattr(offsets_file.fastjson, "BYTES_MAX", 10)
    put(file, JAVA_4, b"{}")
    assert file.load() == {}


# --- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../x", "/etc", "a\\b", "a\0b", "a\nb", "x" * 256, "\ud800" * 3]
)
def test_a_name_that_would_leave_its_folder_is_refused(name, tmp_path):
    for client_id, group in ((name, "g"), ("c", name)):
        with pytest.raises(ValueError, match="name of a folder"):
            OffsetsFile(tmp_path, client_id, group)


@pytest.mark.parametrize("name", ["10.0.0.1@DEFAULT", "fe80--1@DEFAULT@unit", "%RETRY%g", "g|h", "标签"])
def test_the_names_that_there_are_will_do(name, tmp_path):
    file = OffsetsFile(tmp_path, name, name)
    file.save(OLD)
    assert file.load() == OLD
    assert file.path.is_relative_to(tmp_path / name)


# --- S31: crashes, and several at once --------------------------------------------------------------------------------


class Crash(BaseException):
    """The process is gone: nothing that follows is done."""


class Disk:
    """Ends everything at one moment: in the middle of a write, before a step, or after it."""

    def __init__(self, monkeypatch, crash_at: int = -1) -> None:
        self.moments, self._crash_at, self._crashed = 0, crash_at, False
        self._write, self._rename = offsets_file._write_synced, os.replace
        self._sync = offsets_file._sync_folder
        monkeypatch.setattr(offsets_file, "_write_synced", self.write)
        monkeypatch.setattr(offsets_file, "_sync_folder", lambda folder: self.step(self._sync, folder))
        monkeypatch.setattr(os, "replace", lambda *names: self.step(self._rename, *names))

    def moment(self) -> bool:
        """Whether it is the one."""
        if self._crashed:
            raise Crash
        self._crashed = self.moments == self._crash_at
        self.moments += 1
        return self._crashed

    def write(self, file, text: bytes) -> None:
        if self.moment():
            file.write_bytes(text[: len(text) // 2])
            raise Crash
        self.step(self._write, file, text)

    def step(self, what, *arguments) -> None:
        for do in (lambda: None, lambda: what(*arguments)):
            do()
            if self.moment():
                raise Crash


MOMENTS = 12  # two files: half written, before and after the write, before and after the rename; and the folder's sync


@pytest.mark.parametrize("crash_at", range(MOMENTS))
def test_s31_a_crash_at_any_moment_leaves_the_old_or_the_new(crash_at, file, monkeypatch):
    file.save(OLD)
    with monkeypatch.context() as patch:
        Disk(patch, crash_at)
        with pytest.raises(Crash):
            file.save(NEW)
    after = file.load()
    assert after in (OLD, NEW)
    assert offsets_in(file.path.read_bytes()) == after, "the file itself, not only its .bak"
    file.save({A0: 70})
    assert file.load() == after | {A0: 70}, "and life goes on"


def test_s31_these_are_all_the_moments(file, monkeypatch):
    file.save(OLD)
    disk = Disk(monkeypatch)
    file.save(NEW)
    assert disk.moments == MOMENTS


@pytest.mark.parametrize("crash_at", range(7))
def test_s31_a_crash_of_the_first_save_leaves_nothing_or_all(crash_at, file, monkeypatch):
    with monkeypatch.context() as patch:
        Disk(patch, crash_at)
        with pytest.raises(Crash):
            file.save(NEW)
    assert file.load() in ({}, NEW)


def test_s31_nothing_is_renamed_before_it_is_synced(file, monkeypatch):
    done, fsync, rename = [], os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda number: (done.append(os.fstat(number).st_ino), fsync(number)))
    monkeypatch.setattr(
        os, "replace", lambda old, new: (done.append((os.stat(old).st_ino, new.name)), rename(old, new))
    )
    file.save(OLD)
    file.save(NEW)
    renames = [(at, *step) for at, step in enumerate(done) if isinstance(step, tuple)]
    assert [name for _, _, name in renames] == ["offsets.json", "offsets.json.bak", "offsets.json"]
    assert all(done[at - 1] == inode for at, inode, _ in renames)
    assert done[-1] == file.path.parent.stat().st_ino


def test_s31_a_full_disk_leaves_the_file_as_it_was(file, monkeypatch):
    file.save(OLD)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda number: (_ for _ in ()).throw(OSError("the disk is full")))
        with pytest.raises(OSError, match="full"):
            file.save(NEW)
    assert file.load() == OLD


def test_s31_threads_that_save_at_once_lose_nothing(file):
    queues = [[MessageQueue("t", f"broker-{writer}", number) for number in range(8)] for writer in range(6)]
    together = threading.Barrier(len(queues))

    def save(own: list[MessageQueue]) -> None:
        together.wait()
        for queue in own:
            OffsetsFile(file.path.parents[2], "10.0.0.1@DEFAULT", "readers").save({queue: queue.queue})

    threads = [threading.Thread(target=save, args=(own,)) for own in queues]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert file.load() == {queue: queue.queue for own in queues for queue in own}


SAVING = """
import sys
from pathlib import Path
from penstock.client.consumer.offsets_file import OffsetsFile
from penstock.client.routes import MessageQueue
file, broker = OffsetsFile(Path(sys.argv[1]), "10.0.0.1@DEFAULT", "readers"), sys.argv[2]
print("ready", flush=True)
sys.stdin.readline()
for number in range(20):
    file.save({MessageQueue("t", broker, number): number})
"""


def test_s31_processes_that_save_at_once_lose_nothing(file, tmp_path):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    command = [sys.executable, "-c", SAVING, str(tmp_path)]
    processes = [subprocess.Popen([*command, broker], **pipes) for broker in ("a", "b", "c")]
    for process in processes:
        process.stdout.readline()
    for process in processes:
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    assert file.load() == {MessageQueue("t", broker, number): number for broker in "abc" for number in range(20)}
