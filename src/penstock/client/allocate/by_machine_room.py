"""By machine room: only the queues of some machine rooms are read. A broker's room stands before the @ in its name.

Room hz; 2 instances; broker hz@a with 5 queues, sh@b with 4. Of the 5 in hz each gets 2, and what is left over is
given one by one from the front of the list:

    a  hz@a 0 1 4     b  hz@a 2 3     nobody reads sh@b
"""

from collections.abc import Collection, Sequence

from penstock.client.allocate.strategy import place
from penstock.client.routes import MessageQueue


class ByMachineRoom:
    name = "MACHINE_ROOM"

    def __init__(self, rooms: Collection[str]) -> None:
        self._rooms = frozenset(rooms)

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        at = place(group, client_id, queues, client_ids)
        if at < 0:
            return []
        here = [queue for queue in queues if self._is_here(queue.broker)]
        each, over = divmod(len(here), len(client_ids))
        share = here[at * each : (at + 1) * each]
        if at < over:
            share.append(here[each * len(client_ids) + at])
        return share

    def _is_here(self, broker: str) -> bool:
        """Of a name that has two parts; empty ones at its end do not count, as Java splits."""
        room, at, rest = broker.rstrip("@").partition("@")
        return bool(at) and "@" not in rest and room in self._rooms
