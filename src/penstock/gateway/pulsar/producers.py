"""Producers: PRODUCER and CLOSE_PRODUCER, from the client or from here.

A client numbers its producers on each connection. A number that is used again gets what the first deserves: success
when it is ready, "not ready" while it is being opened. A name belongs to one producer of a topic; who has it is asked
for a sign of life when another wants it. `core/producers.py` decides who may write beside whom.
"""

import enum
import hashlib
import itertools

from penstock.clock import Clock
from penstock.config import PulsarConfig
from penstock.core.policies import PolicyBook
from penstock.core.producers import Access, Producers, Seat
from penstock.core.publish import Publisher
from penstock.core.topics import WRITE
from penstock.errors import PenstockError
from penstock.gateway.pulsar.connection import Connection
from penstock.gateway.pulsar.places import Place, Places, allow
from penstock.gateway.pulsar.routes import Refused, Route, Routes, code_of, plain_error, refusal_of
from penstock.gateway.pulsar.schemas import SchemaDesk
from penstock.gateway.pulsar.subscribing import Subscribing
from penstock.model import Action
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.commands_pb2 import BaseCommand, ServerError
from penstock.wire.pulsar.topics import TopicName

NAME_CHARS_MAX = 1_024
UNASKED = 2**64 - 1  # the request id of what the broker says by itself
SENT_AWAY_MAX = 1_000  # producers that are remembered on a connection after the broker has closed them


class State(enum.Enum):
    OPENING = "opening"
    WAITING = "waiting"  # for the topic
    READY = "ready"
    CLOSED = "closed"


class Producer:
    """One producer of a connection. `number` is what its messages are deduplicated by; 0: they are not."""

    __slots__ = (
        "_clock",
        "asked",
        "bytes_max",
        "connection",
        "delay_ms_max",
        "last_sequence",
        "name",
        "number",
        "queue",
        "schema_version",
        "seat",
        "since_ms",
        "state",
        "topic",
    )

    def __init__(self, asked: pb.CommandProducer, name: str, connection: Connection, clock: Clock) -> None:
        self.asked, self.name, self.connection, self._clock = asked, name, connection, clock
        self.state, self.since_ms = State.OPENING, clock.now_ms()
        self.seat: Seat | None = None
        self.topic, self.queue, self.number, self.last_sequence = "", 0, 0, -1
        self.bytes_max = self.delay_ms_max = 0  # of its messages, by policy; 0: no such limit
        self.schema_version = b""

    # --- what becomes of its seat -------------------------------------------------------------------------------------

    def seated(self, seat: Seat) -> None:
        self.state = State.READY
        self.tell()

    def unseated(self, seat: Seat, why: PenstockError) -> None:
        """Another has taken the topic. Who waits is refused; who writes is closed, and comes again by itself."""
        was, asked = self.state, self.asked
        self.forget()
        if was is State.READY:
            note_sent_away(self.connection, asked.producer_id, self._clock)
            closing = pb.CommandCloseProducer(producer_id=asked.producer_id, request_id=UNASKED)
            self.connection.send(BaseCommand.CLOSE_PRODUCER, closing)
        else:
            plain_error(asked, self.connection, code_of(why), str(why))

    def forget(self) -> None:
        self.state = State.CLOSED
        if self.connection.producers.get(self.asked.producer_id) is self:
            del self.connection.producers[self.asked.producer_id]

    def tell(self, request_id: int | None = None) -> None:
        """PRODUCER_SUCCESS: it is ready, or it waits."""
        success = pb.CommandProducerSuccess(
            request_id=self.asked.request_id if request_id is None else request_id,
            producer_name=self.name,
            last_sequence_id=self.last_sequence,
            schema_version=self.schema_version,
            producer_ready=self.state is State.READY,
        )
        if self.state is State.READY and self.seat is not None and self.seat.epoch >= 0:
            success.topic_epoch = self.seat.epoch
        self.connection.send(BaseCommand.PRODUCER_SUCCESS, success)


