"""What a strategy is, and what all of them ask of their arguments."""

from collections.abc import Sequence
from typing import Protocol

from penstock import logs
from penstock.client.routes import MessageQueue

log = logs.get(__name__)


class Strategy(Protocol):
    """Queues and ClientIDs come in the order of `routes.in_order` and `routes.ids_in_order`. A ClientID stands in the
    list once per connection: two instances with one ClientID both find its first place, and take the same share.
    """

    @property
    def name(self) -> str:
        """RocketMQ's name for it."""
        ...

    def allocate(
        self, group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        """The share of one instance of a group."""
        ...


def place(group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> int:
    """Where an instance stands in the list; -1, and a line in the log, when it does not. ValueError when an argument is
    empty: it says which, by the name that Java's message has.
    """
    if not client_id:
        raise ValueError("currentCID is empty: who has no ClientID has no share")
    if not queues:
        raise ValueError("mqAll is empty: there are no queues to share")
    if not client_ids:
        raise ValueError("cidAll is empty: there is nobody to share the queues")
    if client_id not in client_ids:
        log.warning(
            "[BUG] this ClientID is not in the consumer list of its group, so it gets no queues",
            group=group,
            client_id=client_id,
            listed=", ".join(client_ids),
        )
        return -1
    return client_ids.index(client_id)
