"""Files of a lake: which there are, synced to the disk, put in place whole. No Spark here."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

import msgspec


class Written(msgspec.Struct, frozen=True):
    """A Parquet file: where it lies below a folder, and where it belongs below another."""

    source: str
    target: str
    rows: int
    size_bytes: int

    def named(self, stem: str) -> "Written":
        return msgspec.structs.replace(self, target=str(PurePosixPath(self.source).with_name(stem + ".parquet")))

    @property
    def moved(self) -> "Written":
        return msgspec.structs.replace(self, source=self.target)


def parquet_files(folder: Path) -> Iterator[Written]:
    """The files below a folder that have rows, in the order of their names."""
    from pyarrow.parquet import read_metadata

    for path in sorted(folder.rglob("*.parquet")):
        if rows := read_metadata(path).num_rows:
            name = path.relative_to(folder).as_posix()
            yield Written(name, name, rows, path.stat().st_size)


def synced(folder: Path, files: Iterable[Written], contents: bool = True) -> None:
    """Files and the folders that hold them are on the disk when this returns."""
    paths = [folder / one.source for one in files]
    if contents:
        for path in paths:
            _sync(path)
    above = {parent for path in paths for parent in path.parents if parent.is_relative_to(folder)}
    for parent in sorted(above | {folder, folder.parent}):
        _sync(parent)


def put_whole(path: Path, data: bytes) -> None:
    """A file that is there with all of its contents, or not at all; also after a power cut."""
    beside = path.with_name(path.name + ".new")
    with open(beside, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    os.rename(beside, path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
