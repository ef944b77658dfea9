"""Policies of topics and namespaces: asked for, set, and taken back. How each looks: `shapes.py`.

What is not set answers 204 and nothing; with `applied=true`, what holds after all. Policies that Pulsar has and that
mean nothing here are told as what they are here, and cannot be set.
"""

from functools import partial

import msgspec

from penstock.core.namespaces import Namespaces
from penstock.core.policies import Policies, PolicyBook, Retention
from penstock.gateway.http.messages import Reply, in_json
from penstock.gateway.pulsar.admin.answers import Declined, done
from penstock.gateway.pulsar.admin.asked import Asked, whole
from penstock.gateway.pulsar.admin.names import namespace_of, topic_of
from penstock.gateway.pulsar.admin.shapes import OF_NAMESPACE, OF_TOPIC, QUOTAS, RETENTION, TTL, Shape, quotas_shown
from penstock.gateway.pulsar.admin.table import Route
from penstock.gateway.pulsar.admin.topics import ours
from penstock.gateway.pulsar.places import Places
from penstock.model import Action

_TOPIC = "/admin/v2/persistent/{tenant}/{namespace}/{topic}"
_NAMESPACE = "/admin/v2/namespaces/{tenant}/{namespace}"
_ANY = msgspec.json.Decoder(object)
SET_BY_PUT = {"compactionThreshold"}  # of a namespace

# What holds here, whatever anybody would like.
FIXED: dict[str, object] = {
    "persistence": {
        "bookkeeperEnsemble": 1,
        "bookkeeperWriteQuorum": 1,
        "bookkeeperAckQuorum": 1,
        "managedLedgerMaxMarkDeleteRate": 1.0,
    },
    "inactiveTopicPolicies": {
        "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
        "maxInactiveDurationSeconds": 0,
        "deleteWhileInactive": False,
    },
    "subscriptionTypesEnabled": ["Exclusive", "Shared", "Failover", "Key_Shared"],
    "publishRate": None,
    "dispatchRate": None,
    "subscriptionDispatchRate": None,
    "replicatorDispatchRate": None,
    "offloadPolicies": None,
}


