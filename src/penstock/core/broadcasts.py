"""Which groups broadcast, and who was in them: remembered while they are away, also over a restart.

The offsets of such a group lie with its instances, so that nothing else in the broker tells of it when nobody of it is
connected. A reset has to know that it is one all the same, and whom it does not reach. Both are in the progress
database. When an instance was heard of is right to the hour.
"""

from penstock.store.progress import Progress

GROUPS_MAX = 20_000  # beyond that, what was heard of longest ago is forgotten
INSTANCES_MAX = 20_000  # of all groups together
CLIENT_ID_CHARS_MAX = 255  # a longer one is not remembered
REFRESH_MS = 3_600_000
AWAY_MS_MAX = 7 * 24 * 3_600_000  # after that, an instance does not count as away but as gone


class Broadcasts:
    def __init__(self, progress: Progress) -> None:
        self._groups = _Seen(progress, "broadcast", GROUPS_MAX)
        self._instances = _Seen(progress, "broadcaster", INSTANCES_MAX)

    def seen(self, group: str, client_id: str, now_ms: int) -> None:
        """An instance is there, and broadcasts."""
        self._groups.put(group, now_ms)
        if len(client_id) <= CLIENT_ID_CHARS_MAX and client_id.isprintable():
            self._instances.put(_key(group, client_id), now_ms)

    def over(self, group: str) -> None:
        """The group shares its messages from now on. Its instances are not asked for any more, and go with time."""
        self._groups.forget(group)

    def __contains__(self, group: str) -> bool:
        return group in self._groups.at_ms

    def instances(self, group: str, now_ms: int) -> list[str]:
        """The ClientIDs of those that were there within a week, whether they are now or not."""
        prefix = _key(group, "")
        found = [(key, at_ms) for key, at_ms in self._instances.at_ms.items() if key.startswith(prefix)]
        return sorted(key.removeprefix(prefix) for key, at_ms in found if now_ms - at_ms <= AWAY_MS_MAX)


class _Seen:
    """When each of some keys was seen, the one that was seen longest ago first; so many of them at most."""

    def __init__(self, progress: Progress, kind: str, keys_max: int) -> None:
        self._progress, self._kind, self._keys_max = progress, kind, keys_max
        found = [(int(value), key) for key, value in progress.all(kind).items()]
        self.at_ms = {key: at_ms for at_ms, key in sorted(found)}

    def put(self, key: str, now_ms: int) -> None:
        if key in self.at_ms and now_ms - self.at_ms[key] < REFRESH_MS:
            return  # heartbeats come twice a minute: not each is worth a write
        self.at_ms.pop(key, None)
        self.at_ms[key] = now_ms
        self._progress.put(self._kind, key, b"%d" % now_ms)
        if len(self.at_ms) > self._keys_max:
            self.forget(next(iter(self.at_ms)))

    def forget(self, key: str) -> None:
        if self.at_ms.pop(key, None) is not None:
            self._progress.put(self._kind, key, None)


def _key(group: str, client_id: str) -> str:
    return f"{group}\t{client_id}"  # names of groups hold no white space
