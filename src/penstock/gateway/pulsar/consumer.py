"""A consumer of a connection: what it is pushed becomes MESSAGE frames.

A message's id is the queue's number and the row in its table. The payload goes out as it came in. Hot: the command is
made once and filled in anew, and all entries of one turn leave with one write.
"""

import enum
from collections.abc import Iterator

from penstock.core.subscriptions.registry import Attached
from penstock.core.subscriptions.seats import Seat
from penstock.core.subscriptions.subscription import Delivery, Kind
from penstock.gateway.pulsar.connection import Connection
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.commands_pb2 import BaseCommand
from penstock.wire.pulsar.frame import LENGTHS

END_OF_TOPIC_VERSION = 9  # of the protocol, from which on clients know that a topic can end ...
NOT_TOLD_OF_END = ("Pulsar-CPP-v", "Pulsar-Go-")  # ... but for these, which drop the connection when they hear of it
ACTIVE_CONSUMER_VERSION = 12  # of the protocol, from which on clients are told who is active
_WORD = (1 << 64) - 1

_command = BaseCommand(type=BaseCommand.MESSAGE)
_told = _command.message


class State(enum.Enum):
    OPENING = "opening"
    READY = "ready"
    CLOSED = "closed"


class Consumer:
    """`seat` is its account in the subscription. `epoch` numbers what it has asked to be sent again.

    Whether it is active it is told once it listens: some clients (Go's) know it only after they have taken in that they
    have subscribed, and pass over what they are told before. They have when they ask for messages.
    """

    __slots__ = (
        "_active",
        "_is_listening",
        "asked",
        "attached",
        "connection",
        "epoch",
        "error",
        "finished",
        "partition",
        "queue",
        "retried",
        "seat",
        "since_ms",
        "state",
    )

    def __init__(self, asked: pb.CommandSubscribe, connection: Connection, partition: int, since_ms: int) -> None:
        self.asked, self.connection, self.partition, self.since_ms = asked, connection, partition, since_ms
        self.state = State.OPENING
        self.retried = False  # the client has asked again while it was being opened
        self.error: Exception | None = None  # why it could not be opened, for whoever asks again
        self.attached: Attached | None = None
        self.seat = Seat(0)
        self.finished = False  # it was told that the topic has ended
        self.queue = 0
        self.epoch = asked.consumer_epoch if asked.HasField("consumer_epoch") else 0
        self._active: bool | None = None
        self._is_listening = False

    @property
    def id(self) -> int:
        return self.asked.consumer_id

    # --- what its subscription calls ----------------------------------------------------------------------------------

    def deliver(self, deliveries: list[Delivery]) -> None:
        frames: list[bytes | memoryview] = []
        _told.consumer_id = self.asked.consumer_id
        where = _told.message_id
        where.ledgerId, where.partition = self.queue, self.partition
        if self.epoch:
            _told.consumer_epoch = self.epoch
        make, lengths = _command.SerializeToString, LENGTHS.pack
        _told.redelivery_count = last = 0
        for row, payload, redeliveries, left in deliveries:
            where.entryId = row
            if redeliveries != last:
                _told.redelivery_count = last = redeliveries
            if left is not None:
                _told.ack_set.extend(words_of(left))
            head = make()
            head_bytes = len(head)
            frames += lengths(4 + head_bytes + len(payload), head_bytes), head, payload
            if left is not None:
                _told.ClearField("ack_set")
        _told.ClearField("consumer_epoch")
        self.connection.write_all(frames)

    def activate(self, active: bool) -> None:
        self._active = active
        if self._is_listening:
            self._tell_active()

    def listen(self) -> None:
        """It is told from now on whether it is active."""
        if not self._is_listening:
            self._is_listening = True
            self._tell_active()

    def _tell_active(self) -> None:
        if self._active is None or self.attached is None or self.state is not State.READY:
            return
        is_failover = self.attached.subscription.style.kind == Kind.FAILOVER
        if is_failover and self.connection.version >= ACTIVE_CONSUMER_VERSION:
            change = pb.CommandActiveConsumerChange(consumer_id=self.id, is_active=self._active)
            self.connection.send(BaseCommand.ACTIVE_CONSUMER_CHANGE, change)

    def finish(self) -> None:
        connection = self.connection
        if self.finished or connection.version < END_OF_TOPIC_VERSION or connection.client.startswith(NOT_TOLD_OF_END):
            return
        self.finished = True
        connection.send(BaseCommand.REACHED_END_OF_TOPIC, pb.CommandReachedEndOfTopic(consumer_id=self.id))

    # --- what its connection calls ------------------------------------------------------------------------------------

    def set_open(self, is_open: bool) -> None:
        """Whether the connection takes more at the moment."""
        self.seat.open = is_open
        if is_open and self.attached is not None:
            self.attached.subscription.opened()
            self.attached.feeder.wake()


def words_of(bits: int) -> Iterator[int]:
    """Bits as signed words of 64, the lowest first, as the protocol has them."""
    while bits:
        word = bits & _WORD
        yield word - (1 << 64) if word >> 63 else word
        bits >>= 64


def bits_of(words: list[int]) -> int:
    """The opposite."""
    return sum((word & _WORD) << 64 * at for at, word in enumerate(words))
