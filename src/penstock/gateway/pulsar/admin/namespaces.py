"""Tenants and namespaces. What policies a namespace has, one by one: `policies.py`."""

import msgspec

from penstock.core.namespaces import ALWAYS, Namespaces
from penstock.core.policies import PolicyBook
from penstock.core.schemas.registry import Schemas
from penstock.core.tenants import Tenants
from penstock.errors import NamespaceExists
from penstock.gateway.http.messages import Reply, in_json
from penstock.gateway.pulsar.admin.answers import Declined, done
from penstock.gateway.pulsar.admin.asked import Asked
from penstock.gateway.pulsar.admin.cluster import CLUSTER
from penstock.gateway.pulsar.admin.names import namespace_named, namespace_of, tenant_named
from penstock.gateway.pulsar.admin.shapes import all_shown, all_taken
from penstock.gateway.pulsar.admin.table import Route
from penstock.gateway.pulsar.admin.topics import TopicsDesk
from penstock.gateway.pulsar.places import Places
from penstock.model import Action
from penstock.wire.pulsar.topics import from_own

ROLES_CHARS_MAX = 16_384
BUNDLES = {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1}  # there is one broker

_TENANT = "/admin/v2/tenants/{tenant}"
_NAMESPACE = "/admin/v2/namespaces/{tenant}/{namespace}"


class TenantInfo(msgspec.Struct, rename="camel"):
    admin_roles: list[str] | None = None
    allowed_clusters: list[str] | None = None


# Policies that a namespace cannot be made with, since they would not be kept to. Clients send all of them, most of them
# empty.
NOT_HONOURED = ("encryption_required",)


_CLUSTERS = msgspec.json.Decoder(list[str])
_INFO, _POLICIES = msgspec.json.Decoder(TenantInfo), msgspec.json.Decoder(dict[str, object])


