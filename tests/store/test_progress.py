"""Progress: in memory at once, on the disk in batches, and never silently wrong."""

import functools
import random
import sqlite3

import pytest

from penstock.errors import StoreError
from penstock.store.progress import COPY, NAME, Progress


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path)


def filled(folder: str, count: int = 3) -> Progress:
    progress = Progress(folder)
    for number in range(count):
        progress.put("group", f"orders-{number}", b"%d" % number)
    return progress


def expected(count: int = 3) -> dict[str, bytes]:
    return {f"orders-{number}": b"%d" % number for number in range(count)}


def values_in(folder: str) -> dict[str, bytes]:
    """What the next start finds."""
    progress = Progress(folder)
    try:
        return progress.all("group")
    finally:
        progress.abandon()


def left_behind(folder: str, values: dict[str, bytes]) -> None:
    """A database as a kill leaves it; with nobody else at it, SQLite has moved everything to its main file."""
    progress = Progress(folder)
    for key, value in values.items():
        progress.put("group", key, value)
    progress.write(progress.take_changes())
    progress.abandon()


# --- using ------------------------------------------------------------------------------------------------------------


def test_what_was_put_is_there_at_once(folder):
    progress = filled(folder)
    assert progress.get("group", "orders-1") == b"1"
    assert progress.all("group") == expected()
    assert (progress.get("group", "nobody"), progress.get("cursor", "orders-1"), progress.all("cursor")) == (
        None,
        None,
        {},
    )
    progress.abandon()


def test_what_was_put_last_counts_and_none_forgets(folder):
    progress = filled(folder)
    progress.put("group", "orders-1", b"new")
    progress.put("group", "orders-2", None)
    progress.put("group", "never there", None)
    progress.close()
    assert values_in(folder) == {"orders-0": b"0", "orders-1": b"new"}


def test_a_batch_has_each_change_once(folder):
    progress = filled(folder)
    progress.put("group", "orders-1", b"new")
    assert sorted(progress.take_changes()) == [
        ("group", "orders-0", b"0"),
        ("group", "orders-1", b"new"),
        ("group", "orders-2", b"2"),
    ]
    assert progress.take_changes() == []
    progress.abandon()


def test_a_change_that_could_not_be_written_does_not_replace_a_newer_one(folder):
    progress = Progress(folder)
    progress.put("group", "a", b"1")
    progress.put("group", "b", b"1")
    failed = progress.take_changes()
    progress.put("group", "a", b"2")
    for change in failed:
        progress.put_back(change)
    assert sorted(progress.take_changes()) == [("group", "a", b"2"), ("group", "b", b"1")]
    progress.abandon()


def test_a_batch_is_written_whole_or_not_at_all(folder):
    left_behind(folder, {"a": b"1"})
    progress = Progress(folder)
    with pytest.raises(sqlite3.Error):
        progress.write([("group", "a", b"2"), ("group", object(), b"what is this")])
    progress.write([("group", "b", b"1")])  # and the connection is fit for the next
    progress.abandon()
    assert values_in(folder) == {"a": b"1", "b": b"1"}


def test_any_bytes_and_names(folder):
    values = {"": b"", "naïve 名前 \0 '; DROP TABLE progress": bytes(range(256)), "x" * 5_000: bytes(100_000)}
    left_behind(folder, values)
    progress = Progress(folder)
    assert (progress.all("group"), progress.damage) == (values, "")
    progress.abandon()


# --- coming back ------------------------------------------------------------------------------------------------------


def test_a_clean_stop_keeps_everything(folder):
    filled(folder).close()
    progress = Progress(folder)
    assert (progress.all("group"), progress.damage) == (expected(), "")
    progress.abandon()


def test_a_kill_loses_the_unwritten_batch_and_no_more(folder):
    progress = filled(folder)
    progress.write(progress.take_changes())
    progress.put("group", "orders-1", b"unwritten")
    progress.put("group", "orders-2", None)
    progress.abandon()
    assert values_in(folder) == expected()


# --- damage -----------------------------------------------------------------------------------------------------------


def spoil(tmp_path, name: str) -> bytes:
    data = b"this is no database" * 500
    (tmp_path / name).write_bytes(data)
    return data


