"""Schemas by HTTP, and what a namespace sets for them."""

import json

import pytest
from tests.core.schemas.test_avro import field, record

SCHEMAS = "/admin/v2/schemas/public/default"
NAMESPACE = "/admin/v2/namespaces/public/default"


def posted(schema, kind="AVRO", **properties):
    return {"type": kind, "schema": schema if isinstance(schema, str) else json.dumps(schema), "properties": properties}


A = posted(record(field("a", "int")), owner="me")
A_AND_MAYBE_B = posted(record(field("a", "int"), field("b", "int", default=0)))
TEXT = posted(record(field("a", "string")))
STRING = posted("", "STRING")


async def test_schemas_are_registered_and_shown(http):
    assert (await http("POST", f"{SCHEMAS}/orders/schema", A)).json == {"version": {"version": 0}}
    assert (await http("POST", f"{SCHEMAS}/orders/schema", A)).json == {"version": {"version": 0}}
    assert (await http("POST", f"{SCHEMAS}/orders/schema", A_AND_MAYBE_B)).json == {"version": {"version": 1}}
    newest = (await http("GET", f"{SCHEMAS}/orders/schema")).json
    assert newest.pop("timestamp") > 1_600_000_000_000
    assert newest == {"version": 1, "type": "AVRO", "data": A_AND_MAYBE_B["schema"], "properties": {}}
    first = (await http("GET", f"{SCHEMAS}/orders/schema/0")).json
    assert (first["version"], first["data"], first["properties"]) == (0, A["schema"], {"owner": "me"})
    every = (await http("GET", f"{SCHEMAS}/orders/schemas")).json["getSchemaResponses"]
    assert [each["version"] for each in every] == [0, 1]
    assert (await http("GET", f"{SCHEMAS}/orders-partition-3/schema")).json["version"] == 1


async def test_what_does_not_go_with_them_is_refused(http):
    await http("POST", f"{SCHEMAS}/orders/schema", A)
    refused = await http("POST", f"{SCHEMAS}/orders/schema", TEXT)
    assert (refused.status, "int is written, string is expected" in refused.reason) == (409, True)
    tried = await http("POST", f"{SCHEMAS}/orders/compatibility", TEXT)
    assert (tried.status, tried.json["compatibility"], tried.json["schemaCompatibilityStrategy"]) == (
        202,
        False,
        "FULL",
    )
    assert tried.json["reasons"]
    assert (await http("POST", f"{SCHEMAS}/orders/compatibility", A_AND_MAYBE_B)).json["compatibility"] is True
    assert (await http("POST", f"{SCHEMAS}/new/compatibility", TEXT)).json["compatibility"] is True
    assert (await http("GET", f"{SCHEMAS}/new/schemas")).json == {"getSchemaResponses": []}


async def test_the_version_of_a_schema(http):
    await http("POST", f"{SCHEMAS}/orders/schema", A)
    assert (await http("POST", f"{SCHEMAS}/orders/version", A)).json == {"version": 0}
    assert (await http("POST", f"{SCHEMAS}/orders/version", TEXT)).json == {"version": -1}


async def test_deleted(http):
    assert (await http("DELETE", f"{SCHEMAS}/orders/schema")).status == 404
    await http("POST", f"{SCHEMAS}/orders/schema", A)
    assert (await http("DELETE", f"{SCHEMAS}/orders/schema?force=false")).json == {"version": 1}
    for rest in ("schema", "schema/0", "schema/1"):
        assert (await http("GET", f"{SCHEMAS}/orders/{rest}")).status == 404
    assert (await http("POST", f"{SCHEMAS}/orders/schema", STRING)).json == {"version": {"version": 2}}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (None, 422),
        (b"{", 400),
        ({"schema": ""}, 400),
        (posted("", "NOTHING"), 422),
        (posted("", "BYTES"), 422),
        (posted("", "AUTO_CONSUME"), 422),
        (posted("{", "AVRO"), 422),
        (posted("{", "KEY_VALUE"), 422),
        (posted("[]", "KEY_VALUE"), 422),
        (posted('"x"', "STRING"), 422),
        (posted(record(field("a", "int"), padding="x" * 300_000)), 412),
    ],
)
async def test_what_is_no_schema(http, body, status):
    answer = await http("POST", f"{SCHEMAS}/orders/schema", body)
    assert (answer.status, bool(answer.reason)) == (status, True)


async def test_names_that_cannot_be(http):
    assert (await http("GET", f"{SCHEMAS}/orders/schema/x")).status == 412
    assert (await http("POST", "/admin/v2/schemas/no/where/x/schema", A)).status == 404
    assert (await http("POST", f"{SCHEMAS}/{'x' * 300}/schema", A)).status == 412
    assert (await http("GET", f"{SCHEMAS}/orders/metadata")).status == 404
    assert (await http("GET", f"{SCHEMAS}/orders/schema")).status == 404


