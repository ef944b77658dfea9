"""How far groups are: an offset per group, topic and queue, kept in the progress database."""

from penstock import logs
from penstock.core.events import Bus, Event, TopicDeleted
from penstock.store.progress import Progress

__all__ = ["Offsets", "Progress"]

log = logs.get(__name__)

KIND = "offset"


def _key(group: str, topic: str, queue: int) -> str:
    return f"{group}\t{topic}\t{queue}"  # neither names of groups nor of topics hold white space


def _parts(key: str) -> tuple[str, str, int] | None:
    """The opposite; None for a key that nobody reads: whatever lies there, the broker starts."""
    parts = key.split("\t")
    return (parts[0], parts[1], int(parts[2])) if len(parts) == 3 and parts[2].isdecimal() else None


class Offsets:
    def __init__(self, progress: Progress, bus: Bus | None = None) -> None:
        self._progress = progress
        self._offsets: dict[tuple[str, str], dict[int, int]] = {}
        for key, value in progress.all(KIND).items():
            place = _parts(key)
            if place is None:
                log.warning("an offset was left out: it is not clear whose it is", key=key)
                continue
            group, topic, queue = place
            self._offsets.setdefault((group, topic), {})[queue] = int(value)
        if bus is not None:
            bus.listen(self._on_event)

    def _on_event(self, event: Event) -> None:
        """With a topic go its offsets, whoever deletes it."""
        if isinstance(event, TopicDeleted):
            self.forget_topic(event.topic)

    def commit(self, group: str, topic: str, queue: int, offset: int) -> None:
        """A negative offset is what some clients send for "not known": it changes nothing."""
        if offset < 0:
            return
        queues = self._offsets.setdefault((group, topic), {})
        if queues.get(queue) != offset:
            queues[queue] = offset
            self._progress.put(KIND, _key(group, topic, queue), b"%d" % offset)

    def find(self, group: str, topic: str, queue: int) -> int:
        """-1 when there is none."""
        return self._offsets.get((group, topic), {}).get(queue, -1)

    def of(self, group: str, topic: str) -> dict[int, int]:
        return dict(self._offsets.get((group, topic), {}))

    def knows(self, group: str) -> bool:
        """Whether the group has an offset anywhere."""
        return any(name == group for name, _ in self._offsets)

    def pairs(self) -> list[tuple[str, str]]:
        """Groups and topics that have an offset."""
        return list(self._offsets)

    def all_groups(self) -> list[str]:
        return sorted({group for group, _ in self._offsets})

    def topics_of(self, group: str) -> list[str]:
        return sorted(topic for name, topic in self._offsets if name == group)

    def groups_of(self, topic: str) -> list[str]:
        return sorted(group for group, name in self._offsets if name == topic)

    def forget_group(self, group: str) -> None:
        self._forget([key for key in self._offsets if key[0] == group])

    def forget_topic(self, topic: str) -> None:
        self._forget([key for key in self._offsets if key[1] == topic])

    def _forget(self, keys: list[tuple[str, str]]) -> None:
        for group, topic in keys:
            for queue in self._offsets.pop((group, topic)):
                self._progress.put(KIND, _key(group, topic, queue), None)
