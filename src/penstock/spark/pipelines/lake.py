"""Parquet tables that take each batch of a stream once, for every reader.

    table = Table(folder, state)
    writer.foreachBatch(lambda batch, number: table.append(batch, number, by=("topic", "day")))

Spark's own file sink is exactly once only for readers that know its log: whatever a killed task left behind is in the
folder, any other tool reads it twice, and files cannot be merged behind that log's back. Here the folder itself is
right:

1. A batch is written aside, into the table's state, and synced.
2. One small file, the note, lists what goes where. It appears whole or not at all, and decides: before it the batch has
   not happened, and what lies aside is garbage; after it the batch has, and whoever comes next finishes the moves.
3. The files are moved into the folder, by renames that can be repeated; then the note is marked done. A batch that
   Spark tries again finds its note, and nothing is left to do.

So what is in the folder is in no other batch and there once, also for `spark.read.parquet(folder)`, DuckDB or pandas.
While a batch of several files is being moved a reader may see some of them and not yet the others.

Small files are merged by `merging.py`. State and table belong together: one without the other is refused, since the one
would lose messages and the other write them twice. One process at a time writes a table.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from penstock.errors import PenstockError
from penstock.spark.pipelines.files import Written, parquet_files, put_whole, synced

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NOTES_KEPT = 100  # Spark keeps as many batches in its checkpoint
_BEGUN, _DONE = ".begun", ".done"
_locks: dict[Path, int] = {}  # of this process, until it ends


class LakeError(PenstockError):
    """A table and its state do not fit together, or somebody else is writing it."""


class Note(msgspec.Struct, frozen=True):
    """What a batch has put where: from where it lies aside to its place in the table."""

    query: str
    files: list[Written]
    rows_total: int  # of the table, with this batch


class Table:
    def __init__(self, folder: Path, state: Path) -> None:
        self.folder, self.state = folder, state
        self._aside, self._notes = state / "aside", state / "notes"
        for place in (folder.parent, self._aside, self._notes):
            place.mkdir(parents=True, exist_ok=True)
        lock(state, folder)
        self._check()
        for note in self._notes.glob("*" + _BEGUN):
            self._finish(note)
        shutil.rmtree(self._aside)
        self._aside.mkdir()

    def append(self, batch: "DataFrame", number: int, by: Sequence[str] = ()) -> list[Path]:
        """Take a batch, once however often it is given; returns the folders that got files."""
        query = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId") or ""
        if self._has(number, query):
            return []
        aside = self._aside / f"batch-{number}"
        batch.write.partitionBy(*by).mode("overwrite").parquet(str(aside))
        files = [one.named(f"batch-{number:010}-{at:05}") for at, one in enumerate(parquet_files(aside))]
        synced(aside, files)
        rows = sum(one.rows for one in files)
        self.folder.mkdir(exist_ok=True)
        begun = self._notes / f"{number:010}{_BEGUN}"
        put_whole(begun, msgspec.json.encode(Note(query, files, self.rows_total + rows)))
        self._finish(begun)
        self._forget(number - NOTES_KEPT)
        return sorted({(self.folder / one.target).parent for one in files})

    @property
    def rows_total(self) -> int:
        """Rows that were put into the table in all its time."""
        return rows_in(self.state) or 0

    # --- a note is carried out --------------------------------------------------------------------------------------

    def _finish(self, begun: Path) -> None:
        """Move what is not moved yet."""
        aside = self._aside / f"batch-{int(begun.stem)}"
        files = _read(begun).files
        for one in files:
            source, target = aside / one.source, self.folder / one.target
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.exists():
                os.rename(source, target)
            elif not target.exists():
                raise LakeError(
                    f"{target} is noted as written and is gone: restore it, or delete the table and its state"
                )
        synced(self.folder, [one.moved for one in files], contents=False)
        os.rename(begun, begun.with_suffix(_DONE))
        shutil.rmtree(aside, ignore_errors=True)

    def _forget(self, below: int) -> None:
        old = self._notes / f"{below:010}{_DONE}"
        old.unlink(missing_ok=True)

    # --- table and state belong together ------------------------------------------------------------------------------

    def _check(self) -> None:
        known = next(self._notes.iterdir(), None) is not None
        if known and not self.folder.exists():
            raise LakeError(
                f"{self.folder} is gone and {self.state} is not: restore it, or delete that too to begin anew"
            )
        if not known and next(_files_in(self.folder), None) is not None:
            raise LakeError(
                f"{self.folder} has files and {self.state} does not know them: what is in them would be written twice; "
                "restore the state, or give another lake"
            )

    def _has(self, number: int, query: str) -> bool:
        """Whether a batch is in the table. Numbers count within one checkpoint: those of another say nothing."""
        last = _last(self.state)
        if last is None:
            return False
        if (found := _read(last).query) != query:
            raise LakeError(
                f"{self.folder} was written by another checkpoint (query {found}) than this ({query}): restore that "
                f"one, or delete the table and {self.state}"
            )
        return number <= int(last.stem)


def rows_in(state: Path) -> int | None:
    """Rows of the table that this is the state of, told without opening it; None when nothing is known of one."""
    last = _last(state)
    return _read(last).rows_total if last else None


def _last(state: Path) -> Path | None:
    return max((state / "notes").glob("*" + _DONE), default=None)


def _read(note: Path) -> Note:
    try:
        return msgspec.json.decode(note.read_bytes(), type=Note)
    except msgspec.DecodeError as error:
        raise LakeError(f"{note} cannot be read ({error}): restore it, or delete the table and its state") from None


def _files_in(folder: Path) -> Iterator[Path]:
    return folder.rglob("*.parquet") if folder.exists() else iter(())


def lock(state: Path, table: Path) -> None:
    """Nobody else writes this table while this process lives."""
    state.mkdir(parents=True, exist_ok=True)
    place = state / "lock"
    if place in _locks:
        return
    held = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(held)
        raise LakeError(f"another process writes {table}: stop it, or give this one another lake") from None
    _locks[place] = held
