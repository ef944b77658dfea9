"""The faulty disk itself: it must lose what was not synced, keep what was, and refuse when told to."""

import errno
import random

import pytest

from penstock.store.files import Disk, LocalDisk, read_whole, write_whole
from penstock.testing.disk import Call, FaultyDisk, FaultyFile, MappedHoleError, Mode

ANY_MODE = pytest.mark.parametrize("mode", list(Mode))
TORN = pytest.mark.parametrize(("mode", "sector_bytes"), [(Mode.TORN_512, 512), (Mode.TORN_4096, 4096)])


@pytest.fixture
def disk() -> FaultyDisk:
    return FaultyDisk()


def settled(disk: FaultyDisk, name: str, data: bytes) -> FaultyFile:
    """A file whose content and name are on the medium."""
    file = disk.open(name, create=True)
    file.write(data, 0)
    file.sync()
    disk.sync_folder(".")
    return file


def states(disk: FaultyDisk, mode: Mode, name: str, count: int = 200) -> set[bytes | None]:
    """What a file may hold after a power cut; None where it is not there."""
    crashed = (disk.crash(random.Random(seed), mode) for seed in range(count))
    return {after.content(name) if after.exists(name) else None for after in crashed}


# --- the seam: as on a real disk -------------------------------------------------------------------------------------


def seam_story(disk: Disk) -> list[object]:
    """A little of everything, and what was seen on the way."""
    seen: list[object] = []
    disk.make_folder("log")
    file = disk.open("log/a", create=True)
    file.truncate(10_000)
    file.write(b"hello", 9_998)
    view = file.map(writable=True)
    view[0:3] = b"map"
    file.reserve(5_000, 4_000)
    seen += [file.length(), file.read(5, 9_998), file.read(100, 10_000), file.read(3, 0), bytes(view[9_998:])]
    file.write(b"seen", 100)
    reader = file.map(writable=False)
    seen += [bytes(view[100:104]), bytes(reader[100:104]), reader.readonly, view.readonly]
    seen += [disk.list("."), disk.list("log"), disk.list("nowhere"), disk.exists("log/a"), disk.exists("log/b")]
    disk.rename("log/a", "log/b")
    seen += [disk.list("log"), file.read(3, 0)]
    write_whole(disk, "log", "c", b"small")
    write_whole(disk, ".", "d", b"top")
    seen += [disk.list("log"), disk.list("."), read_whole(disk, "log/c"), read_whole(disk, "d"), read_whole(disk, "e")]
    disk.remove("log/b")
    seen += [disk.list("log"), file.read(4, 100)]
    file.close()
    return seen


def test_it_behaves_as_the_local_disk(disk, tmp_path):
    assert seam_story(disk) == seam_story(LocalDisk(str(tmp_path)))


@pytest.mark.parametrize(
    "act",
    [
        lambda disk: disk.open("missing"),
        lambda disk: disk.open("nowhere/file", create=True),
        lambda disk: disk.remove("missing"),
        lambda disk: disk.rename("missing", "other"),
        lambda disk: disk.sync_folder("nowhere"),
    ],
)
def test_what_is_not_there_is_refused_as_by_the_local_disk(disk, tmp_path, act):
    for each in (disk, LocalDisk(str(tmp_path))):
        with pytest.raises(FileNotFoundError):
            act(each)


def test_an_empty_file_cannot_be_mapped(disk, tmp_path):
    for each in (disk, LocalDisk(str(tmp_path))):
        file = each.open("empty", create=True)
        with pytest.raises(ValueError, match="empty file"):
            file.map(writable=True)
        file.close()


def test_a_closed_file_refuses(disk):
    file = settled(disk, "a", b"x")
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.read(1, 0)


def test_truncating_while_mapped(disk):
    file = settled(disk, "a", b"x" * 100)
    view = file.map(writable=True)
    file.truncate(5_000)
    file.write(b"tail", 4_996)
    assert bytes(view[:100]) == b"x" * 100
    assert bytes(file.map(writable=False)[4_990:]) == bytes(6) + b"tail"
    file.truncate(3)
    file.truncate(6)
    assert disk.content("a") == b"xxx\0\0\0"


