"""A consumer as dispatch sees it: what it has asked for, what it has in hand, and whether it is held back.

Permits count messages and belong to the consumer. An entry goes out only while there are more than none, and takes as
many as it has messages, so the account may go below zero by one entry at most: a small receiver queue is not starved by
large batches. With too many messages unacknowledged the consumer is blocked; permits that come meanwhile are kept aside
and count once half of them are settled.
"""

import msgspec


class Offer(msgspec.Struct, gc=False):
    """An entry that could go out."""

    row: int
    messages: int  # that are not acknowledged
    payload: memoryview = memoryview(b"")
    slot: int = 0  # of its key
    chunk: str = ""  # the message that it is a part of
    is_last_chunk: bool = False
    due_ms: int = 0
    living: int | None = None  # a bit for each of its messages that is to be had; None: all


class Seat(msgspec.Struct):
    """A consumer's account. `number` is its own within the subscription, in the order of joining."""

    number: int
    name: str = ""
    priority: int = 0  # the smaller, the sooner it is served
    unacked_max: int = 0  # 0: any number
    permits: int = 0
    kept_permits: int = 0  # that came while it was blocked
    unacked: int = 0
    blocked: bool = False
    compacted: bool = False  # it reads of each key the last message, where that is known
    open: bool = True  # whether its connection takes more at the moment

    @property
    def available(self) -> bool:
        return self.permits > 0 and self.open and not self.blocked

    def limit(self, unacked_max: int) -> None:
        """Another limit from now on."""
        self.unacked_max = unacked_max
        if self.blocked and (not unacked_max or self.unacked < unacked_max):
            self._unblock()

    def flow(self, permits: int) -> None:
        """The consumer has room for more."""
        if self.blocked:
            self.kept_permits += permits
        else:
            self.permits += permits

    def take(self, messages: int) -> None:
        """An entry goes out."""
        self.permits -= messages
        self.unacked += messages
        if self.unacked_max and self.unacked >= self.unacked_max:
            self.blocked = True

    def settle(self, messages: int) -> bool:
        """Messages were acknowledged, or go back. Whether that has unblocked it."""
        self.unacked -= messages
        if not self.blocked or self.unacked > self.unacked_max // 2:
            return False
        self._unblock()
        return True

    def _unblock(self) -> None:
        self.blocked = False
        self.permits += self.kept_permits
        self.kept_permits = 0
