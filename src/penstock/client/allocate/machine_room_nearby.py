"""Machine room nearby: a room's queues are read by the instances in that room; those of a room without any, by all.

What "shared" means is another strategy's business, here averagely. Brokers hz@a, sh@b, bj@c with 2 queues each;
instances hz@1, hz@2, sh@3:

    hz@1  hz@a 0, bj@c 0      hz@2  hz@a 1, bj@c 1      sh@3  sh@b 0 1

hz has two instances, one queue each. sh has one, which gets both. bj has none: its two queues are shared by all three,
of whom the first two get one.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from penstock.client.allocate.strategy import Strategy, place
from penstock.client.routes import MessageQueue, java_order

T = TypeVar("T")


class MachineRoomNearby:
    def __init__(
        self, inner: Strategy, room_of_queue: Callable[[MessageQueue], str], room_of_client: Callable[[str], str]
    ) -> None:
        self._inner, self._room_of_queue, self._room_of_client = inner, room_of_queue, room_of_client

    @property
    def name(self) -> str:
        return f"MACHINE_ROOM_NEARBY-{self._inner.name}"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        if place(group, client_id, queues, client_ids) < 0:
            return []
        queues_in = _by_room(queues, self._room_of_queue)
        clients_in = _by_room(client_ids, self._room_of_client)
        own = self._room_of_client(client_id)
        share: list[MessageQueue] = []
        if own in queues_in:
            share += self._inner.allocate(group, client_id, queues_in[own], clients_in[own])
        for room in sorted(queues_in.keys() - clients_in.keys(), key=java_order):
            share += self._inner.allocate(group, client_id, queues_in[room], client_ids)
        return share


def _by_room(things: Iterable[T], room_of: Callable[[T], str]) -> dict[str, list[T]]:
    found: dict[str, list[T]] = {}
    for thing in things:
        room = room_of(thing)
        if not room:
            raise ValueError(f"{thing} is in no machine room: the resolver has to name one")
        found.setdefault(room, []).append(thing)
    return found