def test_cold_means_that_nothing_is_resident(disk):
    file = settled(disk, "a", b"warm")
    assert file.read_all([(4, 0)], wait=False) == [b"warm"]
    disk.cold = True
    assert file.read_all([(4, 0)], wait=False) is None


# --- power cuts ------------------------------------------------------------------------------------------------------


@ANY_MODE
def test_what_was_synced_survives(disk, mode):
    settled(disk, "a", b"safe")
    assert states(disk, mode, "a") == {b"safe"}


@ANY_MODE
def test_a_crash_leaves_the_disk_as_it_is(disk, mode):
    file = settled(disk, "a", b"old")
    file.write(b"new", 0)
    after = disk.crash(random.Random(1), mode)
    after.open("a").write(b"???", 0)
    assert disk.content("a") == b"new"


def test_nothing_unsynced_survives(disk):
    file = settled(disk, "a", b"old")
    file.write(b"new!", 0)
    disk.open("b", create=True)
    after = disk.crash(random.Random(1), Mode.NOTHING)
    assert after.files() == ["a"]
    assert after.content("a") == b"old"


def test_every_prefix_can_survive_and_nothing_else(disk):
    one, two = settled(disk, "a", b"...."), settled(disk, "b", b"....")
    one.write(b"1", 0)
    two.write(b"2", 1)
    one.write(b"3", 2)
    crashed = [disk.crash(random.Random(seed), Mode.PREFIX) for seed in range(100)]
    assert {(after.content("a"), after.content("b")) for after in crashed} == {
        (b"....", b"...."),
        (b"1...", b"...."),
        (b"1...", b".2.."),
        (b"1.3.", b".2.."),
    }


@TORN
def test_sectors_tear_independently(disk, mode, sector_bytes):
    file = settled(disk, "a", b"o" * sector_bytes * 2)
    file.write(b"n" * sector_bytes * 2, 0)
    sectors = [b"o" * sector_bytes, b"n" * sector_bytes]
    assert states(disk, mode, "a") == {one + two for one in sectors for two in sectors}


@TORN
def test_a_sector_is_as_it_was_at_some_moment(disk, mode, sector_bytes):
    file = settled(disk, "a", b"..")
    file.write(b"1", 0)
    file.write(b"2", 1)
    assert states(disk, mode, "a") == {b"..", b"1.", b"12"}


def test_an_unsynced_size_is_old_or_new(disk):
    file = settled(disk, "a", b"x" * 600)
    file.truncate(2_000)
    file.truncate(100)
    lengths = {len(state or b"") for state in states(disk, Mode.TORN_512, "a")}
    assert lengths == {600, 2_000, 100}


@ANY_MODE
def test_a_synced_size_survives(disk, mode):
    file = settled(disk, "a", b"x" * 600)
    file.truncate(50)
    file.truncate(9_000)
    file.sync()
    assert states(disk, mode, "a") == {b"x" * 50 + bytes(8_950)}


@TORN
def test_a_name_that_was_not_synced_may_be_lost(disk, mode, sector_bytes):
    file = disk.open("a", create=True)
    file.write(b"data", 0)
    file.sync()
    assert states(disk, mode, "a") == {None, b"data"}


@TORN
def test_a_name_that_was_synced_may_have_no_content_yet(disk, mode, sector_bytes):
    file = disk.open("a", create=True)
    disk.sync_folder(".")
    file.write(b"data", 0)
    assert states(disk, mode, "a") == {b"", bytes(4), b"data"}  # the size may arrive before the data


@ANY_MODE
def test_a_file_is_replaced_whole_or_not(disk, mode):
    write_whole(disk, ".", "a", b"old")
    disk.watch = lambda call: found.update(states(disk, mode, "a", 30))
    found: set[bytes | None] = set()
    write_whole(disk, ".", "a", b"new")
    disk.watch = None
    assert found <= {b"old", b"new"}
    assert states(disk, mode, "a") == {b"new"}


