"""How far groups and cursors are, and other small state that may lag a second: in SQLite.

Kept in memory, written in batches (once a second and at a clean stop), so that no consumer waits for it: after a crash
at most the last second of it is missing, and it is never ahead of what happened. What must agree with the log is not
here but in the catalog.

Each value has a checksum. A damaged database is set aside, never overwritten; the copy made at the last clean stop
takes its place, or an empty one, and `damage` says so.
"""

import os
import sqlite3
from collections.abc import Iterable
from itertools import count

from crc32c import crc32c

from penstock.errors import StoreError

NAME = "progress.sqlite"
COPY = "progress.copy.sqlite"

_COLUMNS = "kind TEXT, key TEXT, value BLOB, crc INTEGER, PRIMARY KEY (kind, key)"
_TABLE = f"CREATE TABLE IF NOT EXISTS progress ({_COLUMNS}) WITHOUT ROWID"
_PUT = "INSERT INTO progress VALUES (?, ?, ?, ?) ON CONFLICT DO UPDATE SET value = excluded.value, crc = excluded.crc"
_FORGET = "DELETE FROM progress WHERE kind = ? AND key = ?"

_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)

Change = tuple[str, str, bytes | None]


class Progress:
    """A map of (kind, key) to bytes."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self.damage = ""
        self._values: dict[str, dict[str, bytes]] = {}
        self._changed: dict[tuple[str, str], bytes | None] = {}
        try:
            self._connection = self._open_any()
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"{NAME} could not be opened: {error}") from error

    # --- opening ------------------------------------------------------------------------------------------------------

    def _open_any(self) -> sqlite3.Connection:
        try:
            return self._load()
        except (sqlite3.DatabaseError, ValueError) as error:
            if not _is_damage(error):
                raise
            self.damage = f"{NAME} is damaged ({error})"
        self._set_aside()
        if os.path.exists(self._path(COPY)):
            os.replace(self._path(COPY), self._path(NAME))
            try:
                connection = self._load()
                self.damage += ": the copy from the last clean stop took its place"
                return connection
            except (sqlite3.DatabaseError, ValueError) as error:
                if not _is_damage(error):
                    raise
                self._set_aside()
        self.damage += ": begun anew, consumers start where they are told to without an offset"
        return self._load()

    def _load(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path(NAME), check_same_thread=False, isolation_level=None)
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(_TABLE)
            if connection.execute("PRAGMA quick_check").fetchone() != ("ok",):
                raise ValueError("its pages do not fit together")
            self._values = {}
            for kind, key, value, crc in connection.execute("SELECT kind, key, value, crc FROM progress"):
                if not isinstance(value, bytes) or _checksum(kind, key, value) != crc:
                    raise ValueError(f"the value of {kind} {key} has a wrong checksum")
                self._values.setdefault(kind, {})[key] = value
        except BaseException:
            connection.close()
            raise
        return connection

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _set_aside(self) -> None:
        """Keep all of it, under the first name that is free: somebody may want to look."""
        there = set(os.listdir(self._folder))
        aside = next(name for number in count(1) if (name := f"{NAME}.damaged-{number}") not in there)
        for suffix in ("", "-wal", "-shm"):
            if NAME + suffix in there:
                os.replace(self._path(NAME + suffix), self._path(aside + suffix))

    # --- using --------------------------------------------------------------------------------------------------------

    def get(self, kind: str, key: str) -> bytes | None:
        return self._values.get(kind, {}).get(key)

    def all(self, kind: str) -> dict[str, bytes]:
        return dict(self._values.get(kind, {}))

    def put(self, kind: str, key: str, value: bytes | None) -> None:
        """Set, or forget with None. Written with the next batch."""
        values = self._values.setdefault(kind, {})
        if value is None:
            values.pop(key, None)
        else:
            values[key] = value
        self._changed[kind, key] = value

    def put_back(self, change: Change) -> None:
        """A change that could not be written: the next batch has it, unless there is a newer one."""
        kind, key, value = change
        self._changed.setdefault((kind, key), value)

    def take_changes(self) -> list[Change]:
        """What the next `write` has to write."""
        changed, self._changed = self._changed, {}
        return [(kind, key, value) for (kind, key), value in changed.items()]

    def write(self, changes: Iterable[Change]) -> None:
        """One transaction; may run in a worker thread, one at a time."""
        put, forget = [], []
        for kind, key, value in changes:
            if value is None:
                forget.append((kind, key))
            else:
                put.append((kind, key, value, _checksum(kind, key, value)))
        if not put and not forget:
            return
        self._connection.execute("BEGIN")
        try:
            self._connection.executemany(_PUT, put)
            self._connection.executemany(_FORGET, forget)
            self._connection.execute("COMMIT")
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Write what is left and leave a copy."""
        self.write(self.take_changes())
        scratch = self._path(COPY + ".new")
        if os.path.exists(scratch):
            os.unlink(scratch)
        self._connection.execute("VACUUM INTO ?", (scratch,))
        os.replace(scratch, self._path(COPY))
        self._connection.close()

    def abandon(self) -> None:
        """Let go as a crash would."""
        self._connection.close()


def _checksum(kind: str, key: str, value: bytes) -> int:
    return crc32c(f"{kind}\0{key}\0".encode() + value)


def _is_damage(error: Exception) -> bool:
    """Locked, full and unreadable are troubles too, but not the file's."""
    if isinstance(error, sqlite3.DatabaseError):
        return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_CORRUPT) & 0xFF in _DAMAGE
    return True
