"""Schemas over the wire: registered by producers, checked for consumers, asked for by version."""

import json

import pytest
from tests.gateway.pulsar.conftest import Client, one, stored

from penstock.core.schemas.model import Kind, Schema
from penstock.model import SchemaStrategy as S
from penstock.testing.server import serving
from penstock.wire.pulsar import commands_pb2 as pb
from penstock.wire.pulsar.batch import opened_entry

FIRST, SECOND = bytes(8), bytes(7) + b"\1"


def avro(*fields, kind=pb.Schema.Avro, name="Order"):
    record = {"type": "record", "name": name, "fields": list(fields)}
    return pb.Schema(name="mine", schema_data=json.dumps(record).encode(), type=kind)


def field(name, kind, **more):
    return {"name": name, "type": kind, **more}


A = avro(field("a", "int"))
A_AND_MAYBE_B = avro(field("a", "int"), field("b", "int", default=0))
A_AND_B = avro(field("a", "int"), field("b", "int"))
TEXT = avro(field("a", "string"))
STRING = pb.Schema(name="s", schema_data=b"", type=pb.Schema.String)
NONE = pb.Schema(name="", schema_data=b"", type=pb.Schema.NoSchema)
ANY = pb.Schema(name="", schema_data=b"", type=pb.Schema.AutoConsume)


async def schema_of(client: Client, topic: str, **more: object):
    client.say(pb.CommandGetSchema(topic=topic, request_id=client.request(), **more))
    return await client.next("getSchemaResponse")


async def get_or_create(client: Client, topic: str, schema: pb.Schema):
    client.say(pb.CommandGetOrCreateSchema(topic=topic, request_id=client.request(), schema=schema))
    return await client.next("getOrCreateSchemaResponse")


# --- producers --------------------------------------------------------------------------------------------------------


async def test_a_producer_is_told_the_version_of_its_schema(client):
    assert (await client.producer("orders", 1, schema=A)).schema_version == FIRST
    assert (await client.producer("orders", 2, schema=A_AND_MAYBE_B)).schema_version == SECOND
    again = pb.Schema(name="other", schema_data=A.schema_data + b" ", type=pb.Schema.Avro)
    assert (await client.producer("orders", 3, schema=again)).schema_version == FIRST
    client.ask_producer("orders", 2)
    assert (await client.next("producer_success")).schema_version == SECOND


@pytest.mark.parametrize("schema", [TEXT, STRING, A_AND_B, avro(field("a", "int"), kind=pb.Schema.Json)])
async def test_a_producer_whose_schema_does_not_fit_is_refused(client, penstock, schema):
    await client.producer("orders", 1, schema=A)
    refused = await client.refused("orders", 2, schema=schema)
    assert refused.error == pb.IncompatibleSchema
    assert "cannot have this schema" in refused.message
    assert len(penstock.server.broker.schemas.all("orders")) == 1
    assert (await client.producer("orders", 2, schema=A)).producer_ready  # its number is free


@pytest.mark.parametrize(
    "schema",
    [
        ANY,
        pb.Schema(name="x", schema_data=b"{", type=pb.Schema.Avro),
        pb.Schema(name="x", schema_data=b"\0\0\0\x09abc", type=pb.Schema.KeyValueSchema),
    ],
)
async def test_what_is_no_schema_is_refused(client, schema):
    assert (await client.refused("orders", schema=schema)).error == pb.IncompatibleSchema


async def test_a_schema_that_is_too_large_is_refused():
    async with serving(broker={"schema_bytes_max": 40}) as penstock:
        client = await Client.to(penstock.addresses["pulsar"])
        await client.connect()
        refused = await client.refused("orders", schema=A)
        assert (refused.error, "broker.schema_bytes_max" in refused.message) == (pb.NotAllowedError, True)
        await client.close()


async def test_a_producer_without_a_schema_may_write_unless_it_is_forbidden(client, penstock):
    await client.producer("orders", 1, schema=A)
    assert (await client.producer("orders", 2)).schema_version == b""
    assert (await client.producer("orders", 3, schema=NONE)).schema_version == b""
    async with serving(pulsar={"schema_validation": True}) as strict:
        other = await Client.to(strict.addresses["pulsar"])
        await other.connect()
        assert (await other.producer("orders", 1)).schema_version == b""
        await other.producer("orders", 2, schema=A)
        assert (await other.refused("orders", 3)).error == pb.IncompatibleSchema
        await other.close()


