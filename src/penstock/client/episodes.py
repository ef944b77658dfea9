"""One line per episode: trouble that several have at once, or one again and again, is said once, when it begins.

`Episodes` tells where one begins: it has a key (what is wrong) and lasts as long as anybody is in it. `Troubles` says
it as well, and says when it is over. That an address does not answer is left to `link.Health`, which says it once,
however many topics, queues and timers run into it.
"""

from collections.abc import Hashable

from penstock.client.errors import NoBroker, Unreachable
from penstock.logs import Log

Key = tuple[str, ...]


class Episodes:
    def __init__(self) -> None:
        self._in: dict[Hashable, Key] = {}

    def enter(self, key: Key, who: Hashable) -> bool:
        """Whether this is where the episode begins. Somebody is in one at a time."""
        begins = key not in self._in.values()
        self._in[who] = key
        return begins

    def of(self, who: Hashable) -> Key:
        """The one that somebody is in; empty when in none."""
        return self._in.get(who, ())

    def leave(self, who: Hashable) -> None:
        self._in.pop(who, None)


def is_outage(error: Exception) -> bool:
    """Whether it is an address that does not answer, and so has been said already."""
    return isinstance(error, Unreachable) and not isinstance(error, NoBroker)


class Troubles:
    """Of those who try again by themselves."""

    def __init__(self, log: Log) -> None:
        self._log, self._in = log, set[Hashable]()

    def met(self, who: Hashable, message: str, error: Exception, **fields: object) -> None:
        """It went wrong: said when `who` was not in trouble before."""
        silent = who in self._in or is_outage(error)
        (self._log.debug if silent else self._log.warning)(message, **fields, error=str(error))
        if not silent:
            self._in.add(who)

    def over(self, who: Hashable, message: str, **fields: object) -> None:
        """It went well: said when the trouble was."""
        if who in self._in:
            self._in.discard(who)
            self._log.info(message, **fields)
