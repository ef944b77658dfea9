"""Sends. All neighbours of one read are one call to the core; each is answered when they are durable.

What a producer sent is stored as it came. Its answers come in the order of its sends, refusals too: clients count on
it. So the answers of a connection wait in a line (`Receipts`), and a call whose turn has not come keeps its own back.
"""

from collections import deque

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
from penstock.wire.pulsar.commands_pb2 import BaseCommand, ServerError
from penstock.wire.pulsar.entry import ABSENT, NOTHING, PulsarEntry, entry_of
from penstock.wire.pulsar.frame import LENGTHS, SLACK_BYTES, Frame, command, pack
from penstock.wire.pulsar.hot_pb2 import Metadata, Send

log = logs.get(__name__)

SENT_AWAY_MS = 30_000  # what comes in this time from a producer that the broker has closed was on its way before
_UNSIGNED = 2**64 - 1
_SEQUENCE_MAX = 2**63 - 1

_receipt = BaseCommand(type=BaseCommand.SEND_RECEIPT)  # used again and again: making one takes five times as long
_told = _receipt.send_receipt


# A send, and what became of it: the producer and its number, sequence, highest sequence, entry, error. Hot, so a tuple.
Sent = tuple[Producer, int, int, int, Entry | None, PenstockError | None]


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
        call = Call()
        entries: list[Entry] = []
        sends, producers, producer_id, producer = call.sends, connection.producers, -1, None
        for frame in frames:
            body: Send = frame.body
            if body.producer_id != producer_id:  # nearly always all are of one
                producer_id = body.producer_id
                producer = producers.get(producer_id)
            if producer is None or producer.state is not State.READY:
                if self._is_expected(producer_id, connection):
                    continue
                log.warning("a connection was closed: it sends without a producer", address=connection.address)
                connection.abort()
                break
            sequence, highest = body.sequence_id, body.highest_sequence_id
            try:
                entry = self._entry(body, frame.payload, producer)
            except PenstockError as error:
                sends.append((producer, producer_id, sequence, highest, None, error))
            else:
                sends.append((producer, producer_id, sequence, highest, entry, None))
                entries.append(entry)
        if sends:
            self._publish(call, entries, connection)

    def _is_expected(self, producer_id: int, connection: Connection) -> bool:
        at_ms = connection.sent_away.get(producer_id)
        return at_ms is not None and self._clock.monotonic_ms() - at_ms < SENT_AWAY_MS

    def _entry(self, body: Send, payload: memoryview, producer: Producer) -> PulsarEntry:
        if body.txnid_most_bits != ABSENT or body.message_id != NOTHING:
            raise Refused(ServerError.NotAllowedError, "transactions and copies of other clusters are not served")
        entry, metadata = entry_of(producer.queue, payload, body.num_messages)
        if entry.length > self._bytes_max:
            raise MessageTooLarge(entry.length, self._bytes_max)
        if producer.bytes_max or producer.delay_ms_max:
            check_limits(entry, producer, metadata)
        if producer.number:
            number(entry, producer, max(body.sequence_id, body.highest_sequence_id), metadata)
        return entry

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


def check_limits(entry: PulsarEntry, producer: Producer, metadata: Metadata) -> None:
    """What policies say of a topic's messages."""
    if producer.bytes_max and entry.length > producer.bytes_max:
        raise MessageTooLarge(entry.length, producer.bytes_max)
    delay_ms = metadata.deliver_at_time - metadata.publish_time
    if 0 < producer.delay_ms_max < delay_ms and metadata.deliver_at_time > 0:
        why = f"Exceeds max allowed delivery delay of {producer.delay_ms_max} milliseconds"
        raise Refused(ServerError.NotAllowedError, why)


def number(entry: PulsarEntry, producer: Producer, sequence: int, metadata: Metadata) -> None:
    """Have an entry stored once. Of a message in chunks only the last has the number: the others have the same."""
    if sequence > _SEQUENCE_MAX:
        raise Refused(ServerError.NotAllowedError, f"a sequence id of {sequence} is too large to be remembered")
    if metadata.chunk_id >= metadata.num_chunks_from_msg - 1:
        entry.producer, entry.sequence = producer.number, sequence


def count_sent(traffic: Traffic, sends: list[Sent]) -> None:
    """Hot: nearly always all of a call come from one producer, and are counted together."""
    last: Producer | None = None
    messages = size_bytes = 0
    for producer, _, _, _, entry, _ in sends:
        if producer is not last:
            if last is not None and messages:
                traffic.sent(last.name, last.topic, messages, size_bytes)
            last, messages, size_bytes = producer, 0, 0
        if entry is not None and entry.offset >= 0:
            messages += entry.count
            size_bytes += entry.length
    if last is not None and messages:
        traffic.sent(last.name, last.topic, messages, size_bytes)


# --- answers ----------------------------------------------------------------------------------------------------------


def answers(call: Call) -> list[bytes]:
    """What those who sent are told, in final form. A message that was there before has no place: -1 in both numbers."""
    packed: list[bytes] = []
    told, where, make, lengths, add = _told, _told.message_id, _receipt.SerializeToString, LENGTHS.pack, packed.append
    last_id = last_highest = last_ledger = -1  # what neighbours share is set once
    for _, producer_id, sequence, highest, entry, error in call.sends:
        if entry is None or call.error is not None:
            add(refusal(producer_id, max(sequence, highest), error or call.error))
            continue
        ledger, row = (entry.queue, entry.row) if entry.row >= 0 else (_UNSIGNED, _UNSIGNED)
        if producer_id != last_id or highest != last_highest or ledger != last_ledger:
            told.producer_id, told.highest_sequence_id, where.ledgerId = producer_id, highest, ledger
            last_id, last_highest, last_ledger = producer_id, highest, ledger
        told.sequence_id = sequence
        where.entryId = row
        made = make()
        size_bytes = len(made)
        add(lengths(4 + size_bytes, size_bytes))
        add(made)
    return packed


def refusal(producer_id: int, sequence: int, error: Exception | None) -> bytes:
    code = code_of(error) if error is not None else ServerError.UnknownError
    body = pb.CommandSendError(producer_id=producer_id, sequence_id=sequence, error=code, message=str(error))
    return pack(command(BaseCommand.SEND_ERROR, body))
