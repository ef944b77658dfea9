"""The names on the faulty disk: which file each one means, in memory and on the medium.

A name reaches the medium when the folder that holds it is synced; until then the operations that changed it (create,
rename, remove) are pending, and a power cut may let any of them arrive. One operation arrives whole: renames are atomic
in that sense. A name whose folder did not arrive is gone.

Names are clean: no leading or doubled slash; the disk's own folder is the empty name.
"""

import errno
import os
import posixpath
from collections.abc import Callable, Container, Iterable
from typing import NamedTuple

from penstock.testing.inode import Inode

Links = dict[str, Inode]


class Relink(NamedTuple):
    """A directory operation: the names it changes, and what they then mean (None: nothing)."""

    moment: int
    folder: str
    links: dict[str, Inode | None]


class Names:
    def __init__(self) -> None:
        self.folder = Inode()  # what the name of every folder means
        self.linked: Links = {"": self.folder}
        self.durable: Links = {"": self.folder}
        self.pending: list[Relink] = []

    def file(self, name: str) -> Inode:
        found = self.linked.get(name)
        if found is None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
        if found is self.folder:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        return found

    def within(self, folder: str) -> list[str]:
        return sorted(posixpath.basename(name) for name in self.linked if name and posixpath.dirname(name) == folder)

    def files(self) -> list[str]:
        return sorted(name for name, inode in self.linked.items() if inode is not self.folder)

    def inodes(self) -> Iterable[Inode]:
        """Every file that has a name, had one, or may have one after a crash."""
        named = [*self.linked.values(), *self.durable.values()]
        pending = [inode for relink in self.pending for inode in relink.links.values() if inode is not None]
        return {id(inode): inode for inode in named + pending}.values()

    def relink(self, moment: int, name: str, links: dict[str, Inode | None]) -> None:
        folder = posixpath.dirname(name)
        self.require_folder(folder)
        self.pending.append(Relink(moment, folder, links))
        _apply(self.linked, self.pending[-1:])

    def require_folder(self, folder: str) -> None:
        if self.linked.get(folder) is not self.folder:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), folder)

    def sync(self, folder: str) -> None:
        _apply(self.durable, (relink for relink in self.pending if relink.folder == folder))
        self.pending = [relink for relink in self.pending if relink.folder != folder]

    def arrived(self, moments: Container[int]) -> Links:
        """What the medium holds when the pending operations of these moments reached it, and no others."""
        links = dict(self.durable)
        _apply(links, (relink for relink in self.pending if relink.moment in moments))
        return {name: inode for name, inode in links.items() if set(with_parents(name)) <= links.keys()}

    def inherited(self, heir: Callable[[Inode], Inode]) -> "Names":
        """The same names for other files; one that has two names keeps both."""
        after = Names()
        heirs = {id(inode): heir(inode) for inode in self.inodes() if inode is not self.folder}
        heirs[id(self.folder)] = after.folder
        after.linked = {name: heirs[id(inode)] for name, inode in self.linked.items()}
        after.durable = {name: heirs[id(inode)] for name, inode in self.durable.items()}
        after.pending = [
            relink._replace(links={name: heirs[id(inode)] if inode else None for name, inode in relink.links.items()})
            for relink in self.pending
        ]
        return after

    def replaced_by(self, links: Links, heir: Callable[[Inode], Inode]) -> "Names":
        """These links and nothing pending, for other files."""
        only = Names()
        only.folder, only.linked, only.durable = self.folder, links, links
        return only.inherited(heir)


def clean_name(name: str) -> str:
    name = posixpath.normpath(name)
    return "" if name == "." else name


def with_parents(name: str) -> Iterable[str]:
    """`a/b/c` gives `a`, `a/b`, `a/b/c`."""
    parts = name.split("/")
    return ("/".join(parts[:count]) for count in range(1, len(parts) + 1))


def _apply(table: Links, relinks: Iterable[Relink]) -> None:
    for relink in relinks:
        for name, inode in relink.links.items():
            if inode is None:
                table.pop(name, None)
            else:
                table[name] = inode
