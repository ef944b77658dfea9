"""What of a scanned log counts: whole groups, and everything up to its end.

Three decisions, in this order:
- a group of which a part is missing or damaged never happened, unless it lies below what was synced: then it had been
  committed, and its intact entries are kept;
- unsound things count as damage when something sound follows, or below what was synced; else they are the torn tail;
- the log ends behind the last thing that counts, and never below what was synced.
"""

from collections.abc import Iterable, Iterator
from itertools import pairwise

from penstock.store.layout import GROUP, GROUP_FIRST, GROUP_LAST
from penstock.store.plan import Damage
from penstock.store.scan import Found, scan
from penstock.store.segments import Segments

Item = Found | Damage


class Walk:
    """Iterate once; then `end` is where the log ends and `dropped` are the entries of groups that never happened."""

    def __init__(self, segments: Segments, start: int, floor: int) -> None:
        self._segments, self._start, self._floor = segments, start, floor
        self.end = start
        self.dropped: list[Found] = []

    def __iter__(self) -> Iterator[Item]:
        doubtful: list[Item] = []
        for item in self._whole_groups(scan(self._segments, self._start)):
            if isinstance(item, Found) and item.sound:
                yield from doubtful
                doubtful.clear()
                self.end = item.end
                yield item
            else:
                doubtful.append(item)
        for item in doubtful:
            if item.position < self._floor:
                self.end = max(self.end, _end(item))
                yield item
        if self.end < self._floor and (self._floor - 1) // self._segments.segment_bytes in self._segments.numbers:
            yield Damage(self.end, self._floor - self.end, "synced, but not there any more")
            self.end = self._floor

    def _whole_groups(self, items: Iterable[Item]) -> Iterator[Item]:
        group: list[Item] = []
        for item in items:
            if isinstance(item, Damage):
                if group:
                    group.append(item)
                else:
                    yield item
                continue
            flags = item.header.flags
            if group and (not flags & GROUP or flags & GROUP_FIRST):
                yield from self._judge(group)  # its last entry is missing
                group = []
            if not flags & GROUP:
                yield item
                continue
            group.append(item)
            if flags & GROUP_LAST:
                yield from self._judge(group)
                group = []
        yield from self._judge(group)

    def _judge(self, group: list[Item]) -> Iterator[Item]:
        if not group or group[0].position < self._floor or self._is_whole(group):
            yield from group
            return
        for item in group:
            if isinstance(item, Found):
                self.dropped.append(item)
            else:
                yield item

    def _is_whole(self, group: list[Item]) -> bool:
        found = [item for item in group if isinstance(item, Found) and item.sound]
        if len(found) < len(group) or not all(self._touch(one, next_one) for one, next_one in pairwise(found)):
            return False
        return bool(found[0].header.flags & GROUP_FIRST) and bool(found[-1].header.flags & GROUP_LAST)

    def _touch(self, one: Found, other: Found) -> bool:
        """Whether nothing can have been between them: a whole segment may be missing."""
        number = one.position // self._segments.segment_bytes
        return other.position in (one.end, self._segments.first_position(number + 1))


def _end(item: Item) -> int:
    return item.end if isinstance(item, Found) else item.position + item.length
