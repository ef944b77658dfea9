"""Where a consumer is, and where it wants to be: SEEK, GET_LAST_MESSAGE_ID, CONSUMER_STATS.

A seek sends the subscription's consumers away, moves the cursor, and then succeeds: clients subscribe again by
themselves, and a subscription that is not durable lives through that.
"""

from datetime import UTC, datetime

from penstock.core.compaction import Compaction
from penstock.core.fetch import Fetcher
from penstock.core.subscriptions.registry import Attached, Subscriptions
from penstock.core.views import View, found_in
from penstock.gateway.pulsar.connection import Connection
from penstock.gateway.pulsar.consumer import Consumer
from penstock.gateway.pulsar.consumers import ConsumerDesk, found, succeed
from penstock.gateway.pulsar.foreign import as_entry
from penstock.gateway.pulsar.positions import sought_row
from penstock.gateway.pulsar.routes import Refused, Route, Routes
from penstock.model import Action
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.commands_pb2 import BaseCommand, ServerError
from penstock.wire.pulsar.entry import metadata_in

_NONE = 2**64 - 1


class Seek:
    def __init__(
        self, desk: ConsumerDesk, subscriptions: Subscriptions, compaction: Compaction, fetcher: Fetcher
    ) -> None:
        self._desk, self._subscriptions, self._compaction, self._fetcher = desk, subscriptions, compaction, fetcher

    def routes(self) -> Routes:
        return {
            BaseCommand.SEEK: Route(self.seek, Action.CONSUME, ""),
            BaseCommand.GET_LAST_MESSAGE_ID: Route(self.last, Action.CONSUME, ""),
            BaseCommand.CONSUMER_STATS: Route(self.stats, Action.CONSUME, "", refuse=no_stats),
        }

    def seek(self, asked: pb.CommandSeek, connection: Connection) -> None:
        consumer = found(connection, asked.consumer_id)
        attached = _attached(consumer)
        if asked.HasField("message_id"):
            row = sought_row(asked.message_id, attached.queue, self._fetcher, consumer.asked.read_compacted)
        elif asked.HasField("message_publish_time"):
            row = self._fetcher.row_at_time(attached.queue, asked.message_publish_time)
        else:
            raise Refused(ServerError.MetadataError, "a seek names a message or a time")
        self.move(attached, row)
        succeed(connection, asked.request_id)

    def move(self, attached: Attached, row: int) -> None:
        """Its consumers are sent away and go on at a row when they are back."""
        consumers = list(attached.subscription.consumers.values())
        self._desk.send_away(attached)
        attached.subscription.seek(row)
        self._subscriptions.touch(attached)
        for consumer in consumers:
            if isinstance(consumer, Consumer) and not attached.durable:
                consumer.connection.sought[attached.subscription.name] = attached

    def lost(self, connection: Connection) -> None:
        """Who has sought and not come back leaves nothing behind."""
        for attached in connection.sought.values():
            if not attached.subscription.consumers:
                self._subscriptions.drop(attached)
        connection.sought.clear()

    # --- the last message ---------------------------------------------------------------------------------------------

    def last(self, asked: pb.CommandGetLastMessageId, connection: Connection) -> None:
        consumer = found(connection, asked.consumer_id)
        connection.spawn(self._tell_last(asked.request_id, consumer, _attached(consumer), connection))

    async def _tell_last(self, request_id: int, consumer: Consumer, attached: Attached, connection: Connection) -> None:
        last = pb.MessageIdData(ledgerId=_NONE, entryId=_NONE, partition=consumer.partition, batch_index=-1)
        row, index = await self._last_of(attached.queue, consumer.asked.read_compacted)
        if row >= 0:
            last.ledgerId, last.entryId, last.batch_index = attached.queue, row, index
        mark = attached.subscription.cursor.mark
        done = pb.MessageIdData(ledgerId=attached.queue, entryId=mark - 1 if mark else _NONE)
        answer = pb.CommandGetLastMessageIdResponse(
            last_message_id=last, request_id=request_id, consumer_mark_delete_position=done
        )
        connection.send(BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE, answer)

    async def _last_of(self, queue: int, compacted: bool) -> tuple[int, int]:
        """The row of the last message, and its index in a batch: -1 where there is none. Who reads compacted never gets
        what the view has left out.
        """
        first, behind = self._fetcher.rows(queue)
        view = self._compaction.view(queue) if compacted else None
        if view is not None and view.horizon >= behind:
            return await self._last_compacted(view)
        if behind <= first:
            return -1, -1
        batch = await self._fetcher.fetch_rows(queue, behind - 1, 1, 1)
        return behind - 1, last_index(as_entry(batch.payloads[0])) if batch.payloads else -1

    async def _last_compacted(self, view: View) -> tuple[int, int]:
        first, behind = self._fetcher.rows(view.queue)
        batch = await self._fetcher.fetch_rows(view.queue, behind - 1, 1, 1) if behind > first else None
        if batch is None or not batch.payloads:
            return -1, -1
        last = found_in(batch.payloads[0], 1)
        return last.row, last_index(last.payload) if last.living is None else last.living.bit_length() - 1

    # --- figures ------------------------------------------------------------------------------------------------------

    def stats(self, asked: pb.CommandConsumerStats, connection: Connection) -> None:
        consumer = found(connection, asked.consumer_id)
        attached, seat = _attached(consumer), consumer.seat
        _, behind = self._fetcher.rows(attached.queue)
        answer = pb.CommandConsumerStatsResponse(
            request_id=asked.request_id,
            consumerName=consumer.asked.consumer_name,
            availablePermits=max(0, seat.permits),
            unackedMessages=seat.unacked,
            blockedConsumerOnUnackedMsgs=seat.blocked,
            address=connection.address,
            connectedSince=datetime.fromtimestamp(consumer.since_ms / 1000, UTC).isoformat(),
            type=attached.subscription.style.kind,
            msgBacklog=attached.subscription.backlog(behind),
        )
        connection.send(BaseCommand.CONSUMER_STATS_RESPONSE, answer)


def _attached(consumer: Consumer) -> Attached:
    if consumer.attached is None:
        raise Refused(ServerError.MetadataError, "Consumer not found")
    return consumer.attached


def last_index(payload: memoryview) -> int:
    metadata, _ = metadata_in(payload, check=False)
    return metadata.num_messages_in_batch - 1 if metadata.HasField("num_messages_in_batch") else -1


def no_stats(asked: pb.CommandConsumerStats, connection: Connection, code: ServerError, why: str) -> None:
    answer = pb.CommandConsumerStatsResponse(
        request_id=asked.request_id, error_code=ServerError.ConsumerNotFound, error_message=why
    )
    connection.send(BaseCommand.CONSUMER_STATS_RESPONSE, answer)
