"""Sends. All neighbours of one read are one call to the core; each is answered when they are durable.

What a producer sent is stored as it came. Its answers come in the order of its sends, refusals too: clients count on
it. So the answers of a connection wait in a line (`Receipts`), and a call whose turn has not come keeps its own back.
"""

from collections import deque
from typing import NamedTuple

from penstock import logs
from penstock.clock import Clock
from penstock.config import PulsarConfig
from penstock.core.publish import Publisher
from penstock.core.traffic import Traffic
from penstock.errors import MessageTooLarge, PenstockError
from penstock.gateway.pulsar.connection import Connection
from penstock.gateway.pulsar.producers import Producer, State
from penstock.gateway.pulsar.routes import Refused, Route, Routes, code_of
from penstock.model import Action, Entry
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.commands_pb2 import BaseCommand, MessageMetadata, ServerError
from penstock.wire.pulsar.entry import PulsarEntry, entry_of
from penstock.wire.pulsar.frame import SLACK_BYTES, Frame, command, pack

log = logs.get(__name__)

SENT_AWAY_MS = 30_000  # what comes in this time from a producer that the broker has closed was on its way before
_UNSIGNED = 2**64 - 1
_SEQUENCE_MAX = 2**63 - 1

_receipt = BaseCommand(type=BaseCommand.SEND_RECEIPT)  # used again and again: making one takes five times as long
_told = _receipt.send_receipt


class Sent(NamedTuple):
    """A send, and what became of it."""

    producer: Producer
    producer_id: int
    sequence: int
    highest: int
    entry: Entry | None
    error: PenstockError | None


class Call:
    """The sends of one read, which are stored together."""

    __slots__ = ("done", "error", "sends")

    def __init__(self) -> None:
        self.sends: list[Sent] = []
        self.done = False
        self.error: Exception | None = None


class Receipts:
    """The calls of one connection whose answers have not left, in order."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._calls: deque[Call] = deque()

    def add(self, call: Call) -> None:
        self._calls.append(call)
        self._connection.under_way += len(call.sends)

    def settle(self, call: Call, error: Exception | None) -> None:
        """Its fate is known: answer it, if all before it are answered, and those behind it whose fate is known."""
        call.done, call.error = True, error
        calls, connection = self._calls, self._connection
        while calls and calls[0].done:
            first = calls.popleft()
            connection.under_way -= len(first.sends)
            connection.write_all(answers(first))
        connection.balance()


class Produce:
    def __init__(self, publisher: Publisher, traffic: Traffic, clock: Clock, config: PulsarConfig) -> None:
        self._publisher, self._traffic, self._clock = publisher, traffic, clock
        self._bytes_max = config.message_bytes_max + SLACK_BYTES

    def routes(self) -> Routes:
        return {BaseCommand.SEND: Route(None, Action.PRODUCE, "", self.send)}

    def send(self, frames: list[Frame], connection: Connection) -> None:
        """Store the messages of these sends. Who may write was asked when the producers were opened."""
        call, entries = Call(), list[Entry]()
        for frame in frames:
            body = frame.body
            producer = connection.producers.get(body.producer_id)
            if producer is None or producer.state is not State.READY:
                if self._is_expected(body.producer_id, connection):
                    continue
                log.warning("a connection was closed: it sends without a producer", address=connection.address)
                connection.abort()
                break
            call.sends.append(sent := self._sent(frame, producer))
            if sent.entry is not None:
                entries.append(sent.entry)
        if call.sends:
            self._publish(call, entries, connection)

    def _is_expected(self, producer_id: int, connection: Connection) -> bool:
        at_ms = connection.sent_away.get(producer_id)
        return at_ms is not None and self._clock.monotonic_ms() - at_ms < SENT_AWAY_MS

    def _sent(self, frame: Frame, producer: Producer) -> Sent:
        body = frame.body
        sequence, highest = body.sequence_id, body.highest_sequence_id
        try:
            if body.HasField("txnid_most_bits") or body.HasField("message_id"):
                raise Refused(ServerError.NotAllowedError, "transactions and copies of other clusters are not served")
            entry, metadata = entry_of(producer.queue, frame.payload, body.num_messages)
            if entry.length > self._bytes_max:
                raise MessageTooLarge(entry.length, self._bytes_max)
            if producer.bytes_max or producer.delay_ms_max:
                check_limits(entry, producer, metadata)
            if producer.number:
                number(entry, producer, max(sequence, highest), metadata)
        except PenstockError as error:
            return Sent(producer, body.producer_id, sequence, highest, None, error)
        return Sent(producer, body.producer_id, sequence, highest, entry, None)

    def _publish(self, call: Call, entries: list[Entry], connection: Connection) -> None:
        receipts = connection.receipts
        if receipts is None:
            receipts = connection.receipts = Receipts(connection)
        receipts.add(call)

        def done(error: Exception | None) -> None:
            receipts.settle(call, error)
            if error is None:
                count_sent(self._traffic, call.sends)

        try:
            self._publisher.publish(entries, done, self._bytes_max)
        except PenstockError as error:
            receipts.settle(call, error)


def check_limits(entry: PulsarEntry, producer: Producer, metadata: MessageMetadata) -> None:
    """What policies say of a topic's messages."""
    if producer.bytes_max and entry.length > producer.bytes_max:
        raise MessageTooLarge(entry.length, producer.bytes_max)
    delay_ms = metadata.deliver_at_time - metadata.publish_time
    if 0 < producer.delay_ms_max < delay_ms and metadata.deliver_at_time > 0:
        why = f"Exceeds max allowed delivery delay of {producer.delay_ms_max} milliseconds"
        raise Refused(ServerError.NotAllowedError, why)


