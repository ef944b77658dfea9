"""Consumers: SUBSCRIBE, UNSUBSCRIBE and CLOSE_CONSUMER.

A client numbers its consumers on each connection. A number that is used again gets what the first deserves: success
when it is there; "not ready" while it is being opened; and when that failed behind the back of a client that had given
up waiting, the same error, once.

Which subscription it joins, and where that begins, is `subscribing.py`'s.
"""

import asyncio
import itertools

from penstock.clock import Clock
from penstock.config import PulsarConfig
from penstock.core.policies import PolicyBook
from penstock.core.subscriptions.keyed import Range
from penstock.core.subscriptions.registry import Attached, Subscriptions
from penstock.core.subscriptions.seats import Seat
from penstock.core.subscriptions.subscription import Kind, Style
from penstock.core.topics import READ
from penstock.errors import ConsumerBusy, PenstockError, TopicNotFound
from penstock.gateway.pulsar.connection import Connection
from penstock.gateway.pulsar.consumer import Consumer, State
from penstock.gateway.pulsar.places import Place, Places, allow
from penstock.gateway.pulsar.policies import SubscribeRates
from penstock.gateway.pulsar.routes import Refused, Route, Routes, code_of, plain_error, refusal_of
from penstock.gateway.pulsar.schemas import SchemaDesk
from penstock.gateway.pulsar.subscribing import Subscribing, check_name, spot_of
from penstock.model import Action
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.commands_pb2 import BaseCommand, ServerError
from penstock.wire.pulsar.topics import TopicName

KINDS = {
    pb.CommandSubscribe.Exclusive: Kind.EXCLUSIVE,
    pb.CommandSubscribe.Shared: Kind.SHARED,
    pb.CommandSubscribe.Failover: Kind.FAILOVER,
    pb.CommandSubscribe.Key_Shared: Kind.KEY_SHARED,
}
RANGES_MAX = 10_000
METADATA_BYTES_MAX = 1_024
LISTENING_S = 1.0  # after it has subscribed: until then it is told nothing by itself, unless it asks for messages
PRESENT = "Consumer is already present on the connection"
UNASKED = 2**64 - 1  # the request id of what the broker says by itself