@ANY_MODE
def test_a_removal_may_be_undone_until_the_folder_is_synced(disk, mode):
    settled(disk, "a", b"x")
    disk.remove("a")
    allowed = {b"x"} if mode is Mode.NOTHING else {b"x", None}
    assert states(disk, mode, "a") == allowed
    disk.sync_folder(".")
    assert states(disk, mode, "a") == {None}


def test_names_arrive_in_any_order(disk):
    settled(disk, "a", b"")
    settled(disk, "b", b"")
    disk.remove("a")
    disk.remove("b")
    crashed = [disk.crash(random.Random(seed), Mode.TORN_512).files() for seed in range(100)]
    assert {tuple(files) for files in crashed} == {("a", "b"), ("a",), ("b",), ()}


def test_a_folder_must_be_synced_in_its_parent(disk):
    disk.make_folder("log")
    disk.open("log/a", create=True).sync()
    disk.sync_folder("log")
    assert disk.crash(random.Random(1), Mode.NOTHING).files() == []
    disk.sync_folder(".")
    assert disk.crash(random.Random(1), Mode.NOTHING).files() == ["log/a"]


@pytest.mark.parametrize("mode", [Mode.PREFIX, Mode.TORN_512, Mode.TORN_4096])
def test_memory_behind_a_mapping_is_unsynced_until_sync(disk, mode):
    file = settled(disk, "a", b"old!")
    file.map(writable=True)[:3] = b"new"
    assert states(disk, mode, "a") == {b"old!", b"new!"}
    assert disk.crash(random.Random(1), Mode.NOTHING).content("a") == b"old!"
    file.sync()
    assert states(disk, mode, "a") == {b"new!"}


def test_a_seed_gives_the_same_state_again(disk):
    file = settled(disk, "a", bytes(40_000))
    for at in range(0, 40_000, 700):
        file.write(b"x" * 700, at)
    one, two = (disk.crash(random.Random(7), Mode.TORN_512).content("a") for _ in range(2))
    assert one == two


# --- killed processes ------------------------------------------------------------------------------------------------


def test_all_that_was_written_survives_a_kill(disk):
    file = disk.open("a", create=True)
    file.write(b"12345678", 0)
    file.map(writable=True)[:1] = b"x"
    after = disk.kill()
    assert after.content("a") == b"x2345678"
    file.write(b"late", 0)
    assert after.content("a") == b"x2345678"


def test_what_survives_a_kill_is_still_unsynced(disk):
    file = settled(disk, "a", b"old")
    file.write(b"new", 0)
    disk.rename("a", "b")
    after = disk.kill()
    assert after.files() == ["b"]
    assert states(after, Mode.NOTHING, "a") == {b"old"}
    after.open("b").sync()
    assert states(after, Mode.NOTHING, "a") == {b"new"}


# --- refusals --------------------------------------------------------------------------------------------------------


def test_the_call_that_was_named_fails_once(disk):
    file = settled(disk, "a", b"....")
    disk.fail_at(disk.calls + 1, OSError(errno.EIO, ""), short_bytes=2)
    file.write(b"1", 0)
    with pytest.raises(OSError, match="Input/output error") as caught:
        file.write(b"xyz", 1)
    assert caught.value.errno == errno.EIO
    assert disk.content("a") == b"1xy."
    file.write(b"xyz", 1)
    assert disk.content("a") == b"1xyz"


def test_every_kind_of_call_can_be_refused(disk):
    file = settled(disk, "a", b"....")
    calls = {
        "open": lambda: disk.open("a"),
        "create": lambda: disk.open("b", create=True),
        "list": lambda: disk.list("."),
        "make_folder": lambda: disk.make_folder("c"),
        "rename": lambda: disk.rename("a", "d"),
        "remove": lambda: disk.remove("a"),
        "sync_folder": lambda: disk.sync_folder("."),
        "read": lambda: file.read(1, 0),
        "write": lambda: file.write(b"x", 0),
        "sync": file.sync,
        "truncate": lambda: file.truncate(1),
        "reserve": lambda: file.reserve(0, 1),
        "map": lambda: file.map(writable=False),
    }
    for kind, call in calls.items():
        disk.break_calls(kind, OSError(errno.EIO, ""))
        with pytest.raises(OSError, match="Input/output error"):
            call()
    disk.mend()
    assert (disk.files(), disk.content("a")) == (["a"], b"....")