def number(entry: PulsarEntry, producer: Producer, sequence: int, metadata: MessageMetadata) -> None:
    """Have an entry stored once. Of a message in chunks only the last has the number: the others have the same."""
    if sequence > _SEQUENCE_MAX:
        raise Refused(ServerError.NotAllowedError, f"a sequence id of {sequence} is too large to be remembered")
    if metadata.chunk_id >= metadata.num_chunks_from_msg - 1:
        entry.producer, entry.sequence = producer.number, sequence


def count_sent(traffic: Traffic, sends: list[Sent]) -> None:
    """Hot: nearly always all of a call come from one producer, and are counted together."""
    last: Producer | None = None
    messages = size_bytes = 0
    for sent in sends:
        if sent.producer is not last:
            if last is not None and messages:
                traffic.sent(last.name, last.topic, messages, size_bytes)
            last, messages, size_bytes = sent.producer, 0, 0
        entry = sent.entry
        if entry is not None and entry.offset >= 0:
            messages += entry.count
            size_bytes += entry.length
    if last is not None and messages:
        traffic.sent(last.name, last.topic, messages, size_bytes)


# --- answers ----------------------------------------------------------------------------------------------------------


def answers(call: Call) -> list[bytes]:
    """What those who sent are told, in final form. A message that was there before has no place: -1 in both numbers."""
    packed: list[bytes] = []
    where = _told.message_id
    for _, producer_id, sequence, highest, entry, error in call.sends:
        if entry is None or call.error is not None:
            packed.append(refusal(producer_id, max(sequence, highest), error or call.error))
            continue
        _told.producer_id, _told.sequence_id, _told.highest_sequence_id = producer_id, sequence, highest
        row = entry.row
        where.ledgerId, where.entryId = (entry.queue, row) if row >= 0 else (_UNSIGNED, _UNSIGNED)
        packed.append(pack(_receipt))
    return packed


def refusal(producer_id: int, sequence: int, error: Exception | None) -> bytes:
    code = code_of(error) if error is not None else ServerError.UnknownError
    body = pb.CommandSendError(producer_id=producer_id, sequence_id=sequence, error=code, message=str(error))
    return pack(command(BaseCommand.SEND_ERROR, body))
