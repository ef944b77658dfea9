"""Pulsar's own client for Python with its schemas: Avro, JSON, text and bytes; evolved, refused, read by version."""

import contextlib
import enum
from collections.abc import Iterator

import pulsar
import pytest
from pulsar.schema import (
    Array,
    AvroSchema,
    Boolean,
    BytesSchema,
    CustomEnum,
    Double,
    Integer,
    JsonSchema,
    Long,
    Map,
    Record,
    String,
    StringSchema,
)
from tests.gateway.pulsar.caller import ask
from tests.gateway.pulsar.test_python_client import TIMEOUT_S

from penstock.testing.server import Running, running

Earliest = pulsar.InitialPosition.Earliest
WAIT_MS = TIMEOUT_S * 1000
VERSIONS = ["\0" * 8, "\0" * 7 + "\1"]  # as the client tells them
SCHEMAS = "/admin/v2/schemas/public/default"


class Color(enum.Enum):
    RED = 1
    GREEN = 2


class Item(Record):
    name = String()
    price = Double()


class Order(Record):
    number = Integer(required=True)
    text = String()
    paid = Boolean(default=False)
    color = CustomEnum(Color)
    items = Array(Item())
    notes = Map(String())


class Renumbered(Record):
    """An order of which nothing can be read as one."""

    number = String(required=True)


class First(Record):
    name = String()
    age = Integer()


class Second(Record):
    """Can be read by who knows the first; cannot read all that the first wrote."""

    name = String()
    age = Integer(required=True)


class Wide(Record):
    number = Long(required=True)
    added = String(default="nothing", required=True, required_default=True)


class Narrow(Record):
    number = Integer(required=True)


@pytest.fixture(scope="module")
def broker() -> Iterator[Running]:
    with running() as penstock:
        yield penstock


@pytest.fixture(scope="module")
def client(broker, tmp_path_factory) -> Iterator[pulsar.Client]:
    with connected(broker.addresses["pulsar"], tmp_path_factory.mktemp("client")) as client:
        yield client


@contextlib.contextmanager
def connected(address: str, folder) -> Iterator[pulsar.Client]:
    logger = pulsar.FileLogger(pulsar.LoggerLevel.Info, str(folder / "log"))
    client = pulsar.Client(f"pulsar://{address}", logger=logger, operation_timeout_seconds=TIMEOUT_S)
    try:
        yield client
    finally:
        client.close()


def admin(broker, method, path, body=None):
    return ask(broker.addresses["http"], method, path, body)


def order() -> Order:
    items = [Item(name="pen", price=1.5), Item(name="ink", price=0.25)]
    return Order(number=7, text="first", paid=True, color=Color.GREEN, items=items, notes={"a": "b"})


@pytest.mark.parametrize("schema", [AvroSchema, JsonSchema])
def test_records_come_as_they_were_sent(client, broker, schema):
    topic = f"typed-{schema.__name__}"
    consumer = client.subscribe(topic, "s", schema=schema(Order))
    producer = client.create_producer(topic, schema=schema(Order))
    producer.send(order())
    message = consumer.receive(WAIT_MS)
    assert message.value() == order()
    assert message.schema_version() == VERSIONS[0]
    told = admin(broker, "GET", f"{SCHEMAS}/{topic}/schema").json
    assert (told["version"], told["type"]) == (0, schema.__name__.removesuffix("Schema").upper())
    producer.close()
    consumer.close()


@pytest.mark.parametrize(("schema", "value"), [(StringSchema(), "grüße"), (BytesSchema(), b"\0\xff")])
def test_text_and_bytes(client, schema, value):
    topic = f"plain-{type(schema).__name__}"
    consumer = client.subscribe(topic, "s", schema=schema)
    producer = client.create_producer(topic, schema=schema)
    producer.send(value)
    assert consumer.receive(WAIT_MS).value() == value
    producer.close()
    consumer.close()