def test_calls_are_seen_before_they_happen(disk):
    file = settled(disk, "a", b"old")
    seen: list[tuple[Call, bytes]] = []
    disk.watch = lambda call: seen.append((call, disk.content("a")))
    first = disk.calls
    file.write(b"new", 0)
    file.sync()
    assert seen == [(Call(first, "write", "a"), b"old"), (Call(first + 1, "sync", "a"), b"new")]


@pytest.mark.parametrize("mapped", [False, True])
def test_a_sync_that_failed_has_forgotten_what_was_dirty(disk, mapped):
    file = settled(disk, "a", b"o" * 8_192)
    memory = file.map(writable=True) if mapped else None
    file.write(b"lost", 0)
    disk.fail_at(disk.calls, OSError(errno.EIO, ""))
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    if memory is not None:
        memory[4_096:4_101] = b"later"
    else:
        file.write(b"later", 4_096)
    file.sync()
    assert disk.content("a")[:4] == b"lost"
    durable = disk.crash(random.Random(1), Mode.NOTHING).content("a")
    assert (durable[:4], durable[4_096:4_101]) == (b"oooo", b"later")
    assert {state[:4] for state in states(disk, Mode.TORN_4096, "a") if state} == {b"oooo", b"lost"}


def test_a_lying_disk_keeps_nothing(disk):
    file = settled(disk, "a", b"old")
    disk.lying = True
    file.write(b"new", 0)
    file.sync()
    disk.open("b", create=True)
    disk.sync_folder(".")
    after = disk.crash(random.Random(1), Mode.NOTHING)
    assert (after.files(), after.content("a")) == (["a"], b"old")


# --- a full disk -----------------------------------------------------------------------------------------------------


def test_a_full_disk_takes_only_what_has_its_place(disk):
    file = settled(disk, "a", bytes(4_096))
    file.truncate(3 * 4_096)
    disk.fill_up()
    file.write(b"x" * 4_096, 0)
    for refused in (lambda: file.write(b"y" * 200, 4_000), lambda: disk.open("b", create=True)):
        with pytest.raises(OSError, match="No space left") as caught:
            refused()
        assert caught.value.errno == errno.ENOSPC
    assert disk.content("a")[4_000:4_097] == b"y" * 96 + b"\0"
    disk.make_space()
    file.write(b"y" * 200, 4_000)
    assert disk.content("a")[4_000:4_200] == b"y" * 200


def test_a_mapping_over_a_hole_kills_on_a_full_disk(disk):
    file = settled(disk, "a", bytes(4_096))
    file.truncate(3 * 4_096)
    memory = file.map(writable=True)
    memory[4_096] = 1
    disk.fill_up()
    memory[0] = memory[4_097] = 1  # both pages had their place before the disk was full
    file.sync()
    memory[2 * 4_096] = 1
    with pytest.raises(MappedHoleError, match=r"a: pages \[2\]"):
        file.sync()


def test_space_that_was_reserved_can_be_mapped_and_written(disk):
    file = settled(disk, "a", bytes(4_096))
    file.truncate(3 * 4_096)
    file.reserve(2 * 4_096 + 10, 100)
    memory = file.map(writable=True)
    disk.fill_up()
    memory[2 * 4_096] = 1
    file.sync()
    with pytest.raises(OSError, match="No space left"):
        file.reserve(4_096, 10)


# --- rot -------------------------------------------------------------------------------------------------------------


@ANY_MODE
def test_a_flipped_bit_is_wrong_in_memory_and_on_the_medium(disk, mode):
    file = settled(disk, "a", b"\x00\x00")
    disk.flip("a", 1, 3)
    assert file.read(2, 0) == b"\x00\x08"
    assert states(disk, mode, "a") == {b"\x00\x08"}
