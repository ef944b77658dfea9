"""One line per episode: trouble that several queues have at once, or one again and again, is said once, when it begins.

An episode has a key (what is wrong) and lasts as long as any queue is in it. A queue is in one episode at a time.
"""

from penstock.client.routes import MessageQueue

Key = tuple[str, ...]


class Episodes:
    def __init__(self) -> None:
        self._in: dict[MessageQueue, Key] = {}

    def enter(self, key: Key, queue: MessageQueue) -> bool:
        """Whether this is where the episode begins."""
        begins = key not in self._in.values()
        self._in[queue] = key
        return begins

    def leave(self, queue: MessageQueue) -> None:
        self._in.pop(queue, None)