def test_a_damaged_database_is_set_aside_and_the_copy_takes_its_place(tmp_path, folder):
    filled(folder).close()
    spoilt = spoil(tmp_path, NAME)
    progress = Progress(folder)
    assert progress.all("group") == expected()
    assert f"{NAME} is damaged" in progress.damage
    assert "the copy from the last clean stop took its place" in progress.damage
    assert (tmp_path / f"{NAME}.damaged-1").read_bytes() == spoilt
    progress.put("group", "next", b"1")
    progress.close()
    after = Progress(folder)
    assert (after.all("group"), after.damage) == (expected() | {"next": b"1"}, "")
    after.abandon()


def test_without_a_usable_copy_it_begins_anew_and_says_so(tmp_path, folder):
    filled(folder).close()
    spoil(tmp_path, NAME)
    spoil(tmp_path, COPY)
    progress = Progress(folder)
    assert progress.all("group") == {}
    assert "begun anew" in progress.damage
    assert len(list(tmp_path.glob(f"{NAME}.damaged-*"))) == 2
    progress.put("group", "next", b"1")
    progress.close()
    assert values_in(folder) == {"next": b"1"}


def test_damage_before_the_first_clean_stop_begins_anew(tmp_path, folder):
    left_behind(folder, {"a": b"1"})
    spoil(tmp_path, NAME)
    progress = Progress(folder)
    assert (progress.all("group"), "begun anew" in progress.damage) == ({}, True)
    progress.abandon()


def test_what_was_set_aside_is_never_overwritten(tmp_path, folder):
    """Not even when somebody has tidied up the first of them."""
    (tmp_path / f"{NAME}.damaged-2").write_bytes(b"from last week")
    filled(folder).close()
    spoil(tmp_path, NAME)
    Progress(folder).abandon()
    assert (tmp_path / f"{NAME}.damaged-2").read_bytes() == b"from last week"


@pytest.mark.parametrize("value", [None, "text", 17, 1.5], ids=repr)
def test_a_value_of_another_type_is_damage(folder, value):
    """One wrong bit in a row's header makes text of a blob."""
    left_behind(folder, {"a": b"1", "b": b"2"})
    with sqlite3.connect(f"{folder}/{NAME}") as connection:
        connection.execute("UPDATE progress SET value = ? WHERE key = 'a'", (value,))
    connection.close()
    progress = Progress(folder)
    assert f"{NAME} is damaged" in progress.damage
    progress.abandon()


def test_a_value_that_does_not_match_its_checksum_is_damage(folder):
    left_behind(folder, {"a": b"1"})
    with sqlite3.connect(f"{folder}/{NAME}") as connection:
        connection.execute("UPDATE progress SET value = ? WHERE key = 'a'", (b"2",))
    connection.close()
    progress = Progress(folder)
    assert "checksum" in progress.damage
    assert progress.get("group", "a") is None
    progress.abandon()


@pytest.mark.parametrize("seed", range(60))
def test_a_flipped_bit_never_gives_a_wrong_answer(tmp_path, folder, seed):
    """Harmless, or noticed; never a wrong offset, never an error that nobody expects."""
    choose, values = random.Random(seed), {f"orders-{number}": b"%d" % number * 20 for number in range(30)}
    left_behind(folder, values)
    path = tmp_path / NAME
    data = bytearray(path.read_bytes())
    data[choose.randrange(len(data))] ^= 1 << choose.randrange(8)
    path.write_bytes(data)
    progress = Progress(folder)
    assert progress.all("group") == values or progress.damage
    assert set(progress.all("group").items()) <= set(values.items())
    progress.abandon()


def test_a_database_that_somebody_looks_at_is_not_a_damaged_one(tmp_path, folder, monkeypatch):
    """Locked is not broken: the start is refused with a sentence, and nothing is set aside."""
    filled(folder).close()
    monkeypatch.setattr(sqlite3, "connect", functools.partial(sqlite3.connect, timeout=0))
    holder = sqlite3.connect(f"{folder}/{NAME}", isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreError, match=f"{NAME} could not be opened"):
        Progress(folder).abandon()
    holder.execute("ROLLBACK")
    holder.close()
    progress = Progress(folder)
    assert (progress.all("group"), progress.damage) == (expected(), "")
    progress.abandon()


def test_a_folder_that_cannot_be_used_is_refused_with_a_sentence(tmp_path):
    with pytest.raises(StoreError, match=f"{NAME} could not be opened"):
        Progress(str(tmp_path / "not" / "there"))