class ProducerDesk:
    """Opens and closes producers."""

    def __init__(
        self,
        places: Places,
        producers: Producers,
        publisher: Publisher,
        policies: PolicyBook,
        subscribing: Subscribing,
        schemas: SchemaDesk,
        clock: Clock,
        config: PulsarConfig,
    ) -> None:
        self._places, self._producers, self._publisher, self._clock = places, producers, publisher, clock
        self._subscribing, self._schemas, self._config, self._policies = subscribing, schemas, config, policies
        self._numbers, self._started = itertools.count(), clock.now_ms() // 1000

    def routes(self) -> Routes:
        return {
            BaseCommand.PRODUCER: Route(self.open, Action.PRODUCE),
            BaseCommand.CLOSE_PRODUCER: Route(self.close, Action.LOOKUP, ""),
        }

    # --- opening ------------------------------------------------------------------------------------------------------

    def open(self, asked: pb.CommandProducer, connection: Connection) -> None:
        present = connection.producers.get(asked.producer_id)
        if present is not None:
            self._again(present, asked)
            return
        if len(connection.producers) >= self._config.producers_per_connection_max:
            why = f"a connection has at most {self._config.producers_per_connection_max} producers"
            raise Refused(ServerError.NotAllowedError, f"{why} (pulsar.producers_per_connection_max)")
        name = self._places.named(asked.topic)
        producer = Producer(asked, self._name_for(asked), connection, self._clock)
        connection.producers[asked.producer_id] = producer
        connection.sent_away.pop(asked.producer_id, None)
        connection.spawn(self._open(producer, name))

    def _again(self, present: Producer, asked: pb.CommandProducer) -> None:
        """A number that is in use: what the first with it deserves."""
        if present.asked.topic != asked.topic:
            why = f"producer {asked.producer_id} of this connection is one of {present.asked.topic!r}"
            raise Refused(ServerError.NotAllowedError, why)
        if present.state is not State.READY:
            raise Refused(ServerError.ServiceNotReady, "Producer is already present on the connection")
        present.tell(asked.request_id)

    def _name_for(self, asked: pb.CommandProducer) -> str:
        given: str | bytes = asked.producer_name
        if not given:
            return f"penstock-{self._started}-{next(self._numbers)}"
        if isinstance(given, bytes) or len(given) > NAME_CHARS_MAX:
            raise Refused(
                ServerError.NotAllowedError, f"a producer's name is UTF-8, of at most {NAME_CHARS_MAX} characters"
            )
        return given

    async def _open(self, producer: Producer, name: TopicName) -> None:
        connection, asked = producer.connection, producer.asked
        try:
            place = await self._places.place(name)
            seated = await self._seat(producer, place)
        except PenstockError as error:
            if producer.state is not State.CLOSED:
                producer.forget()
                plain_error(asked, connection, *refusal_of(error))
            return
        if producer.state is State.CLOSED:  # by the client, or by who took the topic, while it was being opened
            self._leave(producer)
            return
        producer.state = State.READY if seated else State.WAITING
        producer.tell()

    async def _seat(self, producer: Producer, place: Place) -> bool:
        """Whether it can write at once; else it waits."""
        allow(place.topic, WRITE)
        producer.topic, producer.queue = place.topic.name, place.queue
        producer.schema_version = await self._schemas.of_producer(place.name, producer.asked.schema)
        if producer.asked.initial_subscription_name:
            await self._subscribing.first(producer.asked.initial_subscription_name, place)
        self._limit(producer)
        if producer.number:
            producer.last_sequence = self._publisher.last_sequence(place.queue, producer.number)
        await self._make_way(producer)
        asked = producer.asked
        epoch = asked.topic_epoch if asked.HasField("topic_epoch") else -1
        access = Access(asked.producer_access_mode)
        producer.seat = Seat(place.queue, producer.name, access, producer, min(epoch, 2**63 - 1))
        return await self._producers.take(producer.seat)

    def _limit(self, producer: Producer) -> None:
        """What policies say of its messages."""
        policies = self._policies.applied(producer.topic)
        producer.number = number_of(producer.name) if policies.deduplication else 0
        producer.bytes_max = policies.message_bytes_max or 0
        producer.delay_ms_max = policies.delaying.delay_ms_max if policies.delaying else 0

    def limit(self) -> None:
        """Policies have changed."""
        for seat in self._producers.everybody():
            if isinstance(seat.owner, Producer):
                self._limit(seat.owner)

    async def _make_way(self, producer: Producer) -> None:
        """Who has this name on a connection that is dead loses it."""
        held = self._producers.seat_of(producer.queue, producer.name)
        if held is None or not isinstance(held.owner, Producer) or held.owner.connection is producer.connection:
            return
        other = held.owner.connection
        if not await other.is_alive(self._config.liveness_timeout_ms):
            other.abort()
            self._leave(held.owner)

    # --- closing ------------------------------------------------------------------------------------------------------

    def close(self, asked: pb.CommandCloseProducer, connection: Connection) -> None:
        """Success always, also when there is none of that number, or it is still being opened."""
        producer = connection.producers.get(asked.producer_id)
        if producer is not None:
            self._leave(producer)
        connection.send(BaseCommand.SUCCESS, pb.CommandSuccess(request_id=asked.request_id))

    def _leave(self, producer: Producer) -> None:
        producer.forget()
        if producer.seat is not None:
            self._producers.leave(producer.seat)

    def lost(self, connection: Connection) -> None:
        for producer in list(connection.producers.values()):
            self._leave(producer)


def number_of(name: str) -> int:
    """What stands for a producer's name in the log. Never 0, which stands for none."""
    digest = hashlib.blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little") or 1


def note_sent_away(connection: Connection, producer_id: int, clock: Clock) -> None:
    while len(connection.sent_away) >= SENT_AWAY_MAX:
        del connection.sent_away[next(iter(connection.sent_away))]
    connection.sent_away[producer_id] = clock.monotonic_ms()