async def test_bytes_become_typed_with_the_first_schema(client):
    await client.producer("orders", 1)
    await client.send(one(b"x"), 0, 1)
    assert (await client.producer("orders", 2, schema=A)).schema_version == FIRST


async def test_what_a_client_stamps_on_its_messages_is_kept(client, penstock):
    await client.producer("orders", schema=A)
    await client.send(one(b"x", schema_version=FIRST))
    (entry,) = stored(penstock, "orders")
    assert opened_entry(memoryview(entry)).metadata.schema_version == FIRST


async def test_where_clients_may_not_bring_new_ones():
    async with serving(pulsar={"schema_auto_update": False}) as penstock:
        client = await Client.to(penstock.addresses["pulsar"])
        await client.connect()
        assert (await client.refused("orders", 1, schema=A)).error == pb.IncompatibleSchema
        assert (await client.not_a_consumer("orders", schema=STRING)).error == pb.IncompatibleSchema
        await penstock.server.broker.schemas.register("orders", Schema(Kind.AVRO, A.schema_data), S.FULL)
        assert (await client.producer("orders", 1, schema=A)).schema_version == FIRST
        await client.close()


async def test_partitions_share_the_schemas_of_their_topic(client, penstock, http):
    await http.topic("PUT", "wide", "/partitions", 2)
    assert (await client.producer("wide-partition-0", 1, schema=A)).schema_version == FIRST
    assert (await client.producer("wide-partition-1", 2, schema=A_AND_MAYBE_B)).schema_version == SECOND
    assert (await client.refused("wide-partition-0", 3, schema=STRING)).error == pb.IncompatibleSchema
    assert (await schema_of(client, "wide-partition-1", schema_version=FIRST)).schema.schema_data == A.schema_data
    assert (await get_or_create(client, "wide", A)).schema_version == FIRST


async def test_strategies_are_those_of_the_namespace(client, http):
    await http("PUT", "/admin/v2/namespaces/public/default/schemaCompatibilityStrategy", "FORWARD")
    await client.producer("orders", 1, schema=A)
    assert (await client.producer("orders", 2, schema=A_AND_B)).schema_version == SECOND
    await http("PUT", "/admin/v2/namespaces/public/default/schemaCompatibilityStrategy", "ALWAYS_COMPATIBLE")
    assert (await client.producer("orders", 3, schema=STRING)).schema_version == bytes(7) + b"\2"


# --- consumers --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("schema", [TEXT, STRING, avro(field("a", "int"), kind=pb.Schema.Json)])
async def test_s45_a_consumer_whose_schema_does_not_fit_is_refused_and_is_not_there(client, penstock, http, schema):
    await client.producer("orders", schema=A)
    refused = await client.not_a_consumer("orders", "s", 1, schema=schema)
    assert refused.error == pb.IncompatibleSchema
    assert await http.of("orders", "/subscriptions") == []
    await client.consumer("orders", "s", 1, schema=A)
    told = (await http.of("orders", "/stats"))["subscriptions"]["s"]
    assert len(told["consumers"]) == 1


async def test_a_consumer_has_to_read_the_newest(client):
    await client.producer("orders", 1, schema=A)
    await client.producer("orders", 2, schema=A_AND_MAYBE_B)
    await client.consumer("orders", "older", 1, schema=A)
    await client.consumer("orders", "newer", 2, schema=avro(field("c", "int", default=0), field("a", "long")))
    await client.consumer("orders", "any", 3, schema=ANY)
    await client.consumer("orders", "bytes", 4)


async def test_the_first_consumer_of_a_new_topic_brings_its_schema(client):
    await client.consumer("orders", "any", 1, schema=ANY)
    await client.consumer("orders", "s", 2, schema=A)
    assert (await schema_of(client, "orders")).schema.schema_data == A.schema_data
    assert (await client.refused("orders", schema=STRING)).error == pb.IncompatibleSchema


@pytest.mark.parametrize("who", ["producer", "consumer", "data"])
async def test_a_topic_of_bytes_that_is_in_use_takes_no_consumer_with_a_schema(client, who):
    if who == "consumer":
        await client.consumer("orders", "bytes", 1)
    else:
        await client.producer("orders")
    if who == "data":
        await client.send(one(b"x"))
        await client.close_producer()
    refused = await client.not_a_consumer("orders", "s", 2, schema=A)
    assert (refused.error, "no schema" in refused.message) == (pb.IncompatibleSchema, True)