class PoliciesDesk:
    def __init__(self, places: Places, namespaces: Namespaces, policies: PolicyBook, own: Retention) -> None:
        self._places, self._namespaces, self._policies, self._own = places, namespaces, policies, own

    def routes(self) -> list[Route]:
        routes: list[Route] = []
        for name, shape in OF_TOPIC.items():
            routes += self._of_topic(f"{_TOPIC}/{name}", shape)
        for name, shape in OF_NAMESPACE.items():
            routes += self._of_namespace(f"{_NAMESPACE}/{name}", shape, "PUT" if name in SET_BY_PUT else "POST")
        for name, fixed in FIXED.items():
            routes.append(Route("GET", f"{_TOPIC}/{name}", partial(self.fixed_for_topic, fixed), Action.MONITOR))
            routes.append(Route("GET", f"{_NAMESPACE}/{name}", partial(self.fixed, fixed), Action.MONITOR))
        return routes + self._of_quotas()

    def _of_topic(self, path: str, shape: Shape) -> list[Route]:
        return [
            Route("GET", path, partial(self.topic, shape), Action.MONITOR),
            Route("POST", path, partial(self.set_topic, shape), Action.ADMIN),
            Route("DELETE", path, partial(self.unset_topic, shape), Action.ADMIN),
        ]

    def _of_namespace(self, path: str, shape: Shape, method: str) -> list[Route]:
        return [
            Route("GET", path, partial(self.namespace, shape), Action.MONITOR),
            Route(method, path, partial(self.set_namespace, shape), Action.ADMIN),
            Route("DELETE", path, partial(self.unset_namespace, shape), Action.ADMIN),
        ]

    def _of_quotas(self) -> list[Route]:
        return [
            Route("GET", f"{_TOPIC}/backlogQuotaMap", self.topic_quotas, Action.MONITOR),
            Route("POST", f"{_TOPIC}/backlogQuota", self.set_topic_quota, Action.ADMIN),
            Route("DELETE", f"{_TOPIC}/backlogQuota", self.unset_topic_quota, Action.ADMIN),
            Route("GET", f"{_NAMESPACE}/backlogQuotaMap", self.namespace_quotas, Action.MONITOR),
            Route("POST", f"{_NAMESPACE}/backlogQuota", self.set_namespace_quota, Action.ADMIN),
            Route("DELETE", f"{_NAMESPACE}/backlogQuota", self.unset_namespace_quota, Action.ADMIN),
        ]

    # --- of a topic ---------------------------------------------------------------------------------------------------

    async def topic(self, shape: Shape, asked: Asked) -> Reply:
        return self._told(shape, self._at_topic(asked), asked.flag("applied"))

    def _at_topic(self, asked: Asked) -> Policies:
        """What a topic has set, or what holds for it."""
        name = self._topic(asked)
        return self._policies.applied(name) if asked.flag("applied") else self._policies.of_topic(name)

    def _topic(self, asked: Asked) -> str:
        """A partition's policies are its topic's."""
        name = topic_of(asked, self._places)
        return ours(name, self._places.topic(name)).name

    async def set_topic(self, shape: Shape, asked: Asked) -> Reply:
        name = self._topic(asked)
        return await self._set_topic(name, shape, _given(shape, asked))

    async def unset_topic(self, shape: Shape, asked: Asked) -> Reply:
        return await self._set_topic(self._topic(asked), shape, None)

    async def _set_topic(self, name: str, shape: Shape, value: object) -> Reply:
        await self._policies.set_topic(name, {shape.field: value})
        return done()

    async def topic_quotas(self, asked: Asked) -> Reply:
        return in_json(quotas_shown(self._at_topic(asked)))

    async def set_topic_quota(self, asked: Asked) -> Reply:
        return await self.set_topic(_quota(asked), asked)

    async def unset_topic_quota(self, asked: Asked) -> Reply:
        return await self.unset_topic(_quota(asked), asked)

    async def fixed_for_topic(self, value: object, asked: Asked) -> Reply:
        self._topic(asked)
        return in_json(value) if value is not None and asked.flag("applied") else done()

    # --- of a namespace -----------------------------------------------------------------------------------------------

    async def namespace(self, shape: Shape, asked: Asked) -> Reply:
        return self._told(shape, self._policies.of_namespace(self._namespace(asked)), False)

    def _namespace(self, asked: Asked) -> str:
        return namespace_of(asked, self._namespaces, self._places)

    async def set_namespace(self, shape: Shape, asked: Asked) -> Reply:
        name = self._namespace(asked)
        return await self._set_namespace(name, shape, _given(shape, asked))

    async def unset_namespace(self, shape: Shape, asked: Asked) -> Reply:
        return await self._set_namespace(self._namespace(asked), shape, None)

    async def _set_namespace(self, name: str, shape: Shape, value: object) -> Reply:
        await self._policies.set_namespace(name, {shape.field: value})
        return done()

    async def namespace_quotas(self, asked: Asked) -> Reply:
        return in_json(quotas_shown(self._policies.of_namespace(self._namespace(asked))))

    async def set_namespace_quota(self, asked: Asked) -> Reply:
        return await self.set_namespace(_quota(asked), asked)

    async def unset_namespace_quota(self, asked: Asked) -> Reply:
        return await self.unset_namespace(_quota(asked), asked)

    async def fixed(self, value: object, asked: Asked) -> Reply:
        self._namespace(asked)
        return in_json(value) if value is not None else done()

    # --- both ---------------------------------------------------------------------------------------------------------

    def _told(self, shape: Shape, policies: Policies, is_applied: bool) -> Reply:
        value = getattr(policies, shape.field)
        if value is None and is_applied:
            value = {RETENTION: self._own, TTL: 0}.get(shape)
        return done() if value is None else in_json(shape.shown(value))


def _quota(asked: Asked) -> Shape:
    name = asked.query.get("backlogQuotaType", "destination_storage")
    if name not in QUOTAS:
        raise Declined(412, f"backlogQuotaType is one of {', '.join(QUOTAS)}")
    return QUOTAS[name]


def _given(shape: Shape, asked: Asked) -> object:
    """What a request sets. A topic's time to live stands in the query, as Pulsar's tools send it."""
    if shape is TTL and "messageTTL" in asked.query:
        return whole(asked.query["messageTTL"], "messageTTL")
    value = asked.body(_ANY, None)
    if value is None:
        raise Declined(412, "the body has to say what the policy is to be")
    return shape.taken(value)