class NamespacesDesk:
    def __init__(
        self,
        tenants: Tenants,
        namespaces: Namespaces,
        policies: PolicyBook,
        places: Places,
        desk: TopicsDesk,
        schemas: Schemas,
    ) -> None:
        self._tenants, self._namespaces, self._policies = tenants, namespaces, policies
        self._places, self._desk, self._schemas = places, desk, schemas

    def routes(self) -> list[Route]:
        return [
            Route("GET", "/admin/v2/tenants", self.tenants, Action.MONITOR),
            Route("GET", _TENANT, self.tenant, Action.MONITOR),
            Route("PUT", _TENANT, self.create_tenant, Action.ADMIN),
            Route("POST", _TENANT, self.alter_tenant, Action.ADMIN),
            Route("DELETE", _TENANT, self.delete_tenant, Action.ADMIN),
            Route("GET", "/admin/v2/namespaces/{tenant}", self.namespaces, Action.MONITOR),
            Route("GET", _NAMESPACE, self.policies, Action.MONITOR),
            Route("PUT", _NAMESPACE, self.create, Action.ADMIN),
            Route("DELETE", _NAMESPACE, self.delete, Action.ADMIN),
            Route("GET", f"{_NAMESPACE}/bundles", self.bundles, Action.MONITOR),
            Route("GET", f"{_NAMESPACE}/replication", self.clusters, Action.MONITOR),
            Route("POST", f"{_NAMESPACE}/replication", self.set_clusters, Action.ADMIN),
        ]

    # --- tenants ------------------------------------------------------------------------------------------------------

    async def tenants(self, asked: Asked) -> Reply:
        return in_json(self._tenants.names())

    async def tenant(self, asked: Asked) -> Reply:
        found = self._tenants.get(tenant_named(asked))
        return in_json({"adminRoles": found.admin_roles, "allowedClusters": [CLUSTER]})

    async def create_tenant(self, asked: Asked) -> Reply:
        await self._tenants.create(tenant_named(asked), roles_in(asked))
        return done()

    async def alter_tenant(self, asked: Asked) -> Reply:
        await self._tenants.alter(tenant_named(asked), roles_in(asked))
        return done()

    async def delete_tenant(self, asked: Asked) -> Reply:
        """With `force` also what is in it."""
        name = tenant_named(asked)
        self._tenants.get(name)
        inside = self._tenants.namespaces_of(name)
        if any(each in ALWAYS for each in inside):
            raise Declined(405, f"tenant {name!r} is always there")
        if inside and not asked.flag("force"):
            raise Declined(409, f"tenant {name!r} has namespaces: delete them first")
        for each in inside:
            await self._remove(each, force=True)
        if name in self._tenants.names():
            await self._tenants.delete(name)
        return done()

    # --- namespaces ---------------------------------------------------------------------------------------------------

    async def namespaces(self, asked: Asked) -> Reply:
        name = tenant_named(asked)
        self._tenants.get(name)
        return in_json(self._tenants.namespaces_of(name))

    async def policies(self, asked: Asked) -> Reply:
        name = namespace_of(asked, self._namespaces, self._places)
        fixed = {"bundles": BUNDLES, "replication_clusters": [CLUSTER], "deleted": False}
        return in_json(fixed | all_shown(self._policies.of_namespace(name)))

    async def bundles(self, asked: Asked) -> Reply:
        namespace_of(asked, self._namespaces, self._places)
        return in_json(BUNDLES)

    async def clusters(self, asked: Asked) -> Reply:
        """Where its topics are: there is one."""
        namespace_of(asked, self._namespaces, self._places)
        return in_json([CLUSTER])

    async def set_clusters(self, asked: Asked) -> Reply:
        namespace_of(asked, self._namespaces, self._places)
        check_clusters(asked.body(_CLUSTERS, []))
        return done()

    async def create(self, asked: Asked) -> Reply:
        name = namespace_named(asked)
        self._tenants.get(asked["tenant"])
        policies = asked.body(_POLICIES, {})
        check_policies(policies)
        changes = all_taken(policies)
        if name in self._namespaces:
            raise NamespaceExists(name)
        await self._namespaces.create(name)
        if changes:
            await self._policies.set_namespace(name, changes)
        return done()

    async def delete(self, asked: Asked) -> Reply:
        name = namespace_of(asked, self._namespaces, self._places)
        if name in ALWAYS:
            raise Declined(405, f"namespace {name!r} is always there")
        await self._remove(name, asked.flag("force"))
        return done()

    async def _remove(self, name: str, force: bool) -> None:
        if not force and self._places.names_in(name):
            raise Declined(409, "Cannot delete non empty namespace")  # as clients know it
        await self._desk.delete_all(name)
        for topic in self._schemas.topics():  # that never came
            found = from_own(topic)
            if found is not None and f"{found.tenant}/{found.namespace}" == name:
                await self._schemas.forget(topic)
        if name in self._namespaces:
            self._policies.forget_namespace(name)
            await self._namespaces.delete(name)


def roles_in(asked: Asked) -> list[str]:
    info = asked.body(_INFO, TenantInfo())
    check_clusters(info.allowed_clusters)
    roles = info.admin_roles or []
    if sum(map(len, roles)) > ROLES_CHARS_MAX:
        raise Declined(412, f"the roles of a tenant have at most {ROLES_CHARS_MAX} characters")
    return roles


def check_policies(policies: dict[str, object]) -> None:
    wanted = [name for name in NOT_HONOURED if policies.get(name)]
    if wanted:
        raise Declined(405, f"{', '.join(wanted)}: not served here, and would not be kept to")
    clusters = policies.get("replication_clusters")
    if clusters and clusters != [CLUSTER]:
        raise Declined(412, f"Clusters do not exist: there is one, and it is called {CLUSTER!r}")


def check_clusters(clusters: list[str] | None) -> None:
    if clusters and set(clusters) != {CLUSTER}:
        raise Declined(412, f"Clusters do not exist: there is one, and it is called {CLUSTER!r}")