async def test_a_key_and_value_is_an_object_of_both(http):
    inner = record(field("a", "int"))
    types = {"key.schema.type": "STRING", "value.schema.type": "JSON", "kv.encoding.type": "INLINE"}
    body = posted({"key": "", "value": inner}, "KEY_VALUE", **types)
    assert (await http("POST", f"{SCHEMAS}/orders/schema", body)).status == 200
    told = (await http("GET", f"{SCHEMAS}/orders/schema")).json
    assert (told["type"], json.loads(told["data"])) == ("KEY_VALUE", {"key": "", "value": inner})
    assert told["properties"] == types
    assert (await http("POST", f"{SCHEMAS}/orders/version", body)).json == {"version": 0}


# --- namespaces -------------------------------------------------------------------------------------------------------


async def test_what_a_namespace_sets(http):
    for rest, default, method, value in (
        ("schemaCompatibilityStrategy", "UNDEFINED", "PUT", "FORWARD"),
        ("schemaValidationEnforced", False, "POST", True),
        ("isAllowAutoUpdateSchema", True, "POST", False),
    ):
        assert (await http("GET", f"{NAMESPACE}/{rest}")).json == default
        assert (await http(method, f"{NAMESPACE}/{rest}", value)).status == 204
        assert (await http("GET", f"{NAMESPACE}/{rest}")).json == value
        assert (await http(method, f"{NAMESPACE}/{rest}", 3)).status == 412
    policies = (await http("GET", NAMESPACE)).json
    assert policies["schema_compatibility_strategy"] == "FORWARD"
    assert policies["schema_validation_enforced"] is True
    assert policies["is_allow_auto_update_schema"] is False
    assert (await http("POST", f"{NAMESPACE}/schemaValidationEnforced")).status == 412
    assert (await http("PUT", "/admin/v2/namespaces/no/where/schemaCompatibilityStrategy", "FULL")).status == 404
    assert (await http("PUT", f"{NAMESPACE}/schemaCompatibilityStrategy", "UNDEFINED")).status == 204
    assert (await http("GET", f"{NAMESPACE}/schemaCompatibilityStrategy")).json == "UNDEFINED"
    assert (await http("GET", f"{NAMESPACE}/schemaValidationEnforced?applied=true")).json is True


async def test_what_a_topic_sets(http):
    place = "/admin/v2/persistent/public/default/orders"
    assert (await http("PUT", f"{place}/schemaCompatibilityStrategy", "FORWARD")).status == 404
    await http("PUT", place)
    assert (await http("GET", f"{place}/schemaCompatibilityStrategy")).status == 204
    assert (await http("GET", f"{place}/schemaCompatibilityStrategy?applied=true")).json == "FULL"
    assert (await http("GET", f"{place}/schemaValidationEnforced")).json is False
    assert (await http("PUT", f"{place}/schemaCompatibilityStrategy", "ALWAYS_INCOMPATIBLE")).status == 204
    assert (await http("GET", f"{place}/schemaCompatibilityStrategy")).json == "ALWAYS_INCOMPATIBLE"
    await http("POST", f"{SCHEMAS}/orders/schema", A)
    assert (await http("POST", f"{SCHEMAS}/orders/schema", A_AND_MAYBE_B)).status == 409
    assert (await http("DELETE", f"{place}/schemaCompatibilityStrategy")).status == 204
    assert (await http("POST", f"{SCHEMAS}/orders/schema", A_AND_MAYBE_B)).status == 200
    assert (await http("POST", f"{place}/schemaValidationEnforced", True)).status == 204
    assert (await http("GET", f"{place}/schemaValidationEnforced")).json is True


async def test_schemas_come_by_http_where_clients_may_not_bring_them(http):
    await http("POST", f"{NAMESPACE}/isAllowAutoUpdateSchema", False)
    assert (await http("POST", f"{SCHEMAS}/orders/schema", A)).status == 200


async def test_a_namespace_is_made_with_its_rules_and_goes_with_them(http):
    place = "/admin/v2/namespaces/public/n"
    assert (await http("PUT", place, {"schema_compatibility_strategy": "NOTHING"})).status == 412
    rules = {"schema_compatibility_strategy": "BACKWARD", "is_allow_auto_update_schema": None}
    assert (await http("PUT", place, rules)).status == 204
    assert (await http("GET", f"{place}/schemaCompatibilityStrategy")).json == "BACKWARD"
    await http("POST", "/admin/v2/schemas/public/n/never/schema", A)
    assert (await http("DELETE", place)).status == 204
    await http("PUT", place)
    assert (await http("GET", f"{place}/schemaCompatibilityStrategy")).json == "UNDEFINED"
    assert (await http("GET", "/admin/v2/schemas/public/n/never/schema")).status == 404


async def test_schemas_go_with_their_topic(http):
    await http.topic("PUT", "orders")
    await http("POST", f"{SCHEMAS}/orders/schema", A)
    assert (await http.topic("DELETE", "orders")).status == 204
    assert (await http("GET", f"{SCHEMAS}/orders/schema")).status == 404
