"""One broker per data folder: a lock file that the operating system lets go of when its holder dies."""

import fcntl
import os

from penstock.errors import FolderInUse

NAME = "lock"


class FolderLock:
    """Held from construction to `release`."""

    def __init__(self, folder: str) -> None:
        os.makedirs(folder, exist_ok=True)
        self._descriptor = os.open(os.path.join(folder, NAME), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o640)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            owner = os.pread(self._descriptor, 64, 0).decode(errors="replace").strip() or "unknown process"
            self.release()
            raise FolderInUse(folder, owner) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, b"pid %d\n" % os.getpid(), 0)

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
