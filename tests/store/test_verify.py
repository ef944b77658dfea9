"""Looking at a folder that no broker uses: what is sound, what is damaged, what only needs a start to be mended."""

import msgspec
import pytest

from penstock.clock import ManualClock
from penstock.config import KIB, StoreConfig
from penstock.errors import FormatUnknown, NotOurFolder
from penstock.model import Durability
from penstock.store.files import LocalDisk
from penstock.store.format import Format, find_format
from penstock.store.layout import HEADER_BYTES, RUN
from penstock.store.plan import Damage
from penstock.store.store import Store
from penstock.store.verify import Dumped, dump, verify
from penstock.wire.plain import PLAIN, PLAIN_RUN, message_in, plain, plain_run, split

CONFIG = StoreConfig(segment_bytes=16 * KIB, append_buffer_bytes=4 * KIB, piece_rows=8, chunk_pieces=16)
MESSAGES = 60


@pytest.fixture
def folder(tmp_path):
    """A data folder after a clean stop: three segments, one queue, 60 messages of which ten are a run."""
    store = Store.open(LocalDisk(str(tmp_path)), CONFIG, ManualClock(), {PLAIN_RUN: split})
    store.create_queue(1, Durability.SYNC)
    for number in range(MESSAGES - 10):
        store.append([plain(1, b"message number %02d " % number + bytes(500))])
    store.append([plain_run([plain(1, b"in the run %d" % number) for number in range(10)])])
    store.close()
    return tmp_path


def disk_of(folder) -> LocalDisk:
    return LocalDisk(str(folder))


def change(folder, wanted: bytes, at: int = 0) -> None:
    """Another byte in the first file of the log that holds `wanted`, `at` bytes from where it stands."""
    for path in sorted((folder / "log").iterdir()):
        data = bytearray(path.read_bytes())
        place = data.find(wanted)
        if place >= 0:
            data[place + at] ^= 0xFF
            path.write_bytes(data)
            return
    raise AssertionError(f"{wanted!r} is not in the log")


def snapshot(folder) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def reopened(folder) -> Store:
    return Store.open(disk_of(folder), CONFIG, ManualClock(), {PLAIN_RUN: split})


# --- sound ------------------------------------------------------------------------------------------------------------


def test_a_sound_folder(folder):
    verdict = verify(disk_of(folder), CONFIG)
    assert (verdict.sound, verdict.damage, verdict.notes) == (True, [], [])
    assert verdict.entries == MESSAGES - 10 + 1 + 1  # the run is one entry, and so is the fact that there is a queue
    assert verdict.messages == MESSAGES + 1
    assert verdict.bytes == sum(HEADER_BYTES + item.length for item in dump(disk_of(folder)))


def test_a_folder_after_a_kill_is_sound_too(tmp_path):
    store = Store.open(disk_of(tmp_path), CONFIG, ManualClock())
    store.create_queue(1, Durability.ASYNC)
    store.append([plain(1, b"a")])
    store.abandon()
    assert verify(disk_of(tmp_path), CONFIG).damage == []


def test_a_folder_without_a_message_is_sound(tmp_path):
    Store.open(disk_of(tmp_path), CONFIG, ManualClock()).close()
    verdict = verify(disk_of(tmp_path), CONFIG)
    assert (verdict.sound, verdict.entries, verdict.notes) == (True, 0, [])
    assert list(dump(disk_of(tmp_path))) == []


@pytest.mark.parametrize("damaged", [True, False])
def test_looking_changes_nothing(folder, damaged):
    if damaged:
        change(folder, b"message number 07")
        (folder / "tables" / "directory").unlink()
    before = snapshot(folder)
    verify(disk_of(folder), CONFIG)
    list(dump(disk_of(folder)))
    assert snapshot(folder) == before


def test_progress_is_told_and_ends_within_the_whole(tmp_path):
    store = Store.open(disk_of(tmp_path), StoreConfig(segment_bytes=1 << 20), ManualClock())
    store.create_queue(1, Durability.ASYNC)
    for _ in range(25):
        store.append([plain(1, b"x") for _ in range(1_000)])
    store.close()
    told = []
    verify(disk_of(tmp_path), progress=lambda done, total: told.append((done, total)))
    assert len(told) == 2
    assert all(0 < done <= total for done, total in told)
    assert told == sorted(told)


# --- damage in the log ------------------------------------------------------------------------------------------------


def test_a_damaged_payload_is_one_damaged_entry(folder):
    change(folder, b"message number 07")
    verdict = verify(disk_of(folder), CONFIG)
    (damage,) = verdict.damage
    assert (verdict.sound, damage.why) == (False, "payload checksum wrong")
    assert damage.length == HEADER_BYTES + plain(1, b"message number 07 " + bytes(500)).length
    assert verdict.messages == MESSAGES + 1  # its header says how many it held


def test_a_damaged_header_costs_its_entry_and_no_other(folder):
    entries = verify(disk_of(folder), CONFIG).entries
    change(folder, b"message number 07", at=-plain(1, b"").length - 10)
    verdict = verify(disk_of(folder), CONFIG)
    (damage,) = verdict.damage
    assert (damage.why, verdict.entries) == ("no sound entry header", entries - 1)
    assert damage.length == HEADER_BYTES + plain(1, b"message number 07 " + bytes(500)).length


