"""What consumers say while they consume: FLOW, ACK, REDELIVER_UNACKNOWLEDGED_MESSAGES.

None of these is about a request that could fail: what names no consumer or no message is passed over, since clients
send acknowledgements after they have closed. Only an acknowledgement with a request id is answered; the answer promises
what is kept with the next second, as any acknowledgement.
"""

from penstock.core.fetch import Fetcher
from penstock.core.subscriptions.registry import Attached, Subscriptions
from penstock.gateway.pulsar.connection import Connection
from penstock.gateway.pulsar.consumer import Consumer, State, bits_of
from penstock.gateway.pulsar.routes import Route, Routes
from penstock.model import Action
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.commands_pb2 import BaseCommand, ServerError
from penstock.wire.pulsar.frame import Frame

PERMITS_MAX = 1 << 31  # no account goes above
PROPERTIES_MAX = 100
_Cumulative = pb.CommandAck.Cumulative


class Consume:
    def __init__(self, subscriptions: Subscriptions, fetcher: Fetcher) -> None:
        self._subscriptions, self._fetcher = subscriptions, fetcher

    def routes(self) -> Routes:
        return {
            BaseCommand.FLOW: Route(self.flow, Action.CONSUME, ""),
            BaseCommand.ACK: Route(None, Action.CONSUME, "", self.ack),
            BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES: Route(self.redeliver, Action.CONSUME, ""),
        }

    def flow(self, asked: pb.CommandFlow, connection: Connection) -> None:
        consumer = ready(connection, asked.consumer_id)
        if consumer is None or consumer.attached is None:
            return
        if asked.messagePermits == 0:
            connection.violate("a flow of no permits")
            return
        consumer.listen()
        room = PERMITS_MAX - consumer.seat.permits - consumer.seat.kept_permits
        consumer.attached.subscription.flow(consumer, min(asked.messagePermits, room))
        consumer.attached.feeder.wake()

    # --- acknowledgements ---------------------------------------------------------------------------------------------

    def ack(self, frames: list[Frame], connection: Connection) -> None:
        touched: dict[int, Attached] = {}
        for frame in frames:
            asked = frame.body
            consumer = ready(connection, asked.consumer_id)
            error = None
            if asked.HasField("txnid_most_bits"):
                error = "Transactions are not enabled."
            elif consumer is not None and consumer.attached is not None:
                self._acked(asked, consumer, consumer.attached)
                touched[id(consumer.attached)] = consumer.attached
            if asked.HasField("request_id"):
                answer(asked, connection, error)
        for attached in touched.values():
            self._subscriptions.touch(attached)
            attached.feeder.wake()

    def _acked(self, asked: pb.CommandAck, consumer: Consumer, attached: Attached) -> None:
        subscription, queue = attached.subscription, consumer.queue
        _, behind = self._fetcher.rows(queue)
        cumulative = asked.ack_type == _Cumulative
        if cumulative and not subscription.is_single:
            return
        whole: list[int] = []
        for id in asked.message_id:
            row = id.entryId
            if id.ledgerId != queue or row >= behind:
                continue
            if cumulative:
                subscription.ack_until(row if id.ack_set else row + 1)
            if id.ack_set:
                subscription.ack_part(row, bits_of(id.ack_set), self._fetcher.messages_in(queue, row))
            elif not cumulative:
                whole.append(row)
        if whole:
            subscription.ack_rows(whole)
        properties = subscription.cursor.properties
        for pair in asked.properties:
            if pair.key in properties or len(properties) < PROPERTIES_MAX:
                properties[pair.key] = pair.value

    # --- what comes back ----------------------------------------------------------------------------------------------

    def redeliver(self, asked: pb.CommandRedeliverUnacknowledgedMessages, connection: Connection) -> None:
        consumer = ready(connection, asked.consumer_id)
        if consumer is None or consumer.attached is None:
            return
        subscription = consumer.attached.subscription
        if subscription.is_single and asked.HasField("consumer_epoch"):
            consumer.epoch = max(consumer.epoch, asked.consumer_epoch)
        rows = [id.entryId for id in asked.message_ids if id.ledgerId == consumer.queue]
        if rows or not asked.message_ids:
            subscription.redeliver(consumer, rows or None)
        consumer.attached.feeder.wake()


def ready(connection: Connection, consumer_id: int) -> Consumer | None:
    consumer = connection.consumers.get(consumer_id)
    return consumer if consumer is not None and consumer.state is State.READY else None


def answer(asked: pb.CommandAck, connection: Connection, error: str | None) -> None:
    body = pb.CommandAckResponse(consumer_id=asked.consumer_id, request_id=asked.request_id)
    if error is not None:
        body.error, body.message = ServerError.NotAllowedError, error
    connection.send(BaseCommand.ACK_RESPONSE, body)
