"""The end of a read: when what was asked has been done, all answers leave that came of it, whosever they are.

A message that comes in one read may be what other connections wait for. Were each of them to send at the next turn of
the loop, every message on its own would cost a second turn: as much as a tenth of all that it costs.
"""

from typing import Protocol

from penstock import logs

log = logs.get(__name__)


class Sender(Protocol):
    def flush(self) -> None:
        """Send what is there."""


class Turn:
    """What the connections of one gateway share. They belong to one loop, and reads do not nest."""

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