@pytest.mark.parametrize(
    "schema", [AvroSchema(Renumbered), JsonSchema(Order), StringSchema()], ids=["other", "json", "string"]
)
def test_s45_what_does_not_fit_is_refused(client, broker, schema):
    producer = client.create_producer("strict", schema=AvroSchema(Order))
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer("strict", schema=schema)
    with pytest.raises(pulsar.IncompatibleSchema):
        client.subscribe("strict", "s", schema=schema)
    assert admin(broker, "GET", "/admin/v2/persistent/public/default/strict/subscriptions").json == []
    consumer = client.subscribe("strict", "s", schema=AvroSchema(Order))
    consumer.unsubscribe()
    producer.close()


def test_evolving_with_the_strategy_of_the_namespace(client, broker):
    """Messages of several versions are read with one schema: the client asks for those it meets."""
    first = client.create_producer("evolved", schema=AvroSchema(First))
    with pytest.raises(pulsar.IncompatibleSchema):
        client.create_producer("evolved", schema=AvroSchema(Second))
    place = "/admin/v2/namespaces/public/default/schemaCompatibilityStrategy"
    assert admin(broker, "PUT", place, "FORWARD").status == 204
    second = client.create_producer("evolved", schema=AvroSchema(Second))
    consumer = client.subscribe("evolved", "s", schema=AvroSchema(First), initial_position=Earliest)
    first.send(First(name="a", age=None))
    second.send(Second(name="b", age=2))
    messages = [consumer.receive(WAIT_MS) for _ in range(2)]
    assert [message.value() for message in messages] == [First(name="a", age=None), First(name="b", age=2)]
    assert [message.schema_version() for message in messages] == VERSIONS
    assert admin(broker, "PUT", place, "UNDEFINED").status == 204
    for each in (first, second, consumer):
        each.close()


def test_promoted_and_with_defaults(client, broker):
    place = "/admin/v2/persistent/public/default/promoted"
    admin(broker, "PUT", place)
    admin(broker, "PUT", f"{place}/schemaCompatibilityStrategy", "BACKWARD")
    narrow = client.create_producer("promoted", schema=AvroSchema(Narrow))
    narrow.send(Narrow(number=7))
    wide = client.create_producer("promoted", schema=AvroSchema(Wide))
    wide.send(Wide(number=1 << 40, added="more"))
    consumer = client.subscribe("promoted", "s", schema=AvroSchema(Wide), initial_position=Earliest)
    found = [consumer.receive(WAIT_MS).value() for _ in range(2)]
    assert [(each.number, each.added) for each in found] == [(7, "nothing"), (1 << 40, "more")]
    for each in (narrow, wide, consumer):
        each.close()


def test_who_has_no_schema_sees_bytes(client):
    producer = client.create_producer("bytes", schema=JsonSchema(First))
    consumer = client.subscribe("bytes", "s", initial_position=Earliest)
    producer.send(First(name="a", age=1))
    assert b'"name"' in consumer.receive(WAIT_MS).data()
    plain = client.create_producer("bytes")
    plain.send(b"anything")
    assert consumer.receive(WAIT_MS).data() == b"anything"
    for each in (producer, plain, consumer):
        each.close()


def test_versions_are_there_after_a_restart(tmp_path):
    data = {"data": str(tmp_path / "data")}
    with running(server=data) as first, connected(first.addresses["pulsar"], tmp_path) as client:
        producer = client.create_producer("kept", schema=AvroSchema(First))
        client.subscribe("kept", "s").close()
        producer.send(First(name="a", age=1))
    with running(server=data) as second, connected(second.addresses["pulsar"], tmp_path) as client:
        with pytest.raises(pulsar.IncompatibleSchema):
            client.create_producer("kept", schema=AvroSchema(Renumbered))
        consumer = client.subscribe("kept", "s", schema=AvroSchema(First))
        assert consumer.receive(WAIT_MS).value() == First(name="a", age=1)
