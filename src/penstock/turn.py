"""Something has happened, a read from a socket or the end of a sync: when all that follows from it has been done, the
answers leave, whosever they are, each connection's with one write.

A message that comes in one read may be what other connections wait for, and a sync is what producers wait for. Were
each connection to send at the next turn of the loop, every message on its own would cost a second turn.
"""

from typing import Protocol

from penstock import logs

log = logs.get(__name__)


class Sender(Protocol):
    def flush(self) -> None:
        """Send what is there."""


class Turn:
    """What all connections share. They belong to one loop, and what happens there does not nest."""

    def __init__(self) -> None:
        self._open = False
        self._senders: list[Sender] = []

    def begin(self) -> None:
        self._open = True

    def joined(self, sender: Sender) -> bool:
        """Flush a connection when this turn ends; False when none has begun."""
        if self._open:
            self._senders.append(sender)
        return self._open

    def end(self) -> None:
        self._open = False
        if self._senders:
            senders, self._senders = self._senders, []
            for sender in senders:
                try:
                    sender.flush()
                except Exception:  # the others wait for theirs
                    log.exception("answers could not be sent")