class ConsumerDesk:
    """Opens and closes consumers."""

    def __init__(
        self,
        places: Places,
        subscribing: Subscribing,
        subscriptions: Subscriptions,
        policies: PolicyBook,
        schemas: SchemaDesk,
        clock: Clock,
        config: PulsarConfig,
    ) -> None:
        self._policies, self._rates = policies, SubscribeRates(policies, clock)
        self._places, self._subscribing, self._subscriptions = places, subscribing, subscriptions
        self._schemas, self._clock, self._config = schemas, clock, config
        self._numbers = itertools.count()

    def routes(self) -> Routes:
        return {
            BaseCommand.SUBSCRIBE: Route(self.open, Action.CONSUME, refuse=not_subscribed),
            BaseCommand.UNSUBSCRIBE: Route(self.unsubscribe, Action.CONSUME, ""),
            BaseCommand.CLOSE_CONSUMER: Route(self.close, Action.LOOKUP, ""),
        }

    # --- opening ------------------------------------------------------------------------------------------------------

    def open(self, asked: pb.CommandSubscribe, connection: Connection) -> None:
        present = connection.consumers.get(asked.consumer_id)
        if present is not None:
            self._again(present, asked)
            return
        if len(connection.consumers) >= self._config.consumers_per_connection_max:
            why = f"a connection has at most {self._config.consumers_per_connection_max} consumers"
            raise Refused(ServerError.NotAllowedError, f"{why} (pulsar.consumers_per_connection_max)")
        name = self._places.named(asked.topic)
        check(asked)
        self._rates.check((name.own_name, connection.host, asked.consumer_name, asked.consumer_id))
        consumer = Consumer(asked, connection, name.partition, self._clock.now_ms())
        connection.consumers[asked.consumer_id] = consumer
        connection.spawn(self._open(consumer, name))

    def _again(self, present: Consumer, asked: pb.CommandSubscribe) -> None:
        """A number that is in use: what the first with it deserves."""
        if present.state is State.READY:
            succeed(present.connection, asked.request_id)
        elif present.state is State.OPENING:
            present.retried = True
            raise Refused(ServerError.ServiceNotReady, PRESENT)
        else:
            self.forget(present)
            raise Refused(refusal_of(present.error)[0] if present.error else ServerError.ServiceNotReady, PRESENT)

    async def _open(self, consumer: Consumer, name: TopicName) -> None:
        connection, asked = consumer.connection, consumer.asked
        try:
            place = await self._places.place(name, asked.force_topic_creation)
            await self._join(consumer, place)
        except PenstockError as error:
            consumer.error = error
            self._give_up(consumer)
            not_subscribed(asked, connection, *refusal_of(error))
            return
        if consumer.state is State.CLOSED:  # by the client, while it was being opened
            self._part(consumer)
            return
        consumer.state = State.READY
        succeed(connection, asked.request_id)
        asyncio.get_running_loop().call_later(LISTENING_S, consumer.listen)  # also if it asks for nothing

    def _give_up(self, consumer: Consumer) -> None:
        """It could not be opened. The next attempt begins anew, unless one was turned away meanwhile."""
        was_closed = consumer.state is State.CLOSED
        consumer.state = State.CLOSED
        if was_closed or not consumer.retried:
            self.forget(consumer)

    async def _join(self, consumer: Consumer, place: Place) -> None:
        allow(place.topic, READ)
        asked, now_ms = consumer.asked, self._clock.now_ms()
        style = style_of(asked)
        await self._schemas.of_consumer(place, asked.schema)
        attached = await self._subscribing.attached(asked, place, style)
        await self._make_way(attached, consumer, style)
        self._check_room(place)
        if not self._places.is_there(place):  # deleted meanwhile
            raise TopicNotFound(place.name.full)
        consumer.queue, consumer.attached = place.queue, attached
        consumer.seat = Seat(
            next(self._numbers),
            asked.consumer_name,
            asked.priority_level,
            attached.subscription.limits.unacked_per_consumer_max,
            compacted=asked.read_compacted,
        )
        consumer.set_open(not consumer.connection.write_blocked)
        attached.subscription.join(consumer, style, ranges_of(asked), now_ms)

    def _check_room(self, place: Place) -> None:
        limit = self._policies.applied(place.topic.name).consumers_max
        several = self._subscriptions.of(spot_of(place)) if limit else ()
        if limit and sum(len(each.subscription.consumers) for each in several) >= limit:
            raise ConsumerBusy(f"Topic reached max consumers limit, which is {limit}")

    async def _make_way(self, attached: Attached, newcomer: Consumer, style: Style) -> None:
        """Whoever holds it alone on a connection that is dead loses it."""
        if style.kind != Kind.EXCLUSIVE:
            return
        for other in list(attached.subscription.consumers.values()):
            if not isinstance(other, Consumer) or other.connection is newcomer.connection:
                continue
            if not await other.connection.is_alive(self._config.liveness_timeout_ms):
                other.connection.abort()
                self.leave(other)

    # --- closing ------------------------------------------------------------------------------------------------------

    def close(self, asked: pb.CommandCloseConsumer, connection: Connection) -> None:
        """Success always, also when there is none of that number, or it is still being opened."""
        consumer = connection.consumers.get(asked.consumer_id)
        if consumer is not None:
            self.leave(consumer)
        succeed(connection, asked.request_id)

    def leave(self, consumer: Consumer) -> None:
        self.forget(consumer)
        if consumer.state is State.READY:
            consumer.state = State.CLOSED
            self._part(consumer)
        consumer.state = State.CLOSED

    def forget(self, consumer: Consumer) -> None:
        if consumer.connection.consumers.get(consumer.id) is consumer:
            del consumer.connection.consumers[consumer.id]

    def _part(self, consumer: Consumer) -> None:
        """From its subscription; one that is not durable goes with its last consumer."""
        attached = consumer.attached
        if attached is None:
            return
        attached.subscription.leave(consumer, self._clock.now_ms())
        if not attached.durable and not attached.subscription.consumers:
            self._subscriptions.drop(attached)
        attached.feeder.wake()

    def send_away(self, attached: Attached) -> None:
        """Close all its consumers from here: they come again by themselves."""
        for other in list(attached.subscription.consumers.values()):
            if isinstance(other, Consumer):
                self.forget(other)
                other.state = State.CLOSED
                attached.subscription.leave(other, self._clock.now_ms())
                closing = pb.CommandCloseConsumer(consumer_id=other.id, request_id=UNASKED)
                other.connection.send(BaseCommand.CLOSE_CONSUMER, closing)

    def unsubscribe(self, asked: pb.CommandUnsubscribe, connection: Connection) -> None:
        consumer = found(connection, asked.consumer_id)
        attached = consumer.attached
        if attached is None:
            raise Refused(ServerError.MetadataError, "Consumer not found")
        others = [other for other in attached.subscription.consumers.values() if other is not consumer]
        if others and not asked.force:
            raise Refused(
                ServerError.MetadataError, "Unconnected or shared consumer attempting to unsubscribe"
            )  # as clients know it
        self.leave(consumer)
        self.send_away(attached)
        connection.spawn(self._delete(attached, asked.request_id, connection))

    async def _delete(self, attached: Attached, request_id: int, connection: Connection) -> None:
        try:
            await self._subscriptions.delete(attached)
        except PenstockError as error:
            connection.send(
                BaseCommand.ERROR, pb.CommandError(request_id=request_id, error=code_of(error), message=str(error))
            )
        else:
            succeed(connection, request_id)

    def lost(self, connection: Connection) -> None:
        """A connection that closes while its subscribe is under way leaves no consumer behind."""
        for consumer in list(connection.consumers.values()):
            self.leave(consumer)