@pytest.mark.parametrize("at", range(0, 80, 8))
def test_no_byte_of_a_header_goes_unnoticed(folder, at):
    change(folder, b"message number 07", at=at - plain(1, b"").length - HEADER_BYTES)
    assert len(verify(disk_of(folder), CONFIG).damage) == 1


def test_a_damaged_segment_header_is_a_note(folder):
    """Nothing is lost with it."""
    path = sorted((folder / "log").iterdir())[1]
    path.write_bytes(b"\xff" * 64 + path.read_bytes()[64:])
    verdict = verify(disk_of(folder), CONFIG)
    assert (verdict.damage, verdict.messages) == ([], MESSAGES + 1)
    assert verdict.notes == ["segment 1: its header is damaged; its entries were read all the same"]


def test_a_lost_format_file_is_no_damage(folder):
    (folder / "format").unlink()
    assert verify(disk_of(folder), CONFIG).sound


# --- damage in what is derived ----------------------------------------------------------------------------------------


def test_a_missing_checkpoint_is_a_note_and_the_next_start_mends_it(folder):
    (folder / "tables" / "directory").unlink()
    verdict = verify(disk_of(folder), CONFIG)
    assert (verdict.sound, len(verdict.notes)) == (True, 1)
    assert "no usable checkpoint" in verdict.notes[0]
    mended_by_a_start(folder)


def test_a_damaged_checkpoint_is_a_note_and_the_next_start_mends_it(folder):
    path = folder / "tables" / "directory"
    path.write_bytes(path.read_bytes()[:-1])
    assert "no usable checkpoint" in verify(disk_of(folder), CONFIG).notes[0]
    mended_by_a_start(folder)


def test_a_missing_table_file_is_a_note_and_the_next_start_mends_it(folder):
    next((folder / "tables").glob("*.rows")).unlink()
    verdict = verify(disk_of(folder), CONFIG)
    assert (verdict.sound, len(verdict.notes)) == (True, 1)
    assert "table file is missing" in verdict.notes[0]
    mended_by_a_start(folder)


def test_a_damaged_table_is_a_note_and_the_next_start_mends_it(folder):
    path = next((folder / "tables").glob("*.rows"))
    data = path.read_bytes()
    path.write_bytes(data.replace(b"\x01", b"\x07"))
    verdict = verify(disk_of(folder), CONFIG)
    assert verdict.sound
    assert any("queue 1: piece" in note for note in verdict.notes)
    mended_by_a_start(folder)


def mended_by_a_start(folder) -> None:
    store = reopened(folder)
    assert len(store.read(1, 0, 1_000, 1_000_000).payloads) == MESSAGES
    store.close()
    verdict = verify(disk_of(folder), CONFIG)
    assert verdict.sound
    assert [note for note in verdict.notes if "queue 0" not in note] == []  # what nobody looks at is mended when it is


# --- not ours ---------------------------------------------------------------------------------------------------------


def test_an_empty_folder_is_not_ours(tmp_path):
    with pytest.raises(NotOurFolder, match="no log of penstock"):
        verify(disk_of(tmp_path))
    with pytest.raises(NotOurFolder):
        list(dump(disk_of(tmp_path)))


def test_somebody_elses_folder_is_not_ours(tmp_path):
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "notes.log").write_text("dear diary")
    (tmp_path / "format").write_text("{}")
    before = snapshot(tmp_path)
    with pytest.raises(NotOurFolder):
        verify(disk_of(tmp_path))
    assert snapshot(tmp_path) == before


def test_a_folder_of_a_later_version_is_refused_with_both_numbers(folder):
    found = find_format(disk_of(folder))
    later = Format(99, found.secret, found.segment_bytes)
    (folder / "format").write_bytes(msgspec.json.encode(msgspec.structs.replace(later, crc=later.checksum())))
    with pytest.raises(FormatUnknown, match=r"format 99.*reads format 1"):
        verify(disk_of(folder))


# --- dump -------------------------------------------------------------------------------------------------------------


def test_a_dump_has_every_entry_in_the_order_of_the_log(folder):
    items = [item for item in dump(disk_of(folder)) if item.queue == 1]
    assert [item.offset for item in items] == list(range(MESSAGES - 9))
    assert [item.position for item in items] == sorted(item.position for item in items)
    first, run = items[0], items[-1]
    assert (first.count, first.encoding, first.sound, first.row) == (1, PLAIN, True, 0)
    assert message_in(memoryview(first.payload)).body.startswith(b"message number 00")
    assert (run.count, run.encoding, run.flags & RUN) == (10, PLAIN_RUN, RUN)
    assert len(split(memoryview(run.payload)).starts) == 10


def test_a_dump_shows_damage_where_it_is(folder):
    change(folder, b"message number 07")  # a payload: the entry is shown as it is
    change(folder, b"message number 09", at=-plain(1, b"").length - 10)  # a header: nothing can be told
    items = list(dump(disk_of(folder)))
    assert [item.offset for item in items if isinstance(item, Dumped) and not item.sound] == [7]
    (gap,) = [item for item in items if isinstance(item, Damage)]
    around = items[items.index(gap) - 1], items[items.index(gap) + 1]
    assert [item.offset for item in around] == [8, 10]
