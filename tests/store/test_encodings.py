"""A table knows which encodings have ever been in its queue: after any start, also where a checkpoint does not tell."""

import pytest
from tests.store.test_read import MINE, OTHER, Shelf

import penstock.server  # with it come all kinds of entries
from penstock.model import Entry
from penstock.store import directory
from penstock.testing.disk import FaultyDisk
from penstock.wire.plain import PLAIN, PLAIN_RUN, plain, plain_run
from penstock.wire.rocketmq.runs import PackedRun, StagedRun


def bits(shelf: Shelf, queue: int = MINE) -> int:
    return shelf.store.table(queue).encodings


def test_every_append_is_noted():
    shelf = Shelf(FaultyDisk())
    assert bits(shelf) == 0
    shelf.store.append([plain(MINE, b"a")])
    assert bits(shelf) == 1 << PLAIN
    shelf.store.append([plain_run([plain(MINE, b"b"), plain(MINE, b"c")])])
    assert (bits(shelf), bits(shelf, OTHER)) == (1 << PLAIN | 1 << PLAIN_RUN, 0)


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("lose_tables", [True, False])
def test_a_start_knows_it_again(clean, lose_tables):
    shelf = Shelf(FaultyDisk())
    shelf.store.append([plain(MINE, b"a")])
    shelf.store.checkpoint()
    shelf.store.append([plain_run([plain(MINE, b"b"), plain(MINE, b"c")])])
    shelf.store.flush()
    if clean:
        shelf.store.close()
    if lose_tables:
        shelf.disk.remove("tables/directory")
    assert bits(Shelf(shelf.disk)) == 1 << PLAIN | 1 << PLAIN_RUN


def test_where_a_checkpoint_does_not_tell_the_last_entry_does(monkeypatch):
    shelf = Shelf(FaultyDisk())
    shelf.store.append([plain_run([plain(MINE, b"b"), plain(MINE, b"c")])])
    told = directory.state_of

    def older(table):
        state = told(table)
        state.encodings = directory.ANY
        return state

    monkeypatch.setattr(directory, "state_of", older)
    again = shelf.again()
    assert (bits(again), bits(again, OTHER)) == (1 << PLAIN_RUN, 0)


def test_no_two_kinds_of_entries_have_one_number():
    assert penstock.server
    kinds = {kind for kind in below(Entry) if kind.__module__.startswith("penstock.") and "encoding" in vars(kind)}
    numbers = [kind.encoding for kind in kinds - {PackedRun, StagedRun}]  # what they write are runs of records
    assert len(numbers) >= 7
    assert len(set(numbers)) == len(numbers), sorted((kind.encoding, kind.__name__) for kind in kinds)


def below(kind: type[Entry]) -> list[type[Entry]]:
    return [found for each in kind.__subclasses__() for found in (each, *below(each))]
