"""By config: an instance reads the queues that it was told to, whatever the lists say.

Told orders/broker-a/0 and orders/broker-a/2:

    a  0 2        whether there are 4 queues or 3, one instance or ten

That every queue is read by exactly one instance is then up to who writes the configuration, also of the group's retry
topic (%RETRY% and its name), which comes again from nowhere else. The arguments are not even looked at, as in Java.
"""

from collections.abc import Sequence

from penstock.client.routes import MessageQueue


class ByConfig:
    name = "CONFIG"

    def __init__(self, queues: Sequence[MessageQueue]) -> None:
        self._queues = list(queues)

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        return list(self._queues)
