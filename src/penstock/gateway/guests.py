"""The connections of one gateway: how many there may be, and how they are asked to leave.

Knows no protocol. A connection enters when it is made and leaves when it is lost; between the two the server can ask
all of them to finish what is under way, wait until the last has left, and cut off those that did not.
"""

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol


class Guest(Protocol):
    """What a connection can be asked."""

    def finish(self) -> None:
        """Answer what is under way, take nothing new, then close."""
        ...

    def abort(self) -> None:
        """Close at once."""
        ...


class Guests:
    def __init__(self, connections_max: int) -> None:
        self._connections_max = connections_max
        self._present: set[Guest] = set()
        self.empty = asyncio.Event()
        self.empty.set()

    def __len__(self) -> int:
        return len(self._present)

    def enter(self, guest: Guest) -> bool:
        """False when the house is full: the connection says so in its protocol, and closes."""
        if len(self._present) >= self._connections_max:
            return False
        self._present.add(guest)
        self.empty.clear()
        return True

    def leave(self, guest: Guest) -> None:
        self._present.discard(guest)
        if not self._present:
            self.empty.set()

    async def see_off(self, patience_ms: int) -> int:
        """Ask all to finish and wait for them; returns how many had to be cut off."""
        for guest in tuple(self._present):
            guest.finish()
        try:
            await asyncio.wait_for(self.empty.wait(), patience_ms / 1000)
        except TimeoutError:
            late = tuple(self._present)
            for guest in late:
                guest.abort()
            return len(late)
        return 0


class Gateway(NamedTuple):
    """What the server needs of a gateway: a protocol for each new connection, and the connections there are."""

    connect: Callable[[], asyncio.BaseProtocol]
    guests: Guests