# --- what a request says ----------------------------------------------------------------------------------------------


def check(asked: pb.CommandSubscribe) -> None:
    """What can be told without looking at anything else."""
    check_name(asked.subscription)
    if asked.read_compacted and KINDS[asked.subType] not in (Kind.EXCLUSIVE, Kind.FAILOVER):
        raise Refused(ServerError.NotAllowedError, "readCompacted only allowed on failover or exclusive subscriptions")
    if sum(len(pair.key) + len(pair.value) for pair in asked.metadata) > METADATA_BYTES_MAX:
        raise Refused(ServerError.MetadataError, f"a consumer's metadata has at most {METADATA_BYTES_MAX} characters")
    if len(asked.keySharedMeta.hashRanges) > RANGES_MAX:
        raise Refused(ServerError.ConsumerAssignError, f"a consumer brings at most {RANGES_MAX} key ranges")


def style_of(asked: pb.CommandSubscribe) -> Style:
    kind, keys = KINDS[asked.subType], asked.keySharedMeta
    if kind is not Kind.KEY_SHARED:
        return Style(kind, sticky=kind is Kind.EXCLUSIVE and bool(keys.hashRanges))  # a reader of some keys
    return Style(kind, keys.keySharedMode == pb.STICKY, keys.allowOutOfOrderDelivery)


def ranges_of(asked: pb.CommandSubscribe) -> list[Range]:
    return [(span.start, span.end) for span in asked.keySharedMeta.hashRanges]


# --- answers ----------------------------------------------------------------------------------------------------------


def found(connection: Connection, consumer_id: int) -> Consumer:
    consumer = connection.consumers.get(consumer_id)
    if consumer is None or consumer.state is not State.READY:
        raise Refused(ServerError.MetadataError, "Consumer not found")
    return consumer


def succeed(connection: Connection, request_id: int) -> None:
    connection.send(BaseCommand.SUCCESS, pb.CommandSuccess(request_id=request_id))


def not_subscribed(asked: pb.CommandSubscribe, connection: Connection, code: ServerError, why: str) -> None:
    """In the words that clients know."""
    if code == ServerError.AuthorizationError:
        why = f"Client is not authorized to subscribe: {why}"
    elif code == ServerError.TopicNotFound:
        why = f"Topic {asked.topic} does not exist: {why}"
    plain_error(asked, connection, code, why)