async def test_where_anything_goes_so_does_this(client, http):
    await http("PUT", "/admin/v2/namespaces/public/default/schemaCompatibilityStrategy", "ALWAYS_COMPATIBLE")
    await client.producer("orders")
    await client.consumer("orders", "s", 2, schema=A)
    await client.consumer("orders", "t", 3, schema=STRING)


# --- asking -----------------------------------------------------------------------------------------------------------


async def test_schemas_are_asked_for_by_version(client):
    mine = pb.Schema(
        name="mine", schema_data=b"", type=pb.Schema.String, properties=[pb.KeyValue(key="color", value="red")]
    )
    await client.producer("orders", schema=mine)
    for more in ({}, {"schema_version": FIRST}):
        told = await schema_of(client, "persistent://public/default/orders", **more)
        assert not told.HasField("error_code")
        assert (told.schema_version, told.schema.type) == (FIRST, pb.Schema.String)
        assert told.schema.name == "public/default/orders"
        assert [(pair.key, pair.value) for pair in told.schema.properties] == [("color", "red")]


@pytest.mark.parametrize(
    ("topic", "more", "code"),
    [
        ("nothing", {}, pb.TopicNotFound),
        ("orders", {"schema_version": SECOND}, pb.TopicNotFound),
        ("orders", {"schema_version": b"\xff" * 8}, pb.TopicNotFound),
        ("orders", {"schema_version": b"1"}, pb.TopicNotFound),
        ("orders", {"schema_version": b""}, pb.IncompatibleSchema),
        ("a/b", {}, pb.InvalidTopicName),
        ("no/such/topic", {}, pb.TopicNotFound),
    ],
)
async def test_what_is_not_there(client, topic, more, code):
    await client.producer("orders", schema=A)
    told = await schema_of(client, topic, **more)
    assert told.error_code == code
    assert told.error_message


async def test_get_or_create(client):
    assert (await get_or_create(client, "orders", A)).error_code == pb.TopicNotFound
    await client.producer("orders")
    assert (await get_or_create(client, "orders", A)).schema_version == FIRST
    assert (await get_or_create(client, "orders", A)).schema_version == FIRST
    assert (await get_or_create(client, "orders", NONE)).schema_version == b""
    told = await get_or_create(client, "orders", STRING)
    assert (told.error_code, told.HasField("schema_version")) == (pb.IncompatibleSchema, False)


async def test_every_kind_is_kept_and_given_back(client):
    halves = b"\0\0\0\0" + len(A.schema_data).to_bytes(4, "big") + A.schema_data
    types = {"key.schema.type": "STRING", "value.schema.type": "AVRO", "kv.encoding.type": "SEPARATED"}
    pairs = [pb.KeyValue(key=key, value=value) for key, value in types.items()]
    native = b'{"fileDescriptorSet": "CgA=", "rootMessageTypeName": "x.Y", "rootFileDescriptorName": "x"}'
    data = {
        pb.Schema.Json: A.schema_data,
        pb.Schema.Avro: A.schema_data,
        pb.Schema.Protobuf: A.schema_data,
        pb.Schema.ProtobufNative: native,
        pb.Schema.KeyValueSchema: halves,
    }
    for number in set(pb.Schema.Type.values()) - {pb.Schema.NoSchema, pb.Schema.AutoConsume}:
        schema = pb.Schema(name="x", schema_data=data.get(number, b""), type=number, properties=pairs)
        assert (await client.producer(f"t{number}", number, schema=schema)).schema_version == FIRST
        told = (await schema_of(client, f"t{number}")).schema
        assert (told.type, told.schema_data) == (number, schema.schema_data)
        assert {pair.key: pair.value for pair in told.properties} == types


async def test_through_a_restart_and_with_the_topic(tmp_path):
    async with serving(server={"data": str(tmp_path)}) as penstock:
        client = await Client.to(penstock.addresses["pulsar"])
        await client.connect()
        for topic in ("kept", "gone"):
            await client.producer(topic, len(topic), schema=A)
            await client.close_producer(len(topic))
        await penstock.server.broker.topics.delete("gone")
        await client.close()
    async with serving(server={"data": str(tmp_path)}) as penstock:
        client = await Client.to(penstock.addresses["pulsar"])
        await client.connect()
        assert (await client.refused("kept", 1, schema=STRING)).error == pb.IncompatibleSchema
        assert (await client.producer("gone", 2, schema=STRING)).schema_version == FIRST
        await client.close()
