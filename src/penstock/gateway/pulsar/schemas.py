"""Schemas: GET_SCHEMA and GET_OR_CREATE_SCHEMA, and what producers and consumers bring along.

A producer's schema is registered, or refused; a consumer's is registered where the topic is new and nobody is there,
else it has to be able to read what the topic has. A version is told as eight bytes, and clients put it into their
messages. Who has no schema may write and read bytes, unless the namespace says otherwise. AUTO_CONSUME is a client's
own affair: it asks for the versions that it finds in messages.
"""

import struct

from penstock.core.fetch import Fetcher
from penstock.core.policies import Policies, PolicyBook
from penstock.core.producers import Producers
from penstock.core.schemas.model import Kind, Schema
from penstock.core.schemas.registry import Schemas, Version
from penstock.core.subscriptions.registry import Subscriptions
from penstock.errors import PenstockError, SchemaIncompatible, SchemaInvalid, SchemaNotFound
from penstock.gateway.pulsar.connection import Connection
from penstock.gateway.pulsar.consumer import Consumer
from penstock.gateway.pulsar.places import Place, Places
from penstock.gateway.pulsar.routes import Refused, Route, Routes, code_of
from penstock.gateway.pulsar.subscribing import spot_of
from penstock.model import Action, SchemaStrategy
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.commands_pb2 import BaseCommand, ServerError
from penstock.wire.pulsar.topics import TopicName

KINDS = {
    pb.Schema.String: Kind.STRING,
    pb.Schema.Json: Kind.JSON,
    pb.Schema.Protobuf: Kind.PROTOBUF,
    pb.Schema.Avro: Kind.AVRO,
    pb.Schema.Bool: Kind.BOOLEAN,
    pb.Schema.Int8: Kind.INT8,
    pb.Schema.Int16: Kind.INT16,
    pb.Schema.Int32: Kind.INT32,
    pb.Schema.Int64: Kind.INT64,
    pb.Schema.Float: Kind.FLOAT,
    pb.Schema.Double: Kind.DOUBLE,
    pb.Schema.Date: Kind.DATE,
    pb.Schema.Time: Kind.TIME,
    pb.Schema.Timestamp: Kind.TIMESTAMP,
    pb.Schema.KeyValueSchema: Kind.KEY_VALUE,
    pb.Schema.Instant: Kind.INSTANT,
    pb.Schema.LocalDate: Kind.LOCAL_DATE,
    pb.Schema.LocalTime: Kind.LOCAL_TIME,
    pb.Schema.LocalDateTime: Kind.LOCAL_DATE_TIME,
    pb.Schema.ProtobufNative: Kind.PROTOBUF_NATIVE,
    pb.Schema.External: Kind.EXTERNAL,
}
TYPES = {kind: number for number, kind in KINDS.items()}
NO_VERSION = b""

_VERSION = struct.Struct(">q")


