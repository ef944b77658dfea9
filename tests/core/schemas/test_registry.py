"""The schemas of topics: numbered, kept through a restart and a kill, gone with the topic."""

import asyncio

import msgspec
import pytest
from tests.core.conftest import SMALL_STORE
from tests.core.schemas.test_compatibility import A_AND_B, A_AND_MAYBE_B, STRING, A, B

from penstock.config import KIB
from penstock.core.schemas.model import Kind, Schema
from penstock.core.schemas.registry import Schemas
from penstock.errors import BadTopicName, SchemaIncompatible, SchemaInvalid, SchemaNotFound, TooManySchemas
from penstock.model import SchemaStrategy as S
from penstock.store.catalog import CATALOG_QUEUE

BACK_AGAIN = pytest.mark.parametrize("back", ["restart", "kill"])


def schemas_of(house) -> Schemas:
    return Schemas(house.store, house.keeper, house.clock, house.bus, house.topics, house.config)


@pytest.fixture
def schemas(house) -> Schemas:
    return schemas_of(house)


async def test_versions_are_counted_and_one_that_is_there_is_found_again(schemas, clock):
    first = await schemas.register("orders", A, S.FULL)
    assert (first.number, first.schema, first.created_ms) == (0, A, clock.now_ms())
    assert (await schemas.register("orders", A_AND_MAYBE_B, S.FULL)).number == 1
    again = Schema(Kind.AVRO, A.data + b"\n", {"other": "properties"})
    assert (await schemas.register("orders", again, S.ALWAYS_INCOMPATIBLE)).number == 0
    assert schemas.get("orders").number == 1
    assert schemas.get("orders", 0).schema == A
    assert [each.number for each in schemas.all("orders")] == [0, 1]
    assert (await schemas.register("others", B, S.FULL)).number == 0


async def test_what_does_not_go_with_the_others_is_refused_with_the_reason(schemas):
    await schemas.register("orders", A, S.FULL)
    with pytest.raises(SchemaIncompatible, match="'b' is not written"):
        await schemas.register("orders", A_AND_B, S.BACKWARD)
    with pytest.raises(SchemaIncompatible, match="STRING"):
        await schemas.register("orders", STRING, S.FULL)
    with pytest.raises(SchemaInvalid):
        await schemas.register("orders", Schema(Kind.AVRO, b"{}"), S.ALWAYS_COMPATIBLE)
    assert len(schemas.all("orders")) == 1
    assert schemas.why_not("orders", A, S.ALWAYS_INCOMPATIBLE) == []
    assert schemas.why_not("orders", B, S.BACKWARD)


async def test_who_reads_is_checked(schemas):
    await schemas.register("orders", A_AND_B, S.FULL)
    schemas.check_reader("orders", A, S.FULL)
    with pytest.raises(SchemaIncompatible):
        schemas.check_reader("orders", STRING, S.FULL)


async def test_what_is_not_there(schemas):
    for number in (None, 0, 1):
        with pytest.raises(SchemaNotFound):
            schemas.get("orders", number)
    with pytest.raises(SchemaNotFound):
        await schemas.delete("orders")
    assert schemas.latest("orders") is None
    assert schemas.find("orders", A) is None
    assert schemas.topics() == []
    with pytest.raises(BadTopicName):
        await schemas.register("a/b", A, S.FULL)


@BACK_AGAIN
async def test_they_are_there_again(street, back):
    schemas = schemas_of(street.house)
    for at in range(12):
        text = b'{"type": "enum", "name": "E%d", "symbols": []}' % at
        await schemas.register("orders", Schema(Kind.AVRO, text), S.ALWAYS_COMPATIBLE)
    await schemas.register("%DLQ%x", STRING, S.FULL)
    found = schemas.all("orders")
    schemas = schemas_of(await getattr(street, back)())
    assert [each._replace(position=0) for each in found] == schemas.all("orders")
    assert schemas.get("%DLQ%x").schema == STRING
    assert (await schemas.register("orders", STRING, S.ALWAYS_COMPATIBLE)).number == 12


