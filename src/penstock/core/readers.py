"""Who reads which queue of a group, as far as a broker can see it.

A connection is at a queue when it asks for its messages, or says how far it is there: a consumer that is busy does not
ask for more, but goes on saying how far it is. Kept in rounds, which `watch` begins: the one that runs, the last one
and the one before. Only members of the group count, and only queues that exist: that bounds what is kept.
"""

import msgspec

from penstock.core.groups import Groups, Line


class Seen(msgspec.Struct):
    """Connections that were at a queue, and the offset that one of them asked for last."""

    now: set[Line] = set()
    last: set[Line] = set()
    earlier: set[Line] = set()
    asked: int = -1

    @property
    def anybody(self) -> bool:
        return bool(self.now or self.last)

    @property
    def steady(self) -> set[Line]:
        """Those that stay. A queue that changes hands has two readers in one round, but not in the next."""
        return self.last & self.earlier

    def turn(self) -> None:
        self.now, self.last, self.earlier = set(), self.now, self.last


NOBODY = Seen()


class Readers:
    def __init__(self, groups: Groups) -> None:
        self._groups = groups
        self._seen: dict[tuple[str, str, int], Seen] = {}

    def at(self, group: str, topic: str, queue: int, line: Line, asked: int = -1) -> None:
        """A connection is at a queue of a topic that has it, and asks for an offset there or not."""
        found = self._groups.find(group)
        if found is None or line not in found.members:
            return
        seen = self._seen.get((group, topic, queue))
        if seen is None:
            seen = self._seen[group, topic, queue] = Seen()
        seen.now.add(line)
        if asked >= 0:
            seen.asked = asked

    def of(self, group: str, topic: str, queue: int) -> Seen:
        return self._seen.get((group, topic, queue), NOBODY)

    def turn(self) -> None:
        """A new round."""
        for key, seen in list(self._seen.items()):
            seen.turn()
            if not seen.anybody and not seen.earlier:
                del self._seen[key]