class SchemaDesk:
    def __init__(
        self,
        places: Places,
        schemas: Schemas,
        policies: PolicyBook,
        producers: Producers,
        subscriptions: Subscriptions,
        fetcher: Fetcher,
    ) -> None:
        self._places, self._schemas, self._policies = places, schemas, policies
        self._producers, self._subscriptions, self._fetcher = producers, subscriptions, fetcher

    def routes(self) -> Routes:
        return {
            BaseCommand.GET_SCHEMA: Route(self.get, Action.LOOKUP, refuse=not_found),
            BaseCommand.GET_OR_CREATE_SCHEMA: Route(self.get_or_create, Action.PRODUCE, refuse=not_made),
        }

    # --- asking -------------------------------------------------------------------------------------------------------

    def get(self, asked: pb.CommandGetSchema, connection: Connection) -> None:
        name = self._places.named(asked.topic)
        number = number_of(asked.schema_version, name) if asked.HasField("schema_version") else None
        found = self._schemas.get(name.own_name, number)
        answer = pb.CommandGetSchemaResponse(
            request_id=asked.request_id, schema=told(found.schema, name), schema_version=version_of(found)
        )
        connection.send(BaseCommand.GET_SCHEMA_RESPONSE, answer)

    def get_or_create(self, asked: pb.CommandGetOrCreateSchema, connection: Connection) -> None:
        name = self._places.named(asked.topic)
        self._places.topic(name)
        connection.spawn(self._get_or_create(asked, name, connection))

    async def _get_or_create(self, asked: pb.CommandGetOrCreateSchema, name: TopicName, connection: Connection) -> None:
        try:
            version = await self.of_producer(name, asked.schema)
        except PenstockError as error:
            not_made(asked, connection, code_of(error), str(error))
        else:
            answer = pb.CommandGetOrCreateSchemaResponse(request_id=asked.request_id, schema_version=version)
            connection.send(BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE, answer)

    # --- bringing along -----------------------------------------------------------------------------------------------

    async def of_producer(self, name: TopicName, given: pb.Schema) -> bytes:
        """The version of a producer's schema, registered if need be; none when it has none."""
        topic, schema = name.own_name, schema_in(given)
        if schema is None:
            if self._policies.applied(topic).schema_validation and self._schemas.latest(topic) is not None:
                raise SchemaIncompatible(f"topic {topic!r} has a schema, and only takes producers with one")
            return NO_VERSION
        return version_of(await self._registered(topic, schema))

    async def _registered(self, topic: str, schema: Schema) -> Version:
        policies = self._policies.applied(topic)
        if policies.schema_auto_update is False and self._schemas.find(topic, schema) is None:
            raise SchemaIncompatible(f"topic {topic!r} does not have this schema, and takes no new ones from clients")
        return await self._schemas.register(topic, schema, strategy_of(policies))

    async def of_consumer(self, place: Place, given: pb.Schema) -> None:
        """A consumer's schema is checked; where the topic is new and nobody is there, it becomes the first."""
        if given.type == pb.Schema.AutoConsume or (schema := schema_in(given)) is None:
            return
        topic = place.name.own_name
        strategy = strategy_of(self._policies.applied(topic))
        if self._schemas.latest(topic) is not None:
            self._schemas.check_reader(topic, schema, strategy)
        elif self._is_new(place):
            await self._registered(topic, schema)
        elif strategy is not SchemaStrategy.ALWAYS_COMPATIBLE:
            raise SchemaIncompatible(f"topic {topic!r} is in use, and has no schema: one of {schema.kind} does not fit")

    def _is_new(self, place: Place) -> bool:
        """Whether nothing is in it, and nobody there who takes it for one of bytes."""
        first, behind = self._fetcher.rows(place.queue)
        if behind > first or self._producers.at(place.queue):
            return False
        there = [each.subscription.consumers.values() for each in self._subscriptions.of(spot_of(place))]
        return all(takes_any(consumer) for consumers in there for consumer in consumers)


def strategy_of(policies: Policies) -> SchemaStrategy:
    strategy = policies.schema_strategy or SchemaStrategy.UNDEFINED
    return SchemaStrategy.FULL if strategy is SchemaStrategy.UNDEFINED else strategy


def takes_any(consumer: object) -> bool:
    return isinstance(consumer, Consumer) and consumer.asked.schema.type == pb.Schema.AutoConsume


# --- from the protocol, and to it -------------------------------------------------------------------------------------


def schema_in(given: pb.Schema) -> Schema | None:
    """What a client has brought along; None when that is bytes."""
    if given.type == pb.Schema.NoSchema:
        return None
    kind = KINDS.get(given.type)
    if kind is None:
        raise SchemaInvalid("this kind is for clients alone, and is not kept")
    properties: dict[str | bytes, str | bytes] = {pair.key: pair.value for pair in given.properties}
    texts = {key: value for key, value in properties.items() if isinstance(key, str) and isinstance(value, str)}
    if len(texts) < len(properties):  # the decoder leaves what is no text as bytes
        raise SchemaInvalid("a property is not UTF-8")
    return Schema(kind, given.schema_data, texts)


def told(schema: Schema, name: TopicName) -> pb.Schema:
    properties = [pb.KeyValue(key=key, value=value) for key, value in schema.properties.items()]
    called = f"{name.tenant}/{name.namespace}/{name.local}"
    return pb.Schema(name=called, schema_data=schema.data, type=TYPES[schema.kind], properties=properties)


def version_of(version: Version) -> bytes:
    return _VERSION.pack(version.number)


def number_of(version: bytes, name: TopicName) -> int:
    if not version:
        raise Refused(ServerError.IncompatibleSchema, "Empty schema version")  # as clients know it
    if len(version) != _VERSION.size:
        raise SchemaNotFound(name.full)
    number: int = _VERSION.unpack(version)[0]
    return number


def not_found(asked: pb.CommandGetSchema, connection: Connection, code: ServerError, why: str) -> None:
    answer = pb.CommandGetSchemaResponse(request_id=asked.request_id, error_code=code, error_message=why)
    connection.send(BaseCommand.GET_SCHEMA_RESPONSE, answer)


def not_made(asked: pb.CommandGetOrCreateSchema, connection: Connection, code: ServerError, why: str) -> None:
    answer = pb.CommandGetOrCreateSchemaResponse(request_id=asked.request_id, error_code=code, error_message=why)
    connection.send(BaseCommand.GET_OR_CREATE_SCHEMA_RESPONSE, answer)
