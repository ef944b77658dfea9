"""Where connections receive: one buffer for all of them, and a buffer of its own for whoever sends something large.

A read and the handling of what it brought are one step of the loop, so all connections can read into the same buffer:
ten thousand that are silent need no memory, and the one that is busy finds the buffer in the processor's cache. What is
left of an incomplete frame is put aside and goes back to the front before the next read. A frame that is larger gets a
buffer that grows with what has arrived, never with what a length claims; all of those together have a bound.
"""

from penstock.wire.framing import FrameError, missing_bytes

SHARED_BYTES = 256 * 1024
ASIDE_BYTES_MAX = 64 * 1024  # more than that is not copied with every read


class Reception:
    """What the connections of one gateway share. They belong to one loop. `setting` is the name of the bound."""

    def __init__(self, held_bytes_max: int, setting: str) -> None:
        self.shared = memoryview(bytearray(SHARED_BYTES))
        self.held_bytes = 0  # in buffers of their own
        self._held_bytes_max, self._setting = held_bytes_max, setting

    def lend(self, size_bytes: int) -> memoryview:
        if self.held_bytes + size_bytes > self._held_bytes_max:
            raise FrameError(
                f"large frames that are not complete hold {self.held_bytes} bytes already: "
                f"at most {self._held_bytes_max} are held ({self._setting})"
            )
        self.held_bytes += size_bytes
        return memoryview(bytearray(size_bytes))

    def take_back(self, buffer: memoryview) -> None:
        self.held_bytes -= len(buffer)


class Inbox:
    """One connection's side of it: `buffer`, then `filled`, then `keep`, each time."""

    __slots__ = ("_aside", "_end", "_own", "_reception")

    def __init__(self, reception: Reception) -> None:
        self._reception = reception
        self._aside = b""
        self._own: memoryview | None = None
        self._end = 0

    def buffer(self) -> memoryview:
        """Where the next read goes."""
        if self._own is not None:
            return self._own[self._end :]
        shared, aside = self._reception.shared, self._aside
        if not aside:
            return shared
        shared[: len(aside)] = aside
        return shared[len(aside) :]

    def filled(self, count: int) -> tuple[memoryview, int]:
        """What is there after a read, and where it ends."""
        if self._own is not None:
            return self._own, self._end + count
        return self._reception.shared, len(self._aside) + count

    def keep(self, view: memoryview, used: int, end: int) -> None:
        """Put aside what is left of an incomplete frame."""
        rest = end - used
        if rest <= ASIDE_BYTES_MAX:
            self._aside = bytes(view[used:end]) if rest else b""
            if self._own is not None:
                self.let_go()
        elif view is self._own and not used and end < len(view):
            self._end = end  # there is room
        else:
            self._grow(view[used:end], rest)

    def _grow(self, arrived: memoryview, rest: int) -> None:
        fresh = self._reception.lend(min(rest + missing_bytes(arrived, rest), 2 * rest))
        fresh[:rest] = arrived
        self.let_go()
        self._aside, self._own, self._end = b"", fresh, rest

    def let_go(self) -> None:
        """Give back a buffer of its own, if there is one."""
        if self._own is not None:
            self._reception.take_back(self._own)
            self._own, self._end = None, 0
