"""Averagely by circle: the queues are dealt out like cards.

8 queues, 3 instances:

    a  0 3 6      b  1 4 7      c  2 5
"""

from collections.abc import Sequence

from penstock.client.allocate.strategy import place
from penstock.client.routes import MessageQueue


class AveragelyByCircle:
    name = "AVG_BY_CIRCLE"

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        at = place(group, client_id, queues, client_ids)
        return list(queues[at :: len(client_ids)]) if at >= 0 else []
