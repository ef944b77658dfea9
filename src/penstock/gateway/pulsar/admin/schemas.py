"""Schemas of topics: shown, registered, tried and deleted.

Nobody but an operator comes this way: a namespace that takes no new schemas from clients takes them here. The data of a
schema are told as text; those of a key and value as an object of both.
"""

from typing import Any

import msgspec

from penstock.core.policies import PolicyBook
from penstock.core.schemas.avro import AvroError, json_in
from penstock.core.schemas.model import PRIMITIVE, Kind, Schema, kind_named
from penstock.core.schemas.pairs import halves, joined
from penstock.core.schemas.registry import Schemas, Version
from penstock.errors import SchemaInvalid
from penstock.gateway.http.messages import Reply, in_json
from penstock.gateway.pulsar.admin.asked import Asked
from penstock.gateway.pulsar.admin.names import topic_of
from penstock.gateway.pulsar.admin.table import Route
from penstock.gateway.pulsar.places import Places
from penstock.gateway.pulsar.schemas import strategy_of
from penstock.model import Action

_TOPIC = "/admin/v2/schemas/{tenant}/{namespace}/{topic}"
_UNKNOWN = -1  # the version of a schema that a topic does not have


class Posted(msgspec.Struct):
    """A schema as it is sent."""

    type: str
    schema: str | None = None
    properties: dict[str, str] | None = None


_POSTED: msgspec.json.Decoder[Posted | None] = msgspec.json.Decoder(Posted | None)


class AdminSchemas:
    def __init__(self, places: Places, schemas: Schemas, policies: PolicyBook) -> None:
        self._places, self._schemas, self._policies = places, schemas, policies

    def routes(self) -> list[Route]:
        return [
            Route("GET", f"{_TOPIC}/schema", self.latest, Action.LOOKUP),
            Route("GET", f"{_TOPIC}/schema/{{version}}", self.version, Action.LOOKUP),
            Route("GET", f"{_TOPIC}/schemas", self.all, Action.LOOKUP),
            Route("POST", f"{_TOPIC}/schema", self.register, Action.PRODUCE),
            Route("DELETE", f"{_TOPIC}/schema", self.delete, Action.ADMIN),
            Route("POST", f"{_TOPIC}/compatibility", self.compatibility, Action.LOOKUP),
            Route("POST", f"{_TOPIC}/version", self.number, Action.LOOKUP),
        ]

    def _topic(self, asked: Asked) -> str:
        return topic_of(asked, self._places).own_name

    async def latest(self, asked: Asked) -> Reply:
        return in_json(shown(self._schemas.get(self._topic(asked))))

    async def version(self, asked: Asked) -> Reply:
        return in_json(shown(self._schemas.get(self._topic(asked), asked.number("version"))))

    async def all(self, asked: Asked) -> Reply:
        return in_json({"getSchemaResponses": [shown(each) for each in self._schemas.all(self._topic(asked))]})

    async def register(self, asked: Asked) -> Reply:
        topic = self._topic(asked)
        made = await self._schemas.register(topic, schema_in(asked), strategy_of(self._policies.applied(topic)))
        return in_json({"version": {"version": made.number}})

    async def delete(self, asked: Asked) -> Reply:
        return in_json({"version": await self._schemas.delete(self._topic(asked))})

    async def compatibility(self, asked: Asked) -> Reply:
        """Whether a schema could be the next one."""
        topic = self._topic(asked)
        strategy = strategy_of(self._policies.applied(topic))
        why = self._schemas.why_not(topic, schema_in(asked), strategy)
        told = {"compatibility": not why, "schemaCompatibilityStrategy": strategy, "reasons": why}
        return in_json(told, 202)  # the status that clients know

    async def number(self, asked: Asked) -> Reply:
        """The version that a schema is."""
        found = self._schemas.find(self._topic(asked), schema_in(asked))
        return in_json({"version": found.number if found else _UNKNOWN})


# --- from text, and to it ---------------------------------------------------------------------------------------------


def schema_in(asked: Asked) -> Schema:
    posted = asked.body(_POSTED, None)
    if posted is None:
        raise SchemaInvalid("there is none in the body")
    kind, text = kind_named(posted.type), posted.schema or ""
    if kind is Kind.BYTES:
        raise SchemaInvalid("bytes need no schema")
    data = pair_in(text) if kind is Kind.KEY_VALUE else text.encode()
    return Schema(kind, data, posted.properties or {})


def pair_in(text: str) -> bytes:
    try:
        raw: Any = json_in(text.encode())
    except AvroError as error:
        raise SchemaInvalid(str(error)) from None
    if not isinstance(raw, dict):
        raise SchemaInvalid("one of a key and value is an object that has both")
    key, value = (b"" if (half := raw.get(name, "")) == "" else msgspec.json.encode(half) for name in ("key", "value"))
    return joined(key, value)


def shown(version: Version) -> dict[str, object]:
    schema = version.schema
    text = pair_shown(schema) if schema.kind is Kind.KEY_VALUE else schema.data.decode(errors="replace")
    return {
        "version": version.number,
        "type": schema.kind,
        "timestamp": version.created_ms,
        "data": text,
        "properties": schema.properties,
    }


def pair_shown(schema: Schema) -> str:
    key, value, _ = halves(schema)
    whole = {"key": _half_shown(key), "value": _half_shown(value)}
    return msgspec.json.encode(whole).decode()


def _half_shown(half: Schema) -> object:
    if half.kind is Kind.EXTERNAL:
        return half.data.decode(errors="replace")
    return "" if half.kind in PRIMITIVE else json_in(half.data)