@BACK_AGAIN
async def test_deleted_ones_take_their_numbers_with_them(street, back):
    schemas = schemas_of(street.house)
    await schemas.register("orders", A, S.FULL)
    assert await schemas.delete("orders") == 1
    schemas = schemas_of(await getattr(street, back)())
    with pytest.raises(SchemaNotFound):
        schemas.get("orders", 0)
    assert (await schemas.register("orders", STRING, S.FULL)).number == 2


@BACK_AGAIN
async def test_with_a_topic_go_its_schemas(street, back):
    schemas = schemas_of(street.house)
    for topic in ("orders", "order", "orders2"):
        await street.house.topics.create(topic)
        await schemas.register(topic, A, S.FULL)
    await schemas.delete("orders")
    await schemas.register("orders", B, S.FULL)
    size_bytes = schemas.size_bytes
    await street.house.topics.delete("orders")
    assert schemas.topics() == ["order", "orders2"]
    assert schemas.size_bytes == size_bytes * 2 // 3
    schemas = schemas_of(await getattr(street, back)())
    assert schemas.topics() == ["order", "orders2"]
    assert schemas.size_bytes == size_bytes * 2 // 3
    assert (await schemas.register("orders", STRING, S.FULL)).number == 0


async def test_a_topic_and_its_schemas_go_in_one_entry(still_house):
    """A crash leaves both or neither."""
    schemas = schemas_of(still_house)
    still_house.topic_now("orders")
    registering = asyncio.ensure_future(schemas.register("orders", A, S.FULL))
    await asyncio.sleep(0)
    still_house.store.flush()
    await registering
    rows = still_house.store.table(CATALOG_QUEUE).next_row
    deleting = asyncio.ensure_future(still_house.topics.delete("orders"))
    await asyncio.sleep(0)
    assert still_house.store.table(CATALOG_QUEUE).next_row == rows + 1
    assert still_house.store.catalog.items("schema/") == still_house.store.catalog.items("topic/orders") == []
    still_house.store.flush()
    await deleting


async def test_a_schema_is_told_when_it_is_durable_also_to_the_second_who_brings_it(still_house):
    schemas = schemas_of(still_house)
    both = [asyncio.ensure_future(schemas.register("orders", A, S.FULL)) for _ in range(2)]
    for _ in range(3):
        await asyncio.sleep(0)
    assert not any(each.done() for each in both)
    still_house.store.flush()
    assert [each.number for each in await asyncio.gather(*both)] == [0, 0]


@pytest.mark.parametrize(
    ("setting", "limit"),
    [
        ("schema_bytes_max", len(A.data) - 1),
        ("topic_schemas_max", 1),
        ("topic_schemas_bytes_max", 1_000),
        ("schemas_bytes_max", 1_000),
    ],
)
async def test_there_is_a_limit(open_street, setting, limit):
    async with open_street(**{setting: limit}) as street:
        schemas = schemas_of(street.house)
        if setting != "schema_bytes_max":
            await schemas.register("orders", A_AND_MAYBE_B, S.FULL)
        with pytest.raises(TooManySchemas, match=setting):
            await schemas.register("orders", A, S.FULL)
        if setting != "schema_bytes_max":
            await schemas.delete("orders")
            await schemas.register("orders", B, S.FULL)


async def test_many_large_ones_do_not_keep_the_catalog_from_being_written_anew(open_street):
    """Together they are larger than an entry may be."""
    small = msgspec.structs.replace(SMALL_STORE, entry_bytes_max=32 * KIB, catalog_slack_rows=10)
    async with open_street(small) as street:
        schemas, store = schemas_of(street.house), street.house.store
        for at in range(30):
            text = b'{"type": "enum", "name": "E%d", "symbols": [], "why": "%s"}' % (at, b"x" * 5_000)
            await schemas.register(f"t{at % 3}", Schema(Kind.AVRO, text), S.ALWAYS_COMPATIBLE)
        for at in range(100):
            store.put_facts({"some/fact": b"%d" % at})
        assert store.table(CATALOG_QUEUE).min_row > 0
        assert len(schemas_of(await street.kill()).all("t0")) == 10
