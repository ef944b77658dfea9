"""Consistent hash: when an instance comes or goes, only its own queues change hands. Shares are less even for it.

Each instance stands at ten points of a ring, at the hashes of `<ClientID>-0` to `<ClientID>-9`; a queue belongs to the
first point at or behind its own hash. A hash is the first four bytes of an MD5. Instances 192.168.0.1@1, 192.168.0.2@2
and 192.168.0.3@3, queues 0 to 7 of TopicTest on broker-a:

    192.168.0.1@1  0 2 5      192.168.0.2@2  6      192.168.0.3@3  1 3 4 7
"""

import hashlib
from bisect import bisect_left
from collections.abc import Sequence

from penstock.client.allocate.strategy import place
from penstock.client.routes import MessageQueue

VIRTUAL_NODES = 10


class ConsistentHash:
    name = "CONSISTENT_HASH"

    def __init__(self, virtual_nodes: int = VIRTUAL_NODES) -> None:
        if virtual_nodes < 0:
            raise ValueError(f"{virtual_nodes} virtual nodes: there cannot be fewer than none")
        self._virtual_nodes = virtual_nodes

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        if place(group, client_id, queues, client_ids) < 0:
            return []
        ring = self._ring(client_ids)
        points = sorted(ring)
        if not points:
            return []
        owners = (ring[points[bisect_left(points, _hash(_text(queue))) % len(points)]] for queue in queues)
        return [queue for queue, owner in zip(queues, owners, strict=True) if owner == client_id]

    def _ring(self, client_ids: Sequence[str]) -> dict[int, str]:
        """Points of a ClientID that stands in the list again are numbered on, as Java does."""
        ring: dict[int, str] = {}
        seen: set[str] = set()
        for client_id in client_ids:
            already = sum(owner == client_id for owner in ring.values()) if client_id in seen else 0
            seen.add(client_id)
            for number in range(already, already + self._virtual_nodes):
                ring[_hash(f"{client_id}-{number}")] = client_id
        return ring


def _text(queue: MessageQueue) -> str:
    """A queue as Java prints it, which is what Java hashes."""
    return f"MessageQueue [topic={queue.topic}, brokerName={queue.broker}, queueId={queue.queue}]"


def _hash(text: str) -> int:
    digest = hashlib.md5(text.encode("utf-8", "replace"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4], "big")
