"""The policies on schemas: which may follow which, who may bring new ones, and who may do without.

Unlike other policies they always tell something, as Pulsar's tools expect: what holds where nothing is set.
"""

from functools import partial

import msgspec

from penstock.core.namespaces import Namespaces
from penstock.core.policies import Policies, PolicyBook
from penstock.gateway.http.messages import Reply, in_json
from penstock.gateway.pulsar.admin.answers import Declined, done
from penstock.gateway.pulsar.admin.asked import Asked
from penstock.gateway.pulsar.admin.names import namespace_of, topic_of
from penstock.gateway.pulsar.admin.shapes import AUTO_UPDATE, STRATEGY, VALIDATION, Shape
from penstock.gateway.pulsar.admin.table import Route
from penstock.gateway.pulsar.admin.topics import ours
from penstock.gateway.pulsar.places import Places
from penstock.model import Action

_TOPIC = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
_NAMESPACE = "/admin/v2/namespaces/{tenant}/{namespace}"
_ANY = msgspec.json.Decoder(object)


class SchemaPolicies:
    def __init__(self, places: Places, namespaces: Namespaces, policies: PolicyBook) -> None:
        self._places, self._namespaces, self._policies = places, namespaces, policies

    def routes(self) -> list[Route]:
        strategy, validation = "schemaCompatibilityStrategy", "schemaValidationEnforced"
        return [
            Route("GET", f"{_NAMESPACE}/{strategy}", partial(self.of_namespace, STRATEGY), Action.MONITOR),
            Route("PUT", f"{_NAMESPACE}/{strategy}", partial(self.set_namespace, STRATEGY), Action.ADMIN),
            Route("GET", f"{_NAMESPACE}/{validation}", partial(self.of_namespace, VALIDATION), Action.MONITOR),
            Route("POST", f"{_NAMESPACE}/{validation}", partial(self.set_namespace, VALIDATION), Action.ADMIN),
            Route("GET", f"{_NAMESPACE}/isAllowAutoUpdateSchema", self.auto_update, Action.MONITOR),
            Route(
                "POST", f"{_NAMESPACE}/isAllowAutoUpdateSchema", partial(self.set_namespace, AUTO_UPDATE), Action.ADMIN
            ),
            Route("GET", f"{_TOPIC}/{strategy}", self.strategy, Action.MONITOR),
            Route("PUT", f"{_TOPIC}/{strategy}", partial(self.set_topic, STRATEGY), Action.ADMIN),
            Route("DELETE", f"{_TOPIC}/{strategy}", partial(self.unset_topic, STRATEGY), Action.ADMIN),
            Route("GET", f"{_TOPIC}/{validation}", self.validation, Action.MONITOR),
            Route("POST", f"{_TOPIC}/{validation}", partial(self.set_topic, VALIDATION), Action.ADMIN),
        ]

    # --- of a namespace -----------------------------------------------------------------------------------------------

    async def of_namespace(self, shape: Shape, asked: Asked) -> Reply:
        name = namespace_of(asked, self._namespaces, self._places)
        found = self._policies.in_namespace(name) if asked.flag("applied") else self._policies.of_namespace(name)
        return _told(shape, found)

    async def auto_update(self, asked: Asked) -> Reply:
        """What holds: clients ask for nothing else."""
        return _told(AUTO_UPDATE, self._policies.in_namespace(namespace_of(asked, self._namespaces, self._places)))

    async def set_namespace(self, shape: Shape, asked: Asked) -> Reply:
        name = namespace_of(asked, self._namespaces, self._places)
        await self._policies.set_namespace(name, {shape.field: _given(shape, asked)})
        return done()

    # --- of a topic ---------------------------------------------------------------------------------------------------

    def _topic(self, asked: Asked) -> str:
        name = topic_of(asked, self._places)
        return ours(name, self._places.topic(name)).name

    def _at_topic(self, asked: Asked) -> Policies:
        name = self._topic(asked)
        return self._policies.applied(name) if asked.flag("applied") else self._policies.of_topic(name)

    async def strategy(self, asked: Asked) -> Reply:
        """Nothing where nothing is set, as Pulsar has it for topics."""
        found = self._at_topic(asked)
        return done() if found.schema_strategy is None and not asked.flag("applied") else _told(STRATEGY, found)

    async def validation(self, asked: Asked) -> Reply:
        return _told(VALIDATION, self._at_topic(asked))

    async def set_topic(self, shape: Shape, asked: Asked) -> Reply:
        await self._policies.set_topic(self._topic(asked), {shape.field: _given(shape, asked)})
        return done()

    async def unset_topic(self, shape: Shape, asked: Asked) -> Reply:
        await self._policies.set_topic(self._topic(asked), {shape.field: None})
        return done()


def _told(shape: Shape, policies: Policies) -> Reply:
    return in_json(shape.shown(getattr(policies, shape.field)))


def _given(shape: Shape, asked: Asked) -> object:
    value = asked.body(_ANY, None)
    if value is None:
        raise Declined(412, "the body has to say what the policy is to be")
    return shape.taken(value)
