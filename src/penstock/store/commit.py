"""Who waits for what to be durable, and what consumers may see.

Appends wait in the order of their positions, so one look at the front tells who is served by a sync. A queue with sync
durability shows an entry only once it is durable: were it shown earlier, a power cut could give its offset to another
message.
"""

from collections import deque
from collections.abc import Callable

from penstock import logs
from penstock.errors import StoreReadOnly
from penstock.store.syncing import DONE, WANTED, Marks
from penstock.store.table import QueueTable

log = logs.get(__name__)

Then = Callable[[Exception | None], None]
Shown = tuple[QueueTable, int, int]  # a queue, and the row and offset up to which it shows


class Commits:
    def __init__(self, marks: "Marks[int]") -> None:
        self.durable, self._marks = marks[DONE], marks
        self._waiting: deque[tuple[int, Then]] = deque()
        self._hidden: deque[tuple[int, list[Shown]]] = deque()
        self._failed: str | None = None

    def hide(self, position: int, shown: list[Shown]) -> None:
        """These rows become visible when `position` is durable."""
        self._hidden.append((position, shown))

    def when_durable(self, position: int, then: Then) -> bool:
        """Call `then` once everything up to `position` is durable, or can never be. True when it was called at once."""
        if position <= self.durable:
            then(None)
        elif self._failed is not None:
            then(StoreReadOnly(self._failed))
        else:
            self._waiting.append((position, then))
            self._marks[WANTED] = position
            return False
        return True

    @property
    def wanted(self) -> bool:
        """Somebody waits for a sync."""
        return bool(self._waiting)

    def synced(self, position: int) -> None:
        self.durable = max(self.durable, position)
        while self._hidden and self._hidden[0][0] <= position:
            for table, row, offset in self._hidden.popleft()[1]:
                table.show(row, offset)
        while self._waiting and self._waiting[0][0] <= position:
            _call(self._waiting.popleft()[1], None)

    def failed(self, why: str) -> None:
        """No sync will ever cover what waits: everybody is told, nothing more becomes visible."""
        self._failed = why
        self._hidden.clear()
        waiting, self._waiting = self._waiting, deque()
        for _, then in waiting:
            _call(then, StoreReadOnly(why))


def _call(then: Then, error: Exception | None) -> None:
    """One that fails must not keep the others waiting."""
    try:
        then(error)
    except Exception:
        log.exception("what should follow an acknowledgement failed")
